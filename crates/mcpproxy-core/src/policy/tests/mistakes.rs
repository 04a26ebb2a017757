//! Tests for the whole texts of mistakes.

use super::*;

fn check(text: &str, expected: &[&str]) {
    assert_eq!(mistakes(&[("a.cedar", text)]), expected, "{text}");
}

/// Checks one mistake in a condition. The column counts from the beginning of the condition.
fn check_when(condition: &str, column: usize, expected: &str) {
    let text = format!("forbid (principal, action, resource)\n  when {{ {condition} }};");
    check(&text, &[&format!("a.cedar:2:{} {expected}", column + 10)]);
}

#[test]
fn files_without_mistakes() {
    for text in ["", "  \n", "// nothing yet", "\u{FEFF}forbid (principal, action, resource);\r\n// end"] {
        check(text, &[]);
    }
}

#[test]
fn shapes() {
    check("forbid (principal, action, resource)", &["a.cedar:1:37 this policy has no end: add a `;`"]);
    check("forbid (principal, action, resource", &["a.cedar:1:36 this policy has no end: add a `;`"]);
    check(
        "forbid (principal, action, resource)\nwhen { context.hasReason }\nforbid (principal, action, resource);",
        &["a.cedar:3:1 a new policy begins here, but the previous one has no end: add a `;`"],
    );
    check(
        "// All may read.\npermit (principal, action == Action::\"read\", resource);",
        &[
            "a.cedar:2:1 permit has no effect: mcpproxy allows every call that no policy forbids; write forbid (…) unless { … }",
        ],
    );
    check(
        "deny (principal, action, resource);",
        &["a.cedar:1:1 expected forbid (principal, action, resource), found `deny`"],
    );
    check(";", &["a.cedar:1:1 expected forbid (principal, action, resource), found `;`"]);
    check(
        "forbid (principal, action);",
        &[
            "a.cedar:1:26 this policy is missing the `resource` variable in the scope; a policy has a `principal`, `action`, \
           and `resource` element in that order",
        ],
    );
    check("forbid principal;", &["a.cedar:1:8 unexpected token `principal`; expected `(`"]);
    check(
        "forbid (principal == ?principal, action, resource);",
        &["a.cedar:1:22 templates are not supported: name the agent or tool itself"],
    );
    check(
        "forbid (principal, action, resource) where { true };",
        &["a.cedar:1:38 invalid condition: where; condition must be either `when` or `unless`"],
    );
    check_when("resource.name == 'x'", 17, "invalid token; strings must use double quotes, not single quotes");
    check_when("resource.name == \"x", 17, "this string has no end: add a `\"`");
    check_when("resource.risk = \"high\"", 0, "'=' is not a valid operator in Cedar; try using '==' instead");
    check_when(
        "9223372036854775808 > 3",
        0,
        "integer literal `9223372036854775808` is too large; maximum allowed integer literal is `9223372036854775807`",
    );
    check(
        "// \u{202e}\nforbid (principal, action, resource);",
        &["a.cedar:1:4 the character u{202e} can hide text: remove it"],
    );
}

#[test]
fn annotations() {
    let all = ", action, resource)";
    let check =
        |annotations: &str, expected: &[&str]| check(&format!("{annotations} forbid (principal{all};"), expected);
    check(
        "@ID(\"x\")",
        &["a.cedar:1:2 unknown annotation @ID: only @id and @message are supported; did you mean @id?"],
    );
    check(
        "@mesage(\"x\")",
        &["a.cedar:1:2 unknown annotation @mesage: only @id and @message are supported; did you mean @message?"],
    );
    check("@reason(\"x\")", &["a.cedar:1:2 unknown annotation @reason: only @id and @message are supported"]);
    check("@id", &["a.cedar:1:2 @id needs text: @id(\"…\")"]);
    check("@id()", &["a.cedar:1:2 @id needs text: @id(\"…\")"]);
    check("@id(\"a\") @id(\"b\")", &["a.cedar:1:10 @id is given twice"]);
    check("@id(\"no mail\")", &["a.cedar:1:5 @id takes 1 to 64 letters, digits, `_`, `.` and `-`"]);
    check("@id(\"\")", &["a.cedar:1:5 @id takes 1 to 64 letters, digits, `_`, `.` and `-`"]);
    check(
        &format!("@id(\"{}\")", "a".repeat(65)),
        &["a.cedar:1:5 @id takes 1 to 64 letters, digits, `_`, `.` and `-`"],
    );
    check(&format!("@id(\"{}\")", "a".repeat(64)), &[]);
    check("@message(\"\")", &["a.cedar:1:10 @message takes 1 to 300 characters"]);
    check(&format!("@message(\"{}\")", "é".repeat(301)), &["a.cedar:1:10 @message takes 1 to 300 characters"]);
    check(&format!("@message(\"{}\")", "é".repeat(300)), &[]);
}

#[test]
fn names_are_given_once() {
    let policy = "forbid (principal, action, resource);";
    let twice = format!("@id(\"x\") {policy}");
    assert_eq!(
        mistakes(&[("a.cedar", &twice), ("b.cedar", &format!("{policy}\n{twice}"))]),
        ["b.cedar:2:5 the policy in a.cedar, line 1 has the id x too: give each policy its own @id",]
    );
    check(
        &format!("{policy} {policy}"),
        &["a.cedar:1:39 another policy already has the id a.cedar:1: give this one its own @id"],
    );
}

