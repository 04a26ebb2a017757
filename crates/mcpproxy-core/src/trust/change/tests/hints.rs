//! Tests for annotations.

use super::{check_laxer, check_stricter};

fn annotations(members: &str) -> String {
    format!(r#""annotations":{{{members}}}"#)
}

/// Checks a step to a stricter value, and the way back.
fn check(laxer: &str, stricter: &str, there: &str, back: &str) {
    check_stricter(&annotations(laxer), &annotations(stricter), &[there]);
    check_laxer(&annotations(stricter), &annotations(laxer), &[back]);
}

#[test]
fn each_hint_has_a_direction() {
    check(
        r#""readOnlyHint":true"#,
        r#""readOnlyHint":false"#,
        "The tool no longer claims that it only reads: readOnlyHint was true and is false.",
        "It can now be called by auto-approved reads: readOnlyHint was false and is true.",
    );
    check(
        r#""destructiveHint":false"#,
        r#""destructiveHint":true"#,
        "The tool now counts as destructive: destructiveHint was false and is true.",
        "The tool no longer counts as destructive: destructiveHint was true and is false.",
    );
    check(
        r#""idempotentHint":true"#,
        "",
        "Agents may no longer repeat calls: idempotentHint was true and is not given.",
        "Agents may now repeat calls: idempotentHint was not given and is true.",
    );
    check(
        r#""openWorldHint":false"#,
        r#""openWorldHint":true"#,
        "Its results now count as coming from outside: openWorldHint was false and is true.",
        "Its results no longer count as coming from outside: openWorldHint was true and is false.",
    );
}

#[test]
fn a_tool_without_annotations() {
    check_stricter(
        "",
        &annotations(r#""destructiveHint":true"#),
        &["The tool now counts as destructive: destructiveHint was not given and is true."],
    );
    check_laxer(
        "",
        &annotations(r#""readOnlyHint":true"#),
        &["It can now be called by auto-approved reads: readOnlyHint was not given and is true."],
    );
    check_laxer(
        &annotations(r#""destructiveHint":true"#),
        r#""annotations":null"#,
        &["The tool no longer counts as destructive: destructiveHint was true and is not given."],
    );
}

/// A destructive tool stays one, whatever else it claims.
#[test]
fn a_claim_without_an_effect_is_told_as_a_claim() {
    check_laxer(
        &annotations(r#""destructiveHint":true"#),
        &annotations(r#""destructiveHint":true,"readOnlyHint":true"#),
        &["The tool now claims that it only reads: readOnlyHint was not given and is true."],
    );
}

#[test]
fn anything_else_in_annotations_is_not_stricter() {
    check_laxer(
        &annotations(""),
        &annotations(r#""title":"a""#),
        &["The title in the annotations is new and has 1 character."],
    );
    check_laxer(&annotations(""), &annotations(r#""x":1"#), &["Annotation `x` is new: 1."]);
    check_laxer(
        &annotations(r#""readOnlyHint":true"#),
        &annotations(r#""readOnlyHint":"false""#),
        &["readOnlyHint was true and is \"false\"."],
    );
    check_laxer(&annotations(""), r#""annotations":7"#, &["The annotations have another form."]);
    check_laxer(
        &annotations(""),
        &annotations(r#""readOnlyHint":null"#),
        &["The annotations are written in another way: readOnlyHint was not given and is not given."],
    );
}
