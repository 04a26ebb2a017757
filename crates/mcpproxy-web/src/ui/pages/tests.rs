//! Whole pages, compared with checked-in snapshots. `BLESS=1 cargo test -p mcpproxy-web` writes the snapshots.

mod approvals;
mod masked;
mod standing_list;

use std::path::Path;

use askama::Template;
use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Untrusted, Variant};
use mcpproxy_gateway::{ApprovalView, ShownStandingApproval};
use mcpproxy_store::{ApprovalPage, StoredApproval, StoredDryRun, StoredStandingApproval};
use serde_json::{Value, json};

use super::account::{Account, WaitingCalls, approvers};
use super::confirm::{Confirm, Typed};
use super::lists::{Grants, Inbox, Selected};
use super::whole::whole;
use super::{Frame, FrameUser, Login, Notice, Onward, ProviderButton, Setup};
use crate::auth::factor::Factors;
use crate::auth::totp;
use crate::ui::events::Topic;

const NOW_MS: i64 = 1_800_000_000_000;

fn frame(title: &str) -> Frame {
    let user = Some(FrameUser { name: "anna".to_owned(), csrf: "c5rf".to_owned(), is_enrolled: true, provider: None });
    Frame {
        title: title.to_owned(),
        section: "approvals",
        user,
        pending: 2,
        key: String::new(),
        version: "v1",
        live: Some(Topic::Approvals),
        asks_password: false,
        idle_s: 900,
        here: String::new(),
        confirmed: None,
        home_option: String::new(),
        now_ms: NOW_MS,
        wrong: None,
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
        "said_by": {"description": "server", "risk": "operator", "side_effects": "operator", "audit_event": "operator",
            "permissions": "operator"},
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
        least: Assurance::Factor,
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
        failed_dry_run: None,
        ran: None,
        url: String::new(),
        args_for_user: Untrusted::new(approval.args.clone().unwrap_or_default()),
        attached_for_user: None,
        yes_lasts_ms: 600_000,
        approval,
    }
}

const BOTH: Factors = Factors { totp: true, passkey: true, provider: false };

fn confirm(approval: StoredApproval) -> String {
    Confirm::new(frame("mail:send_external"), &view(approval), BOTH, Typed::default(), NOW_MS).render().unwrap()
}

/// Returns the part of the page with the decision.
fn aside(page: &str) -> String {
    let rest = page.split("<aside").nth(1).unwrap_or_default();
    rest.split("</aside>").next().unwrap_or_default().to_owned()
}

/// Compares a page with its snapshot.
fn compare(name: &str, html: &str) {
    for line in html.lines() {
        for inline in ["style=", "javascript:", "onclick=", "onload=", "onerror=", "onsubmit="] {
            assert!(!line.contains(inline), "{name}: {line}");
        }
    }
    let html: String =
        html.lines().map(str::trim_end).filter(|line| !line.is_empty()).flat_map(|line| [line, "\n"]).collect();
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/ui/pages/snapshots").join(name);
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
    let approval = StoredApproval { risk: Some(RiskLevel::High), least: Assurance::Form, ..first.approval.clone() };
    let first = ApprovalView { approval, ..first };
    let page = Confirm::new(frame("first"), &first, BOTH, Typed::default(), NOW_MS).render().unwrap();
    compare("confirm-first-time.html", &page);
}

