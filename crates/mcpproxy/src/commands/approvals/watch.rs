//! `approvals list --watch`: each question when it is asked, and again when it is decided.

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

/// How soon a question is seen, and how often the gateway is asked while nothing happens.
const PAUSE: Duration = Duration::from_millis(500);

/// Prints what is there, then whatever comes, for as long as it is polled. A gateway that restarts is waited for.
pub(super) async fn follow(home: &Home, format: Format, list: &List) -> anyhow::Result<()> {
    let mut rest = Some(Rest::connect(home)?);
    let (mut seen, mut is_first) = (Seen::default(), true);
    loop {
        let was_away = rest.is_none();
        // Decisions are news too, so nothing is left out by its state here.
        match ask_again(home, &mut rest, &list.path(None)).await? {
            Some(page) => {
                let news = seen.news(array(&page, "approvals"), list.state.wanted());
                print(format, &news)?;
                if !is_first && news.iter().any(|one| state(one) == Some(ApprovalState::Pending)) {
                    // Whoever watches may be looking elsewhere.
                    output::ring();
                }
                is_first = false;
            }
            None if !was_away => output::tell("the gateway has stopped; waiting for it"),
            None => {}
        }
        tokio::time::sleep(PAUSE).await;
    }
}

/// One answer, or none while no gateway runs; then the next one that does is found.
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

/// Whether an error goes away when a gateway runs again: there is none, or it went while it answered.
fn is_away(error: &anyhow::Error) -> bool {
    match error.downcast_ref::<Failure>() {
        Some(failure) => failure.exit() == Exit::NoGateway,
        None => {
            error.chain().any(|cause| cause.is::<hyper::Error>() || cause.is::<hyper_util::client::legacy::Error>())
        }
    }
}

/// The states that were printed.
#[derive(Default)]
struct Seen {
    states: HashMap<String, String>,
}

impl Seen {
    /// What is new of a page, oldest first: questions in the wanted state, and what became of those that were printed.
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

/// One line, and below a question the address where it is decided.
fn row(approval: &Value, now_ms: i64) -> String {
    let [id, state, risk, agent, left, tool] = cells(approval, now_ms);
    let below = match self::state(approval) {
        Some(ApprovalState::Pending) => format!("    {left} left: {}\n", text(approval, "url")),
        _ => String::new(),
    };
    format!("{id}  {state:<11}  {risk:<14}  {agent}  {tool}\n{below}")
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn news_are_told_once() {
        let one = |id: &str, state: &str| json!({"id": id, "state": state});
        let mut seen = Seen::default();
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
            "01HF7YAT00ZZZZZ  … pending    ■ critical      local  demo:delete\\u{1b}\n    \
             10m left: http://localhost:1/ui/approvals/01\n"
        );
    }
}
