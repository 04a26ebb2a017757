//! Tests that every declared failure occurs, that dry runs change nothing, and that links and limits follow the clock.

use std::collections::{BTreeMap, BTreeSet};

use jiff::Timestamp;
use serde_json::{Value, json};

use super::*;

const NOON: &str = "2026-11-15T12:00:00Z";

/// Codes that a gateway answers instead of the server.
const BY_GATEWAY: [Code; 3] = [Code::ConfirmationRequired, Code::DryRunRequired, Code::IdempotencyConflict];

/// The data of one server, at a time that the test chooses.
struct Desk {
    data: Data,
    tools: Vec<DemoTool>,
    now: Timestamp,
}

impl Desk {
    fn new() -> Self {
        Self { data: Data::sample(), tools: all(), now: time(NOON) }
    }

    fn call(&mut self, name: &str, arguments: Value) -> Result<Value, Code> {
        let demo = self.tools.iter().find(|demo| demo.tool.name == name).unwrap();
        let arguments = arguments.as_object().cloned().unwrap();
        (demo.run)(&mut self.data, arguments, self.now).map_err(|failure| failure.code)
    }

    fn state(&self) -> String {
        format!("{:?}", self.data)
    }
}

fn time(text: &str) -> Timestamp {
    text.parse().unwrap()
}

fn mail(to: Value) -> Value {
    json!({ "to": to, "subject": "s", "body": "b" })
}

fn attached(file: &str) -> Value {
    json!({ "to": ["a@b.example"], "subject": "s", "body": "b", "attachments": [file] })
}

fn payment(account: &str, cents: u64, currency: &str) -> Value {
    json!({ "accountId": account, "payeeId": "pay_paper", "amountCents": cents, "currency": currency })
}

