//! Pages as people get them, whole. `BLESS=1 cargo test -p mcpproxy-web` writes those that are compared.

use std::path::Path;

use askama::Template;
use mcpproxy_core::{ApprovalId, ApprovalState, Digest, Given, RiskLevel, ToolName, Untrusted, Variant};
use mcpproxy_gateway::ApprovalView;
use mcpproxy_store::{ApprovalPage, StoredApproval, StoredDryRun, StoredGrant};
use serde_json::json;

use super::account::{Account, persons};
use super::confirm::{Confirm, Typed};
use super::lists::{Grants, Inbox, Selected};
use super::{Factors, Frame, Login, Notice, Person, Setup};
use crate::people::totp;

const NOW_MS: i64 = 1_800_000_000_000;

fn frame(title: &str) -> Frame {
    let person = Some(Person { name: "anna".to_owned(), csrf: "c5rf".to_owned() });
    Frame {
        title: title.to_owned(),
        section: "approvals",
        person,
        pending: 2,
        key: String::new(),
        version: "v1",
        is_live: true,
        asks_password: false,
    }
}

fn approval(args: &str, reason: &str) -> StoredApproval {
    let about = json!({
        "description": "Sends an email to people outside the company.\n\nMore about it.",
        "side_effects": ["External communication is sent.", "The email becomes part of the history."],
        "audit_event": "email.external.sent",
        "permissions": ["emails:send", "contacts:read"],
        "asked_by": ["contract risk level critical (contracts/mail.yaml:12)", "stepUpAuth: outside of office hours"],
        "reason": reason,
        "sensitivity": "private",
    });
    StoredApproval {
        id: ApprovalId::parse("01K9ZQ4B2R0000000000000001").unwrap(),
        binding: Digest::of(b"binding"),
        agent: "claude-code".to_owned(),
        client: Some(Untrusted::new("Claude Code 3.1")),
        tool: ToolName::parse("mail:send_external").unwrap(),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        variant: Variant::Destructive,
        risk: Some(RiskLevel::Critical),
        least: Given::Factor,
        args: Some(args.to_owned()),
        args_digest: Digest::of(args.as_bytes()),
        shown_args: Untrusted::new(args),
        attached: None,
        attached_digest: Digest::of(b""),
        shown_attached: None,
        about: Untrusted::new(about.to_string()),
        created_ms: NOW_MS - 12_000,
        expires_ms: NOW_MS + 291_000,
        state: ApprovalState::Pending,
        given: None,
        decided_by: None,
        decided_ms: None,
        comment: None,
        record: None,
        consumed_ms: None,
    }
}

const BEFORE: &str = r#"{"to": ["anna@acme.example", "max@acme.example"], "subject": "Q3 update", "cc": []}"#;
const AFTER: &str =
    r#"{"to": ["anna@acme.example", "max@acme.example", "eve@evil.example"], "subject": "Q3 update", "urgent": true}"#;

fn view(approval: StoredApproval) -> ApprovalView {
    let preview = r#"{"structuredContent": {"recipients": 3, "warnings": ["1 address is outside acme.example"]}}"#;
    ApprovalView {
        previous: Some(StoredApproval { created_ms: NOW_MS - 90_000_000, ..self::approval(BEFORE, "") }),
        dry_run: Some(StoredDryRun { preview: Untrusted::new(preview), is_native: true, at_ms: NOW_MS - 8_000 }),
        url: String::new(),
        args_for_human: Untrusted::new(approval.args.clone().unwrap_or_default()),
        attached_for_human: None,
        yes_lasts_ms: 600_000,
        approval,
    }
}

const BOTH: Factors = Factors { totp: true, passkey: true };

fn confirm(approval: StoredApproval) -> String {
    Confirm::new(frame("mail:send_external"), &view(approval), BOTH, Typed::default(), NOW_MS).render().unwrap()
}

/// Compares with the page that is checked in.
fn compare(name: &str, html: &str) {
    for line in html.lines() {
        for inline in ["style=", "javascript:", "onclick=", "onload=", "onerror=", "onsubmit="] {
            assert!(!line.contains(inline), "{name}: {line}");
        }
    }
    let html: String =
        html.lines().map(str::trim_end).filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/pages/snapshots").join(name);
    if std::env::var_os("BLESS").is_some() {
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(&path, &html).unwrap();
    }
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(known == html, "{name} has changed; `BLESS=1 cargo test -p mcpproxy-web` writes it\n{html}");
}