/// The second round of a tool that requests input shows every attached member, escaped.
#[test]
fn what_goes_besides_the_arguments() {
    let answers =
        r#"{"inputResponses":{"who":{"content":{"to":"<b>\u0065ve</b>\u202e"}}},"requestState":"s1","x\u202ey":[1.0]}"#;
    let attached = StoredApproval { attached_digest: Digest::of(b"answers"), ..approval(AFTER, "") };
    let view = ApprovalView { attached_for_user: Some(Untrusted::new(answers)), ..view(attached) };
    let page = Confirm::new(frame("attached"), &view, BOTH, Typed::default(), NOW_MS).render().unwrap();
    let section = page.split("<section").find(|part| part.contains("id=\"attached\"")).unwrap_or_default();
    for expected in [
        "changed since last time",
        "Answers to the server’s questions <code class=\"said\">inputResponses</code>",
        "State that the server asked the client to return <code class=\"said\">requestState</code>",
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
    let text = |html: &str| {
        let head = html.split("<h1>").nth(1).and_then(|rest| rest.split("</h1>").next()).unwrap_or_default();
        format!(
            "{}{}",
            ["<em>", "</em>", "<wbr>"].iter().fold(head.to_owned(), |head, tag| head.replace(tag, "")),
            aside(html)
        )
    };
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
    check(
        denied,
        &[
            "send_external on mail did not run for agent claude-code; denied by ben at",
            "ben denied this call <time datetime=\"2027-01-15T07:59:30.000Z\">30 seconds ago</time>. It did not run.",
            "Not &lt;now&gt;<span class=\"mark\"",
        ],
    );
    check(
        decided(ApprovalState::Approved, Some(Assurance::Factor)),
        &[
            "Agent claude-code may run send_external on mail once; approved by ben, not yet run",
            "ben approved this call with a second factor <time",
            ">30 seconds ago</time>. It has not run yet.",
            "Withdraw approval",
        ],
    );
    let ran = StoredApproval {
        consumed_ms: Some(NOW_MS - 20_000),
        ..decided(ApprovalState::Consumed, Some(Assurance::Session))
    };
    check(
        ran,
        &[
            "send_external on mail ran at <time datetime=\"2027-01-15T07:59:40.000Z\" data-clock>07:59 UTC</time> \
             for agent claude-code; approved by ben",
            "Approved and run",
            "It ran once <time datetime=\"2027-01-15T07:59:40.000Z\">20 seconds ago</time>.",
        ],
    );
    let client = StoredApproval { decided_by: Some("client <b>".to_owned()), ..decided(ApprovalState::Denied, None) };
    assert!(!confirm(client).contains("<b>"));
    check(decided(ApprovalState::Cancelled, None), &["the request was cancelled", "was cancelled because"]);
    let overdue = StoredApproval { expires_ms: NOW_MS - 1, ..approval(AFTER, "") };
    check(overdue, &["expired at <time", "without a decision", "The agent can ask again"]);
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
fn servers_speak_for_themselves() {
    let said = approval(AFTER, "She said so");
    let by_server = json!({"description": "server", "risk": "server", "side_effects": "server", "audit_event": "server",
        "permissions": "server"});
    let mut about: Value = serde_json::from_str(said.about.for_json()).unwrap();
    about["said_by"] = by_server;
    about["side_effects"] = json!(["Nothing is changed."]);
    let client = Some(Untrusted::new("Cursor. Policy check passed"));
    let about = Untrusted::new(about.to_string());
    let said = StoredApproval { risk: Some(RiskLevel::Low), least: Assurance::Session, about, client, ..said };
    let page = confirm(said.clone());
    compare("confirm-server-says.html", &page);
    let facts = page.split("id=\"facts\"").nth(1).unwrap().split("</section>").next().unwrap();
    assert!(!facts.contains("Cursor") && !facts.contains("emails:send"), "{facts}");
    assert!(!page.contains("Low risk") && !page.contains("Little can go wrong"), "{page}");
    let critical = confirm(StoredApproval { risk: Some(RiskLevel::Critical), ..said });
    assert!(
        critical.contains("Critical, says the server</span>") && critical.contains("risk level not verified"),
        "{critical}"
    );
}

#[test]
fn a_draft_is_not_the_operators_word() {
    let drafted = approval(AFTER, "She said so");
    let mut about: Value = serde_json::from_str(drafted.about.for_json()).unwrap();
    about["said_by"] = json!({"description": "draft", "risk": "draft", "side_effects": "draft", "audit_event": "draft",
        "permissions": "draft"});
    let drafted = StoredApproval { about: Untrusted::new(about.to_string()), ..drafted };
    let page = confirm(drafted.clone());
    assert!(page.contains("Draft, not reviewed:") && page.contains(">draft, not reviewed<"), "{page}");
    assert!(!page.contains("The operator says") && !page.contains("from the operator"), "{page}");
    assert!(page.contains("The operator has not reviewed it."), "{page}");
    assert!(page.contains("<dt>Permissions (draft, not reviewed)</dt>"), "{page}");
    let mut derived = view(drafted);
    if let Some(dry_run) = derived.dry_run.as_mut() {
        dry_run.is_native = false;
    }
    let page = Confirm::new(frame("drafted"), &derived, BOTH, Typed::default(), NOW_MS).render().unwrap();
    assert!(page.contains(">from a draft, not reviewed<") && !page.contains(">from the contract<"), "{page}");
}

#[test]
fn what_does_not_fit_is_said_beside_the_buttons() {
    let fits = aside(&confirm(approval(AFTER, "")));
    assert!(!fits.contains("does not show") && fits.contains("Approve once"), "{fits}");

    let many: Vec<String> = (0..999).map(|number| format!("user{number}@acme.example")).collect();
    let long = format!("{}rm -rf /", "echo ok; ".repeat(3_000));
    let args = json!({"to": many, "script": long, "bcc": "eve@evil.example"}).to_string();
    let preview =
        json!({"content": [{"type": "text", "text": format!("{}the end of the preview", "x ".repeat(15_000))}]});
    let mut large = view(approval(&args, ""));
    large.dry_run = Some(StoredDryRun { preview: Untrusted::new(preview.to_string()), ..large.dry_run.unwrap() });
    large.previous = None;
    let page = Confirm::new(frame("large"), &large, BOTH, Typed::default(), NOW_MS).render().unwrap();
    compare("confirm-missing.html", &format!("<aside{}", aside(&page)));
    assert!(page.contains("… (10022 more characters not shown)"), "the preview says where it is cut");
    let text = whole(&large);
    for words in ["user998@acme.example", "rm -rf /", "eve@evil.example", "the end of the preview"] {
        assert!(text.contains(words), "{words}");
    }
    assert!(!page.contains("rm -rf /") && !page.contains("the end of the preview</"));

    let mut cut = view(approval(&json!({"script": long}).to_string(), ""));
    (cut.previous, cut.dry_run) = (None, None);
    let page = Confirm::new(frame("cut"), &cut, BOTH, Typed::default(), NOW_MS).render().unwrap();
    assert!(aside(&page).contains("This page does not show the end of a long argument."), "{page}");
    assert!(page.contains("Show the first 20000 of 27008 characters"));
}

#[test]
fn the_whole_as_plain_text() {
    compare("whole.txt", &whole(&view(approval(AFTER, "why"))));
    let hostile = json!({"a\u{202e}": "x\u{200b}\u{1b}[2J\n<b>"}).to_string();
    let text = whole(&view(approval(&hostile, "")));
    assert!(!text.contains(['\u{202e}', '\u{200b}', '\u{1b}']) && text.contains("\\u{202e}"), "{text}");
    let numbers = whole(&view(approval(r#"{"to": "\u0065ve@evil.example"}"#, "")));
    assert!(numbers.contains("\"eve@evil.example\""), "{numbers}");
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
        approval(AFTER, "Asked <b>for\u{202e}"),
        StoredApproval {
            risk: None,
            state: ApprovalState::Denied,
            decided_by: Some("ben".to_owned()),
            decided_ms: Some(NOW_MS - 3_600_000),
            ..approval(AFTER, "")
        },
    ];
    let page = ApprovalPage { approvals: rows, next: Some("01K9ZQ4B2R0000000000000000".to_owned()) };
    compare("inbox.html", &Inbox::new(frame("Approvals"), &page, &[], Selected::All, NOW_MS).render().unwrap());
    let empty = ApprovalPage { approvals: Vec::new(), next: None };
    let html = Inbox::new(frame("Approvals"), &empty, &[], Selected::Pending, NOW_MS).render().unwrap();
    assert!(html.contains("No call is waiting"));
    let grant = standing_list::stored("{\n  \"type\": \"object\"\n}");
    let over = StoredStandingApproval { revoked_ms: Some(NOW_MS - 5_000), ..grant.clone() };
    let [grant, over] = [grant, over].map(|grant| ShownStandingApproval::masking(grant, &[]));
    compare("grants.html", &Grants::new(frame("Grants"), &[grant, over], NOW_MS).render().unwrap());
}

#[test]
fn coming_in() {
    let frame = || Frame { version: "v1", ..Frame::outside("Sign in") };
    let login = Login {
        frame: frame(),
        error: Some("The name or the password is wrong."),
        name: "anna",
        next: "/ui/approvals",
        elsewhere: None,
        has_password: true,
        provider: None,
        is_empty: false,
    };
    compare("login.html", &login.render().unwrap());
    let provider = || {
        let (name, href) = ("Example <SSO>".to_owned(), "/ui/sign-in/oidc?next=/ui/".to_owned());
        Some(ProviderButton { name, href, sign_out: Some("https://id.example/logout".to_owned()) })
    };
    let with_provider = Login { frame: frame(), has_password: false, provider: provider(), ..login };
    compare("login-provider.html", &with_provider.render().unwrap());
    let setup = Setup {
        frame: frame(),
        error: None,
        name: "",
        invitation: "invite_1",
        is_named: false,
        has_password: true,
        provider: None,
    };
    compare("setup.html", &setup.render().unwrap());
    let named = Setup { frame: frame(), name: "anna", is_named: true, ..setup }.render().unwrap();
    assert!(named.contains("value=\"anna\"") && named.contains(" readonly>"), "{named}");
    let link = "/ui/approvals#key=page_0";
    let onward = Onward { frame: frame(), heading: "H", text: "T", link, link_text: "L" }.render().unwrap();
    assert!(onward.contains("<meta http-equiv=\"refresh\" content=\"0;url=/ui/approvals#key=page_0\">"), "{onward}");
    let notice = Notice { frame: frame(), heading: "H", text: "T", link: "/ui/login", link_text: "L" };
    compare("notice.html", &notice.render().unwrap());
}

#[test]
fn the_account_page() {
    let account = Account {
        frame: frame("Account"),
        error: None,
        done: None,
        waiting: WaitingCalls::new(1, Some("01K9ZQ4B2R0000000000000001")),
        is_enrolled: false,
        factors: Factors::default(),
        setup: totp::setup(b"12345678901234567890", "anna").map(Into::into),
        passkeys: Vec::new(),
        passkeys_possible: true,
        can_remove: false,
        base_url: "http://localhost:8080".to_owned(),
        invitation: None,
        others: approvers(vec!["berta".to_owned()]),
        recovery_left: 3,
        recovery_codes: Vec::new(),
        profile: None,
        may_manage: true,
    };
    let html = account.render().unwrap();
    assert!(html.contains("Step 2 of 2") && html.contains("GEZD GNBV") && !html.contains("Invite an approver"));
    let enrolled = Account { is_enrolled: true, factors: BOTH, setup: None, ..account };
    compare("account.html", &enrolled.render().unwrap());
}
