//! `dryRun`: says if agents can, or must, make a dry run first.

use serde_json::{Value, json};

use super::argument;
use crate::contract::DryRun;
use crate::file::{Keys, Node, NodeValue, Reader, words};

pub(in crate::contract) const KEYS: Keys = Keys {
    known: &["mode", "parameter"],
    advice: &[("argument", "did you mean `parameter`?"), ("param", "did you mean `parameter`?")],
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum DryRunMode {
    None,
    Supported,
    Required,
}

const MODES: [(&str, DryRunMode); 3] =
    [("none", DryRunMode::None), ("supported", DryRunMode::Supported), ("required", DryRunMode::Required)];

pub(in crate::contract) fn read(reader: &mut Reader<'_>, node: &Node) -> Option<DryRun> {
    let (mode, fields) = if matches!(node.value, NodeValue::Text(_)) {
        (reader.choice(node, &MODES)?, None)
    } else if !matches!(node.value, NodeValue::Object(_)) {
        return reader.wrong_type(node, "`none`, `supported`, `required` or object with `mode`");
    } else {
        let fields = reader.fields(node, &KEYS)?;
        let mode = reader.required(node, &fields, "mode", "one of `none`, `supported`, `required`")?;
        (reader.choice(mode, &MODES)?, Some(fields))
    };
    let written = fields.and_then(|fields| fields.find("parameter"));
    if let (DryRunMode::None, Some(field)) = (mode, written) {
        return reader.mistake(field.position, "`parameter` has no effect with mode `none`; remove it");
    }
    let parameter = match written {
        Some(field) => Some(reader.parsed(&field.node, argument)?),
        None => None,
    };
    Some(match mode {
        DryRunMode::None => DryRun::None,
        DryRunMode::Supported => DryRun::Supported { parameter },
        DryRunMode::Required => DryRun::Required { parameter },
    })
}

pub(in crate::contract) fn to_json(dry_run: &DryRun) -> Value {
    let of_mode = |mode: &str, parameter: &Option<String>| match parameter {
        Some(parameter) => json!({"mode": mode, "parameter": parameter}),
        None => json!({"mode": mode}),
    };
    match dry_run {
        DryRun::None => of_mode("none", &None),
        DryRun::Supported { parameter } => of_mode("supported", parameter),
        DryRun::Required { parameter } => of_mode("required", parameter),
    }
}

pub(in crate::contract) fn schema() -> Value {
    let modes = || words(&MODES).collect::<Vec<_>>();
    json!({
        "anyOf": [
            { "enum": modes() },
            {
                "type": "object",
                "additionalProperties": false,
                "required": ["mode"],
                "properties": {
                    "mode": { "enum": modes(), "description": "`supported`: agents may make a dry run first. `required`: the gateway refuses a call without a dry run of exactly the same call in the 10 minutes before." },
                    "parameter": { "$ref": "#/$defs/argument", "description": "The argument that makes the server do a dry run, such as `dryRun`. If it is true, the call must change nothing, because no user approves it. If no argument is named, the gateway answers dry runs itself." }
                },
                "if": { "properties": { "mode": { "const": "none" } } },
                "then": { "properties": { "parameter": false } }
            }
        ]
    })
}
