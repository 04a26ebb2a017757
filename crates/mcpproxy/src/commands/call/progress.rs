//! Shows what a call does while it takes time: a line with the server's own progress, and where to approve a call.
//!
//! The line appears after [`MOMENT`], on a terminal only, and is removed when the answer comes:
//!
//! ```text
//! ⠙ files:copy · 12 s · 40 % · copying photos
//! ```

use std::time::{Duration, Instant};

use mcpproxy_core::ApprovalId;
use serde_json::Value;
use url::Url;

use crate::home::Home;
use crate::home::lock::Running;
use crate::terminal::live_line::LiveLine;
use crate::terminal::output::{line, tell};

const PATH: &str = "/ui/approvals/";
/// A call that ends sooner shows no line.
const MOMENT: Duration = Duration::from_secs(1);
/// Time between two states of the spinner.
const FRAME: Duration = Duration::from_millis(120);
const SPINNER: [&str; 8] = ["⠋", "⠙", "⠹", "⠸", "⠼", "⠴", "⠦", "⠧"];

/// Shows the progress of one call. Prints each approval request once, however often the gateway repeats it.
pub(super) struct Progress {
    home: Home,
    tool: String,
    port: Option<u16>,
    /// The base of the gateway's links, if it speaks TLS.
    secure: Option<Url>,
    told: Option<ApprovalId>,
    line: LiveLine,
    started: Instant,
    frames: usize,
    /// The last message of the server.
    server: Option<String>,
}

impl Progress {
    pub(super) fn new(home: &Home, running: &Running, tool: &str) -> Self {
        let port = running.address.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
        Self {
            home: home.clone(),
            tool: line(tool),
            port,
            secure: running.certificate.as_ref().and_then(|_| Url::parse(&running.url).ok()),
            told: None,
            line: LiveLine::new(),
            started: Instant::now(),
            frames: 0,
            server: None,
        }
    }

    /// Takes a message that came before the answer.
    pub(super) fn take(&mut self, message: &str) {
        if let Some(words) = self.words(message) {
            self.line.clear();
            tell(&words);
            return;
        }
        if self.told.is_none() {
            self.server = of_server(message).or_else(|| self.server.take());
        }
    }

    /// Waits for the next state of the line.
    pub(super) async fn frame(&self) {
        tokio::time::sleep(MOMENT.saturating_sub(self.started.elapsed()).max(FRAME)).await;
    }

    pub(super) fn show(&mut self) {
        self.frames += 1;
        let text = self.text(self.started.elapsed());
        self.line.show(&text);
    }

    fn text(&self, elapsed: Duration) -> String {
        let spinner = SPINNER.get(self.frames % SPINNER.len()).copied().unwrap_or_default();
        let state = match (&self.told, &self.server) {
            (Some(_), _) => Some("waiting for an approval"),
            (None, server) => server.as_deref(),
        };
        let state = state.map(|state| format!(" · {state}")).unwrap_or_default();
        format!("{spinner} {} · {} s{state}", self.tool, elapsed.as_secs())
    }

