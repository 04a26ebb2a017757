//! Tools, prompts and resources of a server, read page by page from its lists. A limit ends endless lists.

use std::collections::HashSet;
use std::sync::Arc;

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::settings::{ServerSettings, ToolFilter};
use mcpproxy_core::{Offer, Offered, ServerName, Untrusted};
use serde_json::value::RawValue;

use super::connection::{Connection, Link, Request};
use super::error::UpstreamError;
use crate::headers;
use crate::message::member;
use crate::protocol::Era;

const PAGES_MAX: usize = 100;
const OFFERS_MAX: usize = 10_000;
/// Limit of one whole list. A real server with a thousand tools has about 1 MiB.
const LIST_MAX_MIB: usize = 32;
/// Largest prompt, resource or template in a list. Larger ones are left out.
const ENTRY_MAX_BYTES: usize = 64 * 1024;
/// Longest name and reason of a tool that is left out.
const HIDDEN_NAME_MAX_CHARS: usize = 128;
const HIDDEN_REASON_MAX_CHARS: usize = 500;

/// Everything one server offers. Prompts and resources are kept as the server's own JSON.
#[derive(Clone, Default)]
pub(crate) struct Offers {
    pub(crate) tools: Arc<Offer>,
    /// Tools that were left out, with the reason.
    pub(crate) hidden: Vec<(String, String)>,
    pub(crate) prompts: Arc<[String]>,
    pub(crate) resources: Arc<[String]>,
    pub(crate) templates: Arc<[String]>,
    pub(crate) can_complete: bool,
    pub(crate) can_subscribe: bool,
    /// True if the server answers `resources/read`.
    pub(crate) has_resources: bool,
    /// The text for models that the server sent with its handshake. Agents do not get it.
    pub(crate) instructions: Option<Arc<str>>,
}

impl Offers {
    /// Reads all lists that the server offers.
    pub(crate) async fn load(connection: &Connection, server: &ServerSettings) -> Result<Self, UpstreamError> {
        let instructions = connection.instructions.clone();
        let mut offers = Self { can_complete: connection.can("completions"), instructions, ..Self::default() };
        offers.load_tools(connection, server).await?;
        offers.load_prompts(connection).await?;
        offers.load_resources(connection).await?;
        Ok(offers)
    }

    /// Counts the definitions in all lists.
    pub(crate) fn count(&self) -> usize {
        self.tools.len() + self.prompts.len() + self.templates.len() + usize::from(self.instructions.is_some())
    }

    /// Returns the tools whose schema has a mistake, with the mistake.
    pub(crate) fn unchecked(&self) -> Vec<(String, String)> {
        let mistake =
            |tool: &Arc<Offered>| Some((tool.name.tool().to_owned(), tool.schema_mistake.as_ref()?.to_string()));
        self.tools.tools().filter_map(mistake).collect()
    }

    pub(crate) async fn load_tools(
        &mut self,
        connection: &Connection,
        server: &ServerSettings,
    ) -> Result<(), UpstreamError> {
        if !connection.can("tools") {
            return Ok(());
        }
        let over_http = matches!((&connection.link, connection.era), (Link::Http(_), Era::Modern));
        let (all, is_cut) = list(connection, "tools/list", "tools").await?;
        let (server, filter) = (server.name.clone(), server.tools.clone());
        // Reading a long list takes a while. Other servers and agents do not wait for it.
        let read = tokio::task::spawn_blocking(move || read_tools(&server, &filter, all, over_http, is_cut)).await;
        (self.tools, self.hidden) =
            read.map_err(|_| UpstreamError::Protocol("the list of tools is not valid JSON".to_owned()))?;
        Ok(())
    }

    pub(crate) async fn load_prompts(&mut self, connection: &Connection) -> Result<(), UpstreamError> {
        if connection.can("prompts") {
            self.prompts = list_or_none(connection, "prompts/list", "prompts").await?;
        }
        Ok(())
    }

    pub(crate) async fn load_resources(&mut self, connection: &Connection) -> Result<(), UpstreamError> {
        if let Some(resources) = member(&connection.capabilities, "resources") {
            self.resources = list_or_none(connection, "resources/list", "resources").await?;
            self.templates = list_or_none(connection, "resources/templates/list", "resourceTemplates").await?;
            self.can_subscribe = member(resources, "subscribe") == Some("true");
            self.has_resources = true;
        }
        Ok(())
    }
}