/// Calls that are refused on the sample data, with the expected code.
fn refused() -> Vec<(&'static str, Value, Code)> {
    let send = "emails.send_external";
    let until = "2026-12-31T23:59:00Z";
    let long_note = json!({ "projectId": "p_audit", "title": "x".repeat(201) });
    vec![
        ("search_contacts", json!({ "query": " " }), Code::InvalidQuery),
        ("search_contacts", json!({ "query": "a", "limit": 51 }), Code::InvalidLimit),
        ("get_help_article", json!({ "articleId": "nowhere" }), Code::NotFound),
        ("create_reminder", json!({ "text": "", "remindAt": until }), Code::InvalidArguments),
        ("create_reminder", json!({ "text": "x", "remindAt": "tomorrow" }), Code::InvalidTime),
        ("create_note", json!({ "projectId": "p_none", "title": "x" }), Code::NotFound),
        ("create_note", long_note, Code::InvalidArguments),
        ("update_task_status", json!({ "taskId": "t_9", "status": "done" }), Code::NotFound),
        ("update_task_status", json!({ "taskId": "t_1", "status": "lost" }), Code::InvalidArguments),
        ("create_draft", mail(json!(["priya"])), Code::InvalidRecipient),
        ("create_download_link", json!({ "fileId": "f_none", "expiresAt": until }), Code::NotFound),
        ("create_download_link", json!({ "fileId": "f_abc123", "expiresAt": "soon" }), Code::InvalidTime),
        ("create_download_link", json!({ "fileId": "f_abc123", "expiresAt": NOON }), Code::InvalidTime),
        ("create_download_link", json!({ "fileId": "f_salaries", "expiresAt": until }), Code::PolicyViolation),
        ("share_file_link", json!({ "fileId": "f_none", "email": "a@b.example" }), Code::NotFound),
        ("share_file_link", json!({ "fileId": "f_report", "email": "priya" }), Code::InvalidRecipient),
        ("share_file_link", json!({ "fileId": "f_salaries", "email": "a@b.example" }), Code::PolicyViolation),
        ("update_customer_data", json!({ "customerId": "c_9", "changes": { "name": "x" } }), Code::NotFound),
        ("update_customer_data", json!({ "customerId": "c_1", "changes": { "email": "x" } }), Code::InvalidEmail),
        ("update_customer_data", json!({ "customerId": "c_1", "changes": {} }), Code::NothingToChange),
        (send, mail(json!([])), Code::InvalidRecipient),
        (send, mail(json!(["priya"])), Code::InvalidRecipient),
        (send, mail(json!(["a@unsubscribed.example"])), Code::PolicyViolation),
        (send, attached("f_none"), Code::NotFound),
        (send, attached("f_recording"), Code::AttachmentTooLarge),
        (send, attached("f_salaries"), Code::PolicyViolation),
        ("emails.bulk_send", json!({ "templateId": "t", "segmentId": "seg_beta_testers" }), Code::NotFound),
        ("emails.bulk_send", json!({ "templateId": "tmpl_beta_invite", "segmentId": "s" }), Code::NotFound),
        ("bulk_export", json!({ "dataset": "emails" }), Code::EmptyDataset),
        ("delete_user", json!({ "userId": "u_nobody" }), Code::NotFound),
        ("delete_user", json!({ "userId": "u_anna" }), Code::PolicyViolation),
        ("execute_payment", payment("acc_none", 1, "EUR"), Code::NotFound),
        ("execute_payment", payment("acc_main", 0, "EUR"), Code::InvalidAmount),
        ("execute_payment", payment("acc_main", 1, "USD"), Code::CurrencyMismatch),
        ("execute_payment", payment("acc_main", 1_000_001, "EUR"), Code::LimitExceeded),
        ("execute_payment", payment("acc_petty", 5_001, "EUR"), Code::InsufficientFunds),
        ("generate_summary", json!({ "projectId": "p_none" }), Code::NotFound),
        ("change_project_status", json!({ "projectId": "p_none", "status": "on_hold" }), Code::NotFound),
        ("invite_calendar_attendee", json!({ "eventId": "ev_none", "email": "a@b.example" }), Code::NotFound),
        ("invite_calendar_attendee", json!({ "eventId": "ev_kickoff", "email": "priya" }), Code::InvalidRecipient),
        ("change_permissions", json!({ "userId": "u_nobody", "role": "admin" }), Code::NotFound),
        ("change_permissions", json!({ "userId": "u_anna", "role": "admin" }), Code::PolicyViolation),
        ("send_contract", json!({ "contractId": "ct_none", "email": "a@b.example" }), Code::NotFound),
        ("send_contract", json!({ "contractId": "ct_nda", "email": "priya" }), Code::InvalidRecipient),
        ("read_private_key", json!({ "keyId": "k_none" }), Code::NotFound),
        ("read_password", json!({ "userId": "u_none" }), Code::NotFound),
        ("read_raw_access_token", json!({ "userId": "u_none" }), Code::NotFound),
    ]
}

#[test]
fn every_declared_failure_happens_and_no_other() {
    let mut seen: BTreeMap<String, BTreeSet<Code>> = BTreeMap::new();
    let mut saw = |name: &str, code| {
        seen.entry(name.to_owned()).or_default().insert(code);
    };
    for (name, arguments, code) in refused() {
        let mut desk = Desk::new();
        let before = desk.state();
        assert_eq!(desk.call(name, arguments.clone()), Err(code), "{name} {arguments}");
        assert_eq!(desk.state(), before, "{name} {arguments} changed something");
        saw(name, code);
    }
    for demo in all() {
        let mut desk = Desk::new();
        assert_eq!(desk.call(&demo.tool.name, json!({ "unknown": 1 })), Err(Code::InvalidArguments));
        saw(&demo.tool.name, Code::InvalidArguments);
    }

    let mut desk = Desk::new();
    for _ in 0..30 {
        desk.call("emails.send_external", mail(json!(["a@b.example"]))).unwrap();
    }
    saw("emails.send_external", desk.call("emails.send_external", mail(json!(["a@b.example"]))).unwrap_err());
    let campaign = json!({ "templateId": "tmpl_beta_invite", "segmentId": "seg_beta_testers" });
    desk.call("emails.bulk_send", campaign.clone()).unwrap();
    saw("emails.bulk_send", desk.call("emails.bulk_send", campaign).unwrap_err());

    for demo in all() {
        let mut desk = Desk::new();
        desk.data.permissions.clear();
        if let Err(Code::PermissionDenied) = desk.call(&demo.tool.name, valid(&demo.tool.name)) {
            saw(&demo.tool.name, Code::PermissionDenied);
        }
    }
    for demo in all() {
        let declared: BTreeSet<Code> =
            demo.contract.failure_modes().into_iter().filter(|code| !BY_GATEWAY.contains(code)).collect();
        assert_eq!(seen[&*demo.tool.name], declared, "{}", demo.tool.name);
    }
}

