//! Settings of AI clients for a new token, as `mcpproxy connect` would write them.

use mcpproxy_web::editor::{ClientSettings, ClientSnippet};

use crate::agent_clients::document::{self, Edit};
use crate::agent_clients::{CLIENTS, Client, ENTRY, EntryValues};

/// Entries that connect to this gateway.
pub(super) struct ClientEntries {
    url: String,
}

impl ClientEntries {
    pub(super) fn new(base_url: &str) -> Self {
        Self { url: format!("{}/mcp", base_url.trim_end_matches('/')) }
    }
}

impl ClientSettings for ClientEntries {
    fn snippets(&self, token: &str) -> Vec<ClientSnippet> {
        let values =
            EntryValues { url: self.url.clone(), token: token.to_owned(), program: String::new(), arguments: vec![] };
        CLIENTS.iter().filter_map(|client| snippet(client, &values)).collect()
    }
}

/// Returns the entry of a client. `None` if the client supports only commands, which use the token of the agent
/// `local`.
fn snippet(client: &Client, values: &EntryValues) -> Option<ClientSnippet> {
    let entry = client.http.as_ref()?.fill(values);
    let keys = client.config.servers.iter().copied().chain([ENTRY]).map(str::to_owned);
    let edit = Edit::Set { path: keys.collect(), value: entry };
    let text = document::apply("", client.config.format, &[edit]).ok()?;
    // The browser may run on another machine, so the path is the usual one and not that of this machine.
    let file = client.config.places.linux.last()?.replace("$CONFIG", "~/.config");
    Some(ClientSnippet { title: client.title, file, text, restart: client.restart })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_client_that_can_use_a_token() {
        let snippets = ClientEntries::new("https://gateway.example/").snippets("mcp_secret");
        let expected = CLIENTS.iter().filter(|client| client.http.is_some()).count();
        assert_eq!(snippets.len(), expected);
        for snippet in &snippets {
            assert!(snippet.text.contains("Bearer mcp_secret"), "{snippet:?}");
            assert!(snippet.text.contains("https://gateway.example/mcp"), "{snippet:?}");
            assert!(snippet.file.starts_with("~/"), "{snippet:?}");
        }
        let cursor = snippets.iter().find(|snippet| snippet.title == "Cursor").unwrap();
        let read: serde_json::Value = serde_json::from_str(&cursor.text).unwrap();
        assert_eq!(read["mcpServers"]["mcpproxy"]["headers"]["Authorization"], "Bearer mcp_secret");
    }
}
