//! Replays of small logs, as tables of records and expected groups.

use super::*;
use crate::catalog::{Offer, Offered};
use crate::contract::Contracts;
use crate::policy::Policies;
use crate::{Scope, ServerName, Variant};

const TOOLS: [&str; 3] = [
    r#"{"name":"read","inputSchema":{},"annotations":{"readOnlyHint":true}}"#,
    r#"{"name":"pay","inputSchema":{"properties":{"amount":{"type":"integer"},"to":{"type":"string"}}}}"#,
    r#"{"name":"drop","inputSchema":{},"annotations":{"destructiveHint":true}}"#,
];

fn rules(contracts: &str, policies: &str) -> Rules {
    let server = ServerName::parse("fx").unwrap();
    let offer = Arc::new(Offer::new(TOOLS.map(|tool| Offered::parse(&server, tool))).0);
    let files = |name: &str, text: &str| vec![(name.to_owned(), text.to_owned())];
    let contracts = Contracts::parse(&files("contracts/a.yaml", contracts)).unwrap();
    let policies = Policies::parse(&files("policies/a.cedar", policies)).unwrap();
    let catalog = Catalog::default().next([(server, offer)], &Arc::new(contracts), &Arc::new(policies));
    Rules { settings: Arc::new(Settings::default()), catalog }
}

const CALM: &str = "tool: fx:none\nriskLevel: low\n";

fn agent() -> Agent {
    Agent { name: "a1".to_owned(), scope: Scope::everything() }
}

/// One record: seconds since 1970, tool, variant, code of a refusal, metadata, arguments.
type Row = (i64, &'static str, Variant, Option<&'static str>, &'static str, Option<&'static str>);

/// Calls with this code were made and failed, so they are no refusals.
const FAILED: &str = "upstream_timeout";

fn replay(baseline: Baseline, after: Rules, rows: &[Row]) -> Report {
    replay_of(&agent(), baseline, after, rows)
}

fn replay_of(agent: &Agent, baseline: Baseline, after: Rules, rows: &[Row]) -> Report {
    let mut replay = Replay::new(baseline, after);
    for (index, (seconds, tool, variant, code, metadata, arguments)) in rows.iter().enumerate() {
        replay.take(&LoggedCall {
            id: &format!("R{index}"),
            clock: Clock { now_ms: seconds * 1_000, utc_offset_s: 0 },
            agent,
            is_anonymous: agent.name == "anonymous",
            server: Some("fx"),
            tool: Some(tool),
            variant: Some(*variant),
            is_refusal: code.is_some_and(|code| !["dry_run", "replayed", FAILED].contains(&code)),
            has_failed: *code == Some(FAILED),
            code: *code,
            metadata,
            arguments: arguments.map_or(LoggedArguments::Lost, LoggedArguments::Stored),
        });
    }
    replay.finish()
}

fn lines(report: &Report) -> Vec<String> {
    let line = |group: &Group| {
        let Group { change, tool, before, after, calls, masked, examples, .. } = group;
        let masked = if *masked > 0 { format!(", {masked} masked at {:?}", group.masked_at) } else { String::new() };
        format!("{} {tool}: {before} -> {after}, {calls} calls{masked}, {}", change.as_str(), examples.join(" "))
    };
    report.groups.iter().map(line).collect()
}

fn check(after: Rules, rows: &[Row], expected: &[&str]) -> Report {
    let report = replay(Baseline::Rules(Box::new(rules(CALM, ""))), after, rows);
    assert_eq!(lines(&report), expected);
    report
}