#[test]
fn the_confirmation_page() {
    compare("confirm-step-up.html", &confirm(approval(AFTER, "User asked to send the quarterly update")));
    let first = ApprovalView { previous: None, dry_run: None, ..view(approval(AFTER, "")) };
    let approval = StoredApproval { risk: Some(RiskLevel::High), least: Given::Form, ..first.approval.clone() };
    let first = ApprovalView { approval, ..first };
    let page = Confirm::new(frame("first"), &first, BOTH, Typed::default(), NOW_MS).render().unwrap();
    compare("confirm-first-time.html", &page);
}

/// The second round of a tool that asks back shows what is new in it, all of it, and nothing of it is markup.
#[test]
fn what_goes_besides_the_arguments() {
    let answers =
        r#"{"inputResponses":{"who":{"content":{"to":"<b>\u0065ve</b>\u202e"}}},"requestState":"s1","x\u202ey":[1.0]}"#;
    let attached = StoredApproval { attached_digest: Digest::of(b"answers"), ..approval(AFTER, "") };
    let view = ApprovalView { attached_for_human: Some(Untrusted::new(answers)), ..view(attached) };
    let page = Confirm::new(frame("attached"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
    let section = page.split("<section").find(|part| part.contains("id=\"attached\"")).unwrap_or_default();
    for expected in [
        "not as last time",
        "Answers to questions of the server <code class=\"said\">inputResponses</code>",
        "The server’s own note, which came back <code class=\"said\">requestState</code>",
        "eve",
        "[1.0]",
        "Another part of the request",
    ] {
        assert!(section.contains(expected), "{expected}: {section}");
    }
    assert!(!section.contains("<b>eve") && !section.contains('\u{202e}'), "{section}");
    assert!(!confirm(approval(AFTER, "")).contains("id=\"attached\""), "no heading where there is nothing");
}

#[test]
fn what_became_of_it() {
    let decided = |state, given| StoredApproval {
        state,
        given,
        args: None,
        decided_by: Some("ben".to_owned()),
        decided_ms: Some(NOW_MS - 30_000),
        ..approval(AFTER, "")
    };
    let text = |html: &str| html.split("<aside").nth(1).unwrap_or_default().to_owned();
    let check = |approval: StoredApproval, expected: &[&str]| {
        let html = text(&confirm(approval));
        for words in expected {
            assert!(html.contains(words), "{words}\n{html}");
        }
        assert!(!html.contains("Approve once"), "{html}");
    };
    let denied =
        StoredApproval { comment: Some(Untrusted::new("Not <now>\u{202E}")), ..decided(ApprovalState::Denied, None) };
    compare("confirm-denied.html", &confirm(denied.clone()));
    check(denied, &["ben denied this call 30 seconds ago", "Not &lt;now&gt;<span class=\"mark\""]);
    check(
        decided(ApprovalState::Approved, Some(Given::Factor)),
        &["ben approved this call with a fresh factor 30 seconds ago", "Take it back"],
    );
    check(decided(ApprovalState::Consumed, Some(Given::Session)), &["Approved and run", "It was sent, once."]);
    check(decided(ApprovalState::Cancelled, None), &["nothing left to decide"]);
    let overdue = StoredApproval { expires_ms: NOW_MS - 1, ..approval(AFTER, "") };
    check(overdue, &["Nobody decided in time", "the agent can ask again"]);
}

#[test]
fn words_from_outside_are_plain() {
    let hostile = "</q><script>alert(1)</script>\u{202E}exe\u{200B}\u{1b}[2J";
    let args = json!({ hostile: hostile, "link": "javascript:alert(2)" }).to_string();
    let mut approval = approval(&args, hostile);
    approval.client = Some(Untrusted::new(hostile));
    let html = confirm(approval);
    assert!(!html.contains("<script>alert") && html.contains("&lt;script&gt;alert(1)"), "{html}");
    assert!(!html.contains(['\u{202E}', '\u{200B}', '\u{1b}']), "{html}");
    assert!(html.contains(">U+202E<") && html.contains(">U+200B<") && html.contains(">U+001B<"), "{html}");
    assert!(!html.contains("href=\"javascript") && html.contains("javascript:alert(2)"));
}

#[test]
fn what_is_masked_is_not_said_to_be_the_same() {
    let page = |digest: &[u8], for_human: &str| {
        let approval = StoredApproval { args_digest: Digest::of(digest), ..approval(r#"{"to": "***"}"#, "") };
        let previous = StoredApproval { args_digest: Digest::of(b"one"), ..approval.clone() };
        let args_for_human = Untrusted::new(for_human);
        let view = ApprovalView { previous: Some(previous), args_for_human, ..view(approval) };
        Confirm::new(frame("masked"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap()
    };
    let same = page(b"one", r#"{"to": "***"}"#);
    assert!(same.contains("same as last time") && !same.contains("may have changed"), "{same}");
    let other = page(b"two", r#"{"to": "***"}"#);
    assert!(other.contains("changed where it is masked") && other.contains("may have changed"), "{other}");
    // Whoever decides sees what the records leave out.
    let seen = page(b"two", r#"{"to": ["eve@evil.example", "max"]}"#);
    assert!(seen.contains("eve@evil.example") && seen.contains(">to/1<") && !seen.contains("***"), "{seen}");
}

#[test]
fn long_values_can_be_seen_whole() {
    let long = "x".repeat(1_000);
    let html = confirm(approval(&json!({ "body": long }).to_string(), ""));
    assert!(html.contains("Show all 1000 characters") && html.contains(&long), "{html}");
}

#[test]
fn lists() {
    let rows = vec![
        approval(AFTER, ""),
        StoredApproval {
            risk: None,
            state: ApprovalState::Denied,
            decided_ms: Some(NOW_MS - 3_600_000),
            ..approval(AFTER, "")
        },
    ];
    let page = ApprovalPage { approvals: rows, next: Some("01K9ZQ4B2R0000000000000000".to_owned()) };
    compare("inbox.html", &Inbox::new(frame("Approvals"), &page, Selected::All, NOW_MS).render().unwrap());
    let empty = ApprovalPage { approvals: Vec::new(), next: None };
    let html = Inbox::new(frame("Approvals"), &empty, Selected::Pending, NOW_MS).render().unwrap();
    assert!(html.contains("Nothing to decide"));
    let grant = StoredGrant {
        id: "01K9ZQ4B2R0000000000000002".to_owned(),
        agent: "cursor".to_owned(),
        tool: ToolName::parse("mail:send_external").unwrap(),
        pin: Digest::of(b"pin"),
        contract: Digest::of(b"contract"),
        schema: "{\n  \"type\": \"object\"\n}".to_owned(),
        by: "anna".to_owned(),
        reason: None,
        created_ms: NOW_MS - 60_000,
        expires_ms: NOW_MS + 800_000,
        uses: 5,
        uses_left: 3,
        revoked_ms: None,
        revoked_by: None,
    };
    let over = StoredGrant { revoked_ms: Some(NOW_MS - 5_000), ..grant.clone() };
    compare("grants.html", &Grants::new(frame("Grants"), &[grant, over], NOW_MS).render().unwrap());
}

#[test]
fn coming_in() {
    let frame = || Frame { version: "v1", ..Frame::outside("Sign in") };
    let login =
        Login { frame: frame(), error: Some("Name or password is wrong."), name: "anna", next: "/ui/approvals" };
    compare("login.html", &login.render().unwrap());
    compare("setup.html", &Setup { frame: frame(), error: None, name: "", invitation: "invite_1" }.render().unwrap());
    let notice = Notice { frame: frame(), heading: "H", text: "T", link: "/ui/login", link_text: "L" };
    compare("notice.html", &notice.render().unwrap());
}

#[test]
fn the_account_page() {
    let account = Account {
        frame: frame("Account"),
        error: None,
        done: None,
        is_enrolled: false,
        factors: Factors::default(),
        setup: totp::setup(b"12345678901234567890", "anna").map(Into::into),
        passkeys: Vec::new(),
        passkeys_possible: true,
        can_remove: false,
        base_url: "http://localhost:8080".to_owned(),
        invitation: None,
        others: persons(vec!["berta".to_owned()]),
    };
    let html = account.render().unwrap();
    assert!(html.contains("Step 2 of 2") && html.contains("GEZD GNBV") && !html.contains("Invite somebody"));
    let enrolled = Account { is_enrolled: true, factors: BOTH, setup: None, ..account };
    compare("account.html", &enrolled.render().unwrap());
}
