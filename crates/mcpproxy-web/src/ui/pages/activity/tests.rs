//! Tests of the content: rows, forms, stories and sessions from records of all kinds.

use askama::Template as _;
use mcpproxy_core::{RiskLevel, Untrusted, Variant, mask};
use mcpproxy_store::{Kind, Payload, Record, RecordId, Status, WholeRecord};

use super::form::{FilterForm, Names};
use super::links::Filters;
use super::list::{ActivityList, Found};
use super::record::{Known, RecordPage};
use super::session::{Around, PAUSE_MS, SessionPage};
use super::steps::Step;
use super::words;
use crate::ui::pages::Frame;

/// The time in the id.
const NOW_MS: i64 = 1_700_000_000_000;
const HOSTILE: [&str; 4] = [
    "<script>alert(1)</script>",
    "\u{202e}\u{2066}evil",
    "\u{1b}[2J\u{1b}]0;x\u{7}",
    "\"><img src=x onerror=alert(1)>",
];

fn record(kind: Kind, status: Status) -> Record {
    Record {
        id: RecordId::parse("01HF7YAT00ZZW1Z00000000000").unwrap(),
        chain: 0,
        seq: 7,
        end_seq: None,
        kind,
        status,
        agent: Some("local".to_owned()),
        client: Some(Untrusted::new("Cursor 1.2")),
        server: Some(Untrusted::new("files")),
        tool: Some(Untrusted::new("delete")),
        intent_type: Some(Variant::Destructive),
        risk: Some(RiskLevel::High),
        code: None,
        message: None,
        duration_us: Some(1_200_000),
        metadata: Untrusted::new("{}"),
        end_metadata: None,
        args: None,
        result: None,
    }
}

fn call(metadata: &str) -> Record {
    Record { metadata: Untrusted::new(metadata), ..record(Kind::Call, Status::Success) }
}

fn refusal(code: &str) -> Record {
    Record { code: Some(Untrusted::new(code)), ..record(Kind::Refusal, Status::Refused) }
}

fn page(record: Record) -> String {
    let known =
        Known { whole: WholeRecord { record, args: None, result: None }, approval: None, place: None, steps: vec![] };
    RecordPage::new(Frame::default(), &known, NOW_MS).render().unwrap()
}

/// Returns the text of the headline and of the sentences after it.
fn story(record: Record) -> String {
    let html = page(record);
    let between = |from: &str, to: &str| {
        html.split_once(from).and_then(|(_, rest)| rest.split_once(to)).map(|(text, _)| text.to_owned())
    };
    let text =
        format!("{}. {}", between("<h1>", "</h1>").unwrap(), between("<p class=\"lead\">", "</p>").unwrap_or_default());
    let mut plain = String::new();
    let mut is_tag = false;
    for c in text.chars() {
        match c {
            '<' => is_tag = true,
            '>' => is_tag = false,
            c if !is_tag => plain.push(c),
            _ => {}
        }
    }
    plain.trim().to_owned()
}

