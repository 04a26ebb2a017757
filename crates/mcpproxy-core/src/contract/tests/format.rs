//! Tests that the published JSON Schema and the parser agree.

use serde_json::{Value, json};

use super::bad::mistakes;
use crate::contract::schema;
use crate::contract::values::{condition, dry_run, idempotency, rate_limit};
use crate::contract::{fields, files};
use crate::file::Keys;

/// The position of an object in the schema, its keys, and a function that writes a file with given fields in it.
type ObjectOfFile = (&'static str, &'static Keys, fn(&str) -> String);

fn objects() -> [ObjectOfFile; 7] {
    [
        ("/$defs/file", &files::KEYS, |field| format!("{{{field}}}")),
        ("/$defs/contract", &fields::KEYS, |field| format!(r#"{{"tool": "a:b", {field}}}"#)),
        ("/$defs/confirmation/anyOf/1", &condition::KEYS, |field| {
            format!(r#"{{"tool": "a:b", "confirmation": {{{field}}}}}"#)
        }),
        ("/$defs/stepUpAuth", &condition::KEYS, |field| format!(r#"{{"tool": "a:b", "stepUpAuth": {{{field}}}}}"#)),
        ("/$defs/idempotency/anyOf/1", &idempotency::KEYS, |field| {
            format!(r#"{{"tool": "a:b", "idempotency": {{"mode": "key", {field}}}}}"#)
        }),
        ("/$defs/dryRun/anyOf/1", &dry_run::KEYS, |field| {
            format!(r#"{{"tool": "a:b", "dryRun": {{"mode": "required", {field}}}}}"#)
        }),
        ("/$defs/rateLimit", &rate_limit::KEYS, |field| format!(r#"{{"tool": "a:b", "rateLimit": {{{field}}}}}"#)),
    ]
}

#[test]
fn both_know_the_same_keys() {
    let schema = schema();
    for (pointer, keys, write) in objects() {
        let object = schema.pointer(pointer).unwrap();
        let in_schema: Vec<&String> = object["properties"].as_object().unwrap().keys().collect();
        assert_eq!(in_schema, keys.known, "{pointer}");
        assert_eq!(object["additionalProperties"], false, "{pointer}");
        for key in keys.known {
            assert!(object["properties"][key]["description"].is_string(), "{key}");
            // No key takes a list of lists, so every key that is read reports a mistake.
            let text = write(&format!(r#""{key}": [[]]"#)).replacen(r#""tool": "a:b", "tool""#, r#""tool""#, 1);
            let text = if *key == "mode" {
                text.replacen(r#""mode": "key", "#, "", 1).replacen(r#""mode": "required", "#, "", 1)
            } else {
                text
            };
            let found = mistakes("c.json", &text);
            assert!(
                found.iter().any(|mistake| mistake.contains("expected") && mistake.contains("found array")),
                "{text}: {found:?}"
            );
        }
    }
}

#[test]
fn both_know_the_same_words() {
    let schema = schema();
    let mut count = 0;
    for (pointer, _, write) in objects() {
        for (key, property) in schema.pointer(pointer).unwrap()["properties"].as_object().unwrap() {
            for word in property["enum"].as_array().into_iter().flatten() {
                let field = format!(r#""{key}": {word}, "keyFrom": ["a"]"#);
                let text =
                    write(&field).replacen(r#""mode": "key", "#, "", 1).replacen(r#""mode": "required", "#, "", 1);
                let found = mistakes("c.json", &text);
                assert!(!found.iter().any(|mistake| mistake.contains("unknown value")), "{text}: {found:?}");
                count += 1;
            }
        }
    }
    assert_eq!(count, 5 + 3 + 3 + 3);
}

/// Checks the fields of one contract. `fields` are the members beside `tool`.
fn check(validator: &jsonschema::Validator, fields: &str, is_right: bool) {
    let comma = if fields.is_empty() { "" } else { "," };
    check_file(validator, &format!(r#"{{"tool": "mail:send"{comma} {fields}}}"#), is_right);
}

fn check_file(validator: &jsonschema::Validator, text: &str, is_right: bool) {
    let value: Value = serde_json::from_str(text).unwrap();
    let found = mistakes("c.json", text);
    assert_eq!(found.is_empty(), is_right, "parser: {text}: {found:?}");
    assert_eq!(validator.is_valid(&value), is_right, "schema: {text}");
}

const RIGHT: &[&str] = &[
    "",
    r#""$schema": "./contract.schema.json", "description": "", "category": "a.b-c_D""#,
    r#""riskLevel": "forbidden", "autonomousExecution": false, "permissions": ["a:b/c"]"#,
    r#""riskLevel": "high", "confirmation": "required", "stepUpAuth": true"#,
    r#""stepUpAuth": {"when": {"required": ["a"]}}, "inputSchema": {}, "outputSchema": {"strict": true}"#,
    r#""sideEffects": ["a"], "failureModes": [], "sensitive": ["", "/a/*/~0~1"]"#,
    r#""idempotency": "key""#,
    r#""idempotency": {"mode": "natural", "keyFrom": ["a"], "ttl": "30d"}"#,
    r#""idempotency": {"mode": "natural", "keyFrom": ["a"], "validUntil": "/a*/b~1c"}"#,
    r#""dryRun": "supported""#,
    r#""dryRun": {"mode": "required", "parameter": "p"}, "rateLimit": {"calls": 1, "per": "1m"}"#,
    r#""autonomousExecution": true, "confirmation": "required""#,
    r#""riskLevel": "medium", "confirmation": {"when": {"required": ["to"]}}"#,
    r#""confirmation": {"when": true}"#,
];

const WRONG: &[&str] = &[
    r#""risk_level": "low""#,
    r#""riskLevel": "High""#,
    r#""operation": "delete""#,
    r#""confirmation": true"#,
    r#""autonomousExecution": "true""#,
    r#""riskLevel": "high", "autonomousExecution": true"#,
    r#""riskLevel": "critical", "autonomousExecution": true"#,
    r#""riskLevel": "forbidden", "autonomousExecution": true"#,
    r#""riskLevel": "high", "confirmation": "none""#,
    r#""riskLevel": "high", "confirmation": {"when": {"required": ["to"]}}"#,
    r#""autonomousExecution": false, "confirmation": {"when": {"required": ["to"]}}"#,
    r#""confirmation": {"when": "to"}"#,
    r#""riskLevel": "critical", "confirmation": "none""#,
    r#""riskLevel": "forbidden", "confirmation": "required""#,
    r#""riskLevel": "forbidden", "stepUpAuth": true"#,
    r#""riskLevel": "forbidden", "idempotency": "none""#,
    r#""riskLevel": "forbidden", "dryRun": "none""#,
    r#""riskLevel": "forbidden", "rateLimit": {"calls": 1, "per": "1m"}"#,
    r#""confirmation": "none", "autonomousExecution": false"#,
    r#""category": "a b""#,
    r#""auditEvent": "a\n""#,
    r#""permissions": ["files:*"]"#,
    r#""permissions": ["a", "a"]"#,
    r#""sideEffects": [""]"#,
    r#""sensitive": ["body"]"#,
    r#""sensitive": ["/a~2"]"#,
    r#""inputSchema": true"#,
    r#""outputSchema": {"strict": 1}"#,
    r#""stepUpAuth": {}"#,
    r#""stepUpAuth": "often""#,
    r#""idempotency": "natural""#,
    r#""idempotency": {"mode": "natural"}"#,
    r#""idempotency": {"mode": "natural", "keyFrom": []}"#,
    r#""idempotency": {"mode": "natural", "keyFrom": ["a"], "validUntil": ""}"#,
    r#""idempotency": {"mode": "natural", "keyFrom": ["a"], "validUntil": "/a/*"}"#,
    r#""idempotency": {"mode": "natural", "keyFrom": ["a"], "validUntil": "a"}"#,
    r#""idempotency": {"mode": "key", "validUntil": "/a"}"#,
    r#""idempotency": {"mode": "key", "keyFrom": ["a"]}"#,
    r#""idempotency": {"mode": "none", "ttl": "1h"}"#,
    r#""idempotency": {"mode": "key", "ttl": 60}"#,
    r#""dryRun": true"#,
    r#""dryRun": {"mode": "none", "parameter": "p"}"#,
    r#""dryRun": {"parameter": "p"}"#,
    r#""rateLimit": {"calls": 0, "per": "1m"}"#,
    r#""rateLimit": {"calls": 1}"#,
    r#""rateLimit": {"calls": 1, "per": "soon"}"#,
    r#""failureModes": null"#,
];

#[test]
fn both_take_and_refuse_the_same() {
    let validator = jsonschema::validator_for(&schema()).unwrap();
    for fields in RIGHT {
        check(&validator, fields, true);
    }
    for fields in WRONG {
        check(&validator, fields, false);
    }
    for tool in ["a:b", "a:*", "a-b_c:d.e*"] {
        check_file(&validator, &json!({ "tool": tool }).to_string(), true);
    }
    for tool in ["a", "*", "A:b", "a__b:c", "a_:c", "a:*b", "a:b:c", "a:b c", "a:", ":b", "a:**", "*:b"] {
        check_file(&validator, &json!({ "tool": tool }).to_string(), false);
    }
    for file in
        ["[]", r#"[{"tool": "a:b"}]"#, r#"{"contracts": []}"#, r#"{"$schema": "x", "contracts": [{"tool": "a:b"}]}"#]
    {
        check_file(&validator, file, true);
    }
    for file in
        ["5", "{}", r#"{"riskLevel": "low"}"#, "[1]", r#"{"contracts": {}}"#, r#"{"contracts": [], "tool": "a:b"}"#]
    {
        check_file(&validator, file, false);
    }
}

#[test]
fn it_is_a_schema() {
    assert!(jsonschema::meta::is_valid(&schema()));
}