#[test]
fn attributes_and_types() {
    check_when("context.tme.hour < 7", 0, "attribute `tme` in context not found; did you mean `time`?");
    check_when("context.time.hours < 7", 0, "attribute `time.hours` in context not found; did you mean `hour`?");
    check_when(
        "resource.riskrank > 3",
        0,
        "attribute `riskrank` on entity type `Tool` not found; did you mean `riskRank`?",
    );
    check_when("resource.riskRank > \"3\"", 20, "unexpected type: expected Long but saw String");
    check_when(
        "principal.grants == \"a\"",
        0,
        "the types String and Set<String> are not compatible; both operands to a `==` expression must have compatible \
         types. Types must be exactly equal to be compatible",
    );
    check_when(
        "resource.permissions.contains()",
        0,
        "call to `contains` requires exactly 1 argument, but got 0 arguments",
    );
    check_when("[].contains(3)", 0, "empty set literals are forbidden in policies");
    check_when("if context.hasReason then 1 else 2", 0, "unexpected type: expected Bool but saw Long");
    check_when(
        "context.now < datetime(\"24 dec\")",
        14,
        "error during extension function argument validation: failed to parse as a datetime value: `\"24 dec\"`; valid \
         datetime strings start with `YYYY-MM-DD` and may optionally include `THH:MM:SS` plus `Z`, `.SSSZ`, or an \
         offset like `+0700`",
    );
    check_when(
        "context.now < datetime(resource.name)",
        14,
        "this needs text in quotes, as in datetime(\"2026-12-24\") and duration(\"8h\")",
    );
    for literal in ["Agent::\"x\".grants.contains(\"x\")", "Tool::\"a:b\" in Server::\"a\""] {
        check_when(
            literal,
            0,
            "only principal, resource and context have attributes: compare others with `==` or `in`",
        );
    }
    check_when("resource.name like \"аdmin*\"", 0, "string `\"аdmin*\"` contains mixed scripts");
    check_when("resource.name == \"a\\u{202e}\"", 17, "string `\"a\\u{202e}\"` contains BIDI control characters");
}

#[test]
fn policies_that_forbid_nothing() {
    let never = "a.cedar:1:1 this policy can never forbid anything: its conditions contradict each other or the schema";
    check("forbid (principal, action, resource) when { false };", &[never]);
    check("forbid (principal, action, resource) when { resource has categry };", &[never]);
    check("forbid (principal, action, resource) when { principal is Tool };", &[never]);
    check(
        "forbid (principal, action == Action::\"delete\", resource);",
        &["a.cedar:1:30 unknown action: use read, write or destructive, or call for all three"],
    );
    check(
        "forbid (principal, action == Action::\"call\", resource);",
        &["a.cedar:1:30 `call` is a group of actions: write action in Action::\"call\", or action alone"],
    );
    check(
        "forbid (principal == Server::\"x\", action, resource);",
        &["a.cedar:1:22 principal is an agent: write Agent::\"…\" here"],
    );
    check(
        "forbid (principal, action, resource == Server::\"mail\");",
        &["a.cedar:1:40 a tool is in a server: write resource in Server::\"mail\""],
    );
    check(
        "forbid (principal, action, resource == Agent::\"mail\");",
        &["a.cedar:1:40 resource is a tool: write Tool, or `in` Server or Category, here"],
    );
    check(
        "forbid (principal, action, resource in Servr::\"mail\");",
        &["a.cedar:1:40 unrecognized entity type `Servr`; did you mean `Server`?"],
    );
    check(
        "forbid (principal, action, resource in [Server::\"mail\", Server::\"x\"]);",
        &["a.cedar:1:40 only one is allowed here: write when { resource in [Server::\"…\", Server::\"…\"] }"],
    );
    check(
        "forbid (principal, action, resource == Tool::\"send\");",
        &["a.cedar:1:46 no tool can have this name: expected server:tool"],
    );
    check(
        "forbid (principal, action, resource in Server::\"Mail\");",
        &["a.cedar:1:48 no server can have this name: server names look like [a-z0-9][a-z0-9_-]{0,62}, without two \
         underscores in a row"],
    );
    let risk = "risk is never \"hig\", but one of low, medium, high, critical, unclassified";
    check_when("resource.risk == \"hig\"", 17, &format!("{risk}; did you mean \"high\"?"));
    check_when(
        "context.time.weekday != \"Sunday\"",
        24,
        "weekday is never \"Sunday\", but one of monday, tuesday, wednesday, thursday, friday, saturday, sunday; did \
         you mean \"sunday\"?",
    );
    check_when("context.variant == \"delete\"", 19, "variant is never \"delete\", but one of read, write, destructive");
    check_when(
        "context.sensitivity == \"secret\"",
        23,
        "sensitivity is never \"secret\", but one of public, internal, private, unknown",
    );
    check_when(
        "resource.operation == \"writes\"",
        22,
        "operation is never \"writes\", but one of read, write, destructive, unknown; did you mean \"write\"?",
    );
}

#[test]
fn many_mistakes_come_together_and_in_order() {
    let text = "forbid (principal, action, resource) when { context.tme.hour < 7 || resource.risky };\n\
        permit (principal, action, resource);\nforbid (principal, action, resource";
    check(
        text,
        &[
            "a.cedar:1:45 attribute `tme` in context not found; did you mean `time`?",
            "a.cedar:1:69 attribute `risky` on entity type `Tool` not found; did you mean `risk`?",
            "a.cedar:2:1 permit has no effect: mcpproxy allows every call that no policy forbids; write forbid (…) unless { … }",
            "a.cedar:3:36 this policy has no end: add a `;`",
        ],
    );
    assert_eq!(mistakes(&[("a.cedar", &"permit (principal, action, resource);".repeat(500))]).len(), 20);
}
