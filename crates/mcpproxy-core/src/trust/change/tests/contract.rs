//! Tests for the server's own contract.

use super::{check_laxer, check_stricter};

fn contract(members: &str) -> String {
    format!(r#""_meta":{{"mcp-first/contract":{{{members}}}}}"#)
}

#[test]
fn a_weaker_contract() {
    check_laxer(
        &contract(r#""riskLevel":"critical","confirmation":"required""#),
        &contract(r#""riskLevel":"low","confirmation":"none""#),
        &[
            "The contract no longer asks for confirmation: `confirmation` was \"required\" and is \"none\".",
            "The contract claims less risk: `riskLevel` was \"critical\" and is \"low\".",
            "The contract lets agents call the tool on their own.",
            "The contract no longer asks for a second factor.",
        ],
    );
    check_laxer(
        &contract(r#""permissions":["a:b","a:c"]"#),
        &contract(r#""permissions":["a:b"]"#),
        &["The contract asks for fewer permissions: `permissions` was [\"a:b\",\"a:c\"] and is [\"a:b\"]."],
    );
    check_laxer(
        &contract(r#""confirmation":"required""#),
        "",
        &["The contract no longer asks for confirmation: `confirmation` was \"required\" and is gone."],
    );
}

#[test]
fn a_stricter_contract() {
    check_stricter(
        &contract(r#""riskLevel":"low""#),
        &contract(r#""riskLevel":"high""#),
        &["The contract asks for more: `riskLevel` was \"low\" and is \"high\"."],
    );
    check_stricter(
        "",
        &contract(r#""confirmation":"required","riskLevel":"critical""#),
        &[
            "The contract asks for more: `confirmation` is new: \"required\".",
            "The contract asks for more: `riskLevel` is new: \"critical\".",
        ],
    );
    check_stricter(
        &contract(r#""permissions":["a:b"]"#),
        &contract(r#""permissions":["a:b","a:c"]"#),
        &["The contract asks for more: `permissions` was [\"a:b\"] and is [\"a:b\",\"a:c\"]."],
    );
}

#[test]
fn what_may_be_a_claim_or_a_text_is_not_stricter() {
    check_laxer("", &contract(r#""riskLevel":"low""#), &["The contract changed: `riskLevel` is new: \"low\"."]);
    check_laxer("", &contract(r#""operation":"read""#), &["The contract changed: `operation` is new: \"read\"."]);
    check_laxer(
        &contract(""),
        &contract(r#""description":"a""#),
        &["The contract changed: `description` is new: \"a\"."],
    );
    check_laxer(&contract(""), &contract(r#""x":"a""#), &["The contract changed: `x` is new: \"a\"."]);
    check_laxer(
        &contract(""),
        &contract(r#""confirmation":{"when":{"required":["a"]}}"#),
        &["The contract changed: `confirmation` is new: {\"when\":{\"required\":[\"a\"]}}."],
    );
    check_laxer(&contract(""), &contract(r#""riskLevel":7"#), &["The contract of the server has another form."]);
}
