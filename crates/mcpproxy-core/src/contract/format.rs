//! The JSON Schema of contract files, for editors.

use serde_json::{Value, json};

use super::{CONTRACTS_MAX, fields, keys};

/// JSON Schema, draft 2020-12. It knows the same keys and words as the parser, which has the last word on values.
pub fn schema() -> Value {
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcpproxy tool contracts",
        "description": "A file in the folder `contracts` beside the settings of mcpproxy: one contract, a list of contracts, or an object with a list of `contracts`. In YAML also several documents, with `---` between.",
        "anyOf": [
            { "$ref": "#/$defs/contract" },
            { "type": "array", "maxItems": CONTRACTS_MAX, "items": { "$ref": "#/$defs/contract" } },
            { "$ref": "#/$defs/file" }
        ],
        "$defs": {
            "file": file(),
            "contract": contract(),
            "stepUpAuth": step_up(),
            "idempotency": idempotency(),
            "dryRun": dry_run(),
            "rateLimit": rate_limit(),
            "word": { "type": "string", "pattern": format!("^[A-Za-z0-9_.-]{{1,{}}}$", fields::NAME_MAX_CHARS) },
            "argument": { "type": "string", "minLength": 1, "maxLength": fields::NAME_MAX_CHARS },
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
                "description": "The contracts, in any order. Each tool or pattern has one."
            }
        }
    })
}

fn contract() -> Value {
    let mut properties = fields_about_risk();
    if let (Value::Object(all), Value::Object(rest)) = (&mut properties, fields_about_calls()) {
        all.extend(rest);
    }
    json!({
        "type": "object",
        "description": "What a tool promises and asks for. Your word is final; what you leave out is the stricter of the server's own contract, its annotations and what the risk level asks for.",
        "additionalProperties": false,
        "required": ["tool"],
        "properties": properties,
        "allOf": contradictions()
    })
}

fn fields_about_risk() -> Value {
    json!({
        "$schema": schema_address(),
        "tool": {
            "type": "string",
            "pattern": "^(?!.*__.*:)[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9-])?:(?:[A-Za-z0-9_.-]{1,128}|[A-Za-z0-9_.-]{0,128}\\*)$",
            "description": "The tool this contract is for, as `server:tool`. A `*` at the very end stands for any rest of the name: `mail:*`, `mail:emails.*`. The most specific contract decides each field first."
        },
        "description": {
            "type": "string",
            "maxLength": fields::DESCRIPTION_MAX_CHARS,
            "description": "What the tool does, for whoever confirms a call."
        },
        "category": { "$ref": "#/$defs/word", "description": "A word of your own to sort tools by, such as `communication`. Policies can refer to it." },
        "riskLevel": {
            "enum": words(keys::RISK_LEVELS),
            "description": "How much harm the tool can do. `low`, `medium`: agents call it alone. `high`: a user confirms every call. `critical`: the user also proves who they are (see `stepUpAuth`). `forbidden`: for agents the tool does not exist."
        },
        "operation": {
            "enum": words(keys::OPERATIONS),
            "description": "What the tool does to data, whatever the server's annotations say. Agents call it with `call_tool_read`, `call_tool_write` or `call_tool_destructive`."
        },
        "autonomousExecution": {
            "type": "boolean",
            "description": "Whether an agent may call it without a user. Without it the risk level decides; from `high` on only false is possible."
        },
        "confirmation": {
            "enum": words(keys::CONFIRMATIONS),
            "description": "`required`: a user confirms every call. `none` is not possible from risk level `high` on."
        },
        "stepUpAuth": { "$ref": "#/$defs/stepUpAuth", "description": "Whether whoever confirms must prove again who they are: true, false, or an object with `when`. Level `critical` asks for it by itself." }
    })
}

fn fields_about_calls() -> Value {
    json!({
        "inputSchema": {
            "type": "object",
            "description": "A JSON Schema for the arguments, on top of the server's own. Calls that do not fit are refused before anything is sent."
        },
        "outputSchema": {
            "type": "object",
            "properties": { "strict": { "type": "boolean", "default": false, "description": "true: withhold a result that does not fit, instead of a warning. Not part of the schema itself." } },
            "description": "A JSON Schema for structured results."
        },
        "permissions": {
            "type": "array",
            "maxItems": fields::LIST_MAX,
            "uniqueItems": true,
            "items": { "type": "string", "pattern": format!("^[A-Za-z0-9_.:/-]{{1,{}}}$", fields::NAME_MAX_CHARS) },
            "description": "What an agent must have been granted to call it, such as `emails:send`. Whole names: `*` belongs to grants."
        },
        "sideEffects": {
            "type": "array",
            "maxItems": fields::SIDE_EFFECTS_MAX,
            "uniqueItems": true,
            "items": { "type": "string", "minLength": 1, "maxLength": fields::SIDE_EFFECT_MAX_CHARS },
            "description": "What a call does to the world, in sentences for whoever confirms it."
        },
        "auditEvent": { "$ref": "#/$defs/word", "description": "The name of a call in the activity log, such as `email.external.sent`." },
        "failureModes": {
            "type": "array",
            "maxItems": fields::LIST_MAX,
            "uniqueItems": true,
            "items": { "$ref": "#/$defs/word" },
            "description": "The error codes the tool can answer. Others are recorded as `undeclared_failure`."
        },
        "idempotency": { "$ref": "#/$defs/idempotency", "description": "What happens when a call is repeated: a mode, or an object with `mode`." },
        "dryRun": { "$ref": "#/$defs/dryRun", "description": "Whether a call can, or must, be tried without effect first: a mode, or an object with `mode`." },
        "rateLimit": { "$ref": "#/$defs/rateLimit", "description": "How many calls are allowed in any such span, all agents together." },
        "sensitive": {
            "type": "array",
            "maxItems": fields::LIST_MAX,
            "uniqueItems": true,
            "items": { "type": "string", "maxLength": fields::POINTER_MAX_CHARS, "pattern": "^(?:/(?:[^~/]|~[01])*)*$" },
            "description": "JSON pointers into arguments and results that are masked in the log and in views, such as `/body`; `*` as a whole step stands for any."
        }
    })
}

