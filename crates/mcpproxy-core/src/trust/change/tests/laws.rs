//! Laws that hold for any two definitions.

use proptest::prelude::*;
use serde_json::{Value, json};

use super::compare_tools;

/// Schemas that are close to each other, so that many pairs differ in few steps.
fn schema() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(json!({})),
        Just(json!({"type": "string"})),
        Just(json!({"type": ["string", "null"]})),
        Just(json!({"type": "number"})),
        Just(json!({"type": "integer"})),
        (0..3_u8).prop_map(|number| json!({"maxLength": number})),
        (0..3_u8).prop_map(|number| json!({"minimum": number})),
        proptest::sample::subsequence(vec!["a", "b", "c"], 1..=3).prop_map(|values| json!({ "enum": values })),
    ];
    let properties = proptest::collection::btree_map(proptest::sample::select(vec!["a", "b"]), leaf, 0..=2);
    let required = proptest::sample::subsequence(vec!["a", "b"], 0..=2);
    let additional = prop_oneof![Just(None), Just(Some(true)), Just(Some(false))];
    (properties, required, additional).prop_map(|(properties, required, additional)| {
        let mut schema = json!({ "properties": properties, "required": required });
        if let Some(additional) = additional {
            schema["additionalProperties"] = additional.into();
        }
        schema
    })
}

fn tool() -> impl Strategy<Value = String> {
    let hint = || prop_oneof![Just(Value::Null), Just(json!(true)), Just(json!(false))];
    let risk = prop_oneof![Just(json!({})), Just(json!({"riskLevel": "low"})), Just(json!({"riskLevel": "high"}))];
    (schema(), hint(), hint(), risk).prop_map(|(schema, read_only, destructive, contract)| {
        let annotations = json!({"readOnlyHint": read_only, "destructiveHint": destructive});
        let meta = json!({ crate::contract::META_KEY: contract });
        json!({"name": "t", "inputSchema": schema, "annotations": annotations, "_meta": meta}).to_string()
    })
}

/// Arguments that tell the schemas apart.
fn arguments() -> Vec<Value> {
    let values =
        [json!(null), json!("a"), json!("b"), json!(""), json!("abc"), json!(0), json!(1.5), json!(7), json!({})];
    let mut all = vec![json!({}), json!({"x": 1})];
    for a in &values {
        all.push(json!({ "a": a }));
        all.push(json!({ "b": a }));
        all.extend(values.iter().map(|b| json!({ "a": a, "b": b })));
    }
    all
}

fn admits(schema: &Value, arguments: &Value) -> bool {
    let schema = crate::schema::Schema::of_server(&schema.to_string()).unwrap();
    schema.admits(&arguments.clone().into())
}

proptest! {
    #[test]
    fn nothing_differs_from_itself(tool in tool()) {
        prop_assert_eq!(compare_tools(&tool, &tool), super::Change::default());
    }

    #[test]
    fn a_change_and_its_way_back_are_never_both_stricter(old in tool(), new in tool()) {
        let (there, back) = (compare_tools(&old, &new), compare_tools(&new, &old));
        prop_assert!(!(there.is_stricter && back.is_stricter), "{} {}", old, new);
        prop_assert_eq!(there.meanings.is_empty(), back.meanings.is_empty());
    }

    /// The proof by keywords agrees with the validator: what a stricter schema admits, the old one admitted.
    #[test]
    fn a_stricter_schema_admits_nothing_new(old in schema(), new in schema()) {
        let tool = |schema: &Value| json!({"name": "t", "inputSchema": schema}).to_string();
        if compare_tools(&tool(&old), &tool(&new)).is_stricter {
            for arguments in arguments() {
                prop_assert!(!admits(&new, &arguments) || admits(&old, &arguments), "{} {} {}", old, new, arguments);
            }
        }
    }
}
