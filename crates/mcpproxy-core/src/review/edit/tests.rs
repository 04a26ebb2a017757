//! Edits of contract files: comments stay, other tools stay, and the result is what was asked for.

use serde_json::json;

use super::*;
use crate::contract::Contracts;

const FILE: &str = "\
# Ours, reviewed in May.
- tool: mail:send            # the dangerous one
  description: |
    Sends mail. # not a comment
  riskLevel: high   # others notice
  permissions:
  - emails:send
  # keep this one
  rateLimit: { calls: 5, per: \"1m\" } # \"burst\"

# Only reads.
- tool: mail:list
  riskLevel: low
- riskLevel: medium
  # moved up
  tool: mail:move
";

fn tool(name: &str) -> ToolName {
    ToolName::parse(name).unwrap()
}

fn edit(text: &str, name: &str, edits: &FieldEdits) -> Result<String, TooUnusual> {
    let new = edited("contracts/mail.yaml", text, &tool(name), edits)?;
    let parsed = Contracts::parse(&[("contracts/mail.yaml".to_owned(), new.clone())]);
    assert!(parsed.is_ok(), "{parsed:?}\n{new}");
    Ok(new)
}

#[test]
fn comments_and_other_contracts_stay() {
    let edits = [("riskLevel", Some(json!("critical"))), ("rateLimit", Some(json!({"calls": 1, "per": "1h"})))];
    let new = edit(FILE, "mail:send", &edits).unwrap();
    let expected = FILE
        .replace("riskLevel: high   # others", "riskLevel: critical   # others")
        .replace("{ calls: 5, per: \"1m\" } # \"burst\"", "{ calls: 1, per: \"1h\" } # \"burst\"");
    assert_eq!(new, expected);
}

#[test]
fn keys_are_added_in_their_order_and_removed() {
    let edits = [("confirmation", Some(json!("required"))), ("permissions", None), ("stepUpAuth", Some(json!(true)))];
    let new = edit(FILE, "mail:send", &edits).unwrap();
    let expected = FILE.replace("# others notice\n", "# others notice\n  confirmation: required\n  stepUpAuth: true\n");
    assert_eq!(new, expected.replace("  permissions:\n  - emails:send\n", ""));
    let new =
        edit(FILE, "mail:list", &[("dryRun", Some(json!({"mode": "required", "parameter": "dry run"})))]).unwrap();
    let dry_run = "  riskLevel: low\n  dryRun: { mode: required, parameter: \"dry run\" }\n";
    assert_eq!(new, FILE.replace("  riskLevel: low\n", dry_run));
}

#[test]
fn the_key_behind_the_dash_can_go() {
    let new = edit(FILE, "mail:move", &[("riskLevel", None)]).unwrap();
    assert_eq!(
        new,
        FILE.replace("- riskLevel: medium\n  # moved up\n  tool: mail:move", "  # moved up\n- tool: mail:move")
    );
}

#[test]
fn a_value_of_many_lines_becomes_one() {
    let text = "tool: mail:send\nconfirmation:\n  when:\n    required: [to]\nriskLevel: low\n# end\n";
    let new = edit(text, "mail:send", &[("confirmation", Some(json!("none")))]).unwrap();
    assert_eq!(new, "tool: mail:send\nconfirmation: none\nriskLevel: low\n# end\n");
}

#[test]
fn a_new_contract_stands_at_the_end() {
    let low = [("riskLevel", Some(json!("low")))];
    let check = |text: &str, expected: &str| assert_eq!(edit(text, "mail:new", &low).unwrap(), expected, "{text}");
    check("", "- tool: mail:new\n  riskLevel: low\n");
    check("# Nothing yet.\n", "# Nothing yet.\n\n- tool: mail:new\n  riskLevel: low\n");
    check("- tool: mail:a\n", "- tool: mail:a\n\n- tool: mail:new\n  riskLevel: low\n");
    check("tool: mail:a\n", "tool: mail:a\n\n---\ntool: mail:new\nriskLevel: low\n");
    check(
        "contracts:\n  - tool: mail:a\n    riskLevel: low",
        "contracts:\n  - tool: mail:a\n    riskLevel: low\n\n  - tool: mail:new\n    riskLevel: low\n",
    );
    let windows = "\u{FEFF}- tool: mail:a\r\n  riskLevel: high # x\r\n";
    assert_eq!(
        edit(windows, "mail:a", &low).unwrap(),
        "\u{FEFF}- tool: mail:a\r\n  riskLevel: low # x\r\n",
        "byte order mark and line endings stay"
    );
}

#[test]
fn hostile_values_stay_values() {
    let text = "x\n- tool: mail:evil\n  riskLevel: low # \u{202E}\"'";
    let edits = [("description", Some(json!(text))), ("sideEffects", Some(json!([text, "---"])))];
    let new = edit(FILE, "mail:list", &edits).unwrap();
    let written = written("contracts/mail.yaml", &new, &tool("mail:list")).unwrap();
    assert_eq!(written.line, 12);
    assert!(written.fields.contains(&("description", json!(text))), "{written:?}");
    assert_eq!(written.fields.len(), 3);
}

#[test]
fn what_cannot_be_edited_without_loss() {
    let low = [("riskLevel", Some(json!("low")))];
    let check = |file: &str, text: &str| {
        assert_eq!(edited(file, text, &tool("mail:a"), &low), Err(TooUnusual), "{text}");
    };
    check("contracts/a.json", "[]");
    check("contracts/a.yaml", "- { tool: mail:a, riskLevel: high }\n");
    check("contracts/a.yaml", "[]\n");
    check("contracts/a.yaml", "- tool: mail:b\r\n- tool: mail:a\n");
    check("contracts/a.yaml", "- tool: [\n");
}

#[test]
fn only_the_exact_tool_has_a_contract() {
    let text = "- tool: mail:*\n  riskLevel: high\n- tool: mail:a\n  dryRun: none\n";
    assert_eq!(written("a.yaml", text, &tool("mail:b")), None);
    let found = written("a.yaml", text, &tool("mail:a")).unwrap();
    assert_eq!((found.line, found.fields), (3, vec![("dryRun", json!("none"))]));
    assert_eq!(
        entry(&tool("mail:b"), &[("riskLevel", Some(json!("low"))), ("dryRun", None)]),
        "- tool: mail:b\n  riskLevel: low\n"
    );
}