const READ: Row = (1, "read", Variant::Read, None, "{}", Some("{}"));
const PAY: Row = (2, "pay", Variant::Write, None, "{}", Some(r#"{"amount":5,"to":"kim"}"#));
const DROP: Row = (3, "drop", Variant::Destructive, None, "{}", Some("{}"));

#[test]
fn the_same_rules_change_nothing() {
    let report = check(rules(CALM, ""), &[READ, PAY, DROP], &[]);
    assert_eq!((report.calls, report.decisions), (3, 6));
}

#[test]
fn contracts_refuse_ask_and_hide() {
    let contracts = "- { tool: fx:pay, riskLevel: critical }\n- { tool: fx:read, riskLevel: forbidden }\n\
                     - { tool: fx:drop, permissions: [x] , confirmation: required }\n";
    check(
        rules(contracts, ""),
        &[READ, READ, PAY, DROP],
        &[
            "newly_refused fx:read: allow -> not_found, 2 calls, R0 R1",
            "newly_asking fx:drop: allow -> ask, 1 calls, R3",
            "newly_asking fx:pay: allow -> step_up, 1 calls, R2",
        ],
    );
}

#[test]
fn policies_see_the_time_of_the_record() {
    let night = "@id(\"night\") forbid (principal, action, resource) when { context.time.hour < 7 };";
    let noon = (12 * 3_600, "pay", Variant::Write, None, "{}", Some("{}"));
    check(rules(CALM, night), &[PAY, noon], &["newly_refused fx:pay: allow -> deny policy_violation, 1 calls, R0"]);
    let report = replay(Baseline::Rules(Box::new(rules(CALM, ""))), rules(CALM, night), &[PAY, noon]);
    let policies: Vec<_> = report.groups.iter().map(|group| group.policies.clone()).collect();
    assert_eq!(policies, [BTreeSet::from(["night".to_owned()])]);
}

#[test]
fn a_rate_limit_counts_the_recorded_calls() {
    let limit = "tool: fx:read\nrateLimit: { calls: 2, per: 1m }\n";
    let at = |seconds| (seconds, "read", Variant::Read, None, "{}", Some("{}"));
    check(
        rules(limit, ""),
        &[at(1), at(2), at(3), at(62)],
        &["newly_refused fx:read: allow -> deny rate_limit_exceeded, 1 calls, R2"],
    );
}

#[test]
fn a_recorded_dry_run_counts_for_ten_minutes() {
    let contract = "tool: fx:pay\nriskLevel: low\noperation: write\ndryRun: required\n";
    let args = Some(r#"{"amount":5}"#);
    let dry = (10, "pay", Variant::Write, Some("dry_run"), r#"{"dry_run":"preview"}"#, args);
    let real = |seconds| (seconds, "pay", Variant::Write, None, "{}", args);
    check(
        rules(contract, ""),
        &[real(1), dry, real(20), real(700)],
        &["newly_refused fx:pay: allow -> dry_run_required, 2 calls, R0 R3"],
    );
}

/// `amount` must be a number, and the log has `"***"`. The new contract still asks.
#[test]
fn masked_arguments_are_named_and_decided() {
    let masked = (1, "pay", Variant::Write, None, "{}", Some(r#"{"amount":"***","to":"a/b"}"#));
    let lost = (2, "pay", Variant::Write, None, "{}", None);
    let wrong = (3, "pay", Variant::Write, None, "{}", Some(r#"{"amount":"***","to":7}"#));
    let report = check(
        rules("tool: fx:pay\nriskLevel: high\n", ""),
        &[masked, lost, wrong],
        &[r#"newly_asking fx:pay: allow -> ask, 2 calls, 2 masked at {"", "/amount"}, R0 R1"#],
    );
    assert_eq!((report.masked, report.without_arguments), (2, 1));
}

/// Parameters of a refused call are read again. A direct call has arguments instead.
#[test]
fn refused_calls_may_pass_now() {
    let parameters = Some(r#"{"name":"fx:drop","args":{"id":1}}"#);
    let refused = (1, "drop", Variant::Write, Some("SERVER_MISMATCH"), "{}", parameters);
    let direct = (2, "drop", Variant::Write, Some("SERVER_MISMATCH"), "{}", Some(r#"{"name":"x"}"#));
    let contract = "tool: fx:drop\nriskLevel: low\noperation: write\n";
    check(
        rules(contract, ""),
        &[refused, direct],
        &["newly_allowed fx:drop: deny SERVER_MISMATCH -> allow, 2 calls, R0 R1"],
    );
}

#[test]
fn what_cannot_be_decided_is_counted() {
    let gone = (1, "gone", Variant::Read, None, "{}", Some("{}"));
    let repeat = (2, "read", Variant::Read, Some("replayed"), r#"{"replayed_from":"R1"}"#, None);
    let odd = (3, "no such name!", Variant::Read, Some("tool_not_found"), "{}", Some("{}"));
    let report = check(rules(CALM, ""), &[gone, repeat, odd], &[]);
    assert_eq!((report.unknown, report.repeats, report.unreadable, report.calls), (1, 1, 1, 0));
    assert_eq!(report.unknown_tools.into_iter().collect::<Vec<_>>(), ["fx:gone"]);
}

#[test]
fn the_record_can_be_the_baseline() {
    let approved = (1, "pay", Variant::Write, None, r#"{"approval_id":"x"}"#, Some("{}"));
    let denied = (2, "pay", Variant::Write, Some("approval_denied"), "{}", Some(r#"{"name":"fx:pay"}"#));
    let forbidden = (3, "read", Variant::Read, Some("forbidden_attempt"), "{}", Some(r#"{"name":"fx:read"}"#));
    let report = replay(
        Baseline::Record,
        rules("tool: fx:pay\nriskLevel: critical\n", ""),
        &[approved, denied, forbidden, PAY, DROP],
    );
    assert_eq!(
        lines(&report),
        [
            "newly_asking fx:pay: allow -> step_up, 1 calls, R3",
            "newly_allowed fx:read: not_found -> allow, 1 calls, R2",
        ]
    );
    assert_eq!((report.calls, report.decisions), (5, 5));
}

#[test]
fn groups_have_a_bound() {
    let agents: Vec<Agent> = (0..1_010).map(|n| Agent { name: format!("a{n}"), scope: Scope::everything() }).collect();
    let baseline = Baseline::Rules(Box::new(rules(CALM, "")));
    let mut replay = Replay::new(baseline, rules("tool: fx:read\nriskLevel: forbidden\n", ""));
    for agent in &agents {
        replay.take(&LoggedCall {
            id: "R",
            clock: Clock::default(),
            agent,
            is_anonymous: false,
            server: Some("fx"),
            tool: Some("read"),
            variant: Some(Variant::Read),
            is_refusal: false,
            has_failed: false,
            code: None,
            metadata: "{}",
            arguments: LoggedArguments::Stored("{}"),
        });
    }
    let report = replay.finish();
    assert_eq!((report.groups.len(), report.not_listed), (1_000, 10));
    assert_eq!(report.count(Change::NewlyRefused), 1_010, "totals count the calls of every group");
}

/// The groups are full of calls of one tool when the first call of another tool comes.
#[test]
fn every_affected_tool_is_named() {
    let contracts = "- { tool: fx:read, riskLevel: forbidden }\n- { tool: fx:drop, riskLevel: forbidden }\n";
    let mut replay = Replay::new(Baseline::Rules(Box::new(rules(CALM, ""))), rules(contracts, ""));
    for n in 0..1_001 {
        let (tool, variant) = if n < 1_000 { ("read", Variant::Read) } else { ("drop", Variant::Destructive) };
        replay.take(&LoggedCall {
            id: "R",
            clock: Clock::default(),
            agent: &Agent { name: format!("a{n}"), scope: Scope::everything() },
            is_anonymous: false,
            server: Some("fx"),
            tool: Some(tool),
            variant: Some(variant),
            is_refusal: false,
            has_failed: false,
            code: None,
            metadata: "{}",
            arguments: LoggedArguments::Stored("{}"),
        });
    }
    let report = replay.finish();
    assert!(report.groups.iter().all(|group| group.tool.tool() == "read"));
    assert_eq!(report.affected.iter().map(ToString::to_string).collect::<Vec<_>>(), ["fx:drop", "fx:read"]);
}

#[test]
fn the_variant_is_the_one_that_was_used() {
    let parameters = Some(r#"{"name":"fx:pay","intent":{"operation_type":"destructive"}}"#);
    let meta = r#"{"tool_variant":"call_tool_write"}"#;
    let row = (1, "pay", Variant::Destructive, Some("INTENT_MISMATCH"), meta, parameters);
    assert_eq!(lines(&replay(Baseline::Record, rules(CALM, ""), &[row])), [""; 0]);
}

#[test]
fn a_direct_call_gets_the_variant_of_the_new_contract() {
    let meta = r#"{"tool_variant":"call_tool_read","variant_inferred":true}"#;
    let row = (1, "read", Variant::Read, None, meta, Some("{}"));
    check(rules("tool: fx:read\nriskLevel: low\noperation: write\n", ""), &[row], &[]);
}

#[test]
fn an_approved_call_counts_in_the_rate_limit() {
    let at = |seconds| (seconds, "pay", Variant::Write, None, r#"{"approval_id":"x"}"#, Some("{}"));
    check(
        rules("tool: fx:pay\nriskLevel: high\nrateLimit: { calls: 1, per: 1m }\n", ""),
        &[at(1), at(2)],
        &[
            "newly_refused fx:pay: allow -> deny rate_limit_exceeded, 1 calls, R1",
            "newly_asking fx:pay: allow -> ask, 1 calls, R0",
        ],
    );
}

/// The record of a refused direct call has the arguments of the tool. Its intent is in the metadata.
#[test]
fn refused_direct_calls_stay_refused() {
    let row = |code, meta| (1, "pay", Variant::Write, Some(code), meta, Some(r#"{"amount":5}"#));
    let rows = [
        row("INTENT_MISMATCH", r#"{"intent":{"operation_type":"read"},"endpoint_mode":"direct"}"#),
        row("INVALID_SENSITIVITY", r#"{"intent":{"data_sensitivity":"secret"},"endpoint_mode":"server"}"#),
        row("REASON_TOO_LONG", r#"{"intent":{},"endpoint_mode":"direct"}"#),
    ];
    assert_eq!(lines(&replay(Baseline::Record, rules(CALM, ""), &rows)), [""; 0]);
    // With this contract, the declared operation is the right one.
    let after = rules("tool: fx:pay\nriskLevel: low\noperation: read\n", "");
    check(after, &rows, &["newly_allowed fx:pay: deny INTENT_MISMATCH -> allow, 1 calls, R0"]);
}

/// The stored answers and claims of earlier calls decided on these, not the rules.
#[test]
fn refusals_because_of_an_earlier_call_are_left_out() {
    let row = |code| (1, "pay", Variant::Write, Some(code), "{}", Some(r#"{"name":"fx:pay"}"#));
    let report = replay(Baseline::Record, rules(CALM, ""), &[row("idempotency_conflict"), row("outcome_unknown")]);
    assert_eq!((lines(&report), report.repeats, report.calls), (Vec::new(), 2, 0));
}

fn with_settings(settings: Settings) -> Rules {
    Rules { settings: Arc::new(settings), ..rules(CALM, "") }
}

#[test]
fn settings_close_direct_mode_and_reject_agents_without_a_token() {
    let direct = |mode| (1, "read", Variant::Read, None, mode, Some("{}"));
    let rows = [
        direct(r#"{"endpoint_mode":"direct"}"#),
        direct(r#"{"endpoint_mode":"server"}"#),
        direct(r#"{"endpoint_mode":"four"}"#),
    ];
    let closed = with_settings(Settings { direct_mode: false, ..Settings::default() });
    check(closed, &rows, &["newly_refused fx:read: allow -> not_found, 2 calls, R0 R1"]);
    let anonymous = Agent { name: "anonymous".to_owned(), scope: Scope::everything() };
    let open = || Settings { allow_anonymous_loopback: true, ..Settings::default() };
    let before = Baseline::Rules(Box::new(with_settings(open())));
    let report = replay_of(&anonymous, before, rules(CALM, ""), &[READ]);
    assert_eq!(lines(&report), ["newly_refused fx:read: allow -> not_found, 1 calls, R0"]);
    let report = replay_of(&anonymous, Baseline::Record, with_settings(open()), &[READ]);
    assert_eq!(lines(&report), [""; 0]);
}

#[test]
fn settings_may_require_two_keys() {
    let mut settings = Settings::default();
    settings.intent.two_key = crate::settings::TwoKey::Required;
    let row = |meta| (1, "read", Variant::Read, None, meta, Some("{}"));
    let rows = [
        row(r#"{"intent":{"operation_type":"read"},"tool_variant":"call_tool_read"}"#),
        row(r#"{"intent":{"operation_type":"read"},"intent_declared":false,"tool_variant":"call_tool_read"}"#),
        row(r#"{"intent":{"operation_type":"read","reason":"r"},"intent_declared":false,"endpoint_mode":"direct"}"#),
    ];
    check(
        with_settings(settings),
        &rows,
        &[
            "newly_refused fx:read: allow -> deny MISSING_INTENT, 1 calls, R1",
            "newly_refused fx:read: allow -> deny MISSING_OPERATION_TYPE, 1 calls, R2",
        ],
    );
}

#[test]
fn masked_places_are_named_without_a_difference() {
    let masked = (1, "pay", Variant::Write, None, "{}", Some(r#"{"amount":"***","to":"a"}"#));
    let lost = (2, "drop", Variant::Destructive, None, "{}", None);
    let report = check(rules(CALM, ""), &[masked, lost], &[]);
    let places: Vec<String> = report.masked_at.iter().map(|(tool, places)| format!("{tool} {places:?}")).collect();
    assert_eq!(places, [r#"fx:pay {"/amount"}"#]);
}

#[test]
fn only_a_successful_dry_run_counts_and_it_waits_for_the_user() {
    let contract = "tool: fx:pay\nriskLevel: high\noperation: write\ndryRun: required\n";
    let args = Some(r#"{"amount":5}"#);
    let dry = |seconds, code| (seconds, "pay", Variant::Write, code, r#"{"dry_run":"server"}"#, args);
    let approved = |seconds| (seconds, "pay", Variant::Write, None, r#"{"approval_id":"x"}"#, args);
    check(
        rules(contract, ""),
        &[dry(10, Some(FAILED)), approved(20), dry(30, None), approved(900)],
        &[
            "newly_refused fx:pay: allow -> dry_run_required, 1 calls, R1",
            "newly_asking fx:pay: allow -> ask, 1 calls, R3",
        ],
    );
    let of_user = (30, "pay", Variant::Write, None, r#"{"dry_run":"server","user":"ada"}"#, args);
    check(
        rules(contract, ""),
        &[of_user, approved(40)],
        &["newly_refused fx:pay: allow -> dry_run_required, 1 calls, R1"],
    );
}
