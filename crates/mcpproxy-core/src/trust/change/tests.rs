//! Tests for the meaning of changes: tables of two versions and the sentences about them.

mod alike;
mod contract;
mod hints;
mod laws;
mod schema;

use super::*;

fn compare_tools(old: &str, new: &str) -> Change {
    compare(DefinitionKind::Tool, old, new)
}

/// Compares two tools that differ in these members.
fn check(old: &str, new: &str, expected: &[&str]) -> Change {
    let tool = |members: &str| match members {
        "" => r#"{"name":"t"}"#.to_owned(),
        members => format!(r#"{{"name":"t",{members}}}"#),
    };
    let change = compare_tools(&tool(old), &tool(new));
    assert_eq!(change.meanings, expected, "{old} → {new}");
    change
}

fn check_laxer(old: &str, new: &str, expected: &[&str]) {
    assert!(!check(old, new, expected).is_stricter, "{old} → {new}");
}

fn check_stricter(old: &str, new: &str, expected: &[&str]) {
    assert!(check(old, new, expected).is_stricter, "{old} → {new}");
}

#[test]
fn texts() {
    check_laxer(r#""description":"ab""#, r#""description":"ab cd""#, &["The description has 3 new characters."]);
    check_laxer(r#""description":"ab cd""#, r#""description":"ab""#, &["The description lost 3 characters."]);
    check_laxer(
        r#""description":"Read it.""#,
        r#""description":"Move it.""#,
        &["The description has 4 new characters in place of 4."],
    );
    check_laxer("", r#""title":"é""#, &["The title is new and has 1 character."]);
    check_laxer(r#""title":"ab""#, "", &["The title is gone. It had 2 characters."]);
    check_laxer(
        r#""description":"ab""#,
        r#""description":"a\u200b\u{0}b""#.replace("\\u{0}", "\\u202e").as_str(),
        &["The description has 2 new characters. 2 of them cannot be seen."],
    );
    check_laxer(r#""description":"ab""#, r#""description":7"#, &["The description was \"ab\" and is 7."]);
}

#[test]
fn other_members() {
    check_laxer(r#""icons":[{"src":"a"}]"#, r#""icons":[{"src":"b"}]"#, &["Its icons come from other addresses."]);
    check_laxer("", r#""execution":{"a":1}"#, &["`execution` is new: {\"a\":1}."]);
    check_laxer(r#""x":1"#, r#""x":2"#, &["Member `x` was 1 and is 2."]);
    check_laxer(r#""x\n":1"#, "", &["Member `x\\n` was 1 and is gone."]);
    check_laxer(
        r#""_meta":{"ui":{"resourceUri":"ui://a"}}"#,
        r#""_meta":{"ui":{"resourceUri":"https://b"}}"#,
        &["Member `ui` of `_meta` was {\"resourceUri\":\"ui://a\"} and is {\"resourceUri\":\"https://b\"}."],
    );
}

#[test]
fn the_gravest_comes_first() {
    let change = check(
        r#""description":"a","annotations":{"readOnlyHint":false},"inputSchema":{}"#,
        r#""description":"ab","annotations":{"readOnlyHint":true},"inputSchema":{"properties":{"sidenote":{}},"additionalProperties":false}"#,
        &[
            "It can now be called by auto-approved reads: readOnlyHint was false and is true.",
            "New optional parameter `sidenote`: agents may send data in it.",
            "The description has 1 new character.",
            "A parameter that the schema does not name is now refused.",
        ],
    );
    assert_eq!(change.kinds, ["hints", "input_schema", "description"]);
    assert!(!change.is_stricter, "one difference that is not stricter decides");
}

#[test]
fn one_change_has_a_bounded_number_of_sentences() {
    let schema = |from: usize| {
        let properties: Vec<String> = (from..from + 1000).map(|number| format!(r#""p{number}":{{}}"#)).collect();
        format!(r#"{{"name":"t","inputSchema":{{"properties":{{{}}}}}}}"#, properties.join(","))
    };
    let change = compare_tools(&schema(0), &schema(1000));
    assert_eq!(change.meanings.len(), MEANINGS_MAX + 1);
    assert_eq!(change.meanings.last().unwrap(), "There are 1950 more differences.");
}

#[test]
fn prompts_templates_and_instructions() {
    let check = |kind, old: &str, new: &str, expected: &[&str], is_stricter: bool| {
        let change = compare(kind, old, new);
        assert_eq!(
            (change.meanings, change.is_stricter),
            (expected.iter().map(ToString::to_string).collect(), is_stricter)
        );
    };
    let prompt = |arguments: &str| format!(r#"{{"name":"p","arguments":[{arguments}]}}"#);
    let old = prompt(r#"{"name":"a","description":"x"},{"name":"b","required":true}"#);
    check(
        DefinitionKind::Prompt,
        &old,
        &prompt(r#"{"name":"a","description":"xy"},{"name":"c","required":true},{"name":"d"}"#),
        &[
            "New required argument `c`: agents must send data in it.",
            "New optional argument `d`: agents may send data in it.",
            "The description of argument `a` has 1 new character.",
            "Argument `b` is gone.",
        ],
        false,
    );
    let required = prompt(r#"{"name":"a","description":"x","required":true},{"name":"b","required":true}"#);
    check(DefinitionKind::Prompt, &old, &required, &["Argument `a` is now required."], true);
    check(DefinitionKind::Prompt, &required, &old, &["Argument `a` is no longer required."], false);
    let odd = prompt(r#"{"name":"a"},{"name":"a"}"#);
    check(DefinitionKind::Prompt, &old, &odd, &["The arguments have another form."], false);
    check(
        DefinitionKind::Template,
        r#"{"uriTemplate":"a","mimeType":"b"}"#,
        r#"{"uriTemplate":"a","mimeType":"c"}"#,
        &["Member `mimeType` was \"b\" and is \"c\"."],
        false,
    );
    check(
        DefinitionKind::Instructions,
        r#""Use it.""#,
        r#""Use it. Always.""#,
        &["The text of the instructions has 8 new characters."],
        false,
    );
}
