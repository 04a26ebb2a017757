//! Tests for contracts that servers send with their tools.

use std::time::{Duration, Instant};

use serde_json::{Value, json};

use crate::contract::{Confirmation, Contract, Contracts, DryRun, Idempotency, RateLimit, StepUp, Written};
use crate::json::ExactValue;
use crate::schema::{Problem, Schema};
use crate::{RiskLevel, Variant};

/// Contracts of the demo server, as in its `tools/list`.
const DEMO: [&str; 4] = [LIST_PROJECTS, CREATE_DOWNLOAD_LINK, SEND_EXTERNAL, READ_PRIVATE_KEY];

const LIST_PROJECTS: &str = r#"{
    "description": "Lists all projects with their tasks and notes.", "category": "projects", "riskLevel": "low",
    "operation": "read", "autonomousExecution": true, "confirmation": "none", "stepUpAuth": { "when": false },
    "permissions": ["projects:read"], "sideEffects": [], "auditEvent": "project.listed",
    "failureModes": ["permission_denied", "invalid_arguments"], "idempotency": { "mode": "none" },
    "dryRun": { "mode": "none" }
}"#;

const CREATE_DOWNLOAD_LINK: &str = r#"{
    "description": "Creates a link by which a file can be downloaded until a given time.", "category": "files",
    "riskLevel": "medium", "operation": "write", "autonomousExecution": true, "confirmation": "none",
    "stepUpAuth": { "when": false }, "permissions": ["files:read", "files:link"],
    "sideEffects": ["A download link is created.", "Repeating the call returns the same link while it is valid."],
    "auditEvent": "file.link.created",
    "failureModes": ["permission_denied", "invalid_arguments", "not_found", "invalid_time", "policy_violation"],
    "idempotency": { "mode": "natural", "keyFrom": ["fileId", "expiresAt"] }, "dryRun": { "mode": "none" }
}"#;

const SEND_EXTERNAL: &str = r#"{
    "description": "Sends an external email to one or more recipients.", "category": "communication",
    "riskLevel": "critical", "operation": "destructive", "autonomousExecution": false, "confirmation": "required",
    "stepUpAuth": { "when": { "anyOf": [{ "properties": { "to": { "minItems": 11 } } }, { "required": ["attachments"] }] } },
    "permissions": ["emails:send", "contacts:read", "files:read"], "sideEffects": ["External communication is sent."],
    "auditEvent": "email.external.sent",
    "failureModes": ["permission_denied", "confirmation_required", "idempotency_conflict", "invalid_arguments",
        "invalid_recipient", "attachment_too_large", "rate_limit_exceeded", "policy_violation", "not_found"],
    "idempotency": { "mode": "key", "ttl": "24h" }, "dryRun": { "mode": "required", "parameter": "dryRun" },
    "rateLimit": { "calls": 30, "per": "1m" }, "sensitive": ["/body", "/to"]
}"#;

const READ_PRIVATE_KEY: &str = r#"{
    "description": "Returns a private key.", "category": "security", "riskLevel": "forbidden", "operation": "read",
    "autonomousExecution": false, "confirmation": "required", "stepUpAuth": { "when": true },
    "permissions": ["keys:read"], "sideEffects": ["Everyone who reads the answer knows the key."],
    "auditEvent": "key.read",
    "failureModes": ["permission_denied", "confirmation_required", "invalid_arguments", "not_found"],
    "idempotency": { "mode": "none" }, "dryRun": { "mode": "none" }
}"#;

fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 0, column: 0 })
}

#[test]
fn the_demo_server() {
    let risks = DEMO.map(|text| Contract::of_server(text).unwrap_or_else(|error| panic!("{error}: {text}")).risk);
    let levels = [RiskLevel::Low, RiskLevel::Medium, RiskLevel::Critical, RiskLevel::Forbidden];
    assert_eq!(risks, levels.map(written));
    let mail = Contract::of_server(SEND_EXTERNAL).unwrap();
    assert_eq!(mail.file, None);
    assert!(matches!(mail.step_up, Some(Written { value: StepUp::When(_), line: 0, .. })));
    assert_eq!(mail.dry_run, written(DryRun::Required { parameter: Some("dryRun".to_owned()) }));
    assert!(matches!(mail.idempotency, Some(Written { value: Idempotency::Key { .. }, .. })));
    assert!(matches!(mail.rate_limit, Some(Written { value: RateLimit { calls: 30, .. }, .. })));
}

