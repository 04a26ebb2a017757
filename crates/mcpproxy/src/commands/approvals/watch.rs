//! `approvals list --watch`: prints each approval request when it is made and when it is decided.

use std::collections::HashMap;
use std::time::Duration;

use http::Method;
use mcpproxy_core::ApprovalState;
use serde_json::Value;

use super::list::{List, cells};
use super::words::{array, now_ms, state, text};
use crate::client::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{self, Format};
use crate::terminal::visible;

/// Time between two requests to the gateway.
const PAUSE: Duration = Duration::from_millis(500);

/// Prints the current requests, then every change, until dropped. Waits for a gateway that restarts.
pub(super) async fn follow(home: &Home, format: Format, list: &List) -> anyhow::Result<()> {
    let mut rest = Some(Rest::connect(home)?);
    let (mut seen, mut is_first) = (PrintedStates::default(), true);
    loop {
        let was_away = rest.is_none();
        // Ask for all states: a decision is a change too.
        match ask_again(home, &mut rest, &list.path(None)).await? {
            Some(page) => {
                let news = seen.news(array(&page, "approvals"), list.state.wanted());
                print(format, &news)?;
                if !is_first && news.iter().any(|one| state(one) == Some(ApprovalState::Pending)) {
                    // The user may be looking elsewhere.
                    output::ring();
                }
                is_first = false;
            }
            None if !was_away => output::tell("The gateway stopped. Waiting for it to start again."),
            None => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// Returns one answer, or `None` while no gateway runs. Reconnects when one starts.
pub(super) async fn ask_again(home: &Home, rest: &mut Option<Rest>, path: &str) -> anyhow::Result<Option<Value>> {
    let connected = match rest.take() {
        Some(connected) => connected,
        None => match Rest::connect(home) {
            Ok(connected) => connected,
            Err(error) if is_away(&error) => return Ok(None),
            Err(error) => return Err(error),
        },
    };
    match connected.ask(Method::GET, path).await {
        Ok(answer) => {
            *rest = Some(connected);
            Ok(Some(answer))
        }
        Err(error) if is_away(&error) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns whether the error means that no gateway runs, or that it stopped while it answered.
fn is_away(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Failure>() {
        Some(failure) => failure.exit() == Exit::NoGateway,
        None => {
            error.chain().any(|cause| cause.is::<hyper::Error>() || cause.is::<hyper_util::client::legacy::Error>())
        }
    }
}

/// The last printed state of each request.
#[derive(Default)]
struct PrintedStates {
    states: HashMap<String, String>,
}

impl PrintedStates {
    /// Returns the changes of a page, oldest first: new requests in the wanted state, and new states of printed
    /// requests.
    fn news(&mut self, approvals: &[Value], wanted: Option<ApprovalState>) -> Vec<Value> {
        let mut news = Vec::new();
        for approval in approvals.iter().rev() {
            let (id, now) = (text(approval, "id"), text(approval, "state"));
            let before = self.states.get(&id);
            let is_wanted = wanted.is_none_or(|wanted| state(approval) == Some(wanted));
            if before == Some(&now) || (before.is_none() && !is_wanted) {
                continue;
            }
            self.states.insert(id, now);
            news.push(approval.clone());
        }
        news
    }
}

fn print(format: Format, news: &[Value]) -> anyhow::Result<()> {
    for approval in news {
        output::print(&match format {
            Format::Table => row(approval, now_ms()),
            Format::Json => visible::json(approval)?,
            Format::Yaml => format!("---\n{}", visible::yaml(approval)?),
        })?;
    }
    Ok(())
}

/// Formats a request as one line, with the approval page below if it is pending.
fn row(approval: &Value, now_ms: i64) -> String {
    let [id, state, risk, agent, left, tool] = cells(approval, now_ms);
    let is_pending = self::state(approval) == Some(ApprovalState::Pending);
    let below = if is_pending { format!("    {left} left: {}\n", text(approval, "url")) } else { String::new() };
    format!("{id}  {state:<11}  {risk:<14}  {agent}  {tool}\n{below}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn news_are_told_once() {
        let one = |id: &str, state: &str| json!({"id": id, "state": state});
        let mut seen = PrintedStates::default();
        let mut check = |page: &[Value], expected: &[&str]| {
            let news = seen.news(page, Some(ApprovalState::Pending));
            let news: Vec<String> =
                news.iter().map(|one| format!("{} {}", text(one, "id"), text(one, "state"))).collect();
            assert_eq!(news, expected);
        };
        check(&[one("2", "pending"), one("1", "denied")], &["2 pending"]);
        check(&[one("2", "pending"), one("1", "denied")], &[]);
        check(&[one("3", "pending"), one("2", "approved"), one("1", "denied")], &["2 approved", "3 pending"]);
        check(&[one("3", "pending"), one("2", "consumed")], &["2 consumed"]);
    }

    #[test]
    fn rows() {
        let approval = json!({
            "id": "01HF7YAT00ZZZZZZZZZZZZZZZZ", "state": "pending", "risk": "critical", "agent": "local",
            "tool": "demo:delete\u{1b}", "expires": "1970-01-01T00:10:00Z", "url": "http://localhost:1/ui/approvals/01",
        });
        assert_eq!(
            row(&approval, 0),
            "01HF7YAT00ZZZZZZZZZZZZZZZZ  … pending    ■ critical      local  demo:delete\\u{1b}\n    \
             10m left: http://localhost:1/ui/approvals/01\n"
        );
    }
}
