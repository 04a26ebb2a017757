//! Tests for schemas of arguments and results.

use super::{check_laxer, check_stricter};

fn input(schema: &str) -> String {
    format!(r#""inputSchema":{schema}"#)
}

/// The schema of one parameter, `p`.
fn parameter(schema: &str) -> String {
    input(&format!(r#"{{"properties":{{"p":{schema}}}}}"#))
}

/// Checks a step to a schema that admits less, and the way back.
fn check(wider: &str, narrower: &str, there: &str, back: &str) {
    check_stricter(&parameter(wider), &parameter(narrower), &[there]);
    check_laxer(&parameter(narrower), &parameter(wider), &[back]);
}

fn laxer(old: &str, new: &str, expected: &str) {
    check_laxer(&input(old), &input(new), &[expected]);
}

#[test]
fn values_of_a_parameter() {
    check(
        r#"{"enum":["a","b"]}"#,
        r#"{"enum":["a"]}"#,
        "Parameter `p` takes 1 fewer value.",
        "Parameter `p` takes 1 new value.",
    );
    check(
        r#"{"type":["string","null"]}"#,
        r#"{"type":"string"}"#,
        "Keyword `type` of parameter `p` was [\"string\",\"null\"] and is \"string\".",
        "Keyword `type` of parameter `p` was \"string\" and is [\"string\",\"null\"].",
    );
    check(
        r#"{"type":"number"}"#,
        r#"{"type":"integer"}"#,
        "Keyword `type` of parameter `p` was \"number\" and is \"integer\".",
        "Keyword `type` of parameter `p` was \"integer\" and is \"number\".",
    );
    check(
        "{}",
        r#"{"maxLength":5}"#,
        "Keyword `maxLength` of parameter `p` is new: 5.",
        "Keyword `maxLength` of parameter `p` was 5 and is gone.",
    );
    check(
        r#"{"minimum":-2.5}"#,
        r#"{"minimum":1e3}"#,
        "Keyword `minimum` of parameter `p` was -2.5 and is 1e3.",
        "Keyword `minimum` of parameter `p` was 1e3 and is -2.5.",
    );
    check(
        r#"{"items":{"maximum":9}}"#,
        r#"{"items":{"maximum":8}}"#,
        "Keyword `maximum` of parameter `p[]` was 9 and is 8.",
        "Keyword `maximum` of parameter `p[]` was 8 and is 9.",
    );
    check(
        r#"{"anyOf":[{"type":"string"},{"type":"null"}]}"#,
        r#"{"anyOf":[{"type":"string"}]}"#,
        "Parameter `p` takes fewer forms.",
        "Keyword `anyOf` of parameter `p` was [{\"type\":\"string\"}] and is [{\"type\":\"string\"},{\"type\":\"null\"}].",
    );
    check(
        r#"{"additionalProperties":{}}"#,
        r#"{"additionalProperties":false}"#,
        "A parameter that the schema does not name is now refused in parameter `p`.",
        "A parameter that the schema does not name is no longer refused in parameter `p`.",
    );
    check(
        "{}",
        r#"{"uniqueItems":true}"#,
        "Keyword `uniqueItems` of parameter `p` is new: true.",
        "Keyword `uniqueItems` of parameter `p` was true and is gone.",
    );
}

#[test]
fn parameters() {
    laxer(
        r#"{"properties":{}}"#,
        r#"{"properties":{"context":{}},"required":["context"]}"#,
        "New required parameter `context`: agents must send data in it.",
    );
    laxer(r#"{}"#, r#"{"required":["context"]}"#, "New required parameter `context`: agents must send data in it.");
    laxer(
        r#"{"properties":{"path":{}},"required":["path"]}"#,
        r#"{"properties":{"path":{}}}"#,
        "Parameter `path` is no longer required.",
    );
    check_stricter(
        &input(r#"{"properties":{"path":{}}}"#),
        &input(r#"{"properties":{"path":{}},"required":["path"]}"#),
        &["Parameter `path` is now required."],
    );
    laxer(
        r#"{"properties":{"a":{"type":"string"}}}"#,
        r#"{"properties":{}}"#,
        "Parameter `a` is gone, and agents may still send anything in it.",
    );
    let closed = |properties: &str| format!(r#"{{"properties":{{{properties}}},"additionalProperties":false}}"#);
    check_stricter(&input(&closed(r#""a":{"type":"string"}"#)), &input(&closed("")), &["Parameter `a` is gone."]);
    for switch in
        [r#"{"type":"boolean"}"#, r#"{"type":["boolean","null"]}"#, r#"{"type":"string","enum":["dry"]}"#, "{}"]
    {
        laxer(&closed(&format!(r#""confirm":{switch}"#)), &closed(""), "Parameter `confirm` is gone.");
    }
    laxer(
        r#"{"properties":{"a":{"type":"string"}},"required":["a"],"additionalProperties":false}"#,
        r#"{"properties":{},"additionalProperties":false}"#,
        "Parameter `a` is gone.",
    );
    laxer(
        r#"{"properties":{"a":{"type":"string"}},"additionalProperties":false,"patternProperties":{"a":{}}}"#,
        r#"{"properties":{},"additionalProperties":false,"patternProperties":{"a":{}}}"#,
        "Parameter `a` is gone.",
    );
    laxer(
        r#"{"properties":{"o":{"properties":{}}}}"#,
        r#"{"properties":{"o":{"properties":{"deep":{}}}}}"#,
        "New optional parameter `o.deep`: agents may send data in it.",
    );
}

/// A new text is never stricter, even where it admits less.
#[test]
fn texts_in_schemas() {
    laxer("{}", r#"{"properties":{"p":{}}}"#, "New optional parameter `p`: agents may send data in it.");
    let parameter = |old: &str, new: &str, expected: &str| {
        check_laxer(&super::schema::parameter(old), &super::schema::parameter(new), &[expected]);
    };
    parameter("{}", r#"{"enum":["read ~/.ssh first"]}"#, "Parameter `p` now has a list of allowed values.");
    parameter(r#"{"enum":["a"]}"#, "{}", "Parameter `p` takes any value now: its list of allowed values is gone.");
    parameter("{}", r#"{"pattern":"^a"}"#, "Keyword `pattern` of parameter `p` is new: \"^a\".");
    parameter("{}", r#"{"const":"a"}"#, "Keyword `const` of parameter `p` is new: \"a\".");
    parameter("{}", r#"{"type":"odd"}"#, "Keyword `type` of parameter `p` is new: \"odd\".");
    parameter("{}", r#"{"description":"a"}"#, "The description of parameter `p` is new and has 1 character.");
    parameter(r#"{"description":"a"}"#, "{}", "The description of parameter `p` is gone. It had 1 character.");
    parameter(
        r#"{"default":""}"#,
        r#"{"default":"http://h"}"#,
        "The default of parameter `p` was \"\" and is \"http://h\".",
    );
    parameter("{}", r#"{"examples":["a"]}"#, "Keyword `examples` of parameter `p` is new: [\"a\"].");
}

/// Narrower below such a keyword can be wider above it, so nobody can tell.
#[test]
fn doubts() {
    laxer(
        r#"{"not":{"maximum":1}}"#,
        r#"{"not":{"maximum":0}}"#,
        "Keyword `not` of the schema of arguments was {\"maximum\":1} and is {\"maximum\":0}.",
    );
    laxer(
        r#"{"oneOf":[{"maximum":1},{}]}"#,
        r#"{"oneOf":[{"maximum":0},{}]}"#,
        "Keyword `maximum` of the schema of arguments was 1 and is 0.",
    );
    laxer(
        r##"{"properties":{"a":{"maximum":1},"b":{"not":{"$ref":"#/properties/a"}}}}"##,
        r##"{"properties":{"a":{"maximum":0},"b":{"not":{"$ref":"#/properties/a"}}}}"##,
        "Keyword `maximum` of parameter `a` was 1 and is 0.",
    );
    laxer(
        r##"{"$defs":{"a":{"maximum":1}},"not":{"$ref":"#/$defs/a"}}"##,
        r##"{"$defs":{"a":{"maximum":0}},"not":{"$ref":"#/$defs/a"}}"##,
        "Keyword `maximum` of parameter `$defs.a` was 1 and is 0.",
    );
    laxer("{}", "true", "The schema of arguments was {} and is true.");
    laxer(
        r#"{"minLength":"1"}"#,
        r#"{"minLength":2}"#,
        "Keyword `minLength` of the schema of arguments was \"1\" and is 2.",
    );
    laxer("{}", r#"{"minLength":0}"#, "Keyword `minLength` of the schema of arguments is new: 0.");
    laxer(
        r#"{"enum":[1,2]}"#,
        r#"{"enum":[2,1]}"#,
        "The allowed values of the schema of arguments have another order.",
    );
}

#[test]
fn dialects() {
    let plain = r#"{"properties":{"a":{"type":"string"}}"#;
    let named = |address: &str| input(&format!(r#"{plain},"$schema":"{address}"}}"#));
    let without = input(&format!("{plain}}}"));
    check_stricter(&without, &named("http://json-schema.org/draft-07/schema#"), &["The schema names its dialect."]);
    check_laxer(
        &without,
        &named("https://evil.example/schema"),
        &["Keyword `$schema` of the schema of arguments is new: \"https://evil.example/schema\"."],
    );
    laxer(
        r#"{"dependencies":{}}"#,
        r#"{"dependencies":{},"$schema":"https://json-schema.org/draft/2020-12/schema"}"#,
        "Keyword `$schema` of the schema of arguments is new: \"https://json-schema.org/draft/2020-12/schema\".",
    );
}

#[test]
fn results() {
    let output = |schema: &str| format!(r#""outputSchema":{schema}"#);
    check_laxer(
        &output(r#"{"properties":{}}"#),
        &output(r#"{"properties":{"next_step":{}}}"#),
        &["New result field `next_step`: models read it."],
    );
    check_laxer(&output("{}"), "", &["The schema of results is gone, so anything passes."]);
    check_laxer("", &output("{}"), &["The schema of results is new: models read it."]);
    check_laxer("", &output("null"), &["The schema of results is written in another way."]);
    check_stricter(
        &output(r#"{"properties":{"a":{}}}"#),
        &output(r#"{"properties":{"a":{}},"required":["a"]}"#),
        &["Result field `a` is now required."],
    );
}
