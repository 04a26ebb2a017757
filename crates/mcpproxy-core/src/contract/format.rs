//! The JSON Schema of contract files, for editors.

use serde_json::{Map, Value, json};

use super::values::{self, confirmation, dry_run, idempotency, rate_limit, step_up};
use super::{CONTRACTS_MAX, fields};

/// Returns the JSON Schema (draft 2020-12) of contract files. It accepts the same keys and words as the parser, which
/// checks values more strictly.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcpproxy tool contracts",
        "description": "A file in the folder `contracts` next to the settings of mcpproxy: one contract, a list of contracts, or an object with a list of `contracts`. A YAML file can also have several documents, with `---` between them.",
        "anyOf": [
            { "$ref": "#/$defs/contract" },
            { "type": "array", "maxItems": CONTRACTS_MAX, "items": { "$ref": "#/$defs/contract" } },
            { "$ref": "#/$defs/file" }
        ],
        "$defs": {
            "file": file(),
            "contract": contract(),
            "confirmation": confirmation::schema(),
            "stepUpAuth": step_up::schema(),
            "idempotency": idempotency::schema(),
            "dryRun": dry_run::schema(),
            "rateLimit": rate_limit::schema(),
            "word": values::word_schema(),
            "argument": values::argument_schema(),
            "duration": { "type": "string", "pattern": "^[0-9]+ *(?:ms|s|m|h|d)$" }
        }
    })
}

fn file() -> Value {
    json!({
        "type": "object",
        "description": "Many contracts in one file.",
        "additionalProperties": false,
        "required": ["contracts"],
        "properties": {
            "$schema": schema_address(),
            "contracts": {
                "type": "array",
                "maxItems": CONTRACTS_MAX,
                "items": { "$ref": "#/$defs/contract" },
                "description": "The contracts, in any order. Each tool or pattern has at most one."
            }
        }
    })
}

fn contract() -> Value {
    let mut properties = Map::from_iter([("$schema".to_owned(), schema_address()), ("tool".to_owned(), tool())]);
    properties.extend(fields::properties());
    json!({
        "type": "object",
        "description": "The effects of a tool and the requirements for a call to it. Your contract takes precedence. For a field that you leave out, the stricter of the server's own contract, its annotations and the risk level applies.",
        "additionalProperties": false,
        "required": ["tool"],
        "properties": properties,
        "allOf": contradictions()
    })
}

fn tool() -> Value {
    json!({
        "type": "string",
        "pattern": "^(?!.*__.*:)[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9-])?:(?:[A-Za-z0-9_.-]{1,128}|[A-Za-z0-9_.-]{0,128}\\*)$",
        "description": "The tool that this contract is for, as `server:tool`. A `*` at the end matches the rest of the name: `mail:*`, `mail:emails.*`. For each field, the most specific contract that sets it applies."
    })
}

/// Returns the contradictions that an editor can show.
fn contradictions() -> Value {
    let level =
        |levels: &[&str]| json!({ "required": ["riskLevel"], "properties": { "riskLevel": { "enum": levels } } });
    let never_called = fields::FIELDS.iter().filter(|field| field.calls_only);
    let never_called: Map<String, Value> = never_called.map(|field| (field.key.to_owned(), false.into())).collect();
    json!([
        { "if": level(&["high", "critical", "forbidden"]), "then": { "properties": { "autonomousExecution": { "const": false } } } },
        { "if": level(&["high", "critical"]), "then": { "properties": { "confirmation": { "const": "required" } } } },
        {
            "if": level(&["forbidden"]),
            "then": { "properties": never_called }
        },
        {
            "if": { "required": ["autonomousExecution"], "properties": { "autonomousExecution": { "const": false } } },
            "then": { "properties": { "confirmation": { "const": "required" } } }
        }
    ])
}

fn schema_address() -> Value {
    json!({ "type": "string", "description": "The URL of this schema, for editors. The gateway ignores it." })
}
