//! `contract coverage`: lists the risk level of each tool and its source.

use http::Method;
use serde_json::Value;

use crate::client::Rest;
use crate::commands::tools::HIDDEN;
use crate::home::Home;
use crate::terminal::output::{Format, counted, counted_as, line, member, table, warn};
use crate::terminal::size;
use crate::terminal::wrap::hanging;

/// The lint code of a contract for a tool that its server does not have.
const NO_SUCH_TOOL: &str = "C002";

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<()> {
    let rest = Rest::connect(home)?;
    let answer = rest.ask(Method::GET, "/api/v1/contracts").await?;
    format.print(&answer, || told(&answer))?;
    let lint = rest.ask(Method::GET, "/api/v1/contracts/lint").await?;
    if let Some(warning) = unmatched(home, &lint) {
        warn(&warning);
    }
    Ok(())
}

/// Counts the contracts that match no tool of a connected server.
fn unmatched(home: &Home, lint: &Value) -> Option<String> {
    let findings = lint.get("findings").and_then(Value::as_array).into_iter().flatten();
    let unmatched = findings.filter(|finding| finding.get("code").and_then(Value::as_str) == Some(NO_SUCH_TOOL));
    let count = Some(unmatched.count()).filter(|count| *count > 0)?;
    let contracts =
        counted_as(count, "contract has no effect, because it matches", "contracts have no effect, because they match");
    Some(format!("{contracts} no tool. Run `{}`.", home.command("mcpproxy", "contract lint")))
}

fn told(answer: &Value) -> String {
    let list = |name: &str| answer.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (tools, totals) = (list("tools"), list("totals"));
    if tools.is_empty() {
        return "No tools yet. See the state of the servers with `mcpproxy servers list`.\n".to_owned();
    }
    let rows = tools.iter().map(|tool| {
        vec![member(tool, "name"), member(tool, "risk_level"), member(tool, "operation"), classifier(tool)]
    });
    let mut text = table(&["TOOL", "RISK", "OPERATION", "CLASSIFIED BY"], rows);
    text.push('\n');
    let is_hidden = |tool: &Value| tool.get("hidden_from_agents").and_then(Value::as_bool) == Some(true);
    match tools.iter().filter(|tool| is_hidden(tool)).count() {
        0 => {}
        hidden => text.push_str(&format!("{} forbidden and {HIDDEN}\n", counted(hidden, "tool"))),
    }
    for total in totals {
        let count = |name: &str| total.get(name).and_then(Value::as_u64).unwrap_or_default();
        let tools = counted(usize::try_from(count("tools")).unwrap_or(usize::MAX), "tool");
        let who = format!("{} by you, {} by the server", count("by_operator"), count("by_server"));
        let server = member(total, "server");
        let total = match count("by_nobody") {
            0 => format!("{server}: {tools}, {who}"),
            none => format!(
                "{server}: {tools}, {who}, {none} unclassified. Draft contracts with `mcpproxy contract draft {server}`."
            ),
        };
        let total = size::columns().map_or_else(|| total.clone(), |room| hanging(&total, room, 2));
        text.push_str(&format!("{total}\n"));
    }
    text
}

fn classifier(tool: &Value) -> String {
    match (tool.get("file").and_then(Value::as_str), tool.get("line").and_then(Value::as_u64)) {
        (Some(file), Some(number)) => format!("{}:{number}", line(file)),
        (Some(file), None) => line(file),
        (None, _) => member(tool, "classified_by"),
    }
}
