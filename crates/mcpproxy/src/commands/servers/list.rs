//! `servers list`: the servers with their state, and what waits for review.

use http::Method;
use serde_json::Value;

use crate::client::{Rest, state};
use crate::exit::Exit;
use crate::home::Home;
use crate::terminal::listing::Cell;
use crate::terminal::output::{self, Format, line, member};
use crate::terminal::size;
use crate::terminal::style::of_state;
use crate::terminal::wrap::hanging;

pub(super) async fn run(home: &Home, format: Format) -> anyhow::Result<Exit> {
    let rest = Rest::connect(home)?;
    let answer = rest.ask(Method::GET, "/api/v1/servers").await?;
    format.print(&answer, || {
        let servers = answer.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if servers.is_empty() {
            return "No servers. Add one with `mcpproxy servers add NAME -- COMMAND`.\n".to_owned();
        }
        let rows = servers.iter().map(|server| {
            let cells = ["name", "transport", "state", "tools", "protocol", "restarts", "reason"];
            let cell = |name: &str| match name {
                "state" => {
                    let state = member(server, name);
                    Cell::new(state::state_word(&state), of_state(&state))
                }
                _ => member(server, name).into(),
            };
            cells.into_iter().map(cell).collect()
        });
        output::table(&["NAME", "TRANSPORT", "STATE", "TOOLS", "PROTOCOL", "RESTARTS", "REASON"], rows)
            + &notes(servers)
            + &waiting(home, servers)
            + &hints(servers)
    })?;
    state::warn(home, &rest).await;
    Ok(Exit::Done)
}

/// Lists the titles of servers, and each server that has unusable or unchecked tools with the first reason.
fn notes(servers: &[Value]) -> String {
    let title = |server: &Value| Some((member(server, "name"), line(server.get("title")?.as_str()?)));
    let titles = servers.iter().filter_map(title).filter(|(name, title)| name != title);
    let titles: String = titles.map(|(name, title)| format!("  {name}: {title}\n")).collect();
    let mut text = if titles.is_empty() { String::new() } else { format!("\nTitles:\n{titles}") };
    for server in servers {
        text.push_str(&note(server, "hidden_tools", "is not offered"));
        text.push_str(&note(server, "unchecked_tools", "is offered, but not checked with its schema"));
    }
    text
}

/// Describes the first tool of a server in a list of tools with a reason, and counts the others.
fn note(server: &Value, list: &str, what: &str) -> String {
    let tools = server.get(list).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let Some(first) = tools.first() else { return String::new() };
    let more = if tools.len() > 1 { format!(", and {} more (see -o json)", tools.len() - 1) } else { String::new() };
    let (name, reason) = (member(first, "name"), member(first, "reason"));
    format!("\n{}: tool {name} {what}: {reason}{more}\n", member(server, "name"))
}

/// Says at which servers definitions wait for a review, one line each.
fn waiting(home: &Home, servers: &[Value]) -> String {
    let lines = servers.iter().filter_map(|server| state::waiting(home, server));
    let text: String = lines.map(|text| format!("{}\n", hanging(&text, size::prose_columns(), 2))).collect();
    if text.is_empty() { text } else { format!("\n{text}") }
}

/// Lists what may help servers that are not ready.
fn hints(servers: &[Value]) -> String {
    let with_hint = servers.iter().filter(|server| server.get("hint").is_some_and(Value::is_string));
    let shown = with_hint.map(|server| format!("{}: {}", member(server, "name"), member(server, "hint")));
    shown.map(|hint| format!("\n{}\n", hanging(&hint, size::prose_columns(), 2))).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn tools_with_a_mistake_are_noted() {
        let tool = |name: &str| json!({"name": name, "reason": "`inputSchema` is bad"});
        let servers = [
            json!({"name": "fine", "hidden_tools": [], "unchecked_tools": []}),
            json!({"name": "odd", "hidden_tools": [tool("a")], "unchecked_tools": [tool("b"), tool("c")]}),
        ];
        assert_eq!(
            notes(&servers),
            "\nodd: tool a is not offered: `inputSchema` is bad\n\n\
             odd: tool b is offered, but not checked with its schema: `inputSchema` is bad, and 1 more (see -o json)\n"
        );
    }
}
