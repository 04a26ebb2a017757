//! Hostile schemas that are made to be slow. Each is refused when it is loaded, or checked quickly for every value.

use std::time::{Duration, Instant};

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Keep, brief};
use serde_json::{Value, json};

/// Time limit. A bomb that works would take hours, so a busy machine gets plenty of room.
const SOON: Duration = Duration::from_secs(60);

/// Returns the error of a schema, or the first problem of the value.
fn outcome(text: &str, value: &Value) -> String {
    if let Err(error) = Schema::inspect(text) {
        return format!("refused: {error}");
    }
    for keep in Keep::ALL {
        let _short = brief("", text, keep);
    }
    match Schema::of_server(text) {
        Err(error) => format!("not checked: {error}"),
        Ok(schema) => {
            let unchecked = if schema.unchecked().is_empty() { "" } else { ", not wholly" };
            match schema.check(&value.clone().into()) {
                Ok(()) => format!("fits{unchecked}"),
                Err(problems) => {
                    let first = problems.first().map(ToString::to_string).unwrap_or_default();
                    format!("{} told{unchecked}: {first}", problems.len())
                }
            }
        }
    }
}

/// Builds `levels` definitions, each by calling `level` with a reference to the next.
fn ladder(levels: usize, level: impl Fn(Value) -> Value) -> String {
    let mut definitions: serde_json::Map<String, Value> =
        (0..levels).map(|n| (format!("l{n}"), level(json!({"$ref": format!("#/$defs/l{}", n + 1)})))).collect();
    definitions.insert(format!("l{levels}"), json!({"type": "string"}));
    json!({"$defs": definitions, "$ref": "#/$defs/l0"}).to_string()
}

fn nested(depth: usize, wrap: impl Fn(Value) -> Value) -> Value {
    (0..depth).fold(json!(1), |inner, _| wrap(inner))
}

fn many(count: usize, each: impl Fn(usize) -> Value) -> Vec<Value> {
    (0..count).map(each).collect()
}

fn object(count: usize, each: impl Fn(usize) -> Value) -> Value {
    (0..count).map(|n| (format!("key{n}"), each(n))).collect()
}

fn bombs() -> Vec<(&'static str, String, Value)> {
    let mut all = refused();
    all.extend(recursive());
    all.extend(wide());
    all.extend(patterns());
    all
}

