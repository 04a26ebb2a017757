//! Compares our walker with the `jsonschema` crate on random schemas and values. No text makes it panic.

use jsonschema::PatternOptions;
use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Keep, brief};
use proptest::prelude::*;
use serde_json::{Map, Value, json};

const DRAFTS: [(&str, jsonschema::Draft); 5] = [
    ("http://json-schema.org/draft-04/schema#", jsonschema::Draft::Draft4),
    ("http://json-schema.org/draft-06/schema#", jsonschema::Draft::Draft6),
    ("http://json-schema.org/draft-07/schema#", jsonschema::Draft::Draft7),
    ("https://json-schema.org/draft/2019-09/schema", jsonschema::Draft::Draft201909),
    ("https://json-schema.org/draft/2020-12/schema", jsonschema::Draft::Draft202012),
];

fn any_value() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        Just(Value::Null),
        any::<bool>().prop_map(Value::from),
        (-3i64..5).prop_map(Value::from),
        (-3i64..5).prop_map(|n| json!(n as f64 / 2.0)),
        "[abé]{0,3}".prop_map(Value::from),
    ];
    leaf.prop_recursive(3, 16, 4, |inner| {
        prop_oneof![
            proptest::collection::vec(inner.clone(), 0..4).prop_map(Value::from),
            proptest::collection::btree_map("[abc]", inner, 0..4).prop_map(|map| map.into_iter().collect()),
        ]
    })
}

fn plain_keyword() -> impl Strategy<Value = (String, Value)> {
    let types = ["string", "integer", "number", "boolean", "object", "array", "null"];
    let type_name = || proptest::sample::select(types.to_vec());
    let named = |name: &'static str| move |value: Value| (name.to_owned(), value);
    prop_oneof![
        type_name().prop_map(|name| ("type".to_owned(), json!(name))),
        proptest::sample::subsequence(types.to_vec(), 1..4).prop_map(|names| ("type".to_owned(), json!(names))),
        proptest::collection::hash_set("[ab]{0,2}", 1..3).prop_map(|set| ("enum".to_owned(), json!(set))),
        any_value().prop_map(named("const")),
        any_value().prop_map(|value| ("enum".to_owned(), json!([value, 1]))),
        (proptest::sample::select(vec!["minimum", "maximum"]), -2i64..4).prop_map(|(k, n)| (k.to_owned(), json!(n))),
        proptest::sample::select(vec![json!(1), json!(2), json!(0.5), json!(1.5)]).prop_map(named("multipleOf")),
        (
            proptest::sample::select(vec![
                "minLength",
                "maxLength",
                "minItems",
                "maxItems",
                "minProperties",
                "maxProperties"
            ]),
            0u64..4
        )
            .prop_map(|(k, n)| (k.to_owned(), json!(n))),
        proptest::sample::select(vec!["^a", "b$", "^[ab]+$", "a.b", "\\w", "^\\S*$", "^(a|b)$"])
            .prop_map(|pattern| ("pattern".to_owned(), json!(pattern))),
        any::<bool>().prop_map(|on| ("uniqueItems".to_owned(), json!(on))),
        proptest::collection::hash_set("[abc]", 1..3).prop_map(|names| ("required".to_owned(), json!(names))),
        proptest::collection::btree_map("[ab]", proptest::collection::hash_set("[abc]", 1..2), 1..3)
            .prop_map(|needs| ("dependentRequired".to_owned(), json!(needs))),
        proptest::sample::select(vec!["#/definitions/a", "#/definitions/b", "#"])
            .prop_map(|to| ("$ref".to_owned(), json!(to))),
        (0u64..3).prop_map(|n| ("minContains".to_owned(), json!(n))),
        (0u64..3).prop_map(|n| ("maxContains".to_owned(), json!(n))),
    ]
}

