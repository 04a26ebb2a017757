//! The list of standing approvals: the risk of each, and what it allows in words.

use std::sync::Arc;

use askama::Template as _;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::{Catalog, Digest, Offer, Offered, ServerName, Tool, ToolName};
use mcpproxy_gateway::ShownStandingApproval;
use mcpproxy_store::StoredStandingApproval;

use super::{NOW_MS, frame};
use crate::ui::pages::grant_schema;
use crate::ui::pages::lists::Grants;

/// A standing approval of anna for an agent in an IDE.
pub(super) fn stored(schema: &str) -> StoredStandingApproval {
    StoredStandingApproval {
        id: "01K9ZQ4B2R0000000000000002".to_owned(),
        agent: "cursor".to_owned(),
        tool: ToolName::parse("mail:send_external").unwrap(),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        schema: schema.to_owned(),
        by: "anna".to_owned(),
        reason: None,
        intent: None,
        created_ms: NOW_MS - 60_000,
        expires_ms: NOW_MS + 800_000,
        uses: 5,
        uses_left: 3,
        revoked_ms: None,
        revoked_by: None,
    }
}

fn tool() -> Arc<Tool> {
    let server = ServerName::parse("mail").unwrap();
    let offered = Offered::parse(&server, r#"{"name":"send_external","inputSchema":{}}"#);
    let (offer, _) = Offer::new([offered]);
    let text = "- tool: mail:send_external\n  riskLevel: high\n".to_owned();
    let contracts = Contracts::parse(&[("a.yaml".to_owned(), text)]).unwrap();
    let catalog = Catalog::default().next([(server, Arc::new(offer))], &Arc::new(contracts), &Arc::default());
    Arc::clone(catalog.tools().next().unwrap())
}

fn page(grant: ShownStandingApproval) -> String {
    Grants::new(frame("Grants"), &[grant], NOW_MS).render().unwrap()
}

#[test]
fn a_row_says_what_is_allowed_and_how_risky_it_is() {
    let args = r#"{"to": "<b>a@b.example", "body": "Hello", "count": 2}"#;
    let schema = grant_schema::allowing(args, args, |number| number == 0);
    let html = page(ShownStandingApproval::new(stored(&schema), Some(&tool())));
    for part in [
        "<span class=\"risk high\">",
        "High risk</span>",
        "Agent <strong>cursor</strong> may call it without asking, with these arguments only:",
        "<code class=\"said\">to</code> stays <code class=\"said\">&lt;b&gt;a@b.example</code>",
        "<code class=\"said\">body</code> may be any text",
        "<code class=\"said\">count</code> may be any number",
        "Approved by anna.",
    ] {
        assert!(html.contains(part), "{part}\n{html}");
    }
}

#[test]
fn words_promise_no_condition_that_the_schema_does_not_have() {
    let check = |stored: StoredStandingApproval, expected: &str| {
        let html = page(ShownStandingApproval::new(stored, Some(&tool())));
        assert!(html.contains(expected), "{expected}\n{html}");
    };
    check(stored("{}"), "<strong>with any arguments</strong>");
    check(stored(&grant_schema::allowing("{}", "{}", |_| true)), "may call it without asking, only without arguments.");
    check(
        stored(r#"{"required": ["to"]}"#),
        "may call it without asking if the arguments match the JSON Schema below.",
    );
    let over = StoredStandingApproval { revoked_ms: Some(NOW_MS - 5_000), ..stored("{}") };
    check(over, "Agent <strong>cursor</strong> could call it without asking");
}

#[test]
fn the_risk_of_a_tool_that_is_gone_is_unknown() {
    let html = page(ShownStandingApproval::new(stored("{}"), None));
    assert!(html.contains("tool not available now") && !html.contains("<span class=\"risk"), "{html}");
}
