//! Explains to users why a tool that they name is not there: it waits for a review, a user rejected it, or its server
//! is disabled.
//!
//! Agents never learn this. The admin key reads it, and only commands of users print it.

use http::Method;
use mcpproxy_core::ToolName;
use serde_json::Value;

use super::Rest;
use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::terminal::output::member;

/// Returns the failure of a command that names a tool which agents do not see. Returns `None` if there is no such tool,
/// or if the gateway does not say.
pub(crate) async fn failure(home: &Home, name: &ToolName, exit: Exit) -> Option<Failure> {
    let rest = Rest::connect(home).ok()?;
    let server = name.server();
    let servers = rest.ask(Method::GET, "/api/v1/servers").await.ok()?;
    let own = array(&servers, "servers").iter().find(|one| member(one, "name") == server.as_str())?;
    let (message, what, command) = if member(own, "state") == "disabled" {
        disabled(name)
    } else {
        let review = rest.ask(Method::GET, &format!("/api/v1/servers/{server}/review?rejected=true")).await.ok()?;
        held(name, &review)?
    };
    Some(Failure::new(exit, message).hint(format!("{what}: {}", home.command("mcpproxy", &command))))
}

fn disabled(name: &ToolName) -> (String, &'static str, String) {
    let server = name.server();
    (format!("The server of `{name}` is disabled."), "enable it", format!("servers enable {server}"))
}

/// Says why the review of its server has the tool, what to do, and with which command.
fn held(name: &ToolName, review: &Value) -> Option<(String, &'static str, String)> {
    let is_own = |entry: &&Value| member(entry, "kind") == "tool" && member(entry, "name") == name.tool();
    let entry = array(review, "entries").iter().find(is_own)?;
    let command = format!("servers review {}", name.server());
    Some(if entry.get("rejected_by").is_some_and(Value::is_string) {
        let message = format!("A user rejected `{name}`, so agents do not see it.");
        (message, "look at it again", format!("{command} --rejected"))
    } else if member(entry, "reason") == "not_locked" {
        (format!("The lock file does not have `{name}`, so agents do not see it."), "see the difference", command)
    } else {
        (format!("`{name}` waits for a review, so agents do not see it."), "review it", command)
    })
}

fn array<'v>(value: &'v Value, name: &str) -> &'v [Value] {
    value.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_reason_has_its_command() {
        let name = ToolName::parse("fx:send").unwrap();
        let review = json!({"entries": [
            {"kind": "prompt", "name": "send", "reason": "new"},
            {"kind": "tool", "name": "other", "reason": "new"},
        ]});
        assert_eq!(held(&name, &review), None);
        let check = |entry: Value, expected: (&str, &str, &str)| {
            let (message, what, command) = held(&name, &json!({"entries": [entry]})).unwrap();
            assert_eq!((message.as_str(), what, command.as_str()), expected);
        };
        let entry =
            |reason: &str, by: Value| json!({"kind": "tool", "name": "send", "reason": reason, "rejected_by": by});
        check(
            entry("first_sight", Value::Null),
            ("`fx:send` waits for a review, so agents do not see it.", "review it", "servers review fx"),
        );
        check(
            entry("rejected", "anna".into()),
            ("A user rejected `fx:send`, so agents do not see it.", "look at it again", "servers review fx --rejected"),
        );
        check(
            entry("not_locked", Value::Null),
            (
                "The lock file does not have `fx:send`, so agents do not see it.",
                "see the difference",
                "servers review fx",
            ),
        );
    }
}