/// Arguments that each tool accepts.
fn valid(name: &str) -> Value {
    match name {
        "list_projects" | "get_current_user" | "export_full_database_without_approval" | "disable_audit_log" => {
            json!({})
        }
        "search_contacts" => json!({ "query": "northwind" }),
        "get_help_article" => json!({ "articleId": "sending-mail" }),
        "create_reminder" => json!({ "text": "x", "remindAt": NOON }),
        "create_note" => json!({ "projectId": "p_audit", "title": "x" }),
        "update_task_status" => json!({ "taskId": "t_1", "status": "done" }),
        "create_draft" => mail(json!([])),
        "create_download_link" => json!({ "fileId": "f_abc123", "expiresAt": "2026-12-31T23:59:00Z" }),
        "share_file_link" => json!({ "fileId": "f_report", "email": "a@b.example" }),
        "update_customer_data" => json!({ "customerId": "c_1", "changes": { "company": "x" } }),
        "emails.send_external" => mail(json!(["a@b.example"])),
        "emails.bulk_send" => json!({ "templateId": "tmpl_newsletter_q3", "segmentId": "seg_active_customers" }),
        "bulk_export" => json!({ "dataset": "contacts" }),
        "delete_user" => json!({ "userId": "u_max" }),
        "execute_payment" => payment("acc_main", 1, "EUR"),
        "generate_summary" => json!({ "projectId": "p_audit" }),
        "change_project_status" => json!({ "projectId": "p_audit", "status": "on_hold" }),
        "invite_calendar_attendee" => json!({ "eventId": "ev_kickoff", "email": "a@b.example" }),
        "change_permissions" => json!({ "userId": "u_max", "role": "admin" }),
        "send_contract" => json!({ "contractId": "ct_nda", "email": "a@b.example" }),
        "read_private_key" => json!({ "keyId": "k_signing" }),
        "read_password" | "read_raw_access_token" => json!({ "userId": "u_max" }),
        unknown => panic!("no valid arguments for `{unknown}`"),
    }
}

#[test]
fn codes_travel_as_they_are_declared() {
    for demo in all() {
        let declared = &demo.contract.meta().0["mcp-first/contract"]["failureModes"];
        let codes: Vec<&str> = demo.contract.failure_modes().into_iter().map(Code::as_str).collect();
        assert_eq!(declared, &json!(codes));
        assert!(codes.iter().all(|code| code.chars().all(|c| c.is_ascii_lowercase() || c == '_')), "{codes:?}");
        assert!(!codes.contains(&"internal_error"), "{}", demo.tool.name);
    }
}

#[test]
fn a_call_that_works_leaves_one_event_of_its_kind() {
    for demo in all() {
        let mut desk = Desk::new();
        desk.call(&demo.tool.name, valid(&demo.tool.name)).unwrap();
        assert_eq!(desk.data.events.get(demo.contract.audit_event), Some(&1), "{}", demo.tool.name);
    }
}

#[test]
fn dry_runs_change_nothing_and_name_what_is_missing() {
    for demo in all().iter().filter(|demo| demo.contract.dry_run != DryRun::None) {
        let mut desk = Desk::new();
        desk.data.permissions.retain(|has| has != demo.contract.permissions[0]);
        let before = desk.state();
        let mut arguments = valid(&demo.tool.name);
        assert_eq!(desk.call(&demo.tool.name, arguments.clone()), Err(Code::PermissionDenied));
        arguments[DRY_RUN_PARAMETER] = json!(true);
        let preview = desk.call(&demo.tool.name, arguments).unwrap();
        assert_eq!(desk.state(), before, "{}", demo.tool.name);
        assert_eq!(preview["dryRun"], true);
        assert_eq!(preview["missingPermissions"], json!([demo.contract.permissions[0]]));
    }
}

