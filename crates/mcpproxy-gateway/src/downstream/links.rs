//! Rewrites links to resources in results, so that the agent can read them where it got them.
//!
//! At `/mcp` and `/mcp/direct`, a resource of a server has the URI `mcpproxy://SERVER/URI`. A tool or prompt of the
//! server knows only its own URI, so a link in its result would lead nowhere. At `/mcp/s/NAME` the server's own URIs are
//! valid, and results stay as they are.
//!
//! Links that the agent can open without the gateway stay too: those of servers without resources, and web addresses that
//! the server does not list as its resources. All other bytes of a result are kept.

use mcpproxy_core::ServerName;
use mcpproxy_core::json::{quote, string_value};
use serde_json::value::RawValue;

use crate::agents::{ConnectedAgent, EndpointMode};
use crate::message::{member, with_members};
use crate::state::SharedState;
use crate::upstream::Offers;

/// The addresses of one server's resources at one endpoint.
struct Links<'a> {
    endpoint_mode: &'a EndpointMode,
    server: &'a ServerName,
    offers: &'a Offers,
}

/// Rewrites the links in the result of a tool.
pub(super) fn in_result(state: &SharedState, agent: &ConnectedAgent, server: &ServerName, result: String) -> String {
    rewritten(state, agent, server, result, "content", |links, item| links.content(item))
}

/// Rewrites the links in the messages of a prompt.
pub(super) fn in_prompt(state: &SharedState, agent: &ConnectedAgent, server: &ServerName, result: String) -> String {
    rewritten(state, agent, server, result, "messages", |links, message| {
        let content = links.content(member(message, "content")?)?;
        Some(with_members(message, &[("content", &content)]))
    })
}

/// Rewrites the items of a list. `rewrite` returns `None` for an item that stays as it is.
fn rewritten(
    state: &SharedState,
    agent: &ConnectedAgent,
    server: &ServerName,
    result: String,
    key: &str,
    rewrite: impl Fn(&Links<'_>, &str) -> Option<String>,
) -> String {
    let endpoint_mode = &agent.endpoint_mode;
    // Most results have no link, and are not parsed.
    if matches!(endpoint_mode, EndpointMode::Server(_)) || !result.contains("\"resource") {
        return result;
    }
    let snapshot = state.snapshot.load();
    let Some(offers) = snapshot.offers.get(server).filter(|offers| offers.has_resources) else { return result };
    let links = Links { endpoint_mode, server, offers };
    let list = member(&result, key).and_then(|list| serde_json::from_str::<Vec<&RawValue>>(list).ok());
    let items = list.unwrap_or_default();
    let changed: Vec<Option<String>> = items.iter().map(|item| rewrite(&links, item.get())).collect();
    if changed.iter().all(Option::is_none) {
        return result;
    }
    let all: Vec<&str> = items.iter().zip(&changed).map(|(old, new)| new.as_deref().unwrap_or(old.get())).collect();
    with_members(&result, &[(key, &format!("[{}]", all.join(",")))])
}

impl Links<'_> {
    /// Rewrites a link, or the URI of an embedded resource.
    fn content(&self, item: &str) -> Option<String> {
        match member(item, "type").and_then(string_value)?.as_ref() {
            "resource_link" => self.addressed(item),
            "resource" => {
                let resource = self.addressed(member(item, "resource")?)?;
                Some(with_members(item, &[("resource", &resource)]))
            }
            _ => None,
        }
    }

    fn addressed(&self, object: &str) -> Option<String> {
        let uri = member(object, "uri").and_then(string_value)?;
        let is_web = uri.starts_with("https://") || uri.starts_with("http://");
        if is_web && !self.lists(&uri) {
            return None;
        }
        Some(with_members(object, &[("uri", &quote(&self.endpoint_mode.uri_out(self.server, &uri)))]))
    }

    fn lists(&self, uri: &str) -> bool {
        let listed = |resource: &String| member(resource, "uri").and_then(string_value).is_some_and(|own| own == uri);
        self.offers.resources.iter().any(listed)
    }
}
