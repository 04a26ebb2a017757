//! Checks the messages for arguments that do not fit their schema, against the table `data/schema_problems.txt`.

use mcpproxy_core::json::ExactValue;
use mcpproxy_core::schema::{Problem, Schema};
use serde_json::{Value, json};

const TABLE: &str = include_str!("data/schema_problems.txt");

#[test]
fn problems_are_told_in_plain_words() {
    let mut told = String::new();
    let mut schema = None;
    for line in TABLE.lines().filter(|line| !line.starts_with('!')) {
        told.push_str(line);
        told.push('\n');
        if let Some(text) = line.strip_prefix("schema ") {
            schema = Some(Schema::of_server(text).unwrap());
        } else if let Some(text) = line.strip_prefix("value ") {
            let value = ExactValue::read(text).unwrap();
            let problems = schema.as_ref().unwrap().check(&value).err().unwrap_or_default();
            told.extend(problems.iter().map(|problem| format!("! {problem}\n")));
        }
    }
    assert!(told == TABLE, "the table should be:\n{told}");
}

#[test]
fn a_missing_property_has_all_its_parts() {
    let schema =
        r#"{"properties":{"q":{"type":"string","description":"What to look for"}},"required":["q"],"description":"x"}"#;
    let problems = Schema::of_server(schema).unwrap().check(&json!({}).into()).unwrap_err();
    let expected = Problem {
        pointer: "/q".to_owned(),
        expected: "a string (required)".to_owned(),
        found: "nothing".to_owned(),
        description: Some("What to look for".to_owned()),
    };
    assert_eq!(problems, [expected]);
    assert_eq!(Problem::message(&problems), "/q: required property missing, expected a string (What to look for)");
}

