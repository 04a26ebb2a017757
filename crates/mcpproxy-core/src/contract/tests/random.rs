//! Property tests: no text makes the parser panic, and a written contract reads back the same.

use std::sync::Arc;
use std::time::Duration;

use proptest::option::of;
use proptest::prelude::*;
use proptest::sample::{select, subsequence};

use super::good::WHOLE;
use super::write::{escaped, to_json, to_yaml};
use crate::contract::{
    Confirmation, Contract, Contracts, DryRun, Idempotency, OutputSchema, RateLimit, Sensitive, StepUp, Written,
};
use crate::schema::Schema;
use crate::{Mistake, Pointer, RiskLevel, Untrusted, Variant};

fn written<T: std::fmt::Debug>(value: impl Strategy<Value = T>) -> impl Strategy<Value = Option<Written<T>>> {
    of(value.prop_map(|value| Written { value, line: 0, column: 0 }))
}

/// Generates texts, often ones that YAML could read as another type.
fn text() -> impl Strategy<Value = String> {
    let tricky = select(vec![
        "no", "true", "~", "1.0", "0x1", ".inf", "- a", "a: b", "a #b", "#", "*a", "&a", "!a", "%a", "@a", "`a`", "'",
        "\"", "|", ">", "?", "? a", "{}", "[", ",", "<<", "---", "...", " a ", "a\nb", "\n", "a\r\nb", "\t", "\u{85}",
        "\u{2028}", "\u{FEFF}", "\u{0}", "\u{7f}", "é🙂", "\\", "\\u0041", "a\\",
    ]);
    prop_oneof![tricky.prop_map(str::to_owned), any::<String>(), "[a-z ]{1,20}"]
}

fn side_effect() -> impl Strategy<Value = Untrusted> {
    text().prop_filter("says nothing", |text| !text.trim().is_empty()).prop_map(Untrusted::new)
}

fn argument() -> impl Strategy<Value = String> {
    text().prop_filter("no name", |text| (1..=128).contains(&text.chars().count()))
}

fn schema() -> impl Strategy<Value = Arc<Schema>> {
    let texts = vec![
        "{}",
        r#"{"type":"object"}"#,
        r#"{"required":["a","no"],"properties":{"a":{"minLength":1,"maximum":1.5}}}"#,
        r#"{"anyOf":[{"properties":{"to":{"minItems":11}}},{"enum":[null,true,-1,"~",[]]}]}"#,
    ];
    select(texts).prop_map(|text| Arc::new(Schema::parse(text).unwrap()))
}

fn step_up() -> impl Strategy<Value = StepUp> {
    prop_oneof![Just(StepUp::Never), Just(StepUp::Always), schema().prop_map(StepUp::When)]
}

fn confirmation() -> impl Strategy<Value = Confirmation> {
    prop_oneof![Just(Confirmation::None), Just(Confirmation::Required), schema().prop_map(Confirmation::When)]
}

fn idempotency() -> impl Strategy<Value = Idempotency> {
    let ttl = || (1..=30 * 86_400u64).prop_map(Duration::from_secs);
    let key_from = prop::collection::hash_set(argument(), 1..4).prop_map(Vec::from_iter);
    let valid_until = prop::option::of("(/[a-z~]{0,5}[a-z]){1,3}".prop_map(|text: String| text.replace('~', "~1")));
    prop_oneof![
        Just(Idempotency::None),
        ttl().prop_map(|ttl| Idempotency::Key { ttl }),
        (key_from, ttl(), valid_until).prop_map(|(key_from, ttl, valid_until)| Idempotency::Natural {
            key_from,
            ttl,
            valid_until
        }),
    ]
}

fn dry_run() -> impl Strategy<Value = DryRun> {
    prop_oneof![
        Just(DryRun::None),
        of(argument()).prop_map(|parameter| DryRun::Supported { parameter }),
        of(argument()).prop_map(|parameter| DryRun::Required { parameter }),
    ]
}

