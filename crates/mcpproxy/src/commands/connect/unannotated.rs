//! Warns that the rules of `--permissions` do not cover tools without annotations.
//!
//! The rules let `call_tool_read` run without a prompt. If a server does not say whether a tool only reads, the default
//! setting `"unannotated": "trust"` lets an agent call it as a read. Then neither the client nor the gateway asks.

use http::Method;
use mcpproxy_core::settings::{Settings, TransportSettings, Unannotated};
use serde_json::Value;

use crate::client::Rest;
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::terminal::output::{counted, line};

/// Tools that are named one by one.
const NAMED_MAX: usize = 3;
const ADVICE: &str = "To require call_tool_write for them, set \"intent_declaration\": {\"unannotated\": \
                      \"require_write\"} in";

/// Returns the warning, or `None` if every tool says what it does, or the settings do not trust the others.
pub(super) async fn warning(home: &Home) -> anyhow::Result<Option<String>> {
    let path = home.settings();
    let settings = match settings_file::read_text(&path)? {
        Some((_, text)) => settings_file::check_shape(&path, &text)?,
        None => mcpproxy_core::settings::demo(),
    };
    if settings.intent.unannotated != Unannotated::Trust {
        return Ok(None);
    }
    let advice = format!("{ADVICE} {}.", line(&path.display().to_string()));
    if home.running()?.is_none() {
        let reason = "Tools without annotations can be called as reads, and then nobody is asked.";
        return Ok(has_foreign_servers(&settings).then(|| format!("{reason} {advice}")));
    }
    let answer = Rest::connect(home)?.ask(Method::GET, "/api/v1/tools").await?;
    Ok(described(&answer).map(|text| format!("{text} {advice}")))
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
    let (have, them) = if found.len() == 1 { ("has", "it") } else { ("have", "them") };
    let count = counted(found.len(), "tool");
    Some(format!(
        "{count} {have} no annotations ({named}{more}). An agent can call {them} as a read, and then nobody is asked."
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
        let text = "1 tool has no annotations (a:run). An agent can call it as a read, and then nobody is asked.";
        assert_eq!(described(vec![tool("a:run", json!({"title": "Run"}))]).as_deref(), Some(text));
        // `destructiveHint: false` alone does not say that a tool only reads.
        let tools = ["a", "b", "c", "d"].map(|name| tool(&format!("s:{name}"), json!({"destructiveHint": false})));
        let text = "4 tools have no annotations (s:a, s:b, s:c, …). An agent can call them as a read, and then nobody \
                    is asked.";
        assert_eq!(described(tools.to_vec()).as_deref(), Some(text));
    }
}
