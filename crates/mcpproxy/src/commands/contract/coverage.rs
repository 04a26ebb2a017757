//! `contract coverage`: lists the risk level of each tool and its source.

use http::Method;
use serde_json::Value;

use crate::client::Rest;
use crate::commands::tools::HIDDEN;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::{Format, counted, counted_as, line, member, table, warn};
use crate::terminal::size;
use crate::terminal::wrap::hanging;

/// The lint code of a contract for a tool that its server does not have.
const NO_SUCH_TOOL: &str = "C002";

pub(super) async fn run(home: &Home, format: Format, min: Option<u8>) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    // First, so that the tools of a server that counts as connected are in the coverage.
    let servers = match min {
        Some(_) => rest.ask(Method::GET, "/api/v1/servers").await?,
        None => Value::Null,
    };
    let answer = rest.ask(Method::GET, "/api/v1/contracts").await?;
    format.print(&answer, || told(&answer))?;
    let lint = rest.ask(Method::GET, "/api/v1/contracts/lint").await?;
    if let Some(warning) = unmatched(home, &lint) {
        warn(&warning);
    }
    if let Some(min) = min {
        gate(home, min, &answer, &servers)?;
    }
    Ok(Exit::Done)
}

/// Fails if too few fields are set. Tools that the gateway does not know yet have no fields to count, so the gate also
/// fails without tools, and if an enabled server is not connected.
fn gate(home: &Home, min: u8, answer: &Value, servers: &Value) -> Result<(), Failure> {
    let servers = servers.get("servers").and_then(Value::as_array).into_iter().flatten();
    let is_known = |server: &&Value| matches!(server.get("state").and_then(Value::as_str), Some("ready" | "disabled"));
    let unknown: Vec<String> =
        servers.filter(|server| !is_known(server)).map(|server| member(server, "name")).collect();
    let see_servers = format!("see the reasons with `{}`", home.command("mcpproxy", "servers list"));
    if !unknown.is_empty() {
        let names = unknown.join(", ");
        let message = format!("--min needs the tools of all servers, but these are not connected: {names}");
        return Err(Failure::new(Exit::Failed, message).hint(see_servers));
    }
    match answer.get("fields_percent").and_then(Value::as_u64) {
        None => Err(Failure::new(Exit::Failed, "--min needs at least one tool, but there are none").hint(see_servers)),
        Some(percent) if percent < u64::from(min) => {
            let message = format!("{percent} % of the contract fields are set, but --min asks for {min} %");
            let command = home.command("mcpproxy", "contract coverage -o json");
            Err(Failure::new(Exit::Failed, message).hint(format!("see the missing fields with `{command}`")))
        }
        Some(_) => Ok(()),
    }
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
        let fields = format!("{}/13", member(tool, "fields"));
        vec![member(tool, "name"), member(tool, "risk_level"), member(tool, "operation"), fields, classifier(tool)]
    });
    let mut text = table(&["TOOL", "RISK", "OPERATION", "FIELDS", "CLASSIFIED BY"], rows);
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
        let fields = (count("fields") * 100).checked_div(count("fields_max")).unwrap_or(100);
        let who = format!("{who}, {fields} % of the fields set");
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
    let draft = if tool.get("draft") == Some(&Value::Bool(true)) { " (draft, not reviewed)" } else { "" };
    place(tool) + draft
}

fn place(tool: &Value) -> String {
    match (tool.get("file").and_then(Value::as_str), tool.get("line").and_then(Value::as_u64)) {
        (Some(file), Some(number)) => format!("{}:{number}", line(file)),
        (Some(file), None) => line(file),
        (None, _) => member(tool, "classified_by"),
    }
}
