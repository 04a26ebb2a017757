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
use crate::state::SharedState;
use crate::views::{self, Detail};

pub(super) const RETRIEVE: &str = "retrieve_tools";
const LIMIT_DEFAULT: usize = 5;
const LIMIT_MAX: usize = 50;
const RETRIEVE_FIELDS: [&str; 4] = ["query", "limit", "server", "detail"];

/// Returns the list of tools as raw JSON. It depends only on whether the second key is required.
pub(super) fn tools(two_key: TwoKey) -> &'static str {
    static OPTIONAL: LazyLock<String> = LazyLock::new(|| list(TwoKey::Optional));
    static REQUIRED: LazyLock<String> = LazyLock::new(|| list(TwoKey::Required));
    match two_key {
        TwoKey::Optional => &OPTIONAL,
        TwoKey::Required => &REQUIRED,
    }
}

fn list(two_key: TwoKey) -> String {
    let calls = Variant::ALL.map(|variant| call_tool(variant, two_key));
    let tools: Vec<Tool> = std::iter::once(retrieve_tool()).chain(calls).collect();
    serde_json::to_string(&tools).unwrap_or_else(|_| "[]".to_owned())
}

pub(super) fn instructions(endpoint_mode: &EndpointMode) -> &'static str {
    match endpoint_mode {
        EndpointMode::Four => {
            "Find tools of all connected servers with retrieve_tools, then call one with the variant its call_with \
             names: call_tool_read, call_tool_write or call_tool_destructive. A refusal says what to do instead."
        }
        EndpointMode::Server(_) | EndpointMode::Direct => {
            "Tools of the servers behind this gateway, under their own names. Each call is checked and recorded."
        }
    }
}

fn retrieve_tool() -> Tool {
    let description = "Search for tools across all upstream servers. Results include annotations (readOnlyHint, \
        destructiveHint) and recommended call_with variant. Use call_tool_read for read-only operations, \
        call_tool_write for modifications, call_tool_destructive for deletions. Intent, if declared, must match tool variant.";
    let schema = json!({
        "type": "object",
        "properties": {
            "query": {"type": "string", "description": "What the tool should do, in a few words"},
            "limit": {"type": "integer", "minimum": 1, "maximum": LIMIT_MAX, "default": LIMIT_DEFAULT},
            "server": {"type": "string", "description": "Only tools of this server"},
            "detail": {
                "type": "string",
                "enum": ["brief", "full"],
                "default": "brief",
                "description": "brief shortens descriptions and schemas; full has the server's own words and each tool's whole contract"
            }
        },
        "required": ["query"],
        "additionalProperties": false
    });
    let annotations = ToolAnnotations::new().read_only(true).open_world(false);
    Tool::new(RETRIEVE, description, object(schema)).with_annotations(annotations)
}

fn call_tool(variant: Variant, two_key: TwoKey) -> Tool {
    let (purpose, limit, annotations) = match variant {
        Variant::Read => (
            "Execute a read-only tool discovered via retrieve_tools. Use for operations that query data without modifying state.",
            "Will be rejected if server marks tool as destructive.",
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
    let (key, required) = match two_key {
        TwoKey::Optional => (format!("An intent.operation_type, if given, must be '{variant}'."), json!(["name"])),
        TwoKey::Required => (format!("Requires intent.operation_type='{variant}'."), json!(["name", "intent"])),
    };
    let schema = json!({
        "type": "object",
        "properties": {
            "name": {"type": "string", "description": "server:tool, as retrieve_tools gives it"},
            "args_json": {"type": "string", "description": "The tool's arguments as JSON text"},
            "args": {"type": "object", "description": "The same as an object; give one of the two"},
            "intent_operation_type": {"type": "string", "enum": [variant.operation()]},
            "intent_data_sensitivity": {"type": "string", "enum": ["public", "internal", "private", "unknown"]},
            "intent_reason": {"type": "string", "maxLength": 1000, "description": "Why, for the activity log"},
            "intent": {
                "type": "object",
                "description": "operation_type, and again data_sensitivity and reason",
                "properties": {"operation_type": {"type": "string", "enum": [variant.operation()]}}
            },
            "dry_run": {"type": "boolean", "description": "Only show what would happen; nothing is changed"},
            "idempotency_key": {
                "type": "string",
                "minLength": 1,
                "maxLength": 255,
                "description": "A name of your own for this call: a repeat with the same name gets the first answer and is not sent again"
            },
            "approval_id": {"type": "string", "description": "From confirmation_required, once a person has approved"}
        },
        "required": required,
        "additionalProperties": false
    });
    let description = format!("{purpose} {key} {limit}");
    let tool = Tool::new(variant.tool(), description, object(schema)).with_annotations(annotations);
    match variant {
        // Clients that know this key prompt every time, even if the user allowed the tool.
        Variant::Destructive => {
            tool.with_meta(MetaObject::from(object_map(json!({"anthropic/requiresUserInteraction": true}))))
        }
        Variant::Read | Variant::Write => tool,
    }
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
    let found = snapshot.index.find(&query, &agent.identity.scope, server.as_ref(), limit);
    let answer = views::answer(&found, detail, limit);
    Ok(format!(
        "{{\"content\":[{{\"type\":\"text\",\"text\":{}}}],\"structuredContent\":{answer},\"isError\":false}}",
        mcpproxy_core::json::quote(&answer)
    ))
}
