//! Dry runs in sentences, and the form for standing approvals.

use askama::Template as _;
use mcpproxy_core::{Assurance, RiskLevel, Untrusted};
use mcpproxy_store::{StoredApproval, StoredDryRun};
use serde_json::{Value, json};

use super::{AFTER, BOTH, NOW_MS, approval, aside, frame, view};
use crate::ui::pages::confirm::{Confirm, Typed, TypedStanding};
use crate::ui::pages::grant_schema;

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