#[test]
fn secrets_are_not_repeated() {
    let secret = "correct horse battery staple and more of it";
    let schema =
        Schema::of_server(r#"{"enum":["a"],"type":"integer","maxLength":3,"pattern":"^b","not":true}"#).unwrap();
    let message = Problem::message(&schema.check(&json!(secret).into()).unwrap_err());
    assert!(!message.contains("horse"), "{message}");
}

#[test]
fn a_long_message_says_how_much_is_left_out() {
    let name = "n".repeat(300);
    let schema = json!({"properties": {}, "required": (0..9).map(|n| format!("{n}{name}")).collect::<Vec<_>>(),
        "additionalProperties": {"const": name.repeat(4), "description": name}});
    let value: Value = (0..9).map(|n| (format!("x{n}{name}"), json!(1))).collect();
    let problems = Schema::of_server(&schema.to_string()).unwrap().check(&value.into()).unwrap_err();
    let message = Problem::message(&problems);
    assert_eq!(problems.len(), 8);
    assert!(message.len() <= 2_048 && message.ends_with(" more"), "{} {message}", message.len());
}

/// Contract schemas are accepted, or refused with a reason.
#[test]
fn contracts_are_read_strictly() {
    let check = |text: &str, expected: &str| {
        let outcome = Schema::parse(text).map_or_else(|error| error.to_string(), |_| "ok".to_owned());
        assert_eq!(outcome, expected, "{text}");
    };
    check(r#"{"type":"object","properties":{"to":{"minItems":11}},"x-note":1,"example":1}"#, "ok");
    check(r#"{"pattern":"^[a-z]+$","format":"email"}"#, "ok");
    check("[]", "a schema must be a JSON object, true or false");
    check("{", "a schema must be a JSON object, true or false");
    check(r#"{"type":"strng"}"#, "`/type` must be a JSON type or an array of them");
    check(
        r#"{"properties":{"a/b":{"required":true}}}"#,
        "`/properties/a~1b/required` must be an array of property names",
    );
    check(r#"{"properties":{"a":1}}"#, "`/properties/a` must be an object, true or false");
    check(r#"{"minLength":-1}"#, "`/minLength` must be a non-negative integer");
    check(r#"{"anyOf":[]}"#, "`/anyOf` must be a non-empty array of schemas");
    check(r#"{"multipleOf":0}"#, "`/multipleOf` must be a number greater than 0 with at most 19 digits");
    check(r#"{"requird":["a"]}"#, "`/requird` is not a JSON Schema keyword; did you mean `required`?");
    check(
        r#"{"properties":{"requird":{"pattern":"(?=a)"}}}"#,
        "the pattern at `/properties/requird/pattern` is invalid, too large, or uses look-around or back-references, which are not supported",
    );
    check(
        r#"{"patternProperties":{"[":{}}}"#,
        "the pattern at `/patternProperties/[` is invalid, too large, or uses look-around or back-references, which are not supported",
    );
    check(
        r#"{"$ref":"https://example.com/a"}"#,
        r#"reference "https://example.com/a" points outside the schema, and external schemas are never fetched"#,
    );
    check(r#"{"title":7}"#, r#"the schema is invalid: value is not of type "string" at `/title`"#);
    check(r#"{"required":["a","a"]}"#, "the schema is invalid: value has non-unique elements at `/required`");
    check(r#"{"items":[{}]}"#, r#"the schema is invalid: value is not of types "boolean", "object" at `/items`"#);
}

/// References inside the document are resolved in all their forms.
#[test]
fn references_are_found_inside() {
    let check = |text: &str, fits: Value, fits_not: Value| {
        let schema = Schema::of_server(text).unwrap_or_else(|error| panic!("{text} {error}"));
        assert!(schema.admits(&fits.into()) && !schema.admits(&fits_not.into()), "{text}");
    };
    check(r##"{"$ref":"#/$defs/a%20b~1c","$defs":{"a b/c":{"type":"string"}}}"##, json!("a"), json!(1));
    check(r##"{"$ref":"#x","$defs":{"a":{"$anchor":"x","type":"string"}}}"##, json!("a"), json!(1));
    check(r##"{"$ref":"#/odd/0","odd":[{"type":"string"}]}"##, json!("a"), json!(1));
    check(
        r##"{"$id":"https://a.example/s","$ref":"https://a.example/s#/$defs/b","$defs":{"b":{"type":"string"}}}"##,
        json!("a"),
        json!(1),
    );
    check(
        r##"{"$ref":"T","$defs":{"a":{"$id":"T","$ref":"#/$defs/b","$defs":{"b":{"type":"string"}}}}}"##,
        json!("a"),
        json!(1),
    );
    check(
        r##"{"$dynamicAnchor":"n","properties":{"a":{"$dynamicRef":"#n"}},"additionalProperties":false}"##,
        json!({"a":{"a":{}}}),
        json!({"a":{"b":1}}),
    );
    check(
        r##"{"$schema":"https://json-schema.org/draft/2019-09/schema","properties":{"a":{"$recursiveRef":"#"}},"additionalProperties":false}"##,
        json!({"a":{"a":{}}}),
        json!({"a":{"b":1}}),
    );
    check(
        r##"{"$schema":"http://json-schema.org/draft-07/schema#","$ref":"#x","type":"integer","definitions":{"a":{"$id":"#x","type":"string"}}}"##,
        json!("a"),
        json!(1),
    );
}

/// Keywords that cannot be checked never refuse a value.
#[test]
fn what_is_left_out_only_admits_more() {
    let check = |text: &str, value: Value, unchecked: &[&str]| {
        let schema = Schema::of_server(text).unwrap();
        assert_eq!(
            (schema.check(&value.into()), schema.unchecked()),
            (Ok(()), unchecked.iter().map(|p| (*p).to_owned()).collect::<Vec<_>>().as_slice()),
            "{text}"
        );
    };
    let odd = r#"{"pattern":"(?=a)"}"#;
    check(odd, json!("b"), &["/pattern"]);
    check(&format!(r#"{{"not":{odd}}}"#), json!("b"), &["/not/pattern", "/not"]);
    check(&format!(r#"{{"oneOf":[{odd},{{"type":"string"}}]}}"#), json!("b"), &["/oneOf/0/pattern", "/oneOf"]);
    check(&format!(r#"{{"if":{odd},"then":false}}"#), json!("b"), &["/if/pattern", "/if"]);
    check(
        &format!(r#"{{"contains":{odd},"maxContains":1}}"#),
        json!(["b", "b"]),
        &["/contains/pattern", "/maxContains"],
    );
    check(
        &format!(r##"{{"not":{{"items":{{"$ref":"#/$defs/a"}}}},"$defs":{{"a":{odd}}}}}"##),
        json!(["b"]),
        &["/$defs/a/pattern", "/not"],
    );
    check(
        r#"{"patternProperties":{"(?=a)":false},"additionalProperties":false}"#,
        json!({"b": 1}),
        &["/patternProperties/(?=a)"],
    );
    check(
        r#"{"allOf":[{"patternProperties":{"(?=a)":{}}}],"unevaluatedProperties":false}"#,
        json!({"b": 1}),
        &["/allOf/0/patternProperties/(?=a)", "/unevaluatedProperties"],
    );
}

/// The step limit stops hostile schemas, but not long results.
#[test]
fn long_values_are_checked_to_the_end() {
    fn is_shared<T: Send + Sync>(_: &T) {}
    let schema = Schema::of_server(
        r##"{"items":{"$ref":"#/$defs/row"},"$defs":{"row":{"type":"object","required":["id"],"additionalProperties":false,
        "properties":{"id":{"type":"integer"},"name":{"anyOf":[{"type":"null"},{"type":"string","pattern":"^[a-z]+$"}]},
        "tags":{"type":"array","uniqueItems":true,"items":{"enum":["a","b","c"]}},"parent":{"anyOf":[{"$ref":"#/$defs/row"},{"type":"null"}]}}}}}"##,
    )
    .unwrap();
    is_shared(&schema);
    let row =
        |id: Value| json!({"id": id, "name": "abc", "tags": ["a", "b"], "parent": {"id": 1, "parent": {"id": 2}}});
    let mut rows: Vec<Value> = (0..20_000).map(|id| row(json!(id))).collect();
    assert_eq!(schema.check(&json!(rows).into()), Ok(()));
    rows.push(row(json!("x")));
    let problems = schema.check(&json!(rows).into()).unwrap_err();
    assert_eq!(Problem::message(&problems), "/20000/id: expected an integer, found the string \"x\"");
}

#[test]
fn messages_have_every_digit() {
    let check = |schema: &str, value: &str, expected: &str| {
        let problems = Schema::parse(schema).unwrap().check(&ExactValue::read(value).unwrap()).unwrap_err();
        assert_eq!(Problem::message(&problems), expected);
    };
    check(
        r#"{"const":18446744073709551616}"#,
        "18446744073709551617",
        "/: expected 18446744073709551616, found the number 18446744073709551617",
    );
    check(
        r#"{"maximum":0.1}"#,
        "0.10000000000000000000000000001",
        "/: expected at most 0.1, found the number 0.10000000000000000000000000001",
    );
    let refused = Schema::parse(r#"{"multipleOf":18446744073709551617}"#).unwrap_err().to_string();
    assert_eq!(refused, "`/multipleOf` must be a number greater than 0 with at most 19 digits");
}

/// A number of a megabyte costs as many steps as its digits, for every condition that looks at it.
#[test]
fn a_number_without_end_is_refused_in_time() {
    let bounds: Vec<Value> = (0..2_000).map(|n| json!({"maximum": n + 1})).collect();
    let options: Vec<u32> = (0..10_000).collect();
    let value = ExactValue::read(&format!("0.{}1", "0".repeat(1 << 20))).unwrap();
    for schema in [json!({"allOf": bounds}), json!({"enum": options})] {
        let problems = Schema::parse(&schema.to_string()).unwrap().check(&value).unwrap_err();
        assert_eq!(problems[0].found, "a value that takes too many steps to check");
    }
}

/// Many programs write floats with 17 digits, so `0.1` becomes `0.10000000000000001`.
#[test]
fn a_long_list_of_long_numbers_is_checked_to_the_end() {
    let list = |last: &str| {
        let rows: Vec<String> = (0..2_000).map(|n| format!("[{n},0.10000000000000001]")).collect();
        ExactValue::read(&format!("[{},[0,{last}]]", rows.join(","))).unwrap()
    };
    let schema = r#"{"items":{"uniqueItems":true,"items":{"minimum":0,"maximum":5000,"not":{"enum":[-1,-2]}}}}"#;
    let schema = Schema::parse(schema).unwrap();
    assert_eq!(schema.check(&list("4999.9999999999999999")), Ok(()));
    let problems = schema.check(&list("5000.0000000000000001")).unwrap_err();
    assert_eq!(problems[0].found, "the number 5000.0000000000000001");
}
