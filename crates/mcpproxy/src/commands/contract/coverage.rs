//! `contract coverage`: lists the risk level of each tool and its source.

use http::Method;
use serde_json::Value;

use crate::client::Rest;
use crate::commands::tools::HIDDEN;
use crate::home::Home;
use crate::terminal::output::{Format, counted, line, member, table};

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<()> {
    let answer = Rest::connect(home)?.ask(Method::GET, "/api/v1/contracts").await?;
    format.print(&answer, || told(&answer))
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
        text.push_str(&match count("by_nobody") {
            0 => format!("{server}: {tools}, {who}\n"),
            none => format!("{server}: {tools}, {who}, {none} unclassified. Draft contracts with `mcpproxy contract draft {server}`.\n"),
        });
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
