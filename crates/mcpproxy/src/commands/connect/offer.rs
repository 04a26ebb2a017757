//! Offers `connect` and `import` at the first start of the gateway.

use super::journal::Journal;
use crate::agent_clients::{self, Client, Machine};
use crate::home::Home;

/// Clients that are named one by one.
const NAMED_MAX: usize = 4;

/// Returns two lines about installed clients that are not connected yet, if there are any.
pub(crate) fn offer(home: &Home) -> Option<String> {
    let machine = Machine::here()?;
    let journal = Journal::of(home);
    let mut clients = agent_clients::installed(&machine);
    clients.retain(|client| matches!(journal.load(client), Ok(None)));
    text(home, &clients)
}

fn text(home: &Home, clients: &[&Client]) -> Option<String> {
    let first = clients.first()?;
    let mut names: Vec<&str> = clients.iter().take(NAMED_MAX).map(|client| client.title).collect();
    let more = clients.len().saturating_sub(NAMED_MAX);
    let last = if more > 0 { Some(format!("{more} more")) } else { names.pop().map(str::to_owned) };
    let last = last.unwrap_or_default();
    let found = if names.is_empty() { last } else { format!("{} and {last}", names.join(", ")) };
    let command = |command: &str| home.command("mcpproxy", &format!("{command} {}", first.id));
    Some(format!(
        "Found {found} on this machine.\n  Use mcpproxy there:     {}\n  Take over its servers:  {}\n",
        command("connect"),
        command("import"),
    ))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_are_named() {
        let home = Home::resolve(Some("/data".into())).unwrap();
        let check = |ids: &[&str], expected: Option<&str>| {
            let clients: Vec<&Client> = ids.iter().filter_map(|id| agent_clients::find(id)).collect();
            let text = text(&home, &clients);
            assert_eq!(text.as_deref().and_then(|text| text.lines().next()), expected);
            let is_complete = |text: &str| text.contains("--home /data connect ") && text.contains(" import ");
            assert!(text.as_deref().is_none_or(is_complete), "{text:?}");
        };
        check(&[], None);
        check(&["cursor"], Some("Found Cursor on this machine."));
        check(&["cursor", "zed"], Some("Found Cursor and Zed on this machine."));
        check(&["cursor", "codex", "zed"], Some("Found Cursor, Codex and Zed on this machine."));
        check(
            &["claude-code", "cursor", "codex", "gemini", "qwen", "zed"],
            Some("Found Claude Code, Cursor, Codex, Gemini CLI and 2 more on this machine."),
        );
    }
}