#[test]
fn a_record_says_in_plain_words_what_happened() {
    let check = |record: Record, expected: &str| assert_eq!(story(record), expected);
    check(call("{}"), "Agent local called files:delete as destructive. It ran in 1.2 s.");
    check(
        call(r#"{"approval_id":"x","approved_by":"anna"}"#),
        "Agent local called files:delete as destructive. anna approved it. It ran in 1.2 s.",
    );
    check(
        call(r#"{"dry_run":"server"}"#),
        "Agent local tried out files:delete as destructive. It was a dry run, so nothing was changed.",
    );
    check(
        refusal("policy_violation"),
        "Agent local wanted to call files:delete as destructive. One of the operator&#39;s Cedar policies forbids the call. \
         Nothing was sent to the server.",
    );
    check(
        refusal("confirmation_required"),
        "Agent local wanted to call files:delete as destructive. A user must approve it first. Nothing was sent to the server.",
    );
    let running = Record { duration_us: None, ..record(Kind::Call, Status::Started) };
    check(running, "Agent local called files:delete as destructive. It is still running.");
    let step = |code: &str, metadata: &str| Record {
        code: Some(Untrusted::new(code)),
        metadata: Untrusted::new(metadata),
        ..record(Kind::Approval, Status::Success)
    };
    check(step("approval_approved", r#"{"by":"anna"}"#), "anna approved a call of files:delete by agent local.");
    check(step("approval_requested", "{}"), "Agent local asked for approval to call files:delete.");
    let login = Record { agent: None, server: None, tool: None, ..step("login", r#"{"user":"anna"}"#) };
    check(Record { kind: Kind::Auth, ..login }, "anna signed in.");
}

#[test]
fn a_servers_code_is_not_explained_as_one_of_the_gateway() {
    let failed = |metadata: &str| Record {
        code: Some(Untrusted::new("policy_violation")),
        end_metadata: Some(Untrusted::new(metadata)),
        ..record(Kind::Call, Status::Error)
    };
    let html = page(failed(r#"{"failure":{"code":"policy_violation","declared":true}}"#));
    assert!(
        !html.contains("Cedar") && !html.contains("Next step") && html.contains("declared in the contract"),
        "{html}"
    );
    assert!(html.contains("The server answered with this code."), "{html}");
    assert!(page(failed("{}")).contains("Cedar"));
}

#[test]
fn other_records_are_named_after_their_subject() {
    let check = |kind: Kind, status: Status, code: &str, metadata: &str, expected: (&str, &str)| {
        let record = Record {
            server: (kind == Kind::Server).then(|| Untrusted::new("time")),
            agent: None,
            tool: None,
            code: (!code.is_empty()).then(|| Untrusted::new(code)),
            metadata: Untrusted::new(metadata),
            ..record(kind, status)
        };
        let subject = words::subject(&record, &words::metadata(&record)).to_string();
        assert_eq!((subject.as_str(), words::status(&record).word), expected, "{code}");
    };
    let (done, failed, refused) = (Status::Success, Status::Error, Status::Refused);
    check(Kind::Auth, failed, "server_add", r#"{"name":"time"}"#, ("Add server time", "Failed"));
    check(Kind::Auth, failed, "server_add", "{}", ("Add server", "Failed"));
    check(Kind::Server, done, "server_added", "{}", ("Server time added", "Done"));
    check(Kind::Server, failed, "server_enabled", "{}", ("Enable server time", "Failed"));
    check(Kind::Server, refused, "definitions_quarantined", "{}", ("Definitions of time held for review", "Held back"));
    check(Kind::Server, done, "", "{}", ("Server time connected", "Done"));
    check(Kind::Server, failed, "", "{}", ("Connect server time", "Failed"));
    check(Kind::Settings, refused, "weakening_held", "{}", ("Change that weakens rules", "Held back"));
    check(Kind::Settings, done, "", "{}", ("Settings reloaded", "Done"));
    check(Kind::Auth, done, "token_created", r#"{"agent":"ci","user":"anna"}"#, ("Token of ci created", "Done"));
    check(Kind::Auth, done, "login", r#"{"user":"anna"}"#, ("anna signed in", "Done"));
    check(Kind::Auth, refused, "something_new", "{}", ("Something new", "Refused"));
}

#[test]
fn a_servers_own_risk_level_says_so() {
    let html = page(call(r#"{"risk_said_by":"server"}"#));
    assert!(html.contains("High, says the server</span>"), "{html}");
    assert!(page(call("{}")).contains("High risk</span>"));
}

#[test]
fn a_refusal_names_the_code_and_the_next_step() {
    let html =
        page(Record { message: Some(Untrusted::new("policy files-1 forbids it")), ..refusal("policy_violation") });
    for expected in [
        "policy files-1 forbids it",
        "mcpproxy policy explain",
        "/ui/activity?status=refused&#38;code=policy_violation",
    ] {
        assert!(html.contains(expected), "{expected}\n{html}");
    }
}

#[test]
fn users_get_their_own_sentence() {
    let message =
        "A user must approve this call of 'fx:send'. Ask the user to open http://x/1. Then repeat exactly this call.";
    let refused = || Record { message: Some(Untrusted::new(message)), ..refusal("confirmation_required") };
    let html = page(refused());
    let (before, told) = html.split_once("What the agent was told").unwrap();
    assert!(!before.contains("Ask the user to open"), "{before}");
    assert!(before.contains("<strong>Next step:</strong> Decide on the approval request."), "{before}");
    assert!(told.contains("Ask the user to open"), "the answer to the agent is one click away: {told}");
    let line = words::reason(&refused(), &serde_json::Value::Null);
    assert_eq!(line.text.to_string(), "A user must approve the call first.");
}

#[test]
fn hostile_records_are_escaped_and_bounded_everywhere() {
    for hostile in HOSTILE {
        let long = hostile.repeat(1_000_000 / hostile.len());
        // The log bounds metadata. Only payloads are as long as a megabyte.
        let words = hostile.repeat(10_000 / hostile.len());
        let name: String = long.chars().take(256).collect();
        let word = || Some(Untrusted::new(name.clone()));
        let metadata = serde_json::json!({
            "intent": {"reason": words, "data_sensitivity": words}, "approved_by": words, "contract": {"version": words},
            "category": words, "warnings": [{"message": words}], "approval_id": words, "replayed_from": words,
            "idempotency_key": words, "tool_variant": words, "comment": words, "user": words,
        });
        for kind in Kind::ALL {
            let record = Record {
                agent: Some(name.clone()),
                client: word(),
                server: word(),
                tool: word(),
                code: word(),
                message: Some(Untrusted::new(long.chars().take(4_096).collect::<String>())),
                metadata: Untrusted::new(metadata.to_string()),
                ..record(kind, Status::Error)
            };
            let payload = Payload::of(mask(&long, &[]), long.len());
            let stored = || Some(Untrusted::new(payload.text()));
            let facts = Some(*payload.facts());
            let whole = WholeRecord {
                record: Record { args: facts, result: facts, ..record.clone() },
                args: stored(),
                result: stored(),
            };
            let found = Found { records: vec![record.clone(); 50], ..Found::default() };
            let filters = Filters::of(&[(hostile, &long)]);
            let list = ActivityList::new(Frame::default(), &filters, &Names::default(), Ok(found), NOW_MS);
            let known = Known { whole, approval: None, place: None, steps: vec![record.clone(); 50] };
            let around = Around::of(record.clone(), vec![record.clone()], vec![record.clone()]);
            for (html, max) in [
                (list.render().unwrap(), 300_000),
                (RecordPage::new(Frame::default(), &known, NOW_MS).render().unwrap(), 250_000),
                (SessionPage::new(Frame::default(), &around, NOW_MS).render().unwrap(), 60_000),
            ] {
                assert!(html.len() < max, "{kind:?} {hostile:?} {}", html.len());
                let raw = ["<script>alert", "<img", "\u{202e}", "\u{2066}", "\u{1b}", "\u{7}"];
                assert!(raw.iter().all(|raw| !html.contains(raw)), "{kind:?} {hostile:?}");
            }
        }
    }
}

#[test]
fn the_form_keeps_what_was_chosen() {
    let names = Names { agents: vec!["local".to_owned()], servers: vec!["files".to_owned()] };
    let filters = Filters::of(&[("agent", "gone"), ("since", "1h"), ("risk", "high"), ("q", "a b")]);
    let form = FilterForm::new(&filters, &names);
    let chosen = |name: &str| {
        let select = form.usual.iter().chain(&form.more).find(|select| select.name == name).unwrap();
        select.choices.iter().find(|choice| choice.is_chosen).map(|choice| choice.value.clone()).unwrap()
    };
    assert_eq!((chosen("agent"), chosen("since"), chosen("server")), ("gone".into(), "1h".into(), String::new()));
    assert!(form.is_open, "a folded filter is in force");
    let chips: Vec<(String, String)> =
        form.chips.iter().map(|chip| (chip.label.to_string(), chip.value.to_string())).collect();
    let expected = [("agent", "gone"), ("period", "last hour"), ("risk", "high"), ("text", "a b")];
    assert_eq!(chips, expected.map(|(label, value)| (label.to_owned(), value.to_owned())));
    assert_eq!(form.chips[0].without, "/ui/activity?since=1h&risk=high&q=a%20b");
}

#[test]
fn a_session_ends_at_a_pause_and_leaves_out_other_clients() {
    let at = |offset_ms: i64, client: &str| {
        let id = ulid_at(NOW_MS + offset_ms);
        Record { id, client: Some(Untrusted::new(client)), ..call("{}") }
    };
    let here = at(0, "a");
    let minute = 60_000;
    let earlier = vec![at(-minute, "a"), at(-2 * minute, "b"), at(-20 * minute, "a"), at(-21 * minute - PAUSE_MS, "a")];
    let later = vec![at(PAUSE_MS * 3, "a"), at(5 * minute, "a")];
    let around = Around::of(here.clone(), earlier.clone(), later.clone());
    let ids = |records: &[Record]| records.iter().map(|record| record.id).collect::<Vec<_>>();
    assert_eq!(ids(&around.earlier), [earlier[2].id, earlier[0].id]);
    assert_eq!(ids(&around.later), [later[1].id]);
    let page = SessionPage::new(Frame::default(), &around, NOW_MS);
    assert_eq!(page.summary, "4 calls and 0 refusals in 25 min");
    assert_eq!(page.dots.iter().map(|dot| dot.x).collect::<Vec<_>>(), [10, 754, 794, 990]);
    assert_eq!((page.earlier, page.later), (None, None));
    assert!(page.calls[1].gap.as_ref().is_some_and(|gap| gap.words == "18 min 58 s later"));
}

fn ulid_at(time_ms: i64) -> RecordId {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digits: String = (0..10).rev().map(|at| char::from(ALPHABET[(time_ms >> (5 * at)) as usize % 32])).collect();
    RecordId::parse(&format!("{digits}ZZW1Z00000000000")).unwrap()
}

#[test]
fn the_records_of_an_approved_call_are_one_story() {
    let id = "01K9ZQ4B2R0000000000000001";
    let step = |offset_ms: i64, kind: Kind, code: &str, more: &str| Record {
        id: ulid_at(NOW_MS + offset_ms),
        code: (!code.is_empty()).then(|| Untrusted::new(code)),
        metadata: Untrusted::new(format!(r#"{{"approval_id":"{id}"{more}}}"#)),
        ..record(kind, Status::Success)
    };
    let records = vec![
        step(90_000, Kind::Call, "", r#","approved_by":"anna""#),
        step(60_000, Kind::Approval, "approval_approved", r#","by":"anna","given":"factor""#),
        step(0, Kind::Approval, "approval_requested", ""),
    ];
    let words = |steps: &[Step]| steps.iter().map(|step| step.words.to_string()).collect::<Vec<_>>();
    let expected = ["asked", "approved by anna with a second factor", "ran"];
    let found = Found { records: records.clone(), ..Found::default() };
    let list = ActivityList::new(Frame::default(), &Filters::default(), &Names::default(), Ok(found), NOW_MS);
    for row in &list.rows {
        assert_eq!(words(&row.steps), expected);
        assert_eq!(row.steps.iter().filter(|step| step.is_here).count(), 1);
    }
    let html = list.render().unwrap();
    assert!(html.contains(&format!("<a href=\"/ui/activity/{}\">asked</a>", records[2].id)), "{html}");
    let whole = WholeRecord { record: records[0].clone(), args: None, result: None };
    let known = Known { whole, approval: None, place: None, steps: records.clone() };
    let page = RecordPage::new(Frame::default(), &known, NOW_MS);
    assert_eq!(words(&page.steps), expected);
    assert!(page.render().unwrap().contains("<li aria-current=\"step\">"));
    // The other steps are on another page of the list.
    let found = Found { records: records[..1].to_vec(), ..Found::default() };
    let list = ActivityList::new(Frame::default(), &Filters::default(), &Names::default(), Ok(found), NOW_MS);
    assert!(list.render().unwrap().contains("#story"));
}

#[test]
fn statuses_have_words_and_icons() {
    let check = |record: &Record, expected: &str| assert_eq!(words::status(record).word, expected);
    check(&call("{}"), "Succeeded");
    check(&call(r#"{"dry_run":"preview"}"#), "Dry run");
    check(&call(r#"{"replayed_from":"01X"}"#), "Repeated");
    check(&Record { status: Status::Error, ..call(r#"{"dry_run":"server"}"#) }, "Dry run failed");
    check(&refusal("confirmation_required"), "Needs approval");
    check(&refusal("policy_violation"), "Refused");
    check(&record(Kind::Call, Status::Interrupted), "Unknown");
}
