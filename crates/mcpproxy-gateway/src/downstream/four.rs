//! The four tools at `/mcp`, through which an agent finds and calls all others.

use std::sync::{Arc, LazyLock};

use mcpproxy_core::json::{members, string_value};
use mcpproxy_core::settings::TwoKey;
use mcpproxy_core::{ServerName, Untrusted, Variant, nearest};
use rmcp::model::{MetaObject, Tool, ToolAnnotations};
use serde_json::{Map, Value, json};

use crate::agents::{ConnectedAgent, EndpointMode};
use crate::answer::error_result;
use crate::message::{INVALID_PARAMS, Reply, RpcError, field};
use crate::offload::offload;
use crate::state::SharedState;
use crate::views::{self, Detail};

pub(super) const RETRIEVE: &str = "retrieve_tools";
/// Mark in `_meta` of tools that clients load at once, instead of behind a search of their own.
const ALWAYS_LOAD: &str = "anthropic/alwaysLoad";
/// Mark in `_meta` of tools for which clients prompt every time, even if the user allowed the tool. A client without a
/// user refuses such a tool, so tokens for unattended agents do not get it.
pub(super) const NEEDS_USER: &str = "anthropic/requiresUserInteraction";
const LIMIT_DEFAULT: usize = 5;
const LIMIT_MAX: usize = 50;
const RETRIEVE_FIELDS: [&str; 4] = ["query", "limit", "server", "detail"];

/// Everything that the list of the four tools depends on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Audience {
    pub(super) two_key: TwoKey,
    /// True for a token that was made with `--headless`: no user sits in front of the client.
    pub(super) is_headless: bool,
}

/// Returns the list of tools as raw JSON. All four together stay below 3.5 KiB, because clients send them with every
/// conversation.
pub(super) fn tools(audience: Audience) -> &'static str {
    static LISTS: LazyLock<Vec<(Audience, String)>> = LazyLock::new(|| {
        let two_keys = [TwoKey::Optional, TwoKey::Required];
        let all = two_keys.into_iter().flat_map(|two_key| [false, true].map(|is_headless| (two_key, is_headless)));
        all.map(|(two_key, is_headless)| Audience { two_key, is_headless }).map(|one| (one, list(one))).collect()
    });
    LISTS.iter().find(|(one, _)| *one == audience).map_or("[]", |(_, list)| list)
}

fn list(audience: Audience) -> String {
    let calls = Variant::ALL.map(|variant| call_tool(variant, audience));
    let tools: Vec<Tool> = std::iter::once(retrieve_tool(audience.two_key)).chain(calls).collect();
    serde_json::to_string(&tools).unwrap_or_else(|_| "[]".to_owned())
}

pub(super) fn instructions(endpoint_mode: &EndpointMode, two_key: TwoKey) -> &'static str {
    match (endpoint_mode, two_key) {
        (EndpointMode::Four, TwoKey::Required) => {
            "Find tools of all connected servers with retrieve_tools, then call one with the variant its call_with \
             names: call_tool_read, call_tool_write or call_tool_destructive. Every call requires a matching \
             intent.operation_type: read, write or destructive. A refusal says what to do instead."
        }
        (EndpointMode::Four, TwoKey::Optional) => {
            "Find tools of all connected servers with retrieve_tools, then call one with the variant its call_with \
             names: call_tool_read, call_tool_write or call_tool_destructive. A refusal says what to do instead."
        }
        (EndpointMode::Server(_) | EndpointMode::Direct, TwoKey::Required) => {
            "Tools of the servers behind this gateway, under their own names. Each call is checked and recorded. Every call \
             requires _meta[\"mcpproxy/intent\"] with operation_type: destructive if destructiveHint is true, else read \
             if readOnlyHint is true, else write."
        }
        (EndpointMode::Server(_) | EndpointMode::Direct, TwoKey::Optional) => {
            "Tools of the servers behind this gateway, under their own names. Each call is checked and recorded."
        }
    }
}

fn retrieve_tool(two_key: TwoKey) -> Tool {
    let key = match two_key {
        TwoKey::Optional => "Intent, if declared, must match tool variant.",
        TwoKey::Required => "Intent is required and must match tool variant.",
    };
    let description = format!(
        "Search for tools across all upstream servers. Results include annotations (readOnlyHint, destructiveHint) and \
         recommended call_with variant. Use call_tool_read for read-only operations, call_tool_write for \
         modifications, call_tool_destructive for deletions. {key}"
    );
    // No `additionalProperties: false` here and below: some clients then refuse a call in words of their own.
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string"},
            "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
            "server": {"type": "string"},
            "detail": {"type": "string", "enum": ["brief", "full"], "description": "full adds each tool's contract"}
        },
        "required": ["query"]
    });
    let annotations = ToolAnnotations::new().read_only(true).open_world(false);
    Tool::new(RETRIEVE, description, object(schema)).with_annotations(annotations).with_meta(meta(&[ALWAYS_LOAD]))
}

