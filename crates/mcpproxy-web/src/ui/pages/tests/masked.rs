//! Masked values: compared as they are, and shown to the approver only.

use askama::Template as _;
use mcpproxy_core::{ApprovalState, Hidden, Untrusted};
use mcpproxy_gateway::ApprovalView;
use mcpproxy_store::StoredApproval;
use serde_json::{Value, json};

use super::{BOTH, NOW_MS, approval, frame, view};
use crate::diff::Audience;
use crate::ui::pages::confirm::{Confirm, Typed};
use crate::wire::WholeApproval;

/// Builds an approval request with masked recipients, as it is stored.
fn masked(args: &str, shown: &str) -> StoredApproval {
    let plain = approval(args, "");
    let mut about: Value = serde_json::from_str(plain.about.for_json()).unwrap();
    let marks = Hidden::all(shown, args);
    let marks = marks.into_iter().map(|one| (one.pointer, json!(Hidden::mark(&plain.id, &one.whole).to_string())));
    about["hidden"] = Value::Object(marks.collect());
    StoredApproval { shown_args: Untrusted::new(shown), about: Untrusted::new(about.to_string()), ..plain }
}

fn masked_view(before: &str, after: &str) -> ApprovalView {
    let shown = |args: &str| {
        let count = args.matches('@').count();
        format!("{{\"to\": [{}], \"n\": 1}}", vec!["\"***\""; count].join(", "))
    };
    let previous = StoredApproval { args: None, state: ApprovalState::Consumed, ..masked(before, &shown(before)) };
    ApprovalView { previous: Some(previous), dry_run: None, ..view(masked(after, &shown(after))) }
}

#[test]
fn what_is_masked_is_compared_as_it_is() {
    let (anna, both) = (r#"{"to": ["anna@acme"], "n": 1}"#, r#"{"to": ["eve@evil", "anna@acme"], "n": 1}"#);
    let rows = |before: &str, after: &str, eyes: Audience| {
        let whole = WholeApproval::new(&masked_view(before, after), eyes, NOW_MS);
        let whole = serde_json::to_value(whole).unwrap();
        let rows = whole["changes"].as_array().unwrap().iter();
        let row = |row: &Value| {
            let hidden = if row["hidden"] == true { " hidden" } else { "" };
            format!("{} {}{hidden} {}", row["pointer"].as_str().unwrap(), row["change"].as_str().unwrap(), row["after"])
        };
        rows.map(row).collect::<Vec<_>>()
    };
    let check = |before: &str, after: &str, anybody: &[&str], who_decides: &[&str]| {
        assert_eq!(rows(before, after, Audience::Observer), anybody, "{before} {after}");
        assert_eq!(rows(before, after, Audience::Approver), who_decides, "{before} {after}");
    };
    let same = ["to/0 unchanged \"***\"", "n unchanged 1"];
    check(anna, anna, &same, &["to/0 unchanged \"anna@acme\"", "n unchanged 1"]);
    let eve = r#"{"to": ["eve@evil"], "n": 1}"#;
    let other = ["to/0 changed hidden \"***\"", "n unchanged 1"];
    check(anna, eve, &other, &["to/0 changed hidden \"eve@evil\"", "n unchanged 1"]);
    let more = ["to/0 added \"***\"", "to/1 unchanged \"***\"", "n unchanged 1"];
    check(anna, both, &more, &["to/0 added \"eve@evil\"", "to/1 unchanged \"anna@acme\"", "n unchanged 1"]);
    let decided = |after: &str| {
        let view = masked_view(anna, after);
        let approval = StoredApproval { args: None, state: ApprovalState::Denied, ..view.approval.clone() };
        let args_for_user = approval.shown_args.clone();
        let view = ApprovalView { approval, args_for_user, ..view };
        let page = Confirm::new(frame("masked"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
        assert!(!page.contains("eve@evil") && !page.contains("anna@acme"), "{page}");
        page
    };
    assert!(decided(eve).contains("changed in a masked value") && decided(eve).contains("may have changed"));
    assert!(decided(anna).contains("same as last time") && !decided(anna).contains("may have changed"));
    let view = masked_view(anna, eve);
    let page = Confirm::new(frame("masked"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
    assert!(page.contains("eve@evil") && page.contains("changed; the previous value was not stored"), "{page}");
    assert!(page.contains("1 change since last time"), "{page}");
}
