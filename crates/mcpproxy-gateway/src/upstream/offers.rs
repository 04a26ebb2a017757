//! Tools, prompts and resources of a server, read page by page from its lists. A limit ends endless lists.

use std::collections::HashSet;
use std::sync::Arc;

use mcpproxy_core::json::{quote, string_value};
use mcpproxy_core::settings::{ServerSettings, ToolFilter};
use mcpproxy_core::{Offer, Offered, ServerName};
use serde_json::value::RawValue;

use super::connection::{Connection, Link, Request};
use super::error::UpstreamError;
use crate::headers;
use crate::message::member;
use crate::protocol::Era;

const PAGES_MAX: usize = 100;
const OFFERS_MAX: usize = 10_000;

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
}

impl Offers {
    /// Reads all lists that the server offers.
    pub(crate) async fn load(connection: &Connection, server: &ServerSettings) -> Result<Self, UpstreamError> {
        let mut offers = Self { can_complete: connection.can("completions"), ..Self::default() };
        offers.load_tools(connection, server).await?;
        offers.load_prompts(connection).await?;
        offers.load_resources(connection).await?;
        Ok(offers)
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
            Err((name, error)) => hidden.push((name, error.to_string())),
        }
    }
    if is_cut {
        hidden.push((
            "…".to_owned(),
            format!("the list has no end; it was cut at {OFFERS_MAX} tools or {PAGES_MAX} pages"),
        ));
    }
    let (tools, twice) = Offer::new(sound);
    hidden.extend(twice.into_iter().map(|(name, error)| (name, error.to_string())));
    (Arc::new(tools), hidden)
}

/// Reads a list that the server may refuse. Some servers do so although they declare the capability.
async fn list_or_none(connection: &Connection, method: &str, key: &str) -> Result<Arc<[String]>, UpstreamError> {
    match list(connection, method, key).await {
        Ok((all, _)) => Ok(all.into()),
        Err(UpstreamError::Refused(_)) => Ok(Arc::default()),
        Err(error) => Err(error),
    }
}

/// Reads all pages of a list. Returns true as well if the list was truncated.
async fn list(connection: &Connection, method: &str, key: &str) -> Result<(Vec<String>, bool), UpstreamError> {
    let mut all = Vec::new();
    let mut cursor: Option<String> = None;
    let mut seen = HashSet::new();
    for _ in 0..PAGES_MAX {
        let quoted = cursor.as_deref().map(quote);
        let params = quoted.iter().map(|cursor| ("cursor", cursor.as_str())).collect();
        let page = connection.request(Request::new(method, params)).await?;
        let page = page.map_err(|error| UpstreamError::Refused(format!("{method}: {}", error.message)))?;
        let broken = |_| UpstreamError::Protocol(format!("`{key}` in the response to {method} is not a list"));
        let entries: Vec<&RawValue> = serde_json::from_str(member(&page, key).unwrap_or("[]")).map_err(broken)?;
        all.extend(entries.into_iter().map(|entry| entry.get().to_owned()));
        match member(&page, "nextCursor").and_then(string_value).map(std::borrow::Cow::into_owned) {
            None => return Ok((all, false)),
            // A repeated cursor would loop forever.
            Some(next) if all.len() >= OFFERS_MAX || !seen.insert(next.clone()) => break,
            Some(next) => cursor = Some(next),
        }
    }
    all.truncate(OFFERS_MAX);
    Ok((all, true))
}
