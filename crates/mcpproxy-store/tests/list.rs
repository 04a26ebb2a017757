//! Tests for lists: pages with filters, and records by id.

#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on should stop"
)]

mod common;

use common::{Place, call, payload, success};
use mcpproxy_core::{RiskLevel, Sensitivity, Untrusted, Variant};
use mcpproxy_store::{
    Cursor, Filter, Kind, LIMIT_MAX, Ledger, NewRecord, Record, SCAN_MAX, Status, Store, StoreError, WaitFor,
};

const COUNT: u32 = 600;
const BEGIN_MS: i64 = 1_700_000_000_000;

on_both!(
    pages_are_complete_and_have_no_duplicates,
    a_text_is_found_wherever_it_stands,
    records_that_arrive_meanwhile_do_not_move_the_pages,
    newer_pages_lead_back,
    a_record_knows_its_place,
    a_page_has_one_record_at_least_and_five_hundred_at_most,
    a_page_looks_at_so_many_records_and_no_more,
    a_record_is_found_by_as_much_of_its_id_as_is_unique,
    payloads_come_in_the_order_they_were_asked_for,
);

/// Metadata with each of the facts that filters know, and one that quotes them all.
const METADATA: [&str; 6] = [
    "{}",
    r#"{"intent":{"operation_type":"read","data_sensitivity":"private"}}"#,
    r#"{"category":"a \"b\""}"#,
    r#"{"dry_run":"server"}"#,
    r#"{"replayed_from":"01X"}"#,
    r#"{"reason":"\"data_sensitivity\":\"private\",\"dry_run\":\"server\",\"replayed_from\":\"01X\""}"#,
];

/// Returns a record whose fields vary independently, so that filters meet all combinations.
fn record(n: u32) -> NewRecord {
    let word = |prefix: &str, of: u32| Some(format!("{prefix}{}", n % of));
    let statuses = [Status::Success, Status::Error, Status::Refused, Status::Cancelled, Status::Interrupted];
    NewRecord {
        time_ms: BEGIN_MS + i64::from(n / 7),
        random: n.into(),
        kind: Kind::ALL[n as usize % 6],
        status: statuses[n as usize % 5],
        agent: word("agent", 2).filter(|_| !n.is_multiple_of(11)),
        server: word("server", 3),
        tool: word("tool", 4),
        intent_type: [Some(Variant::Read), Some(Variant::Write), Some(Variant::Destructive), None][n as usize % 4],
        risk: RiskLevel::ALL.get(n as usize % 8).copied(),
        code: word("code", 2).filter(|_| n.is_multiple_of(3)),
        metadata: METADATA.get(n as usize % 9).copied().unwrap_or("{}").to_owned(),
        args: None,
        ..call(n)
    }
}

async fn filled(place: &Place) -> (Store, Ledger) {
    let (store, ledger) = place.open().await;
    for n in 0..COUNT - 1 {
        ledger.append(record(n), WaitFor::Queue).await.unwrap();
    }
    ledger.append(record(COUNT - 1), WaitFor::Disk).await.unwrap();
    (store, ledger)
}

fn matches(filter: &Filter, n: u32) -> bool {
    fn fits<T: PartialEq>(wanted: &Option<T>, found: Option<T>) -> bool {
        wanted.is_none() || *wanted == found
    }
    let record = record(n);
    fits(&filter.intent_type, record.intent_type)
        && fits(&filter.kind, Some(record.kind))
        && fits(&filter.status, Some(record.status))
        && fits(&filter.server, record.server)
        && fits(&filter.tool, record.tool)
        && fits(&filter.agent, record.agent)
        && fits(&filter.risk, record.risk)
        && fits(&filter.sensitivity, (n % 9 == 1).then_some(Sensitivity::Private))
        && fits(&filter.category, (n % 9 == 2).then(|| "a \"b\"".to_owned()))
        && fits(&filter.code, record.code)
        && fits(&filter.dry_run, Some(n % 9 == 3))
        && fits(&filter.replayed, Some(n % 9 == 4))
        && filter.since_ms.is_none_or(|since| record.time_ms >= since)
        && filter.until_ms.is_none_or(|until| record.time_ms <= until)
}

async fn read_through(store: &Store, filter: &Filter, limit: usize) -> Vec<Record> {
    let (mut records, mut before) = (Vec::new(), None);
    for _ in 0..=COUNT {
        let page = store.list(filter, before, limit).await.unwrap();
        assert!(page.records.len() == limit || page.next.is_none(), "only the last page may be short");
        assert_eq!(page.searched_to_ms, None);
        records.extend(page.records);
        let Some(next) = page.next else { return records };
        before = Some(Cursor::parse(&next.to_string()).unwrap());
    }
    panic!("the pages do not end");
}

