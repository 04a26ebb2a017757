//! Invariants of checking any value against any schema. The first line of an input is the schema, the rest is the value.

use mcpproxy_core::json::{self, ExactValue};
use mcpproxy_core::schema::{PROBLEMS_MAX, Problem, Schema};

pub(crate) fn check(bytes: &[u8]) {
    let Ok(text) = str::from_utf8(bytes) else { return };
    let (schema, value) = text.split_once('\n').unwrap_or((text, "null"));
    let inspected = Schema::inspect(schema);
    let of_server = Schema::of_server(schema);
    assert_eq!(inspected.unwrap_or_else(Some), of_server.as_ref().err().cloned(), "{schema}");
    let of_contract = Schema::parse(schema);
    assert!(of_contract.is_err() || Schema::deferred(schema).is_ok(), "{schema}");
    let Ok(value) = json::read(value.trim().as_bytes()) else { return };
    let Some(value) = ExactValue::read(value) else { panic!("accepted, and it cannot be read: {value}") };
    for schema in of_server.iter().chain(&of_contract) {
        verdicts_agree(schema, &value);
    }
}

fn verdicts_agree(schema: &Schema, value: &ExactValue) {
    let checked = schema.check(value);
    assert_eq!(checked.is_ok(), schema.admits(value), "{schema:?} {:?}", value.value());
    assert!(schema.may_admit(value) || checked.is_err(), "{schema:?} {:?}", value.value());
    if let Err(problems) = checked {
        assert!((1..=PROBLEMS_MAX).contains(&problems.len()), "{problems:?}");
        let message = Problem::message(&problems);
        assert!(message.len() <= 2_048 && !message.contains(|c: char| c.is_control() && c != '\n'), "{message:?}");
    }
}
