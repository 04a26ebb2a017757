//! Tests for valid contract files and their values.

use std::sync::Arc;
use std::time::Duration;

use crate::contract::{
    Confirmation, Contract, Contracts, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp, Written,
};
use crate::schema::Schema;
use crate::{Pointer, RiskLevel, ToolName, Untrusted, Variant};

pub(super) const WHOLE: &str = r#"# Everything a contract can say.
tool: mail:emails.send_external
description: Sends an external email to one or more recipients.
category: communication
riskLevel: critical
operation: destructive
autonomousExecution: false
confirmation: required
stepUpAuth: { when: { anyOf: [ { properties: { to: { minItems: 11 } } }, { required: [attachments] } ] } }
inputSchema:
  properties:
    subject: { maxLength: 0x50 }
outputSchema: { type: object, strict: true, required: ["no", yes] }
permissions: [emails:send, contacts:read, files:read]
sideEffects:
  - "External communication is sent."
auditEvent: email.external.sent
failureModes: [permission_denied, rate_limit_exceeded]
idempotency: { mode: key, ttl: 12h }
dryRun: { mode: required, parameter: dryRun }
rateLimit: { calls: 30, per: 1m }
sensitive: [/body, /to/*]
version: 2026-05
"#;

fn parse(name: &str, text: &str) -> Contracts {
    Contracts::parse(&[(name.to_owned(), text.to_owned())]).unwrap_or_else(|mistakes| panic!("{mistakes:?}: {text}"))
}

fn written<T>(line: usize, value: T) -> Option<Written<T>> {
    Some(Written { value, line, column: 1 })
}

#[test]
fn the_whole_format() {
    let schema = |text: &str| Arc::new(Schema::parse(text).unwrap());
    let words = |words: &[&str]| words.iter().map(|word| (*word).to_owned()).collect::<Vec<_>>();
    let sensitive = |text: &str| Sensitive { text: text.to_owned(), pointer: Pointer::parse(text).unwrap() };
    let when = schema(r#"{"anyOf":[{"properties":{"to":{"minItems":11}}},{"required":["attachments"]}]}"#);
    let output = schema(r#"{"type":"object","required":["no","yes"]}"#);
    let expected = Contract {
        file: Some("c.yaml".into()),
        is_draft: false,
        description: written(3, Untrusted::new("Sends an external email to one or more recipients.")),
        category: written(4, "communication".to_owned()),
        risk: written(5, RiskLevel::Critical),
        operation: written(6, Variant::Destructive),
        autonomous: written(7, false),
        confirmation: written(8, Confirmation::Required),
        step_up: written(9, StepUp::When(when)),
        input_schema: written(10, schema(r#"{"properties":{"subject":{"maxLength":80}}}"#)),
        output_schema: written(13, OutputSchema { schema: output, is_strict: true }),
        permissions: written(14, words(&["emails:send", "contacts:read", "files:read"])),
        side_effects: written(15, vec![Untrusted::new("External communication is sent.")]),
        audit_event: written(17, "email.external.sent".to_owned()),
        failure_modes: written(18, words(&["permission_denied", "rate_limit_exceeded"])),
        idempotency: written(19, Idempotency::Key { ttl: Duration::from_secs(12 * 3600) }),
        dry_run: written(20, DryRun::Required { parameter: Some("dryRun".to_owned()) }),
        rate_limit: written(21, RateLimit { calls: 30, per: Duration::from_secs(60) }),
        sensitive: written(22, vec![sensitive("/body"), sensitive("/to/*")]),
        version: written(23, "2026-05".to_owned()),
    };
    let contracts = parse("c.yaml", WHOLE);
    let all: Vec<_> = contracts.iter().map(|(pattern, contract)| (pattern.to_string(), contract.as_ref())).collect();
    assert_eq!(all, [("mail:emails.send_external".to_owned(), &expected)]);
}

/// Checks the parsed value of one field.
fn check<T: PartialEq + std::fmt::Debug>(field: &str, read: fn(&Contract) -> &Option<Written<T>>, expected: T) {
    let contracts = parse("c.yml", &format!("tool: mail:send\n{field}"));
    let (_, contract) = contracts.iter().next().unwrap();
    assert_eq!(read(contract), &written(2, expected), "{field}");
}

#[test]
fn short_and_long_forms() {
    let day = Duration::from_secs(24 * 3600);
    let step_up: fn(&Contract) -> &Option<Written<StepUp>> = |contract| &contract.step_up;
    check("stepUpAuth: true", step_up, StepUp::Always);
    check("stepUpAuth: false", step_up, StepUp::Never);
    check("stepUpAuth: {when: true}", step_up, StepUp::Always);
    check("stepUpAuth: {when: false}", step_up, StepUp::Never);
    let confirmation: fn(&Contract) -> &Option<Written<Confirmation>> = |contract| &contract.confirmation;
    check("confirmation: none", confirmation, Confirmation::None);
    check("confirmation: required", confirmation, Confirmation::Required);
    check("confirmation: {when: true}", confirmation, Confirmation::Required);
    check("confirmation: {when: false}", confirmation, Confirmation::None);
    let external = Schema::parse(r#"{"required":["to"]}"#).unwrap();
    check("confirmation: {when: {required: [to]}}", confirmation, Confirmation::When(external.into()));
    let natural =
        |ttl| Idempotency::Natural { key_from: vec!["fileId".to_owned(), "no".to_owned()], ttl, valid_until: None };
    let idempotency: fn(&Contract) -> &Option<Written<Idempotency>> = |contract| &contract.idempotency;
    check("idempotency: none", idempotency, Idempotency::None);
    check("idempotency: {mode: none}", idempotency, Idempotency::None);
    check("idempotency: key", idempotency, Idempotency::Key { ttl: day });
    check("idempotency: {mode: key}", idempotency, Idempotency::Key { ttl: day });
    check("idempotency: {mode: key, ttl: 30d}", idempotency, Idempotency::Key { ttl: 30 * day });
    check("idempotency: {mode: natural, keyFrom: [fileId, no]}", idempotency, natural(day));
    check(
        "idempotency: {ttl: 1 s, mode: natural, keyFrom: [fileId, no]}",
        idempotency,
        natural(Duration::from_secs(1)),
    );
    check(
        "idempotency: {mode: natural, keyFrom: [a], validUntil: /link/expiresAt}",
        idempotency,
        Idempotency::Natural {
            key_from: vec!["a".to_owned()],
            ttl: day,
            valid_until: Some("/link/expiresAt".to_owned()),
        },
    );
    let dry_run: fn(&Contract) -> &Option<Written<DryRun>> = |contract| &contract.dry_run;
    check("dryRun: none", dry_run, DryRun::None);
    check("dryRun: {mode: none}", dry_run, DryRun::None);
    check("dryRun: supported", dry_run, DryRun::Supported { parameter: None });
    check(
        "dryRun: {mode: supported, parameter: preview only}",
        dry_run,
        DryRun::Supported { parameter: Some("preview only".to_owned()) },
    );
    check("dryRun: required", dry_run, DryRun::Required { parameter: None });
    let rate_limit: fn(&Contract) -> &Option<Written<RateLimit>> = |contract| &contract.rate_limit;
    check("rateLimit: {calls: 100000, per: 24h}", rate_limit, RateLimit { calls: 100_000, per: day });
    check("rateLimit: {per: 1000ms, calls: 1}", rate_limit, RateLimit { calls: 1, per: Duration::from_secs(1) });
    let risk: fn(&Contract) -> &Option<Written<RiskLevel>> = |contract| &contract.risk;
    for level in RiskLevel::ALL {
        check(&format!("riskLevel: {}", level.as_str()), risk, level);
    }
    let operation: fn(&Contract) -> &Option<Written<Variant>> = |contract| &contract.operation;
    for variant in Variant::ALL {
        check(&format!("operation: {variant}"), operation, variant);
    }
    let version: fn(&Contract) -> &Option<Written<String>> = |contract| &contract.version;
    check("version: 3", version, "3".to_owned());
    check("version: \"1.10\"", version, "1.10".to_owned());
    let strict = |is_strict| OutputSchema { schema: Arc::new(Schema::parse("{}").unwrap()), is_strict };
    let output: fn(&Contract) -> &Option<Written<OutputSchema>> = |contract| &contract.output_schema;
    check("outputSchema: {}", output, strict(false));
    check("outputSchema: {strict: false}", output, strict(false));
    check("outputSchema: {strict: true}", output, strict(true));
}

#[test]
fn a_marked_file_is_a_draft() {
    let check = |text: &str, expected: bool| {
        let contracts = parse("c.yaml", text);
        assert!(contracts.iter().all(|(_, contract)| contract.is_draft == expected), "{text}");
    };
    check("# DRAFT: contracts for mail\n- tool: mail:a\n- tool: mail:b\n", true);
    check("# Reviewed.\n# DRAFT: see above\ntool: mail:a\n", true);
    check("\u{FEFF}# DRAFT: contracts for mail\ntool: mail:a\n", true);
    check("tool: mail:a\ndescription: '# DRAFT'\n", false);
    check("- tool: mail:a\n", false);
}

#[test]
fn one_or_many_in_a_file() {
    let check = |name: &str, text: &str, expected: &[&str]| {
        let found = parse(name, text);
        let found: Vec<String> = found.iter().map(|(pattern, _)| pattern.to_string()).collect();
        assert_eq!(found, expected, "{text}");
    };
    check("a.yaml", "", &[]);
    check("a.yaml", "# nothing yet\n---\n---\n", &[]);
    check("a.yaml", "tool: mail:a", &["mail:a"]);
    check("a.yaml", "\u{FEFF}tool: mail:a\r\nriskLevel: low\r\n", &["mail:a"]);
    check(
        "a.yaml",
        "---\ntool: mail:a\n...\n---\n- tool: mail:b\n- {tool: 'mail:*'}\n---\n",
        &["mail:a", "mail:b", "mail:*"],
    );
    check("a.yaml", "contracts:\n- tool: mail:a\n- tool: mail:b", &["mail:a", "mail:b"]);
    check("a.yaml", "contracts: []\n---\n[]", &[]);
    check("a.yaml", r#"{"tool": "mail:a", "riskLevel": "low"}"#, &["mail:a"]);
    check("a.JSON", r#"{"$schema": "x", "tool": "mail:a", /* later */ } // end"#, &["mail:a"]);
    check("a.json", r#"[{"tool": "mail:a"}, {"tool": "mail:emails.*"},]"#, &["mail:a", "mail:emails.*"]);
    check("a.json", r#"{"$schema": "x", "contracts": [{"tool": "mail:a"}]}"#, &["mail:a"]);
}

#[test]
fn the_most_specific_comes_first() {
    let text = "- tool: mail:*\n- tool: mail:emails.send\n- tool: mail:emails.*\n- tool: files:*";
    let contracts = parse("c.yaml", &text.replace("\n", "\n  category: later\n"));
    let name = ToolName::parse("mail:emails.send").unwrap();
    let lines: Vec<_> =
        contracts.matching(&name).iter().map(|contract| contract.category.as_ref().map(|c| c.line)).collect();
    assert_eq!(lines, [Some(4), Some(6), Some(2)]);
    assert!(contracts.matching(&ToolName::parse("web:get").unwrap()).is_empty());
}

#[test]
fn every_field_alone_changes_the_contract() {
    let plain = parse("c.yaml", "tool: mail:send");
    let lines: Vec<&str> = WHOLE.split_inclusive('\n').collect();
    let starts = lines.iter().enumerate().filter(|(_, line)| line.starts_with(char::is_alphabetic)).skip(1);
    let mut count = 0;
    for (at, line) in starts {
        let rest = lines[at + 1..].iter().take_while(|line| line.starts_with(' '));
        let field: String = std::iter::once(line).chain(rest).copied().collect();
        assert_ne!(parse("c.yaml", &format!("tool: mail:send\n{field}")), plain, "{field}");
        count += 1;
    }
    assert_eq!(count, 18);
}