    /// Removes the line, and returns what happens to a call that the user no longer waits for.
    pub(super) fn interrupted(&mut self) -> String {
        self.line.clear();
        match &self.told {
            Some(id) => format!("Cancelled. The approval request stays open: {}", self.show_command(id)),
            None => {
                let list = self.home.command("mcpproxy", "activity list");
                format!("Cancelled. The server may still finish the call. See its outcome with `{list}`.")
            }
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
        let is_here = || {
            matches!(url.host_str(), Some("localhost" | "127.0.0.1" | "[::1]"))
                && url.port_or_known_default() == self.port
                && url.scheme() == "http"
        };
        let is_ours = self.secure.as_ref().map_or_else(is_here, |own| own.origin() == url.origin());
        Some(match is_ours {
            true => format!("Waiting for a user to approve the call: {}", line(url.as_str())),
            false => format!("Waiting for a user to approve the call: {}", self.show_command(&id)),
        })
    }

    fn show_command(&self, id: &ApprovalId) -> String {
        self.home.command("mcpproxy", &format!("approvals show {id}"))
    }
}

/// Formats a server's progress: `40 % · copying photos`. Returns `None` for other messages.
fn of_server(message: &str) -> Option<String> {
    let message: Value = serde_json::from_str(message).ok()?;
    if message.get("method")?.as_str()? != "notifications/progress" {
        return None;
    }
    let params = message.get("params")?;
    let number = |name: &str| params.get(name).and_then(Value::as_f64).filter(|number| number.is_finite());
    let amount = match (number("progress"), number("total")) {
        (Some(done), Some(total)) if total > 0.0 => Some(format!("{:.0} %", (done / total * 100.0).clamp(0.0, 100.0))),
        (Some(done), _) => Some(format!("{done}")),
        (None, _) => None,
    };
    let words = params.get("message").and_then(Value::as_str).map(line);
    let parts: Vec<String> = amount.into_iter().chain(words).collect();
    (!parts.is_empty()).then(|| parts.join(" · "))
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

    fn progress() -> Progress {
        let home = Home::resolve(Some("/d".into())).unwrap();
        Progress::new(&home, &Running { address: "127.0.0.1:8080".to_owned(), ..Running::default() }, "files:copy")
    }

    #[test]
    fn the_line_of_a_slow_call() {
        let mut progress = progress();
        assert_eq!(progress.text(Duration::from_millis(1900)), "⠋ files:copy · 1 s");
        let mut check = |params: Value, expected: &str| {
            progress.take(&serde_json::json!({"method": "notifications/progress", "params": params}).to_string());
            assert_eq!(progress.text(Duration::from_secs(12)), format!("⠋ files:copy · 12 s{expected}"));
        };
        check(serde_json::json!({"progress": 2, "total": 5, "message": "a\u{1b}[2Jb"}), " · 40 % · a\\u{1b}[2Jb");
        check(serde_json::json!({"progress": 7}), " · 7");
        check(serde_json::json!({"progress": 9, "total": 3}), " · 100 %");
        check(serde_json::json!({}), " · 100 %");
    }

    #[test]
    fn a_cancelled_call_says_what_goes_on() {
        let mut progress = progress();
        assert!(progress.interrupted().contains("The server may still finish the call."));
        progress.told = ApprovalId::parse("01HF7YAT00ZZZZZZZZZZZZZZZZ");
        assert!(progress.interrupted().ends_with("mcpproxy --home /d approvals show 01HF7YAT00ZZZZZZZZZZZZZZZZ"));
    }

    #[test]
    fn nobody_is_led_astray() {
        const ID: &str = "01HF7YAT00ZZZZZZZZZZZZZZZZ";
        let check = |url: &str, expected: Option<&str>| {
            let mut progress = progress();
            let message = serde_json::json!({"method": "notifications/progress", "params": {
                "message": format!("Open {url} to approve or deny this call."),
            }});
            let expected = expected.map(|rest| format!("Waiting for a user to approve the call: {rest}"));
            assert_eq!(progress.words(&message.to_string()), expected, "{url}");
            assert_eq!(progress.words(&message.to_string()), None, "it is told once");
        };
        let ours = format!("http://localhost:8080/ui/approvals/{ID}");
        check(&ours, Some(&ours));
        let command = format!("mcpproxy --home /d approvals show {ID}");
        check(&format!("http://localhost:8081/ui/approvals/{ID}"), Some(&command));
        check(&format!("https://evil.example/ui/approvals/{ID}"), Some(&command));
        check(&format!("http://localhost:8080@evil.example/ui/approvals/{ID}"), Some(&command));
        check("http://localhost:8080/ui/approvals/x", None);
        check(&format!("http://localhost:8080/elsewhere/{ID}"), None);
        check("", None);
        let mut progress = progress();
        let other = serde_json::json!({"method": "notifications/message", "params": {"message": ours}});
        assert_eq!(progress.words(&other.to_string()), None);
    }
}
