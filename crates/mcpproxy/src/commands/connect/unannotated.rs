//! Warns that the rules of `--permissions` do not cover tools without annotations.
//!
//! The rules let `call_tool_read` run without a prompt. If a server does not say whether a tool only reads, the default
//! setting `"unannotated": "trust"` lets an agent call it as a read. Then the client does not ask. With
//! `"strict_server_validation": false`, that is true for every tool.

use http::Method;
use mcpproxy_core::settings::{Settings, TransportSettings, Unannotated};
use serde_json::Value;

use crate::client::Rest;
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::terminal::output::{counted, line};

/// Tools that are named one by one.
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
    if settings.intent.unannotated != Unannotated::Trust {
        return Ok(None);
    }
    let reason = if home.running()?.is_some() {
        described(&Rest::connect(home)?.ask(Method::GET, "/api/v1/tools").await?)
    } else {
        let reason = "An agent can call tools without annotations as reads, which the client runs without asking.";
        has_foreign_servers(&settings).then(|| reason.to_owned())
    };
    Ok(reason.map(|reason| format!("{reason} To require call_tool_write instead, set {REQUIRE_WRITE} in {shown}.")))
}

/// Checks for servers with unknown tools. All tools of the demo server have annotations.
fn has_foreign_servers(settings: &Settings) -> bool {
    settings.servers.iter().any(|server| server.enabled && server.transport != TransportSettings::Demo)
}

fn described(answer: &Value) -> Option<String> {
    let tools = answer.get("tools").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let found: Vec<&str> = tools.iter().filter(|tool| is_unannotated(tool)).filter_map(name).collect();
    if found.is_empty() {
        return None;
    }
    let named = found.iter().take(NAMED_MAX).map(|name| line(name)).collect::<Vec<_>>().join(", ");
    let more = if found.len() > NAMED_MAX { ", …" } else { "" };
    let (have, as_reads) = if found.len() == 1 { ("has", "it as a read") } else { ("have", "them as reads") };
    let count = counted(found.len(), "tool");
    Some(format!(
        "{count} {have} no annotations ({named}{more}). An agent can call {as_reads}, which the client runs without \
         asking."
    ))
}

fn name(tool: &Value) -> Option<&str> {
    tool.get("name").and_then(Value::as_str)
}

/// Checks whether a read call of the tool is trusted, although neither its server nor a contract says that it reads.
fn is_unannotated(tool: &Value) -> bool {
    let hint = |hint: &str| tool.pointer(&format!("/annotations/{hint}")).and_then(Value::as_bool);
    let is_forbidden = tool.get("risk_level").and_then(Value::as_str) == Some("forbidden");
    !is_forbidden && hint("readOnlyHint").is_none() && hint("destructiveHint") != Some(true)
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn tools_without_annotations_are_named() {
        let tool = |name: &str, annotations: Value| json!({"name": name, "annotations": annotations});
        let described = |tools: Vec<Value>| described(&json!({ "tools": tools }));
        assert_eq!(described(vec![]), None);
        let said = vec![
            tool("a:read", json!({"readOnlyHint": true})),
            tool("a:write", json!({"readOnlyHint": false})),
            tool("a:delete", json!({"destructiveHint": true})),
            json!({"name": "a:never", "annotations": {}, "risk_level": "forbidden"}),
        ];
        assert_eq!(described(said), None);
        let text = "1 tool has no annotations (a:run). An agent can call it as a read, which the client runs without \
                    asking.";
        assert_eq!(described(vec![tool("a:run", json!({"title": "Run"}))]).as_deref(), Some(text));
        // `destructiveHint: false` alone does not say that a tool only reads.
        let tools = ["a", "b", "c", "d"].map(|name| tool(&format!("s:{name}"), json!({"destructiveHint": false})));
        let text = "4 tools have no annotations (s:a, s:b, s:c, …). An agent can call them as reads, which the client \
                    runs without asking.";
        assert_eq!(described(tools.to_vec()).as_deref(), Some(text));
    }
}