/// Splits a server's list into valid tools, and invalid ones with the reason.
fn read_tools(
    server: &ServerName,
    filter: &ToolFilter,
    all: Vec<String>,
    over_http: bool,
    is_cut: bool,
) -> (Arc<Offer>, Vec<(String, String)>) {
    let mut hidden = Vec::new();
    let mut sound = Vec::new();
    for json in all {
        match Offered::parse(server, &json) {
            Ok(tool) => {
                let marks = if over_http { headers::check_marks(&tool.json) } else { Ok(()) };
                let left_out = filter.left_out(tool.name.tool()).map(str::to_owned);
                match left_out.map_or(marks, Err) {
                    Ok(()) => sound.push(Ok(tool)),
                    Err(reason) => hidden.push((tool.name.tool().to_owned(), reason)),
                }
            }
            Err((name, error)) => hidden.push((
                shortened(&name, HIDDEN_NAME_MAX_CHARS),
                shortened(&error.to_string(), HIDDEN_REASON_MAX_CHARS),
            )),
        }
    }
    if is_cut {
        hidden.push((
            "…".to_owned(),
            format!("the list is too long; it was cut at {OFFERS_MAX} tools, {LIST_MAX_MIB} MiB or {PAGES_MAX} pages"),
        ));
    }
    let (tools, twice) = Offer::new(sound);
    hidden.extend(twice.into_iter().map(|(name, error)| (name, error.to_string())));
    (Arc::new(tools), hidden)
}

/// Reads a list that the server may refuse. Some servers do so although they declare the capability.
async fn list_or_none(connection: &Connection, method: &str, key: &str) -> Result<Arc<[String]>, UpstreamError> {
    match list(connection, method, key).await {
        Ok((all, _)) => Ok(all.into_iter().filter(|entry| entry.len() <= ENTRY_MAX_BYTES).collect()),
        Err(UpstreamError::Refused(_)) => Ok(Arc::default()),
        Err(error) => Err(error),
    }
}

fn shortened(text: &str, max_chars: usize) -> String {
    Untrusted::shortened(text, max_chars).for_json().to_owned()
}

/// Reads all pages of a list. Returns true as well if the list was truncated.
async fn list(connection: &Connection, method: &str, key: &str) -> Result<(Vec<String>, bool), UpstreamError> {
    let mut all = Entries::default();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..PAGES_MAX {
        let quoted = cursor.as_deref().map(quote);
        let params = quoted.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let page = connection.request(Request::new(method, params)).await?;
        let page = page.map_err(|error| UpstreamError::Refused(format!("{method}: {}", error.message)))?;
        let broken = |_| UpstreamError::Protocol(format!("`{key}` in the response to {method} is not a list"));
        let entries: Vec<&RawValue> = serde_json::from_str(member(&page, key).unwrap_or("[]")).map_err(broken)?;
        if !entries.into_iter().all(|entry| all.add(entry.get())) {
            return Ok((all.texts, true));
        }
        match member(&page, "nextCursor").and_then(string_value).map(std::borrow::Cow::into_owned) {
            None => return Ok((all.texts, false)),
            // A repeated cursor would loop forever.
            Some(next) if !seen.insert(next.clone()) => break,
            Some(next) => cursor = Some(next),
        }
    }
    Ok((all.texts, true))
}

/// Elements of a list, within the limits of one server. The limits hold inside of a page too: a page may have as many
/// bytes as the largest result.
#[derive(Default)]
struct Entries {
    texts: Vec<String>,
    bytes: usize,
}

impl Entries {
    /// Adds an element. Returns false if the list is full.
    fn add(&mut self, text: &str) -> bool {
        let bytes = self.bytes.saturating_add(text.len());
        let has_room = self.texts.len() < OFFERS_MAX && bytes <= LIST_MAX_MIB * 1024 * 1024;
        if has_room {
            self.texts.push(text.to_owned());
            self.bytes = bytes;
        }
        has_room
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_is_limited_in_number_and_bytes() {
        let mut many = Entries::default();
        assert_eq!((0..200_000).take_while(|_| many.add("{}")).count(), OFFERS_MAX);
        let mut large = Entries::default();
        let mebibyte = "x".repeat(1024 * 1024);
        assert_eq!((0..1000).take_while(|_| large.add(&mebibyte)).count(), LIST_MAX_MIB);
    }

    #[test]
    fn a_tool_that_is_left_out_takes_little_room() {
        let server = ServerName::parse("fx").unwrap();
        let long = format!(r#"{{"name":"{}","inputSchema":{{}}}}"#, "x".repeat(100_000));
        let (tools, hidden) = read_tools(&server, &ToolFilter::default(), vec![long], false, false);
        assert!(tools.is_empty());
        let expected = (format!("{}…", "x".repeat(HIDDEN_NAME_MAX_CHARS)), "tool name longer than 128".to_owned());
        assert_eq!(hidden, [expected]);
    }
}
