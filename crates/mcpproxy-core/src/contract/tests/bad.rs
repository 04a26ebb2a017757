//! Tests for contracts with mistakes, with the whole text of every message.

use crate::contract::Contracts;

pub(super) const KNOWN: &str = "known keys: `$schema`, `tool`, `description`, `category`, `riskLevel`, `operation`, \
                                `autonomousExecution`, `confirmation`, `stepUpAuth`, `inputSchema`, `outputSchema`, \
                                `permissions`, `sideEffects`, `auditEvent`, `failureModes`, `idempotency`, `dryRun`, \
                                `rateLimit`, `sensitive`, `version`";

/// Compares all mistakes of a YAML file, one per line.
pub(super) fn check(text: &str, expected: &[&str]) {
    assert_eq!(mistakes("c.yaml", text), expected, "{text}");
}

pub(super) fn check_json(text: &str, expected: &[&str]) {
    assert_eq!(mistakes("c.json", text), expected, "{text}");
}

/// Checks the fields of one contract, which begin in line 2.
fn check_fields(fields: &str, expected: &[&str]) {
    check(&format!("tool: mail:send\n{fields}"), expected);
}

pub(super) fn mistakes(name: &str, text: &str) -> Vec<String> {
    match Contracts::parse(&[(name.to_owned(), text.to_owned())]) {
        Ok(_) => Vec::new(),
        Err(mistakes) => mistakes.iter().map(|(_, mistake)| mistake.to_string()).collect(),
    }
}

