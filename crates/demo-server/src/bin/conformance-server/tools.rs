//! The list of fixture tools with their input schemas.

use std::sync::Arc;

use rmcp::model::{JsonObject, Tool, ToolAnnotations};
use serde_json::{Value, json};

/// Returns all tools in a fixed order. `extra` adds the tool that appears and disappears.
pub(crate) fn all(extra: bool) -> Vec<Tool> {
    let mut tools: Vec<Tool> = WITHOUT_ARGUMENTS
        .iter()
        .map(|(name, description)| tool(name, description, json!({ "type": "object", "properties": {} })))
        .collect();
    tools.push(tool("test_sampling", "Asks the client's model.", one_text("prompt", "What to ask the model")));
    tools.push(tool(
        "test_elicitation",
        "Asks the user for a name and an address.",
        one_text("message", "The question"),
    ));
    tools.push(tool("test_header_argument", "Takes an argument that is also sent as a header.", header_argument()));
    tools.push(tool("json_schema_2020_12_tool", "Has an input schema with many keywords.", many_keywords()));
    if extra {
        let nothing = json!({ "type": "object", "properties": {} });
        tools.push(tool("test_extra_tool", "Is listed only after an odd number of changes.", nothing));
    }
    tools
}

/// The first tool. It must succeed without arguments, because the header checks of the suite call the first tool.
const WITHOUT_ARGUMENTS: &[(&str, &str)] = &[
    ("test_simple_text", "Returns a text."),
    ("test_image_content", "Returns an image."),
    ("test_audio_content", "Returns a sound."),
    ("test_embedded_resource", "Returns an embedded resource."),
    ("test_multiple_content_types", "Returns a text, an image and a resource."),
    ("test_error_handling", "Always fails."),
    ("test_tool_with_logging", "Logs three messages while it runs."),
    ("test_logging_tool", "Logs three messages to a client that asked for them."),
    ("test_tool_with_progress", "Reports progress three times."),
    ("test_reconnection", "Ends its event stream before it answers."),
    ("test_elicitation_sep1034_defaults", "Asks with a default for every kind of field."),
    ("test_elicitation_sep1330_enums", "Asks with every kind of choice."),
    ("test_streaming_elicitation", "Asks the user in the way the protocol revision allows."),
    ("test_missing_capability", "Needs a client that can sample."),
    ("test_trigger_tool_change", "Changes the list of tools."),
    ("test_trigger_prompt_change", "Changes the list of prompts."),
    ("test_input_required_result_elicitation", "Needs a name from the user."),
    ("test_input_required_result_sampling", "Needs an answer from the client's model."),
    ("test_input_required_result_list_roots", "Needs the client's roots."),
    ("test_input_required_result_request_state", "Needs a confirmation and its own state back."),
    ("test_input_required_result_multiple_inputs", "Needs three things at once."),
    ("test_input_required_result_multi_round", "Needs two answers, one after the other."),
    ("test_input_required_result_tampered_state", "Needs its own state back, unchanged."),
    ("test_input_required_result_capabilities", "Needs whatever the client can provide."),
];

fn tool(name: &'static str, description: &'static str, schema: Value) -> Tool {
    let schema: JsonObject = schema.as_object().cloned().unwrap_or_default();
    Tool::new(name, description, Arc::new(schema))
        .with_annotations(ToolAnnotations::new().read_only(true).destructive(false).open_world(false))
}

fn one_text(name: &str, description: &str) -> Value {
    json!({
        "type": "object",
        "properties": { name: { "type": "string", "description": description } },
        "required": [name],
    })
}

fn header_argument() -> Value {
    json!({
        "type": "object",
        "properties": { "region": { "type": "string", "x-mcp-header": "Region" } },
        "required": ["region"],
    })
}

fn many_keywords() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "type": "object",
        "$defs": {
            "address": {
                "$anchor": "addressDef",
                "type": "object",
                "properties": { "street": { "type": "string" }, "city": { "type": "string" } },
            },
        },
        "properties": {
            "name": { "type": "string" },
            "address": { "$ref": "#/$defs/address" },
            "contactMethod": { "type": "string", "enum": ["phone", "email"] },
            "phone": { "type": "string" },
            "email": { "type": "string" },
        },
        "allOf": [{ "anyOf": [{ "required": ["phone"] }, { "required": ["email"] }] }],
        "if": { "properties": { "contactMethod": { "const": "phone" } }, "required": ["contactMethod"] },
        "then": { "required": ["phone"] },
        "else": { "required": ["email"] },
        "additionalProperties": false,
    })
}
