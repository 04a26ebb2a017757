//! Dry runs in sentences, and the form for standing approvals.

use askama::Template as _;
use mcpproxy_core::{ApprovalState, Assurance, RiskLevel, Untrusted};
use mcpproxy_gateway::{ApprovalView, FailedDryRun};
use mcpproxy_store::{ApprovalPage, RecordId, Status, StoredApproval, StoredDryRun};
use serde_json::{Value, json};

use super::{AFTER, BOTH, NOW_MS, approval, aside, frame, view};
use crate::ui::pages::confirm::{Confirm, Typed, TypedStanding};
use crate::ui::pages::grant_schema;
use crate::ui::pages::lists::{Inbox, Selected};
use crate::ui::pages::whole::whole;

#[test]
fn a_refused_dry_run_is_shown() {
    let record = RecordId::parse("01HF7YAT00ZZW1Z00000000000").unwrap();
    let failed = FailedDryRun { record, at_ms: NOW_MS - 2_000, code: Some(Untrusted::new("policy_<b>violation")) };
    let view = ApprovalView { dry_run: None, failed_dry_run: Some(failed), ..view(approval(AFTER, "")) };
    let page = Confirm::new(frame("dry"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
    assert!(!page.contains("made no dry run") && !page.contains("<b>violation"), "{page}");
    assert!(page.contains("The server refused a dry run with the same arguments"), "{page}");
    assert!(page.contains(&format!("/ui/activity/{record}")), "{page}");
}

#[test]
fn a_call_that_ran_and_failed_does_not_look_like_a_success() {
    let record = RecordId::parse("01HF7YAT00ZZW1Z00000000000").unwrap();
    let ran = StoredApproval {
        args: None,
        state: ApprovalState::Consumed,
        decided_by: Some("ben".to_owned()),
        decided_ms: Some(NOW_MS - 30_000),
        consumed_ms: Some(NOW_MS - 20_000),
        record: Some(record),
        ..approval(AFTER, "")
    };
    let failed = ApprovalView { ran: Some(Status::Error), ..view(ran.clone()) };
    let page = Confirm::new(frame("x"), &failed, BOTH, Typed::default(), NOW_MS).render().unwrap();
    assert!(page.contains("ran and failed at") && page.contains("It ran once and failed <time"), "{page}");
    assert!(page.contains("card over failed") && !page.contains("Approved and run"), "{page}");
    let list = ApprovalPage { approvals: vec![ran], next: None };
    let rows =
        |status: Status| Inbox::new(frame("x"), &list, &[(record, status)], Selected::All, NOW_MS).render().unwrap();
    assert!(rows(Status::Error).contains("<span>Ran and failed <time"));
    assert!(rows(Status::Success).contains("<span>Ran <time"));
}

#[test]
fn the_plain_text_says_what_was_sent() {
    let check = |state: ApprovalState, expected: &str| {
        let text = whole(&view(StoredApproval { state, ..approval(AFTER, "") }));
        assert!(text.contains(expected), "{text}");
    };
    check(ApprovalState::Pending, "ARGUMENTS, as the server gets them if you approve");
    check(ApprovalState::Consumed, "ARGUMENTS, as sent to the server");
    check(ApprovalState::Denied, "ARGUMENTS, as requested, never sent to the server");
}

#[test]
fn a_dry_run_is_told_in_sentences() {
    let answer = json!({"structuredContent": {"dryRun": true, "user": {"id": "u_max", "name": "<b>Max</b>"},
        "unassignedTaskIds": ["t_1", "t_2"], "warnings": ["2 tasks lose\u{202e} their assignee"],
        "expectedSideEffects": ["The user is gone."]}});
    let mut view = view(approval(AFTER, ""));
    view.dry_run = Some(StoredDryRun { preview: Untrusted::new(answer.to_string()), is_native: true, at_ms: NOW_MS });
    let page = Confirm::new(frame("dry"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
    let section = page.split("<section").find(|part| part.contains("id=\"preview\"")).unwrap_or_default();
    for expected in [
        "<span class=\"by\">Warning:</span> <span class=\"said\">2 tasks lose<span class=\"mark\"",
        "<span class=\"by\">Expected:</span> <span class=\"said\">The user is gone.</span>",
        "<code class=\"said\">user › name</code>",
        "&lt;b&gt;Max&lt;/b&gt;",
        "t_1, t_2",
        "<summary>Raw JSON</summary>",
        "from the server, not verified",
    ] {
        assert!(section.contains(expected), "{expected}\n{section}");
    }
    assert!(!section.contains("<b>") && !section.contains('\u{202e}'), "{section}");
}

#[test]
fn a_form_with_choices() {
    let args = r#"{"projectId": "p_web", "title": "<i>Launch</i>"}"#;
    let wanted = StoredApproval { risk: Some(RiskLevel::High), least: Assurance::Form, ..approval(args, "") };
    let view = view(wanted);
    let page = |typed: Typed| aside(&Confirm::new(frame("x"), &view, BOTH, typed, NOW_MS).render().unwrap());
    let first = page(Typed::default());
    for expected in [
        "name=\"keep0\" value=\"1\" checked",
        "name=\"keep1\" value=\"1\" checked",
        "<option value=\"15\" selected>15 minutes</option>",
        "<option value=\"5\" selected>5 calls</option>",
        "<details><summary>Advanced: JSON Schema</summary>",
    ] {
        assert!(first.contains(expected), "{expected}\n{first}");
    }
    assert!(!first.contains("<i>"), "{first}");
    // A form that was refused keeps its ticks, and a number that is not offered.
    let typed = |fields: &[(&str, &str)]| {
        let field = |name: &str| fields.iter().find(|(known, _)| *known == name).map(|(_, value)| *value);
        TypedStanding::read(field)
    };
    let unticked = typed(&[("choices", "1"), ("keep0", "1"), ("minutes", "7"), ("uses", "2")]);
    let again = page(Typed { grant: Some(unticked.clone()), ..Typed::default() });
    assert!(again.contains("name=\"keep0\" value=\"1\" checked") && again.contains("name=\"keep1\" value=\"1\">"));
    assert!(again.contains("<option value=\"7\" selected>7 minutes</option>"), "{again}");
    let schema: Value = serde_json::from_str(&unticked.wanted_schema(&view)).unwrap();
    assert_eq!(schema["properties"], json!({"projectId": {"const": "p_web"}, "title": {"type": "string"}}));
    // The suggestion comes back with the line breaks of a form. It is not an edit.
    let suggested = typed(&[]).wanted_schema(&view);
    assert_eq!(suggested, "");
    let exactly = grant_schema::allowing(args, args, |_| true).replace('\n', "\r\n");
    let unedited = typed(&[("choices", "1"), ("keep1", "1"), ("schema", &exactly)]).wanted_schema(&view);
    let schema: Value = serde_json::from_str(&unedited).unwrap();
    assert_eq!(schema["properties"], json!({"projectId": {"type": "string"}, "title": {"const": "<i>Launch</i>"}}));
    let own = typed(&[("choices", "1"), ("keep0", "1"), ("schema", "{\"required\": [\"title\"]}")]);
    assert_eq!(own.wanted_schema(&view), "{\"required\": [\"title\"]}");
    assert!(page(Typed { grant: Some(own), ..Typed::default() }).contains("<details open><summary>Advanced"));
}
