//! Warns that the rules of `--permissions` do not cover tools without `readOnlyHint`.
//!
//! The rules let `call_tool_read` run without a prompt. If a server does not say whether a tool only reads, the default
//! setting `"unannotated": "trust"` lets an agent call it as a read, and so does `"warn"`. Then the client does not ask.
//! With `"strict_server_validation": false`, that is true for every tool.

use http::Method;
use mcpproxy_core::settings::{Settings, TransportSettings, Unannotated};
use serde_json::Value;

use crate::client::Rest;
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::terminal::output::{counted, line};

/// Servers that are named one by one.
const NAMED_MAX: usize = 3;
const STRICT: &str = r#""intent_declaration": {"strict_server_validation": true}"#;
const REQUIRE_WRITE: &str = r#""intent_declaration": {"unannotated": "require_write"}"#;

/// Returns the warning, or `None` if no tool that may write can be called as a read.
pub(super) async fn warning(home: &Home) -> anyhow::Result<Option<String>> {
    let path = home.settings();
    let settings = match settings_file::read_text(&path)? {
        Some((_, text)) => settings_file::check_shape(&path, &text)?,
        None => mcpproxy_core::settings::demo(),
    };
    let shown = line(&path.display().to_string());
    if !settings.intent.strict_server_validation {
        let reason = "An agent can call every tool as a read, which the client runs without asking.";
        return Ok(Some(format!("{reason} To prevent that, set {STRICT} in {shown}.")));
    }
    match settings.intent.unannotated {
        Unannotated::RequireWrite => return Ok(None),
        // A warning in the answer comes after the call.
        Unannotated::Trust | Unannotated::Warn => {}
    }
    let reason = if home.running()?.is_some() {
        described(&Rest::connect(home)?.ask(Method::GET, "/api/v1/servers").await?)
    } else {
        let reason = "An agent can call tools without `readOnlyHint` as reads, which the client runs without asking.";
        has_foreign_servers(&settings).then(|| reason.to_owned())
    };
    Ok(reason.map(|reason| format!("{reason} To require call_tool_write instead, set {REQUIRE_WRITE} in {shown}.")))
}

/// Checks for servers with unknown tools. All tools of the demo server have annotations.
fn has_foreign_servers(settings: &Settings) -> bool {
    settings.servers.iter().any(|server| server.enabled && server.transport != TransportSettings::Demo)
}

/// Counts the tools of `GET /api/v1/servers` that an agent can call as reads on trust. The gateway decides which ones
/// they are, because it also knows the contracts.
fn described(answer: &Value) -> Option<String> {
    let servers = answer.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let count = |server: &Value| server.get("unannotated_tools").and_then(Value::as_u64).unwrap_or_default();
    let found: Vec<&Value> = servers.iter().filter(|server| count(server) > 0).collect();
    let total = usize::try_from(found.iter().map(|server| count(server)).sum::<u64>()).unwrap_or(usize::MAX);
    if total == 0 {
        return None;
    }
    let names = found.iter().filter_map(|server| server.get("name").and_then(Value::as_str));
    let named = names.take(NAMED_MAX).map(line).collect::<Vec<_>>().join(", ");
    let more = if found.len() > NAMED_MAX { ", …" } else { "" };
    let (have, as_reads) = if total == 1 { ("has", "it as a read") } else { ("have", "them as reads") };
    let (tools, of) = (counted(total, "tool"), if found.len() == 1 { "server" } else { "servers" });
    Some(format!(
        "{tools} of {of} {named}{more} {have} no `readOnlyHint`. An agent can call {as_reads}, which the client runs \
         without asking."
    ))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn the_number_is_the_gateways() {
        let described = |counts: &[(&str, u64)]| {
            let server = |(name, count): &(&str, u64)| json!({"name": name, "unannotated_tools": count});
            described(&json!({ "servers": counts.iter().map(server).collect::<Vec<_>>() }))
        };
        assert_eq!((described(&[]), described(&[("a", 0)])), (None, None));
        let text = "1 tool of server db has no `readOnlyHint`. An agent can call it as a read, which the client runs \
                    without asking.";
        assert_eq!(described(&[("a", 0), ("db", 1)]).as_deref(), Some(text));
        let text = "7 tools of servers a, b, c, … have no `readOnlyHint`. An agent can call them as reads, which the \
                    client runs without asking.";
        assert_eq!(described(&[("a", 1), ("b", 3), ("c", 1), ("d", 2)]).as_deref(), Some(text));
    }
}