/// Returns every condition alone, and every pair of them.
fn filters() -> Vec<Filter> {
    let some = |text: &str| Some(text.to_owned());
    let alone: Vec<fn(&mut Filter)> = vec![
        |filter| filter.intent_type = Some(Variant::Destructive),
        |filter| filter.kind = Some(Kind::Settings),
        |filter| filter.kind = Some(Kind::Call),
        |filter| filter.status = Some(Status::Refused),
        |filter| filter.status = Some(Status::Success),
        |filter| filter.server = Some("server1".into()),
        |filter| filter.tool = Some("tool3".into()),
        |filter| filter.agent = Some("agent0".into()),
        |filter| filter.risk = Some(RiskLevel::High),
        |filter| filter.sensitivity = Some(Sensitivity::Private),
        |filter| filter.category = Some("a \"b\"".into()),
        |filter| filter.code = Some("code1".into()),
        |filter| filter.dry_run = Some(true),
        |filter| filter.dry_run = Some(false),
        |filter| filter.replayed = Some(true),
        |filter| (filter.since_ms, filter.until_ms) = (Some(BEGIN_MS + 20), Some(BEGIN_MS + 40)),
    ];
    let mut filters = vec![
        Filter::default(),
        Filter { agent: some("nobody"), ..Filter::default() },
        Filter { since_ms: Some(BEGIN_MS + 40), until_ms: Some(BEGIN_MS + 20), ..Filter::default() },
        Filter { until_ms: Some(i64::MAX), since_ms: Some(i64::MIN), ..Filter::default() },
        Filter { tool: some("tool3\0"), ..Filter::default() },
    ];
    for (index, one) in alone.iter().enumerate() {
        for other in &alone[index..] {
            let mut filter = Filter::default();
            one(&mut filter);
            other(&mut filter);
            filters.push(filter);
        }
    }
    filters
}

async fn pages_are_complete_and_have_no_duplicates(place: &Place) {
    let (store, _ledger) = filled(place).await;
    for (index, filter) in filters().iter().enumerate() {
        let expected: Vec<u32> = (0..COUNT).rev().filter(|n| matches(filter, *n)).collect();
        let limits = if index < 3 { &[1, 7, 100, LIMIT_MAX][..] } else { &[23] };
        for limit in limits {
            let found = read_through(&store, filter, *limit).await;
            // Records were written in order, one line each.
            let found: Vec<u32> = found.iter().map(|record| u32::try_from(record.seq).unwrap() - 1).collect();
            assert_eq!(found, expected, "{filter:?}, {limit} a page");
        }
    }
}