fn sensitive() -> impl Strategy<Value = Vec<Sensitive>> {
    let texts = vec!["", "/a", "/a/*/b", "/~0~1", "/é 🙂", "/no", "/0/-"];
    let parsed = |text: &str| Sensitive { text: text.to_owned(), pointer: Pointer::parse(text).unwrap() };
    subsequence(texts, 0..5).prop_map(move |texts| texts.into_iter().map(parsed).collect())
}

fn contract() -> impl Strategy<Value = Contract> {
    let word = || "[A-Za-z0-9_.-]{1,128}";
    let words = |pattern| prop::collection::hash_set(pattern, 0..5).prop_map(Vec::from_iter);
    let millis = (1000..=86_400_000u64).prop_map(Duration::from_millis);
    let rate_limit = (1..=100_000u32, millis).prop_map(|(calls, per)| RateLimit { calls, per });
    let output = (schema(), any::<bool>()).prop_map(|(schema, is_strict)| OutputSchema { schema, is_strict });
    let about_risk = (
        written(text().prop_map(Untrusted::new)),
        written(word()),
        written(select(&RiskLevel::ALL[..])),
        written(select(&Variant::ALL[..])),
        written(any::<bool>()),
        written(confirmation()),
        written(step_up()),
    );
    let about_calls = (
        written(schema()),
        written(output),
        written(words("[A-Za-z0-9_.:/-]{1,128}")),
        written(prop::collection::hash_set(side_effect(), 0..4).prop_map(Vec::from_iter)),
        written(word()),
        written(words("[A-Za-z0-9_.-]{1,128}")),
        written(idempotency()),
        written(dry_run()),
        written(rate_limit),
        written(sensitive()),
        written(word()),
    );
    (about_risk, about_calls).prop_map(|(risk, calls)| Contract {
        file: None,
        is_draft: false,
        description: risk.0,
        category: risk.1,
        risk: risk.2,
        operation: risk.3,
        autonomous: risk.4,
        confirmation: risk.5,
        step_up: risk.6,
        input_schema: calls.0,
        output_schema: calls.1,
        permissions: calls.2,
        side_effects: calls.3,
        audit_event: calls.4,
        failure_modes: calls.5,
        idempotency: calls.6,
        dry_run: calls.7,
        rate_limit: calls.8,
        sensitive: calls.9,
        version: calls.10,
    })
}

/// Removes combinations of fields that contradict each other.
fn without_contradictions(mut contract: Contract) -> Contract {
    let level = contract.risk.as_ref().map(|risk| risk.value);
    if level >= Some(RiskLevel::High) {
        contract.autonomous = None;
        contract.confirmation = None;
    }
    if level == Some(RiskLevel::Forbidden) {
        (contract.step_up, contract.idempotency, contract.dry_run, contract.rate_limit) = (None, None, None, None);
    }
    if contract.confirmation.as_ref().is_some_and(|written| written.value != Confirmation::Required) {
        contract.autonomous = None;
    }
    contract
}

/// Returns the contract without its file and positions.
fn bare(contract: &Contract) -> Contract {
    let mut contract = contract.clone();
    contract.file = None;
    macro_rules! bare {
        ($($field:ident),*) => {$(
            if let Some(written) = &mut contract.$field {
                assert!(written.line > 0 && written.column > 0);
                (written.line, written.column) = (0, 0);
            }
        )*};
    }
    bare!(description, category, risk, operation, autonomous, confirmation, step_up, input_schema, output_schema);
    bare!(permissions, side_effects, audit_event, failure_modes, idempotency, dry_run, rate_limit, sensitive, version);
    contract
}

