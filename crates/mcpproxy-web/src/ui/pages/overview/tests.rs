//! Tests for what needs attention, and for the lists of tools and refusals.

use mcpproxy_core::Untrusted;
use mcpproxy_gateway::{ServerStatus, StateName};
use mcpproxy_store::{Durations, Health as LogHealth, HourlyCount, RefusalCount, RefusalCounts, Summary, SummaryGroup};

use super::attention::{Attention, Facts};
use super::chart::Period;
use super::traffic::Traffic;
use super::*;
use crate::ui::pages::test_status::server_status as server;

const NOW_MS: i64 = 1_800_000_000_000;
const DAY_MS: i64 = 86_400_000;
const HOSTILE: &str = "<script>alert(1)</script>\u{202e}";

fn facts(servers: &[ServerStatus]) -> Facts<'_> {
    Facts {
        log: LogHealth::Well,
        reload_error: None,
        held: None,
        warnings: Vec::new(),
        drift: &[],
        servers,
        last_lines: Vec::new(),
        last_verification: None,
        log_since_ms: Some(NOW_MS - DAY_MS),
        now_ms: NOW_MS,
    }
}

fn titles(facts: &Facts<'_>) -> Vec<(String, String)> {
    let link = |entry: &Attention| entry.link.as_ref().map(|(href, _)| href.clone()).unwrap_or_default();
    Attention::all(facts).iter().map(|entry| (entry.title.to_string(), link(entry))).collect()
}

#[test]
fn a_healthy_gateway_needs_nothing() {
    let servers = [server("a", StateName::Ready), server("b", StateName::Disabled), server("c", StateName::Connecting)];
    assert_eq!(titles(&facts(&servers)), []);
}

#[test]
fn each_trouble_has_a_way_to_fix_it() {
    let down = ServerStatus { reason: Some(format!("exited {HOSTILE}")), ..server("files", StateName::Waiting) };
    let new = ServerStatus { to_review: 2, ..server("mail", StateName::Ready) };
    let servers = [down, new, server("fx", StateName::Misconfigured)];
    let facts = Facts {
        log: LogHealth::Failing { since_ms: 0, reason: "disk full".to_owned() },
        reload_error: Some("/data/mcp_config.json:3:1: unknown key\n/data/mcp_config.json:4:1: worse".to_owned()),
        warnings: vec!["`x` has no effect".to_owned()],
        last_lines: vec![(0, Untrusted::new(HOSTILE))],
        log_since_ms: Some(NOW_MS - 9 * DAY_MS),
        ..facts(&servers)
    };
    let links: Vec<String> = titles(&facts).into_iter().map(|(_, href)| href).collect();
    let expected = [
        "/ui/settings#storage",
        "/ui/settings#reloads",
        "/ui/servers/files",
        "/ui/servers/fx",
        "/ui/servers/mail/review",
        "/ui/settings#verify",
        "/ui/settings#reloads",
    ];
    assert_eq!(links, expected);
    let shown = format!("{:?}", Attention::all(&facts));
    assert!(shown.contains("And 1 more mistake.") && !shown.contains("<script>"), "{shown}");
}

#[test]
fn many_servers_are_counted() {
    let servers: Vec<ServerStatus> = (0..30).map(|number| server(&format!("s{number}"), StateName::Waiting)).collect();
    let titles = titles(&facts(&servers));
    assert_eq!((titles.len(), titles[8].0.as_str()), (9, "22 more servers are not connected either"));
    let health = Health::new(&servers);
    assert_eq!((health.rows.len(), health.more, health.summary.as_str()), (12, 18, "0 of 30 ready"));
}

#[test]
fn servers_with_trouble_come_first() {
    let servers = [server("a", StateName::Disabled), server("b", StateName::Ready), server("c", StateName::Waiting)];
    let names: Vec<String> = Health::new(&servers).rows.iter().map(|row| row.name.to_string()).collect();
    assert_eq!(names, ["c", "b", "a"]);
    let health = Health::new(&servers);
    assert_eq!(["a", "b", "c", "d"].map(|name| health.has_ready(name)), [false, true, false, false]);
}

fn group(name: &str, count: u64, errors: u64, p95_us: u64) -> SummaryGroup {
    let (p50_us, p95_us) = (Some(1), Some(p95_us));
    SummaryGroup { name: Untrusted::new(name), count, errors, refused: 0, dry_runs: 0, replayed: 0, p50_us, p95_us }
}

fn summary(by_tool: Vec<SummaryGroup>) -> Summary {
    Summary {
        from_ms: 0,
        to_ms: 0,
        total: 0,
        by_type: Vec::new(),
        by_status: Vec::new(),
        by_intent: vec![group("read", 9, 3, 1)],
        by_server: Vec::new(),
        by_tool,
        by_risk: Vec::new(),
        duration: Durations { p50_us: Some(1), p95_us: Some(1_500) },
    }
}

#[test]
fn tools_are_ordered_by_time_and_by_failures() {
    let tools = vec![group("a:x", 5, 0, 10), group("b:y/../z?", 3, 1, 2_000_000), group(HOSTILE, 1, 2, 5)];
    let hour = HourlyCount { from_ms: NOW_MS, intent: mcpproxy_core::Variant::Read, calls: 9, failed: 3 };
    let traffic = Traffic::new(&[hour], &summary(tools), &RefusalCounts::default(), Period::Day, NOW_MS);
    assert_eq!(traffic.slow[0].href, "/ui/tools/b/y%2F..%2Fz%3F");
    assert_eq!((traffic.slow[0].value.as_str(), traffic.slow.len()), ("2.0 s", 3));
    assert_eq!(traffic.failing.iter().map(|row| row.value.as_str()).collect::<Vec<_>>(), ["2", "1"]);
    assert_eq!(traffic.failing[1].activity, "/ui/activity?server=b&tool=y%2F..%2Fz%3F&status=error");
    assert!(!traffic.failing[0].name.to_string().contains("<script>"));
    let figures: Vec<&str> = traffic.figures.iter().map(|figure| figure.value.as_str()).collect();
    assert_eq!(figures, ["9", "3", "0", "0", "1.5 ms"]);
}

#[test]
fn reasons_are_in_plain_words() {
    let reason = |code: &str| RefusalCount { code: Untrusted::new(code), count: 1 };
    let reasons = ["MISSING_INTENT", "confirmation_required", "forbidden_attempt", "", HOSTILE].map(reason).to_vec();
    let refusals = RefusalCounts { reasons, read: 2_001, is_cut: true };
    let traffic = Traffic::new(&[], &summary(Vec::new()), &refusals, Period::Week, NOW_MS);
    let words: Vec<String> = traffic.refusals.iter().map(|row| row.words.to_string()).collect();
    let expected =
        ["The call has no intent parameter.", "A contract forbids the tool.", "Without a code", "Another reason"];
    assert_eq!(words, expected);
    // A call that waits for an approval is not refused.
    let figures: Vec<&str> = traffic.figures.iter().map(|figure| figure.value.as_str()).collect();
    assert_eq!(figures.get(2..4), Some(["1,999+", "1+"].as_slice()));
    assert!(!format!("{:?}", traffic.refusals).contains("<script>"));
    assert_eq!(traffic.refusals_note.as_deref(), Some("Counts the newest 2,000 refusals."));
}