async fn a_text_is_found_wherever_it_stands(place: &Place) {
    let (store, ledger) = place.open().await;
    let texts = ["100% sure", "a_b", "Umlaut Ä", "back\\slash", "it's \"so\"", "\u{202e}txt"];
    let mut ids = Vec::new();
    for (n, text) in (0..).zip(texts) {
        let record = NewRecord { message: Some(text.to_owned()), ..call(n) };
        ids.push(ledger.append(NewRecord { status: Status::Error, ..record }, WaitFor::Disk).await.unwrap());
    }
    let open = ledger.open(NewRecord { tool: Some("Erase".into()), ..call(50) }, WaitFor::Disk).await.unwrap();
    let outcome = mcpproxy_store::Outcome { metadata: Some(r#"{"seen":"at the END"}"#.into()), ..success() };
    ids.push(open.id());
    ledger.close(open, outcome, WaitFor::Disk).await.unwrap();
    // The id of an approval, which has the form of a record's id.
    let approval = "01M7GS199QP86ASBBJJ7V5YN49";
    let about = NewRecord { metadata: format!(r#"{{"approval_id":"{approval}"}}"#), ..call(60) };
    ids.push(ledger.append(NewRecord { status: Status::Success, ..about }, WaitFor::Disk).await.unwrap());
    let check = async |text: &str, expected: &[usize]| {
        let filter = Filter { text: Some(text.to_owned()), ..Filter::default() };
        let page = store.list(&filter, None, 100).await.unwrap();
        let found: Vec<_> = page.records.iter().rev().map(|record| record.id).collect();
        let expected: Vec<_> = expected.iter().map(|index| ids[*index]).collect();
        assert_eq!(found, expected, "{text:?}");
        // The feed selects the same records in another way.
        let feed = store.feed(&mcpproxy_store::FeedCursor::default(), &filter, 100).await.unwrap();
        assert_eq!(feed.records.iter().map(|record| record.id).collect::<Vec<_>>(), expected, "{text:?}");
    };
    let all = [0, 1, 2, 3, 4, 5, 6, 7];
    check("", &all).await;
    check("100%", &[0]).await;
    check("%", &[0]).await;
    check("a_b", &[1]).await;
    check("a%b", &[]).await;
    check("UMLAUT Ä", &[2]).await;
    check("umlaut ä", &[]).await;
    check("\\", &[3]).await;
    check("IT'S \"SO", &[4]).await;
    check("\u{202e}", &[5]).await;
    check("mail:send", &[0, 1, 2, 3, 4, 5, 7]).await;
    check("mail:erase", &[6]).await;
    check("LOCAL", &all).await;
    check("cursor", &all).await;
    check("tool_variant", &all[..7]).await;
    check("at the end", &[6]).await;
    check("nothing of the kind", &[]).await;
    check("nul\0", &[]).await;
    check(&ids[3].to_string(), &[3]).await;
    check(&ids[3].to_string().to_lowercase(), &[3]).await;
    check(&ids[3].to_string()[..20], &[]).await;
    check(&format!(" {} ", ids[3]), &[3]).await;
    check(approval, &[7]).await;
    check(&approval.to_lowercase(), &[7]).await;
    check(&format!("{approval}\n"), &[7]).await;
    check("01HF7YAT000000000000000001", &[]).await;
}

async fn records_that_arrive_meanwhile_do_not_move_the_pages(place: &Place) {
    let (store, ledger) = filled(place).await;
    let first = store.list(&Filter::default(), None, 10).await.unwrap();
    ledger.append(record(COUNT), WaitFor::Disk).await.unwrap();
    let second = store.list(&Filter::default(), first.next, 10).await.unwrap();
    assert_eq!(second.records[0].seq, first.records[9].seq - 1);
}

async fn newer_pages_lead_back(place: &Place) {
    let (store, _ledger) = filled(place).await;
    for filter in filters() {
        let expected: Vec<u32> = (0..COUNT).rev().filter(|n| matches(&filter, *n)).collect();
        let all = read_through(&store, &filter, 100).await;
        let Some(from) = all.get(all.len().saturating_sub(5)) else { continue };
        let after = Cursor::after(from);
        let newer = store.list_newer(&filter, after, 7).await.unwrap();
        let newer: Vec<u32> = newer.iter().map(|record| u32::try_from(record.seq).unwrap() - 1).collect();
        let from = all.len().saturating_sub(5);
        assert_eq!(newer, expected[from.saturating_sub(7)..from], "{filter:?}");
    }
}

async fn a_record_knows_its_place(place: &Place) {
    let (store, ledger) = place.open().await;
    let id = ledger.append(record(1), WaitFor::Disk).await.unwrap();
    let open = ledger.open(call(2), WaitFor::Disk).await.unwrap();
    let called = open.id();
    ledger.close(open, success(), WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    for (id, has_end) in [(id, false), (called, true)] {
        let record = store.find(&id.to_string()).await.unwrap().unwrap().record;
        let found = store.chain_place(&record).await.unwrap().unwrap();
        assert_eq!((found.chain.as_str(), found.hash.len()), (ledger.verifier().chain(), 64));
        assert_eq!(found.end_hash.is_some_and(|hash| hash != found.hash), has_end);
        assert!(found.checkpoint.is_some_and(|(seq, _)| seq >= record.end_seq.unwrap_or(record.seq)));
        let gone = Record { id: mcpproxy_store::RecordId::parse("01AAAAAAAA0000000000000001").unwrap(), ..record };
        assert_eq!(store.chain_place(&gone).await.unwrap(), None);
    }
}

async fn a_page_has_one_record_at_least_and_five_hundred_at_most(place: &Place) {
    let (store, _ledger) = filled(place).await;
    assert_eq!(store.list(&Filter::default(), None, 0).await.unwrap().records.len(), 1);
    assert_eq!(store.list(&Filter::default(), None, usize::MAX).await.unwrap().records.len(), LIMIT_MAX);
}

async fn a_page_looks_at_so_many_records_and_no_more(place: &Place) {
    let (store, ledger) = place.open().await;
    let rare = NewRecord { message: Some("rare".into()), status: Status::Error, ..call(0) };
    ledger.append(rare, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let scan_max = u32::try_from(SCAN_MAX).unwrap();
    // One record per second, written directly because the gateway would take too long. The last one is rare, like the
    // first.
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {0}) \
         INSERT INTO records (key, tail, chain, seq, hash, kind, status, tool, metadata, message) \
         SELECT key + CAST(n AS BIGINT) * 1000 * 2097152, tail, chain, seq + n, hash, kind, \
                CASE n WHEN {0} THEN status ELSE 'success' END, tool, metadata, CASE n WHEN {0} THEN message END \
         FROM records, numbers WHERE seq = 1",
        scan_max + 1
    );
    place.sql(&sql).await;
    // The same records, once by an index and once by a scan.
    for filter in [
        Filter { text: Some("RARE".into()), ..Filter::default() },
        Filter { text: Some("rare".into()), tool: Some("send".into()), ..Filter::default() },
    ] {
        let first = store.list(&filter, None, 5).await.unwrap();
        assert_eq!(first.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [i64::from(scan_max) + 2]);
        // The scan covered all but the two oldest records, so it ended at second 2.
        assert_eq!(first.searched_to_ms, Some(BEGIN_MS + 2_000));
        let quick = store.list_scanning(&filter, None, 5, 100).await.unwrap();
        assert_eq!((quick.records.len(), quick.next.is_some()), (1, true));
        assert_eq!(quick.searched_to_ms, Some(BEGIN_MS + (i64::from(scan_max) - 98) * 1_000));
        let second = store.list(&filter, first.next, 5).await.unwrap();
        assert_eq!(second.records.iter().map(|record| record.seq).collect::<Vec<_>>(), [1]);
        assert_eq!((second.next, second.searched_to_ms), (None, None));
    }
    let by_status = Filter { status: Some(Status::Error), ..Filter::default() };
    let page = store.list(&by_status, None, 5).await.unwrap();
    assert_eq!((page.records.len(), page.next), (2, None), "an index leads straight there");
}

async fn a_record_is_found_by_as_much_of_its_id_as_is_unique(place: &Place) {
    let (store, ledger) = place.open().await;
    for (time_ms, random) in [(1_700_000_000_000, 1), (1_700_000_000_000, 2), (1_800_000_000_000, 3)] {
        let record = NewRecord { time_ms, random, status: Status::Success, ..call(0) };
        ledger.append(record, WaitFor::Disk).await.unwrap();
    }
    let check = async |text: &str, expected: Result<Option<&str>, &str>| {
        let found = store.find(text).await.map(|found| found.map(|found| found.record.id.to_string()));
        let found = found.map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected, "{text:?}");
    };
    let last = Ok(Some("01MCC5RM000000000000000003"));
    check("01HF7YAT000000000000000001", Ok(Some("01HF7YAT000000000000000001"))).await;
    check("01MCC5RM000000000000000003", last).await;
    check("01mc", last).await;
    check("01M", last).await;
    check("01HF", Err("several records have ids that start with `01HF`; use more characters of the id")).await;
    check("0", Err("several records have ids that start with `0`; use more characters of the id")).await;
    for nothing in ["", "7", "01HF7YAT000000000000000004", "01HF7YAT0000000000000000011", "%", "01M_", "~", "é"] {
        check(nothing, Ok(None)).await;
    }
    // The second was written within the same millisecond, so its key is one higher, and its id starts with that key.
    let second = &store.list(&Filter::default(), None, 5).await.unwrap().records[1];
    let id = second.id.to_string();
    check(&id, Ok(Some(&id))).await;
    check(&id[..15], Ok(Some(&id))).await;
    check(
        &id[..10],
        Err(&format!("several records have ids that start with `{}`; use more characters of the id", &id[..10])),
    )
    .await;
    assert!(matches!(Cursor::parse("01HF"), Err(StoreError::Cursor)));
}

async fn payloads_come_in_the_order_they_were_asked_for(place: &Place) {
    let (store, ledger) = place.open().await;
    let mut ids = Vec::new();
    for n in 0..4 {
        let args = (n != 2).then(|| payload(&format!("[{n}]")));
        let open = ledger.open(NewRecord { args, ..call(n) }, WaitFor::Queue).await.unwrap();
        ids.push(open.id());
        if n == 3 {
            ledger.close(open, success(), WaitFor::Disk).await.unwrap();
        }
    }
    let asked = [ids[3], ids[2], ids[0]];
    let text = |text: &str| Some(Untrusted::new(text));
    let expected = [(ids[3], text("[3]"), text("sent")), (ids[0], text("[0]"), None)];
    assert_eq!(store.payloads(&asked).await.unwrap(), expected);
    assert_eq!(store.payloads(&[]).await.unwrap(), []);
    let many: Vec<_> = std::iter::repeat_n(ids[1], LIMIT_MAX * 2).chain([ids[0]]).collect();
    let found = store.payloads(&many).await.unwrap();
    assert_eq!(found.last().map(|(id, ..)| *id), Some(ids[0]));
}