fn any_schema() -> impl Strategy<Value = Value> {
    let object = |pairs: Vec<(String, Value)>| Value::Object(pairs.into_iter().collect::<Map<_, _>>());
    let leaf = proptest::collection::vec(plain_keyword(), 0..3).prop_map(object);
    leaf.prop_recursive(3, 24, 3, move |inner| {
        let one = |names: &[&'static str]| (proptest::sample::select(names.to_vec()), inner.clone());
        let many = proptest::collection::vec(inner.clone(), 1..3);
        let map = |keys| proptest::collection::btree_map(keys, inner.clone(), 1..3);
        let keyword = prop_oneof![
            2 => plain_keyword(),
            2 => one(&[
                "not", "if", "then", "else", "additionalProperties", "propertyNames", "items", "contains",
                "unevaluatedProperties", "unevaluatedItems", "additionalItems",
            ]).prop_map(|(name, schema)| (name.to_owned(), schema)),
            1 => (proptest::sample::select(vec!["additionalProperties", "items", "unevaluatedProperties",
                "unevaluatedItems", "additionalItems"]), any::<bool>()).prop_map(|(name, on)| (name.to_owned(), json!(on))),
            2 => (proptest::sample::select(vec!["allOf", "anyOf", "oneOf", "prefixItems"]), many)
                .prop_map(|(name, list)| (name.to_owned(), json!(list))),
            3 => map("[abc]").prop_map(|map| ("properties".to_owned(), json!(map))),
            1 => map("[ab]").prop_map(|map| ("dependentSchemas".to_owned(), json!(map))),
            1 => map("[ab]").prop_map(|map| ("dependencies".to_owned(), json!(map))),
            1 => map("\\^?[ab]").prop_map(|map| ("patternProperties".to_owned(), json!(map))),
        ];
        proptest::collection::vec(keyword, 1..4).prop_map(object)
    })
}

fn whole_schema() -> impl Strategy<Value = (Value, jsonschema::Draft)> {
    (any_schema(), any_schema(), any_schema(), proptest::sample::select(DRAFTS.to_vec())).prop_map(
        |(mut root, a, b, (uri, draft))| {
            if let Some(members) = root.as_object_mut() {
                members.insert("definitions".to_owned(), json!({"a": a, "b": b}));
                members.insert("$schema".to_owned(), json!(uri));
            }
            (root, draft)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn the_library_agrees(
        (schema, draft) in whole_schema(),
        values in proptest::collection::vec(any_value(), 1..6),
    ) {
        let text = schema.to_string();
        let Ok(ours) = Schema::of_server(&text) else { return Ok(()) };
        // No draft of JSON Schema has both, so their combination is undefined.
        if text.contains("\"dependencies") && text.contains("\"unevaluated") {
            return Ok(());
        }
        let options = jsonschema::options().with_draft(draft).with_pattern_options(PatternOptions::regex());
        let Ok(theirs) = options.should_validate_formats(false).build(&schema) else { return Ok(()) };
        for value in values {
            let exact = value.clone().into();
            prop_assert_eq!(ours.admits(&exact), theirs.is_valid(&value), "{} {}", text, value);
            prop_assert_eq!(ours.admits(&exact), ours.check(&exact).is_ok(), "{} {}", text, value);
        }
    }

    /// A shortened schema admits every value that the schema admits, and nothing else unless it is too short for that.
    #[test]
    fn a_shortened_schema_means_the_same(
        (schema, _) in whole_schema(),
        values in proptest::collection::vec(any_value(), 1..12),
    ) {
        let text = schema.to_string();
        let Ok(whole) = Schema::of_server(&text) else { return Ok(()) };
        for keep in Keep::ALL {
            let short = brief("", &text, keep).schema;
            let kept = Schema::of_server(&short);
            prop_assert!(kept.is_ok(), "{:?} {} {}", keep, text, short);
            let Ok(kept) = kept else { continue };
            for value in values.iter().filter(|value| keep.is_exact() || value.is_object()) {
                let exact = value.clone().into();
                let (before, after) = (whole.admits(&exact), kept.admits(&exact));
                prop_assert!(before == after || (after && !keep.is_exact()), "{:?} {} {} {}", keep, text, short, value);
            }
        }
    }

    /// Few keywords and many values, so that every limit is tested from both sides.
    #[test]
    fn the_library_agrees_on_small_schemas(
        (outer, inner) in (plain_keyword(), plain_keyword()),
        around in proptest::sample::select(vec!["items", "contains", "not", "additionalProperties", "propertyNames"]),
        values in proptest::collection::vec(any_value(), 40),
    ) {
        let inner = json!({ inner.0: inner.1 });
        let schema = json!({outer.0: outer.1, around: inner, "definitions": {"a": inner, "b": true}});
        let Ok(ours) = Schema::of_server(&schema.to_string()) else { return Ok(()) };
        let options = jsonschema::options().with_pattern_options(PatternOptions::regex());
        let Ok(theirs) = options.build(&schema) else { return Ok(()) };
        for value in values.iter().chain(&(-3..5).map(Value::from).collect::<Vec<_>>()) {
            prop_assert_eq!(ours.admits(&value.clone().into()), theirs.is_valid(value), "{} {}", schema, value);
        }
    }

    #[test]
    fn what_is_inspected_can_be_used((schema, _) in whole_schema()) {
        let text = schema.to_string();
        prop_assert_eq!(Schema::inspect(&text).unwrap_or_else(Some), Schema::of_server(&text).err());
    }

    #[test]
    fn no_text_is_too_odd(text in r##"[\[\]{}",:a1 #/$]{0,40}"##, value in any_value()) {
        let wrapped = [
            text.clone(),
            format!(r#"{{"$ref":{}}}"#, Value::from(text.clone())),
            format!(r#"{{"pattern":{0},"patternProperties":{{{0}:false}},"$defs":{{"a":{{"$ref":{0}}}}}}}"#, Value::from(text.clone())),
        ];
        for text in wrapped {
            let inspected = Schema::inspect(&text);
            let used = Schema::of_server(&text);
            prop_assert_eq!(inspected.unwrap_or_else(Some), used.as_ref().err().cloned());
            let _verdict = used.map(|schema| schema.check(&value.clone().into()));
            let _strict = Schema::parse(&text);
        }
    }

    #[test]
    fn messages_are_short_and_clean((schema, _) in whole_schema(), value in any_value(), name in "(.|\\n){0,300}") {
        let schema = json!({"allOf": [schema], "properties": {"a": {"const": name.clone(), "description": name.clone()}},
            "required": [name.clone()], "additionalProperties": false});
        let Ok(schema) = Schema::of_server(&schema.to_string()) else { return Ok(()) };
        let value = json!({"a": value, name.as_str(): name.as_str()});
        if let Err(problems) = schema.check(&value.into()) {
            prop_assert!((1..=8).contains(&problems.len()));
            let message = mcpproxy_core::schema::Problem::message(&problems);
            prop_assert!(message.len() <= 2_048);
            prop_assert!(!message.chars().any(|c| c.is_control() && c != '\n'));
        }
    }
}
