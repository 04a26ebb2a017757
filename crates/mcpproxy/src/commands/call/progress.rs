//! Tells the user where to approve a call while the gateway holds it.

use mcpproxy_core::ApprovalId;
use serde_json::Value;
use url::Url;

use crate::home::lock::Running;
use crate::terminal::output::{line, tell};

const PATH: &str = "/ui/approvals/";

/// Prints each approval request once, however often the gateway repeats it.
pub(super) struct Progress {
    port: Option<u16>,
    told: Option<ApprovalId>,
}

impl Progress {
    pub(super) fn new(running: &Running) -> Self {
        Self { port: running.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok()), told: None }
    }

    pub(super) fn tell(&mut self, message: &str) {
        if let Some(words) = self.words(message) {
            tell(&words);
        }
    }

    /// Returns the text for an approval request in a progress message. A server can send such a message too. So the
    /// link must lead to the gateway: otherwise a server could send the user to a page that asks for a password.
    fn words(&mut self, message: &str) -> Option<String> {
        let message: Value = serde_json::from_str(message).ok()?;
        if message.get("method")?.as_str()? != "notifications/progress" {
            return None;
        }
        let words = message.pointer("/params/message")?.as_str()?;
        let (url, id) = words.split(' ').find_map(approval_link)?;
        if self.told.replace(id.clone()).as_ref() == Some(&id) {
            return None;
        }
        let is_ours = matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
            && url.port_or_known_default() == self.port
            && url.scheme() == "http";
        Some(match is_ours {
            true => format!("Waiting for a user to approve the call: {}", line(url.as_str())),
            false => format!("Waiting for a user to approve the call: mcpproxy approvals show {id}"),
        })
    }
}

/// Reads a word as a link to an approval page.
fn approval_link(word: &str) -> Option<(Url, ApprovalId)> {
    let url = Url::parse(word).ok()?;
    let id = ApprovalId::parse(url.path().strip_prefix(PATH)?)?;
    Some((url, id))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_astray() {
        const ID: &str = "01HF7YAT00ZZZZZZZZZZZZZZZZ";
        let check = |url: &str, expected: Option<&str>| {
            let mut progress = Progress { port: Some(8080), told: None };
            let message = serde_json::json!({"method": "notifications/progress", "params": {
                "message": format!("Open {url} to approve or deny this call."),
            }});
            let expected = expected.map(|rest| format!("Waiting for a user to approve the call: {rest}"));
            assert_eq!(progress.words(&message.to_string()), expected, "{url}");
            assert_eq!(progress.words(&message.to_string()), None, "it is told once");
        };
        let ours = format!("http://localhost:8080/ui/approvals/{ID}");
        check(&ours, Some(&ours));
        let command = format!("mcpproxy approvals show {ID}");
        check(&format!("http://localhost:8081/ui/approvals/{ID}"), Some(&command));
        check(&format!("https://evil.example/ui/approvals/{ID}"), Some(&command));
        check(&format!("http://localhost:8080@evil.example/ui/approvals/{ID}"), Some(&command));
        check("http://localhost:8080/ui/approvals/x", None);
        check(&format!("http://localhost:8080/elsewhere/{ID}"), None);
        check("", None);
        let mut progress = Progress { port: Some(8080), told: None };
        let other = serde_json::json!({"method": "notifications/message", "params": {"message": ours}});
        assert_eq!(progress.words(&other.to_string()), None);
    }
}