fn call_tool(variant: Variant, audience: Audience) -> Tool {
    let (purpose, limit, annotations) = match variant {
        Variant::Read => (
            "Execute a read-only tool discovered via retrieve_tools. Use for operations that query data without modifying state.",
            "Will be rejected if server marks tool as destructive or not read-only.",
            ToolAnnotations::new().read_only(true).destructive(false).open_world(true),
        ),
        Variant::Write => (
            "Execute a state-modifying tool discovered via retrieve_tools. Use for operations that create or update resources.",
            "Will be rejected if server marks tool as destructive.",
            ToolAnnotations::new().read_only(false).destructive(false).open_world(true),
        ),
        Variant::Destructive => (
            "Execute a destructive tool discovered via retrieve_tools. Use for operations that delete or permanently modify resources.",
            "Most permissive - allowed regardless of server annotations.",
            ToolAnnotations::new().read_only(false).destructive(true).open_world(true),
        ),
    };
    let (key, required) = match audience.two_key {
        TwoKey::Optional => (format!("An intent.operation_type, if given, must be '{variant}'."), json!(["name"])),
        TwoKey::Required => (format!("Requires intent.operation_type='{variant}'."), json!(["name", "intent"])),
    };
    let mut intent = json!({
        "type": "object",
        "properties": {"operation_type": {"type": "string", "enum": [variant.operation()]}}
    });
    if let (TwoKey::Required, Some(fields)) = (audience.two_key, intent.as_object_mut()) {
        fields.insert("required".to_owned(), json!(["operation_type"]));
    }
    // Parameters that explain themselves have no description. Also accepted, and left out for brevity:
    // `intent_operation_type`, and the sensitivity and reason inside `intent`.
    let text = json!({"type": "string"});
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "server:tool"},
            "args": {"type": "object"},
            "args_json": text,
            "intent": intent,
            "intent_data_sensitivity": {"type": "string", "enum": ["public", "internal", "private", "unknown"]},
            "intent_reason": text,
            "dry_run": {"type": "boolean"},
            "idempotency_key": text,
            "approval_id": text
        },
        "required": required
    });
    let description = format!("{purpose} {key} {limit}");
    let marks: &[&str] = match (variant, audience.is_headless) {
        (Variant::Destructive, false) => &[ALWAYS_LOAD, NEEDS_USER],
        (Variant::Destructive, true) | (Variant::Read | Variant::Write, _) => &[ALWAYS_LOAD],
    };
    Tool::new(variant.tool(), description, object(schema)).with_annotations(annotations).with_meta(meta(marks))
}

fn meta(marks: &[&str]) -> MetaObject {
    MetaObject::from(marks.iter().map(|mark| ((*mark).to_owned(), Value::Bool(true))).collect::<Map<String, Value>>())
}

fn object(value: Value) -> Arc<Map<String, Value>> {
    Arc::new(object_map(value))
}

fn object_map(value: Value) -> Map<String, Value> {
    match value {
        Value::Object(map) => map,
        _ => Map::new(),
    }
}

/// Quotes text of an agent in a message of the gateway: shortened, and safe to print.
pub(super) fn quoted(word: &str) -> String {
    Untrusted::shortened(word, 64).for_terminal().into_owned()
}

/// Builds the error for a name that is none of the four tools. `call_tool` existed once.
pub(super) fn no_such_tool(name: &str) -> RpcError {
    RpcError::new(
        INVALID_PARAMS,
        format!(
            "Tool '{}' not found. Use call_tool_read, call_tool_write, or call_tool_destructive with matching \
             intent.operation_type. See retrieve_tools for annotations and recommendations.",
            quoted(name)
        ),
    )
}

/// A search reads about this much for each tool.
const BYTES_PER_TOOL: usize = 16;

/// Runs `retrieve_tools`: searches the tools that this agent may see.
pub(super) fn retrieve(state: &SharedState, agent: &ConnectedAgent, arguments: &str) -> Reply {
    let invalid = |message: String| RpcError::new(INVALID_PARAMS, message);
    let fields = members(arguments).ok_or_else(|| invalid("arguments must be an object".to_owned()))?;
    if let Some((key, _)) = fields.iter().find(|(key, _)| !RETRIEVE_FIELDS.contains(&key.as_ref())) {
        let hint = nearest(key, RETRIEVE_FIELDS).map(|near| format!("; did you mean \"{near}\"?")).unwrap_or_default();
        return Err(invalid(format!("unknown field \"{}\"{hint}", quoted(key))));
    }
    let query =
        field(&fields, "query").and_then(string_value).ok_or_else(|| invalid("query must be a string".to_owned()))?;
    let limit = match field(&fields, "limit") {
        None => LIMIT_DEFAULT,
        Some(text) => text
            .parse()
            .ok()
            .filter(|limit| (1..=LIMIT_MAX).contains(limit))
            .ok_or_else(|| invalid(format!("limit must be an integer from 1 to {LIMIT_MAX}")))?,
    };
    let detail = match field(&fields, "detail") {
        None | Some("\"brief\"") => Detail::Brief,
        Some("\"full\"") => Detail::Full,
        Some(_) => return Err(invalid("detail must be \"brief\" or \"full\"".to_owned())),
    };
    let server = match field(&fields, "server") {
        None => None,
        Some(text) => {
            let name = string_value(text).ok_or_else(|| invalid("server must be a string".to_owned()))?;
            let known = ServerName::parse(&name)
                .ok()
                .filter(|name| agent.identity.scope.sees(name) && state.snapshot.load().offers.contains_key(name));
            match known {
                Some(name) => Some(name),
                None => {
                    return Ok(error_result(
                        "server_not_found",
                        &format!("unknown server '{}'", quoted(&name)),
                        &json!({}),
                        None,
                    ));
                }
            }
        }
    };
    let snapshot = state.snapshot.load();
    let tools: usize = snapshot.offers.values().map(|offers| offers.tools.len()).sum();
    let bytes = if snapshot.index.has_encoder() { usize::MAX } else { tools * BYTES_PER_TOOL };
    let found = offload(bytes, || snapshot.index.find(&query, &agent.identity.scope, server.as_ref(), limit));
    let answer = views::answer(&snapshot.settings, &found, detail, limit);
    Ok(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{answer},\"isError\":false}}",
        mcpproxy_core::json::quote(&answer)
    ))
}