fn step_up() -> Value {
    json!({
        "type": ["boolean", "object"],
        "additionalProperties": false,
        "required": ["when"],
        "properties": {
            "when": { "type": ["boolean", "object"], "description": "true, false, or a JSON Schema: arguments that match it ask for a fresh proof." }
        }
    })
}

fn idempotency() -> Value {
    json!({
        "anyOf": [
            { "enum": ["none", "key"] },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["mode"],
                "properties": {
                    "mode": { "enum": words(keys::IDEMPOTENCY_MODES), "description": "`none`: a repeated call happens again, unless the agent names it. `natural`: the arguments in `keyFrom` name the result, and a repeat gets the first answer again. `key`: the agent names the call (`idempotency_key`), and the same name does not run twice." },
                    "keyFrom": {
                        "type": "array", "minItems": 1, "maxItems": fields::LIST_MAX, "uniqueItems": true,
                        "items": { "$ref": "#/$defs/argument" },
                        "description": "The arguments that name the result; for mode `natural` only."
                    },
                    "ttl": { "$ref": "#/$defs/duration", "default": "24h", "description": "How long a result is kept for repeats, at most \"30d\"." }
                },
                "allOf": [
                    { "if": { "properties": { "mode": { "const": "natural" } } }, "then": { "required": ["keyFrom"] }, "else": { "properties": { "keyFrom": false } } },
                    { "if": { "properties": { "mode": { "const": "none" } } }, "then": { "properties": { "ttl": false } } }
                ]
            }
        ]
    })
}

fn dry_run() -> Value {
    json!({
        "anyOf": [
            { "enum": words(keys::DRY_RUN_MODES) },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["mode"],
                "properties": {
                    "mode": { "enum": words(keys::DRY_RUN_MODES), "description": "`supported`: agents may try a call first. `required`: a call is refused unless exactly the same call was tried as a dry run in the 10 minutes before." },
                    "parameter": { "$ref": "#/$defs/argument", "description": "The argument by which the server itself is asked for a dry run, such as `dryRun`: with it set to true, the call must change nothing, for nobody is asked about it. Without it, the gateway answers a dry run by itself." }
                },
                "if": { "properties": { "mode": { "const": "none" } } },
                "then": { "properties": { "parameter": false } }
            }
        ]
    })
}

fn rate_limit() -> Value {
    json!({
        "type": "object",
        "additionalProperties": false,
        "required": ["calls", "per"],
        "properties": {
            "calls": { "type": "integer", "minimum": 1, "maximum": fields::CALLS_MAX, "description": "How many calls." },
            "per": { "$ref": "#/$defs/duration", "description": "In what time, from \"1s\" to \"24h\"." }
        }
    })
}

/// The contradictions that an editor can show.
fn contradictions() -> Value {
    let level =
        |levels: &[&str]| json!({ "required": ["riskLevel"], "properties": { "riskLevel": { "enum": levels } } });
    json!([
        { "if": level(&["high", "critical", "forbidden"]), "then": { "properties": { "autonomousExecution": { "const": false } } } },
        { "if": level(&["high", "critical"]), "then": { "properties": { "confirmation": { "const": "required" } } } },
        {
            "if": level(&["forbidden"]),
            "then": { "properties": { "confirmation": false, "stepUpAuth": false, "dryRun": false, "idempotency": false, "rateLimit": false } }
        },
        {
            "if": { "required": ["autonomousExecution"], "properties": { "autonomousExecution": { "const": false } } },
            "then": { "properties": { "confirmation": { "const": "required" } } }
        }
    ])
}

fn schema_address() -> Value {
    json!({ "type": "string", "description": "The address of this schema, for editors; otherwise ignored." })
}

fn words<T>(choices: &'static [(&'static str, T)]) -> Vec<&'static str> {
    keys::words(choices).collect()
}