#[test]
fn what_is_left_alone() {
    let check = |text: &str, expected: Contract| assert_eq!(Contract::of_server(text), Ok(expected), "{text}");
    let low = Contract { risk: written(RiskLevel::Low), ..Contract::default() };
    check("{}", Contract::default());
    check(r#"{"tool": 5, "riskLevel": "low", "x-new": {"a": [1]}}"#, low.clone());
    check(r#"{"riskLevel": "low", "rateLimit": null, "permissions": null}"#, low);
    check(
        r#"{"dryRun": {"mode": "supported", "version": 2}, "failureModes": ["a", "a"], "operation": "read"}"#,
        Contract {
            dry_run: written(DryRun::Supported { parameter: None }),
            failure_modes: written(vec!["a".to_owned()]),
            operation: written(Variant::Read),
            ..Contract::default()
        },
    );
    // The risk level overrules these fields later. In an operator's file they would be a mistake.
    let text = r#"{"riskLevel": "forbidden", "confirmation": "none", "autonomousExecution": true}"#;
    check(
        text,
        Contract {
            risk: written(RiskLevel::Forbidden),
            confirmation: written(Confirmation::None),
            autonomous: written(true),
            ..Contract::default()
        },
    );
    let as_operator = format!("{},\"tool\":\"mail:send\"}}", text.trim_end_matches('}'));
    assert!(Contracts::parse(&[("c.json".to_owned(), as_operator)]).is_err());
}

#[test]
fn what_is_refused() {
    let check = |text: &str, expected: &str| assert_eq!(Contract::of_server(text), Err(expected.to_owned()), "{text}");
    check("[]", "/: expected object, found array");
    check("", "/: the file is empty; write `[]` for no contracts");
    check("{", "/: this `{` is never closed; add the missing `}`");
    check(
        r#"{"riskLevel": "High\u001b[2J"}"#,
        "/riskLevel: unknown value `High\\u{1b}[2J`; write one of `low`, `medium`, `high`, `critical`, `forbidden`",
    );
    check(r#"{"rateLimit": {"calls": 0, "per": "1m"}}"#, "/rateLimit/calls: expected a whole number from 1 to 100000");
    check(
        r#"{"rateLimit": {"per": "1m"}}"#,
        "/rateLimit: `calls` is missing; write the number of calls, such as `calls: 30`",
    );
    check(
        r#"{"permissions": ["a", "files:*"]}"#,
        "/permissions/1: a contract must name full permissions; `*` is only for tokens",
    );
    check(
        r#"{"sensitive": ["a"]}"#,
        "/sensitive/0: a JSON pointer must begin with `/`; expected a JSON pointer such as `/body`",
    );
    check(
        r#"{"inputSchema": {"a/b\u001b~": [0, 1e999]}}"#,
        "/inputSchema/a~1b\\u{1b}~0/1: expected a plain number such as 10 that is not too large",
    );
    check(
        r#"{"inputSchema": {"a/b\u001b~": {"x": 1, "x": 2}}}"#,
        "/: duplicate key `x`, first used at line 1, column 33; keep one of them",
    );
    check(&format!(r#"{{"description": "{}"}}"#, "a".repeat(4001)), "/description: longer than 4000 characters");
    check(&format!(r#"{{"x": "{}"}}"#, "a".repeat(64 * 1024)), "/: larger than 64 KiB");
}

fn schemas(contract: &Contract) -> [&Schema; 3] {
    let Some(Written { value: StepUp::When(when), .. }) = &contract.step_up else { panic!("{contract:?}") };
    [when, &contract.input_schema.as_ref().unwrap().value, &contract.output_schema.as_ref().unwrap().value.schema]
}

fn with_schemas(schema: &Value) -> Contract {
    let text = json!({"stepUpAuth": {"when": schema}, "inputSchema": schema, "outputSchema": schema}).to_string();
    Contract::of_server(&text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// A server can list thousands of tools, so schemas are compiled at the first call.
#[test]
fn a_long_list_of_contracts_compiles_nothing() {
    let patterns: Vec<Value> = (0..30).map(|n| json!({"pattern": format!("^\\w{{1,{}}}$", 30 + n)})).collect();
    let all = with_schemas(&json!({"allOf": patterns}));
    assert_eq!(schemas(&all).map(Schema::is_compiled), [false, false, false]);
    assert!(!schemas(&all)[1].admits(&json!("a b").into()) && schemas(&all)[1].admits(&json!("ab").into()));
    assert_eq!(schemas(&all).map(Schema::is_compiled), [false, true, false]);
    let begun = Instant::now();
    for number in 0..2_000 {
        let text = json!({"inputSchema": {"allOf": patterns, "title": number.to_string()}}).to_string();
        let contract = Contract::of_server(&text).unwrap();
        assert!(!contract.input_schema.unwrap().value.is_compiled());
    }
    // Compiling them all would take minutes without optimization.
    assert!(begun.elapsed() < Duration::from_secs(30), "{:?}", begun.elapsed());
}

/// A schema error that inspection does not find appears at the first call. Then every value is refused.
#[test]
fn a_schema_that_turns_out_to_be_broken() {
    let check = |schema: Value, why: &str| {
        let contract = with_schemas(&schema);
        for broken in schemas(&contract) {
            for value in ["{}", "\"a\"", "7"] {
                let exact = ExactValue::read(value).unwrap();
                assert!(broken.may_admit(&exact) && !broken.admits(&exact), "{schema} {value}");
                let problems = broken.check(&exact).unwrap_err();
                let expected = format!("the contract's schema cannot be used: {why}");
                assert_eq!(Problem::message(&problems), expected, "{schema} {value}");
            }
        }
    };
    let pattern = "is invalid, too large, or uses look-around or back-references, which are not supported";
    check(json!({"pattern": "(?=a)"}), &format!("the pattern at `/pattern` {pattern}"));
    check(json!({"pattern": "(["}), &format!("the pattern at `/pattern` {pattern}"));
    check(json!({"not": {"pattern": "(a{1000}){1000}"}}), &format!("the pattern at `/not/pattern` {pattern}"));
    check(
        json!({"patternProperties": {"\u{1b}[": {}}}),
        &format!("the pattern at `/patternProperties/\\u{{1b}}[` {pattern}"),
    );
    check(json!({"title": 7}), "the schema is invalid: value is not of type \"string\" at `/title`");
    // An error that is visible without compiling is a mistake from the start.
    let text = r#"{"inputSchema": {"properties": {"a": {"requird": ["b"]}}}}"#;
    assert_eq!(
        Contract::of_server(text),
        Err("/inputSchema: unusable schema: `/properties/a/requird` is not a JSON Schema keyword; did you mean \
             `required`?"
            .to_owned())
    );
}
