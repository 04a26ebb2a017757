//! Contracts as agents see them: as resources, and in the annotations of tools.

use mcpproxy_core::contract::{Idempotency, META_KEY};
use mcpproxy_core::decision::needs_contract;
use mcpproxy_core::json::{members, quote};
use mcpproxy_core::settings::ContractSettings;
use mcpproxy_core::{Catalog, Scope, ServerName, Tool, ToolName, Variant};
use serde_json::json;

use crate::message::{self, object};

const SCHEME: &str = "contract://";
const MIME_TYPE: &str = "application/json";

/// Describes the URIs of contracts.
pub(crate) fn template() -> String {
    json!({
        "uriTemplate": "contract://{server}/{tool}",
        "name": "Tool contract",
        "description": "The effects, requirements and errors of a tool. Read it before you call the tool.",
        "mimeType": MIME_TYPE,
    })
    .to_string()
}

/// Lists the written contracts of tools that the agent may see.
pub(crate) fn resources(catalog: &Catalog, scope: &Scope, shows: impl Fn(&ServerName) -> bool) -> Vec<String> {
    let written = catalog.visible(scope).filter(|tool| tool.contract.is_written && shows(tool.name.server()));
    written
        .map(|tool| {
            json!({
                "uri": uri(&tool.name),
                "name": format!("Contract of {}", tool.name),
                "mimeType": MIME_TYPE,
            })
            .to_string()
        })
        .collect()
}

/// Reads the tool from a contract URI. Returns `None` for another URI.
pub(crate) fn tool_of(address: &str) -> Option<Option<ToolName>> {
    let rest = address.strip_prefix(SCHEME)?;
    Some(rest.split_once('/').and_then(|(server, tool)| ToolName::of(&ServerName::parse(server).ok()?, tool).ok()))
}

/// Builds the answer to `resources/read`: the effective contract, with the schemas that count.
pub(crate) fn read(tool: &Tool) -> String {
    let mut contract = tool_contract(tool);
    if let Some(fields) = contract.as_object_mut() {
        let schemas = [("inputSchema", tool.whole_input_schema()), ("outputSchema", tool.whole_output_schema())];
        fields.extend(schemas.into_iter().filter_map(|(name, schema)| Some((name.to_owned(), schema?))));
    }
    let text = contract.to_string();
    json!({"contents": [{"uri": uri(&tool.name), "mimeType": MIME_TYPE, "text": text}]}).to_string()
}

/// Returns the effective contract, with the tool's name.
pub(crate) fn tool_contract(tool: &Tool) -> serde_json::Value {
    let mut contract = tool.contract.to_json();
    if let Some(fields) = contract.as_object_mut() {
        fields.shift_insert(0, "tool".to_owned(), tool.name.to_string().into());
    }
    contract
}

fn uri(name: &ToolName) -> String {
    format!("{SCHEME}{}/{}", name.server(), name.tool())
}

/// Returns the server's JSON of a tool, with the effective annotations and contract.
pub(crate) fn listed(tool: &Tool) -> String {
    let json = &tool.offered.json;
    let annotations = annotations(tool);
    if !tool.contract.is_written {
        return match tool.offered.field("annotations") {
            Some(own) if own != annotations => message::with_members(json, &[("annotations", &annotations)]),
            Some(_) | None => json.clone(),
        };
    }
    let meta = tool.offered.field("_meta").unwrap_or("{}");
    let contract = tool.contract.to_json().to_string();
    let meta = message::with_members(meta, &[(META_KEY, &contract)]);
    message::with_members(json, &[("annotations", &annotations), ("_meta", &meta)])
}

/// Returns the annotations of a tool. The contract overrides the server's hints, because clients decide by them whether
/// to prompt.
pub(crate) fn annotations(tool: &Tool) -> String {
    let own = tool.offered.field("annotations").unwrap_or("{}");
    // A server that claims both is treated as destructive, and clients should do the same.
    if !tool.contract.is_written && !claims_both(tool) {
        return own.to_owned();
    }
    let mut set = Vec::new();
    if let Some(operation) = tool.contract.operation.as_ref() {
        let truth = |is_so: bool| if is_so { "true" } else { "false" };
        set.push(("readOnlyHint", truth(operation.value == Variant::Read)));
        set.push(("destructiveHint", truth(operation.value == Variant::Destructive)));
    }
    if matches!(tool.contract.idempotency.value, Idempotency::Natural { .. }) {
        set.push(("idempotentHint", "true"));
    }
    match members(own) {
        Some(_) => message::with_members(own, &set),
        None => object(set),
    }
}

/// Returns true if the server says that the tool only reads, and that it is destructive.
fn claims_both(tool: &Tool) -> bool {
    tool.hints.read_only == Some(true) && tool.hints.destructive == Some(true)
}

/// Returns the annotations that stand beside `call_with`. There a server that claims both hints is shown as it is,
/// because `call_with` says how the gateway reads them. Only an `operation` in a contract replaces its claims.
pub(crate) fn shown_annotations(tool: &Tool) -> String {
    let is_claim = claims_both(tool) && tool.contract.written_operation.is_none();
    if tool.contract.is_written && !is_claim {
        return annotations(tool);
    }
    tool.offered.field("annotations").unwrap_or("{}").to_owned()
}

/// Lists what a call needs, and `contract` if no call is possible without one from the operator.
pub(crate) fn needs_of(settings: ContractSettings, tool: &Tool) -> String {
    if needs_contract(settings, tool) { "[\"contract\"]".to_owned() } else { needs(tool) }
}

/// Lists what a call needs, such as a confirmation, as JSON.
pub(crate) fn needs(tool: &Tool) -> String {
    let needs: Vec<String> = tool.contract.needs().into_iter().map(|need| quote(need.as_str())).collect();
    format!("[{}]", needs.join(","))
}