#[test]
fn keys() {
    check_fields(
        "risk_level: low\nrisk-level: low\nRISKLEVEL: low\nrisk: low\nrisklevl: low",
        &[
            "line 2, column 1: unknown key `risk_level`; did you mean `riskLevel`?",
            "line 3, column 1: unknown key `risk-level`; did you mean `riskLevel`?",
            "line 4, column 1: unknown key `RISKLEVEL`; did you mean `riskLevel`?",
            "line 5, column 1: unknown key `risk`; did you mean `riskLevel`?",
            "line 6, column 1: unknown key `risklevl`; did you mean `riskLevel`?",
        ],
    );
    check_fields(
        "confirmationRequired: true",
        &["line 2, column 1: unknown key `confirmationRequired`; did you mean `confirmation`?"],
    );
    check_fields(
        "autonomous_execution: true\nstep_up_auth: true\ninput_schema: {}\nside_effects: []\naudit_event: a\nfailure_modes: []\ndry_run: none\nrate_limit: {}\nsensitiv: []",
        &[
            "line 2, column 1: unknown key `autonomous_execution`; did you mean `autonomousExecution`?",
            "line 3, column 1: unknown key `step_up_auth`; did you mean `stepUpAuth`?",
            "line 4, column 1: unknown key `input_schema`; did you mean `inputSchema`?",
            "line 5, column 1: unknown key `side_effects`; did you mean `sideEffects`?",
            "line 6, column 1: unknown key `audit_event`; did you mean `auditEvent`?",
            "line 7, column 1: unknown key `failure_modes`; did you mean `failureModes`?",
            "line 8, column 1: unknown key `dry_run`; did you mean `dryRun`?",
            "line 9, column 1: unknown key `rate_limit`; did you mean `rateLimit`?",
            "line 10, column 1: unknown key `sensitiv`; did you mean `sensitive`?",
        ],
    );
    check_fields(
        "name: a\nserver: b\nscopes: []\nreadOnlyHint: true\ndestructive_hint: true",
        &[
            "line 2, column 1: unknown key `name`; did you mean `tool`?",
            "line 3, column 1: unknown key `server`; did you mean `tool`? It contains both names, as in `mail:send`",
            "line 4, column 1: unknown key `scopes`; did you mean `permissions`?",
            "line 5, column 1: unknown key `readOnlyHint`; did you mean `operation: read`?",
            "line 6, column 1: unknown key `destructive_hint`; did you mean `operation: destructive`?",
        ],
    );
    check_fields("something: else", &[&format!("line 2, column 1: unknown key `something`; {KNOWN}")]);
    check_fields(r#""a\e[2J": 1"#, &[&format!("line 2, column 1: unknown key `a\\u{{1b}}[2J`; {KNOWN}")]);
    check_fields(
        "stepUpAuth: {when: true, if: 1}\nidempotency: {mode: key, key_from: [a], tll: 1h}\ndryRun: {mode: supported, param: x}\nrateLimit: {calls: 1, per: 1m, window: 5}",
        &[
            "line 2, column 26: unknown key `if`; did you mean `when`?",
            "line 3, column 26: unknown key `key_from`; did you mean `keyFrom`?",
            "line 3, column 41: unknown key `tll`; did you mean `ttl`?",
            "line 4, column 27: unknown key `param`; did you mean `parameter`?",
            "line 5, column 32: unknown key `window`; did you mean `per`?",
        ],
    );
}

#[test]
fn words() {
    check_fields(
        "riskLevel: High",
        &["line 2, column 12: unknown value `High`; write one of `low`, `medium`, `high`, `critical`, `forbidden`"],
    );
    check_fields(
        "riskLevel: severe\noperation: delete\nconfirmation: always",
        &[
            "line 2, column 12: unknown value `severe`; write one of `low`, `medium`, `high`, `critical`, `forbidden`",
            "line 3, column 12: unknown value `delete`; write one of `read`, `write`, `destructive`",
            "line 4, column 15: unknown value `always`; write one of `none`, `required`",
        ],
    );
    check_fields(
        "riskLevel: 3\noperation: true\nconfirmation: true",
        &[
            "line 2, column 12: expected one of `low`, `medium`, `high`, `critical`, `forbidden`, found number",
            "line 3, column 12: expected one of `read`, `write`, `destructive`, found boolean",
            "line 4, column 15: expected `none`, `required` or object with `when`, found boolean",
        ],
    );
    check_fields("version: 1.10", &["line 2, column 10: write the version in quotes, such as \"1.10\""]);
    check_fields("version: true", &["line 2, column 10: expected string or whole number, found boolean"]);
    check_fields("autonomousExecution: no", &["line 2, column 22: expected boolean, found string; write `false`"]);
    check_fields(
        r#"autonomousExecution: "true""#,
        &["line 2, column 22: expected boolean, found string; remove the quotes"],
    );
    check_fields("autonomousExecution: 1", &["line 2, column 22: expected boolean, found number"]);
    check_fields("autonomousExecution:", &["line 2, column 20: expected boolean, found null; fill it in or remove it"]);
    check_fields(
        "category: a b\nauditEvent: ''\nfailureModes: [ok, a/b, 5, ok]",
        &[
            "line 2, column 11: expected 1 to 128 letters, digits, `_`, `.` or `-`",
            "line 3, column 13: expected 1 to 128 letters, digits, `_`, `.` or `-`",
            "line 4, column 20: expected 1 to 128 letters, digits, `_`, `.` or `-`",
            "line 4, column 25: expected string, found number; put it in quotes",
            "line 4, column 28: written twice; remove one of them",
        ],
    );
    check_fields(
        "category: aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
        &["line 2, column 11: expected 1 to 128 letters, digits, `_`, `.` or `-`"],
    );
}

#[test]
fn texts_and_lists() {
    check_fields("description: [a]", &["line 2, column 14: expected string, found array"]);
    check_fields(
        "sideEffects: [ok, '', ' ', 5]",
        &[
            r#"line 2, column 19: must not be empty; describe the effect, such as "An email is sent.""#,
            r#"line 2, column 23: must not be empty; describe the effect, such as "An email is sent.""#,
            "line 2, column 28: expected string, found number; put it in quotes",
        ],
    );
    check_fields(
        "sideEffects: [s0, s1, s2, s3, s4, s5, s6, s7, s8, s9, s10, s11, s12, s13, s14, s15, s16, s17, s18, s19, s20, s21, s22, s23, s24, s25, s26, s27, s28, s29, s30, s31, s32]",
        &["line 2, column 14: 33 entries; at most 32 are possible"],
    );
    check_fields("sideEffects: text", &["line 2, column 14: expected array, found string"]);
    check_fields(
        "permissions: [emails:send, files:*, 'a b', '', emails:send, {a: b}]",
        &[
            "line 2, column 28: a contract must name full permissions; `*` is only for tokens",
            "line 2, column 37: expected 1 to 128 letters, digits, `_`, `.`, `:`, `/` or `-`",
            "line 2, column 44: expected 1 to 128 letters, digits, `_`, `.`, `:`, `/` or `-`",
            "line 2, column 48: written twice; remove one of them",
            "line 2, column 61: expected string, found object",
        ],
    );
    check_fields(
        "permissions:\n  - ppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppppp",
        &["line 3, column 5: expected 1 to 128 letters, digits, `_`, `.`, `:`, `/` or `-`"],
    );
    check_fields(
        "sensitive: [body, /a~2b, /ok, /ok]",
        &[
            "line 2, column 13: a JSON pointer must begin with `/`; expected a JSON pointer such as `/body`",
            "line 2, column 19: a JSON pointer writes `~` as `~0`, and `/` within a name as `~1`; expected a JSON pointer such as `/body`",
            "line 2, column 31: written twice; remove one of them",
        ],
    );
}

#[test]
fn schemas() {
    check_fields(
        "inputSchema: true\noutputSchema: [a]",
        &[
            "line 2, column 14: expected object (a JSON Schema), found boolean",
            "line 3, column 15: expected object (a JSON Schema), found array",
        ],
    );
    check_fields("outputSchema: {type: object, strict: maybe}", &["line 2, column 38: expected boolean, found string"]);
    check_fields("stepUpAuth: sometimes", &["line 2, column 13: expected boolean or object with `when`, found string"]);
    check_fields(
        "stepUpAuth: {}",
        &["line 2, column 13: `when` is missing; write `when: true`, or a JSON Schema for the arguments"],
    );
    check_fields(
        "stepUpAuth: {when: 5}",
        &["line 2, column 20: expected boolean or object (a JSON Schema), found number"],
    );
    check_fields(
        "stepUpAuth: {when: null}",
        &["line 2, column 20: expected boolean or object (a JSON Schema), found null; fill it in or remove it"],
    );
    check_fields(
        "stepUpAuth:",
        &["line 2, column 11: expected boolean or object with `when`, found null; fill it in or remove it"],
    );
    check_fields(
        "inputSchema: {$serde_json::private::RawValue: '1'}",
        &[r#"line 2, column 14: unusable schema: key "$serde_json::private::RawValue" is reserved"#],
    );
}

#[test]
fn idempotency() {
    check_fields(
        "idempotency: natural",
        &["line 2, column 14: `natural` needs `keyFrom`; write `{ mode: natural, keyFrom: [NAME] }`"],
    );
    check_fields(
        "idempotency: sometimes",
        &["line 2, column 14: unknown value `sometimes`; write one of `none`, `natural`, `key`"],
    );
    check_fields("idempotency: 5", &["line 2, column 14: expected `none`, `key` or object with `mode`, found number"]);
    check_fields(
        "idempotency: {ttl: 1h}",
        &["line 2, column 14: `mode` is missing; write one of `none`, `natural`, `key`"],
    );
    check_fields(
        "idempotency: {mode: natural}",
        &["line 2, column 14: `keyFrom` is missing; write the arguments that identify the result, such as `[fileId]`"],
    );
    check_fields(
        "idempotency: {mode: natural, keyFrom: [a], validUntil: expiresAt}",
        &["line 2, column 56: a JSON pointer must begin with `/`; expected a JSON pointer such as `/body`"],
    );
    check_fields(
        "idempotency: {mode: natural, keyFrom: [a], validUntil: /links/*/until}",
        &["line 2, column 56: must point to one value; write a pointer without `*`, such as `/expiresAt`"],
    );
    check_fields(
        "idempotency: {mode: key, validUntil: /expiresAt}",
        &["line 2, column 26: `validUntil` has no effect with mode `key`; remove it, or write mode `natural`"],
    );
    check_fields("idempotency: {mode: natural, keyFrom: []}", &["line 2, column 39: name at least one argument"]);
    check_fields(
        "idempotency: {mode: natural, keyFrom: [a, 5, '', a]}",
        &[
            "line 2, column 43: expected string, found number; put it in quotes",
            "line 2, column 46: expected the name of an argument, 1 to 128 characters",
            "line 2, column 50: written twice; remove one of them",
        ],
    );
    check_fields(
        "idempotency: {mode: key, keyFrom: [a]}",
        &["line 2, column 26: `keyFrom` has no effect with mode `key`; remove it, or write mode `natural`"],
    );
    check_fields(
        "idempotency: {mode: none, keyFrom: [a], ttl: 1h}",
        &[
            "line 2, column 27: `keyFrom` has no effect with mode `none`; remove it",
            "line 2, column 41: `ttl` has no effect with mode `none`; remove it",
        ],
    );
    check_fields(
        "idempotency: {mode: key, ttl: 31d}",
        &[r#"line 2, column 31: expected a duration between "1s" and "30d""#],
    );
    check_fields(
        "idempotency: {mode: key, ttl: 999ms}",
        &[r#"line 2, column 31: expected a duration between "1s" and "30d""#],
    );
    check_fields(
        "idempotency: {mode: key, ttl: 60}",
        &[r#"line 2, column 31: expected a duration such as "30s", "5m" or "24h", found number"#],
    );
    check_fields(
        "idempotency: {mode: key, ttl: soon}",
        &[r#"line 2, column 31: expected a duration such as "30s", "5m" or "24h""#],
    );
}

#[test]
fn dry_runs_and_limits() {
    check_fields(
        "dryRun: maybe",
        &["line 2, column 9: unknown value `maybe`; write one of `none`, `supported`, `required`"],
    );
    check_fields(
        "dryRun: true",
        &["line 2, column 9: expected `none`, `supported`, `required` or object with `mode`, found boolean"],
    );
    check_fields(
        "dryRun: {parameter: x}",
        &["line 2, column 9: `mode` is missing; write one of `none`, `supported`, `required`"],
    );
    check_fields(
        "dryRun: {mode: none, parameter: x}",
        &["line 2, column 22: `parameter` has no effect with mode `none`; remove it"],
    );
    check_fields(
        "dryRun: {mode: required, parameter: 5}",
        &["line 2, column 37: expected string, found number; put it in quotes"],
    );
    check_fields(
        "dryRun: {mode: required, parameter: ''}",
        &["line 2, column 37: expected the name of an argument, 1 to 128 characters"],
    );
    check_fields("rateLimit: 30/m", &["line 2, column 12: expected object, found string"]);
    check_fields(
        "rateLimit: {}",
        &[
            "line 2, column 12: `calls` is missing; write the number of calls, such as `calls: 30`",
            "line 2, column 12: `per` is missing; write the time span, such as `per: 1m`",
        ],
    );
    check_fields(
        "rateLimit: {calls: 0, per: 25h}",
        &[
            "line 2, column 20: expected a whole number from 1 to 100000",
            r#"line 2, column 28: expected a duration between "1s" and "24h""#,
        ],
    );
    check_fields(
        "rateLimit: {calls: 1.5, per: 0s}",
        &[
            "line 2, column 20: expected a whole number from 1 to 100000",
            r#"line 2, column 30: expected a duration between "1s" and "24h""#,
        ],
    );
    check_fields(
        "rateLimit: {calls: 100001, per: 60}",
        &[
            "line 2, column 20: expected a whole number from 1 to 100000",
            r#"line 2, column 33: expected a duration such as "30s", "5m" or "24h", found number"#,
        ],
    );
    check_fields(
        "rateLimit: {calls: many, per: 1 minute}",
        &[
            "line 2, column 20: expected number, found string",
            r#"line 2, column 31: expected a duration such as "30s", "5m" or "24h""#,
        ],
    );
}

#[test]
fn contradictions() {
    check_fields(
        "riskLevel: high\nautonomousExecution: true\nconfirmation: none",
        &[
            "line 3, column 1: `autonomousExecution: true` contradicts risk level `high`, which does not allow autonomous calls; remove it, or lower the level",
            "line 4, column 1: `confirmation: none` contradicts risk level `high`, which requires a user's approval; remove it, or lower the level",
        ],
    );
    check_fields(
        "confirmation: none\nriskLevel: critical\nautonomousExecution: true",
        &[
            "line 2, column 1: `confirmation: none` contradicts risk level `critical`, which requires a user's approval; remove it, or lower the level",
            "line 4, column 1: `autonomousExecution: true` contradicts risk level `critical`, which does not allow autonomous calls; remove it, or lower the level",
        ],
    );
    check_fields(
        "riskLevel: forbidden\nautonomousExecution: true\nconfirmation: required\nstepUpAuth: false\nidempotency: none\ndryRun: none\nrateLimit: {calls: 1, per: 1s}",
        &[
            "line 3, column 1: `autonomousExecution: true` contradicts risk level `forbidden`, which does not allow autonomous calls; remove it, or lower the level",
            "line 4, column 1: `confirmation` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
            "line 5, column 1: `stepUpAuth` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
            "line 6, column 1: `idempotency` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
            "line 7, column 1: `dryRun` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
            "line 8, column 1: `rateLimit` contradicts risk level `forbidden`: a forbidden tool is never called; remove it, or lower the level",
        ],
    );
    check_fields(
        "riskLevel: low\nautonomousExecution: false\nconfirmation: none",
        &[
            "line 4, column 1: `confirmation: none` contradicts `autonomousExecution: false`, which requires a user's approval; remove one of them",
        ],
    );
    check_fields(
        "autonomousExecution: false\nconfirmation: none",
        &[
            "line 3, column 1: `confirmation: none` contradicts `autonomousExecution: false`, which requires a user's approval; remove one of them",
        ],
    );
    check_fields(
        "riskLevel: high\nconfirmation: {when: {required: [to]}}",
        &[
            "line 3, column 1: `confirmation: { when: … }` contradicts risk level `high`, which requires a user's approval; remove it, or lower the level",
        ],
    );
    check_fields(
        "autonomousExecution: false\nconfirmation: {when: {required: [to]}}",
        &[
            "line 3, column 1: `confirmation: { when: … }` contradicts `autonomousExecution: false`, which requires a user's approval; remove one of them",
        ],
    );
    check_fields(
        "riskLevel: high\nautonomousExecution: false\nconfirmation: none",
        &[
            "line 4, column 1: `confirmation: none` contradicts risk level `high`, which requires a user's approval; remove it, or lower the level",
        ],
    );
}

#[test]
fn too_much() {
    let list = |count: usize| (0..count).map(|n| format!("x{n}")).collect::<Vec<_>>().join(", ");
    let fits = |fields: String| check_fields(&fields, &[]);
    fits(format!("category: {}", "a".repeat(128)));
    fits(format!("description: {}", "é".repeat(4000)));
    fits(format!("sideEffects: [{}]\npermissions: [{}]", list(32), list(64)));
    fits(format!("sideEffects: [{}]\nsensitive: [/{}]", "é".repeat(500), "p".repeat(255)));
    let check = |fields: String, expected: &str| check_fields(&fields, &[expected]);
    check(
        format!("category: {}", "a".repeat(129)),
        "line 2, column 11: expected 1 to 128 letters, digits, `_`, `.` or `-`",
    );
    check(format!("description: {}", "é".repeat(4001)), "line 2, column 14: longer than 4000 characters");
    check(format!("sideEffects: [a, {}]", "é".repeat(501)), "line 2, column 18: longer than 500 characters");
    check(format!("sideEffects: [{}]", list(33)), "line 2, column 14: 33 entries; at most 32 are possible");
    check(format!("permissions: [{}]", list(65)), "line 2, column 14: 65 entries; at most 64 are possible");
    check(
        format!("permissions:\n  - {}", "p".repeat(129)),
        "line 3, column 5: expected 1 to 128 letters, digits, `_`, `.`, `:`, `/` or `-`",
    );
    check(format!("sensitive: [/{}]", "p".repeat(256)), "line 2, column 13: longer than 256 characters");
}

#[test]
fn the_same_pattern_in_two_files() {
    let files =
        [("a.yaml", "tool: mail:*"), ("b.json", r#"[{"tool": "mail:send"}, {"tool": "mail:*"}]"#), ("c.yml", "x: 1")];
    let files = files.map(|(name, text)| (name.to_owned(), text.to_owned()));
    let found: Vec<String> =
        Contracts::parse(&files).unwrap_err().into_iter().map(|(file, mistake)| format!("{file}: {mistake}")).collect();
    let expected = [
        "b.json: line 1, column 34: a contract for `mail:*` is already in `a.yaml`, line 1; keep one of them"
            .to_owned(),
        format!("c.yml: line 1, column 1: unknown key `x`; {KNOWN}"),
        "c.yml: line 1, column 1: `tool` is missing; write the tool that it is for, such as `tool: mail:send` or \
         `tool: mail:*`"
            .to_owned(),
    ];
    assert_eq!(found, expected);
}

#[test]
fn the_number_of_mistakes_is_limited() {
    let many: String = (0..300).map(|n| format!("x{n}: 1\n")).collect();
    let found = mistakes("c.yaml", &format!("tool: mail:send\n{many}"));
    assert_eq!(found.len(), 101);
    assert_eq!(found.last().unwrap(), "line 101, column 1: there are more mistakes; fix these first");
}