#[test]
fn a_link_is_the_same_while_it_is_valid_and_new_when_it_has_expired() {
    let mut desk = Desk::new();
    let link = |file: &str, until: &str| json!({ "fileId": file, "expiresAt": until });
    let mut ask = |now: &str, arguments: &Value| {
        desk.now = time(now);
        let answer = desk.call("create_download_link", arguments.clone()).unwrap();
        (answer["linkId"].as_str().unwrap().to_owned(), answer["expiresAt"].as_str().unwrap().to_owned())
    };
    let same = link("f_abc123", "2026-12-31T23:59:00Z");
    let first = ask("2026-12-01T00:00:00Z", &same);
    assert_eq!(first, ("link_1".to_owned(), "2026-12-31T23:59:00Z".to_owned()));
    assert_eq!(ask("2026-12-31T23:58:59Z", &same), first);
    assert_eq!(ask("2026-12-31T23:58:59Z", &link("f_abc123", "2027-01-01T00:59:00+01:00")), first);
    assert_eq!(ask("2026-12-31T23:58:59Z", &link("f_abc123", "2027-01-31T23:59:00Z")).0, "link_2");
    assert_eq!(ask("2026-12-31T23:58:59Z", &link("f_report", "2026-12-31T23:59:00Z")).0, "link_3");

    let renewed = ask("2026-12-31T23:59:00Z", &same);
    assert_eq!(renewed, ("link_4".to_owned(), "2027-01-01T00:59:00Z".to_owned()));
    assert_eq!(ask("2027-01-01T00:58:59Z", &same), renewed);
    assert_eq!(ask("2027-01-01T00:59:00Z", &same).0, "link_5");
    assert_eq!(desk.data.links.len(), 3, "an expired link is replaced, not kept");
}

#[test]
fn the_limit_on_mails_is_for_one_minute() {
    let mut desk = Desk::new();
    let mut send = |now: &str| {
        desk.now = time(now);
        desk.call("emails.send_external", mail(json!(["a@b.example"]))).map(|_sent| ())
    };
    assert_eq!(send("2026-11-15T12:00:00Z"), Ok(()));
    for _ in 1..30 {
        assert_eq!(send("2026-11-15T12:00:30Z"), Ok(()));
    }
    assert_eq!(send("2026-11-15T12:00:59Z"), Err(Code::RateLimitExceeded));
    assert_eq!(send("2026-11-15T12:01:00Z"), Ok(()));
    assert_eq!(send("2026-11-15T12:01:00Z"), Err(Code::RateLimitExceeded));
    assert_eq!(desk.data.sent.len(), 31);
}

#[test]
fn a_changed_customer_keeps_the_old_values_in_the_history() {
    let mut desk = Desk::new();
    let before = desk.data.contacts[0].clone();
    let change = json!({ "customerId": "c_1", "changes": { "name": "Priya Rao", "company": "Northwind" } });
    let answer = desk.call("update_customer_data", change.clone()).unwrap();
    assert_eq!(answer["changed"], json!(["name"]));
    assert_eq!(desk.data.revisions, [Revision { before }]);
    let again = desk.call("update_customer_data", change).unwrap();
    assert_eq!((again["changed"].clone(), desk.data.revisions.len()), (json!([]), 1));
}

#[test]
fn mail_is_sent_scheduled_or_fails() {
    let people = |count: usize| -> Value { (0..count).map(|number| format!("p{number}@b.example")).collect() };
    for (to, status) in [
        (people(10), "sent"),
        (people(11), "scheduled"),
        (json!(["a@bounced.example"]), "failed"),
        (json!(["a@bounced.example", "a@b.example"]), "sent"),
    ] {
        let mut desk = Desk::new();
        assert_eq!(desk.call("emails.send_external", mail(to.clone())).unwrap()["status"], status, "{to}");
        assert_eq!(desk.data.sent.len(), 1, "each becomes part of the history");
    }
}