proptest! {
    #[test]
    fn a_servers_contract_comes_back(contract in contract()) {
        let text = to_json(&contract).to_string();
        prop_assert_eq!(Contract::of_server(&text), Ok(contract), "{}", text);
    }

    #[test]
    fn an_operators_contract_comes_back(contract in contract(), style in any::<u64>()) {
        let contract = without_contradictions(contract);
        let mut json = to_json(&contract);
        json["tool"] = "mail:emails.*".into();
        for (name, text) in [("c.json", json.to_string()), ("c.json", format!("{json:#}")), ("c.yaml", escaped(&json.to_string())), ("c.yaml", to_yaml(&json, style))] {
            let found = Contracts::parse(&[(name.to_owned(), text.clone())]);
            let found = found.map(|found| found.iter().map(|(pattern, contract)| (pattern.to_string(), bare(contract))).collect::<Vec<_>>());
            prop_assert_eq!(found, Ok(vec![("mail:emails.*".to_owned(), contract.clone())]), "{}", text);
        }
    }

    #[test]
    fn any_text_has_an_answer(text in any::<String>()) {
        check(&text);
    }

    #[test]
    fn any_pieces_have_an_answer(pieces in prop::collection::vec(piece(), 0..40)) {
        check(&pieces.concat());
    }

    #[test]
    fn a_damaged_file_has_an_answer(at in 0..WHOLE.len(), length in 0..20usize, piece in piece()) {
        let end = (at + length).min(WHOLE.len());
        let (before, after) = (WHOLE.get(..at).unwrap(), WHOLE.get(end..).unwrap());
        check(&format!("{before}{piece}{after}"));
    }
}

fn check(text: &str) {
    let lines = text.split(['\n', '\r']).count();
    for name in ["c.yaml", "c.json"] {
        let mistakes = Contracts::parse(&[(name.to_owned(), text.to_owned())]).err().unwrap_or_default();
        assert!(mistakes.len() <= 101, "{} mistakes", mistakes.len());
        assert!(mistakes.is_sorted_by_key(|(_, mistake)| (mistake.line, mistake.column)), "{mistakes:?}");
        for (_, Mistake { line, column, message }) in mistakes {
            assert!(line >= 1 && line <= lines + 1, "{line}: {message}");
            assert!(column >= 1 && column <= text.chars().count() + 1, "{column}: {message}");
            assert!(!message.contains(char::is_control), "{message:?}");
        }
    }
    if let Err(message) = Contract::of_server(text) {
        assert!(!message.contains(char::is_control), "{message:?}");
    }
}

/// Generates fragments of files, so that random files get past the first line.
fn piece() -> impl Strategy<Value = String> {
    let pieces = vec![
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        ": ",
        "\"",
        "'",
        "#",
        " #",
        "//",
        "/*",
        "*/",
        "\n",
        "\r\n",
        "\r",
        "\t",
        " ",
        "  ",
        "    ",
        "- ",
        "? ",
        "| \n",
        "> \n",
        "---\n",
        "...\n",
        "&a ",
        "*a",
        "!!str ",
        "!x ",
        "%TAG",
        "<<: ",
        "\\",
        "\\u001b",
        "~",
        "true",
        "null",
        "1",
        "-1e9",
        "1e999",
        ".inf",
        "\u{FEFF}",
        "\u{85}",
        "é",
        "\u{202E}",
        "tool: mail:send\n",
        "riskLevel: high\n",
        "\"riskLevel\":",
        "\"tool\": \"a:b\",",
        "contracts:\n",
        "- tool: mail:a\n",
        "permissions: [",
        "stepUpAuth: {when: ",
        "inputSchema:\n  type: object\n",
        "outputSchema: {strict: true}\n",
        "idempotency: {mode: ",
        "natural",
        "keyFrom: [a]",
        "dryRun: none\n",
        "rateLimit: {calls: 1, per: 1m}\n",
        "sensitive: [/a]\n",
        "confirmation: none\n",
        "riskLevle: low\n",
    ];
    prop_oneof![8 => select(pieces).prop_map(str::to_owned), 1 => any::<String>()]
}