/// Schemas that are refused when they are loaded.
fn refused() -> Vec<(&'static str, String, Value)> {
    let deep = |depth: usize| format!("{}{{}}{}", r#"{"not":"#.repeat(depth), "}".repeat(depth));
    let two = |keyword: &'static str| ladder(26, move |next| json!({ keyword: [next.clone(), next] }));
    vec![
        ("two of all, 26 times", two("allOf"), json!("a")),
        ("two of any, 26 times", two("anyOf"), json!(1)),
        ("two of one, 26 times", two("oneOf"), json!("a")),
        ("not and not, 26 times", ladder(26, |next| json!({"not": next.clone(), "allOf": [{"not": next}]})), json!(1)),
        ("if and else, 26 times", ladder(26, |next| json!({"if": next.clone(), "else": next})), json!(1)),
        (
            "dependent, 26 times",
            ladder(26, |n| json!({"dependentSchemas": {"a": n.clone(), "b": n}})),
            json!({"a":1,"b":1}),
        ),
        ("itself", json!({"$ref": "#"}).to_string(), json!(1)),
        ("itself, dynamically", json!({"$dynamicAnchor": "a", "$dynamicRef": "#a"}).to_string(), json!(1)),
        (
            "each other",
            json!({"allOf": [{"$ref": "#/$defs/a"}], "$defs": {"a": {"anyOf": [{"$ref": "#/$defs/b"}]},
                "b": {"not": {"$ref": "#/$defs/a"}}}})
            .to_string(),
            json!(1),
        ),
        ("a file", json!({"$ref": "file:///etc/passwd"}).to_string(), json!(1)),
        ("an address", json!({"properties": {"a": {"$ref": "http://169.254.169.254/x#/y"}}}).to_string(), json!(1)),
        ("a hidden address", json!({"$defs": {"a": {"$id": "b"}}, "$ref": "a\u{202e}\u{1b}"}).to_string(), json!(1)),
        ("nowhere", json!({"$ref": "#/$defs/missing"}).to_string(), json!(1)),
        ("into data", json!({"$ref": "#/enum/0", "enum": ["a"]}).to_string(), json!(1)),
        ("long", json!({"description": "a".repeat(200_000)}).to_string(), json!(1)),
        ("deep", deep(33), json!(1)),
        ("deeper than anything", deep(5_000), json!(1)),
        ("wide", json!({"properties": object(5_000, |_| json!({}))}).to_string(), json!(1)),
        ("patterns", json!({"allOf": many(33, |n| json!({"pattern": format!("a{n}")}))}).to_string(), json!(1)),
    ]
}

/// Recursive schemas that descend into the value.
fn recursive() -> Vec<(&'static str, String, Value)> {
    let down = json!({"properties": {"a": {"$ref": "#"}}});
    let into = json!({"items": {"$ref": "#"}});
    let objects = nested(60, |inner| json!({ "a": inner }));
    let chain = ladder(3_000, |next| next);
    vec![
        (
            "two ways down",
            json!({"anyOf": [down.clone(), down.clone(), {"type": "null"}]}).to_string(),
            objects.clone(),
        ),
        ("two ways down, all", json!({"allOf": [down.clone(), down.clone()]}).to_string(), objects.clone()),
        (
            "two ways down, one",
            json!({"oneOf": [down.clone(), down.clone()], "not": {"type": "null"}}).to_string(),
            objects.clone(),
        ),
        (
            "two ways down, unevaluated",
            json!({"allOf": [down.clone(), {"anyOf": [down]}], "unevaluatedProperties": false}).to_string(),
            objects.clone(),
        ),
        (
            "two ways into arrays",
            json!({"anyOf": [into.clone(), into]}).to_string(),
            nested(60, |inner| json!([inner])),
        ),
        (
            "different at every level",
            json!({"uniqueItems": true, "items": {"$ref": "#"}}).to_string(),
            nested(14, |i| json!([i, [i]])),
        ),
        (
            "contains itself",
            json!({"contains": {"$ref": "#"}, "items": {"$ref": "#"}}).to_string(),
            nested(15, |i| json!([i, i])),
        ),
        ("a long chain", chain, json!("a")),
        (
            "a tree of names",
            json!({"propertyNames": {"$ref": "#"}, "additionalProperties": {"$ref": "#"}}).to_string(),
            objects,
        ),
    ]
}

/// Schemas that visit every part of a long value many times.
fn wide() -> Vec<(&'static str, String, Value)> {
    let numbers = json!(many(30_000, |n| json!(n % 10)));
    let keys = object(5_000, |n| json!(n));
    let texts = json!(many(6_000, |n| json!(format!("text{n}"))));
    let same = |count: usize| many(count, |_| json!({"$ref": "#/$defs/a"}));
    vec![
        ("a long list to choose from", json!({"items": {"enum": many(9_000, |n| json!(format!("e{n}")))}}).to_string(), texts.clone()),
        ("long lists to choose from", json!({"const": many(9_000, |n| json!(n))}).to_string(), json!(many(9_000, |n| json!(n)))),
        ("the same list, often", json!({"$defs": {"a": {"enum": [many(9_000, |n| json!(n))]}}, "allOf": same(3_000)}).to_string(), json!(many(9_000, |n| json!(n)))),
        ("all different", json!({"uniqueItems": true}).to_string(), json!(many(12_000, |n| json!(n)))),
        ("all different objects", json!({"uniqueItems": true}).to_string(), json!(many(3_000, |n| json!({"a": 1, "b": {"c": n}})))),
        ("all different, often", json!({"$defs": {"a": {"uniqueItems": true}}, "allOf": same(3_000)}).to_string(), json!(many(12_000, |n| json!(n)))),
        ("many for each item", json!({"$defs": {"a": {"type": "integer"}}, "items": {"allOf": same(3_000)}}).to_string(), numbers.clone()),
        ("one of many for each item", json!({"items": {"oneOf": many(3_000, |n| json!({"const": n}))}}).to_string(), numbers.clone()),
        ("contains, often", json!({"$defs": {"a": {"contains": {"const": 10}}}, "anyOf": same(3_000)}).to_string(), numbers.clone()),
        ("names, often", json!({"propertyNames": {"oneOf": many(1_000, |n| json!({"maxLength": n}))}}).to_string(), keys.clone()),
        ("long texts, often", json!({"$defs": {"a": {"minLength": 9}}, "allOf": same(3_000)}).to_string(), json!("é".repeat(32_000))),
        ("required, often", json!({"items": {"required": many(4_000, |n| json!(format!("k{n}")))}}).to_string(), json!(many(20_000, |_| json!({})))),
        ("dependent, often", json!({"items": {"dependentSchemas": object(3_000, |_| json!(false))}}).to_string(), json!(many(20_000, |_| json!({})))),
        ("unevaluated, often", json!({"$defs": {"a": {"properties": object(900, |_| json!({}))}}, "allOf": same(900), "unevaluatedProperties": false}).to_string(), keys.clone()),
        ("unevaluated items, often", json!({"$defs": {"a": {"items": {}}}, "allOf": same(900), "unevaluatedItems": false}).to_string(), numbers.clone()),
        ("a tiny divisor", json!({"items": {"multipleOf": 1e-300}}).to_string(), json!(many(6_000, |n| json!(n as f64 * 1e300)))),
        ("a huge divisor", json!({"items": {"multipleOf": 1e308}}).to_string(), numbers.clone()),
        ("a huge count", r#"{"minItems":1e300,"maxLength":1e300,"minContains":18446744073709551615,"contains":true}"#.to_owned(), numbers),
        ("a long name around many", json!({"properties": {"a".repeat(60_000): {"properties": object(1_000, |_| json!({"$ref": "#/$defs/a"}))}}, "$defs": {"a": {"pattern": "(?=a)"}}}).to_string(), keys.clone()),
        ("nothing is allowed", json!({"additionalProperties": false, "properties": object(1_000, |_| json!({}))}).to_string(), keys),
        ("long words", json!({"description": "\u{1b}".repeat(9_000), "const": "\u{202e}".repeat(3_000)}).to_string(), texts),
    ]
}

fn patterns() -> Vec<(&'static str, String, Value)> {
    let text = |part: &str| json!(part.repeat(65_000 / part.len()));
    let pattern = |pattern: &str| json!({ "pattern": pattern }).to_string();
    vec![
        ("repeats of repeats", pattern("(a{1000}){1000}"), text("a")),
        ("repeats of repeats of repeats", pattern("((a{100}){100}){100}"), text("a")),
        ("nested stars", pattern("^(a*)*b$"), text("a")),
        ("either or both", pattern("^(a|aa)+$"), text("a")),
        ("many states", pattern("[01]*1[01]{100}$"), text("01")),
        ("more states", pattern("[01]*1[01]{1000}$"), text("0110")),
        ("most states", pattern("(.*.*.*1[01]{500}){4}$"), text("0110")),
        ("all letters", pattern("^(\\p{L}{20}|\\p{N}{20})*$"), text("é")),
        ("look-ahead", pattern("^(?=(a+)+$)b"), text("a")),
        ("back-reference", pattern("^(a+)\\1+$"), text("a")),
        ("no pattern", pattern("(["), text("a")),
        ("look-ahead that must not fit", json!({"not": {"pattern": "(?=a)"}}).to_string(), text("a")),
        (
            "look-ahead in a name",
            json!({"patternProperties": {"(?=a)": {}}, "additionalProperties": false}).to_string(),
            json!({"a": 1}),
        ),
        (
            "all large",
            json!({"allOf": many(32, |n| json!({"pattern": format!("^.{{{}}}$", 900 + n)}))}).to_string(),
            text("a"),
        ),
        (
            "for each name",
            json!({"patternProperties": (0..32).map(|n| (format!("k.*y.*{n}$"), json!({}))).collect::<Value>()})
                .to_string(),
            object(5_000, |n| json!(n)),
        ),
    ]
}

#[test]
fn every_bomb_is_harmless() {
    let mut outcomes = String::new();
    let mut slow = Vec::new();
    let all = bombs();
    assert!(all.len() >= 60, "{}", all.len());
    for (name, text, value) in &all {
        let began = Instant::now();
        let outcome = outcome(text, value);
        let took = began.elapsed();
        outcomes.push_str(&format!("{name}: {outcome}\n"));
        if took > SOON {
            slow.push(format!("{name}: {took:?}"));
        }
    }
    assert!(slow.is_empty(), "{slow:#?}\n{outcomes}");
    assert!(outcomes == include_str!("data/schema_bombs.txt"), "the table should be:\n{outcomes}");
}
