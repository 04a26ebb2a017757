//! Reading the log back: pages with filters, and records by their id.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

use mcpproxy_core::Variant;
use mcpproxy_store::{Cursor, Filter, Kind, LIMIT_MAX, NewRecord, Record, RecordId, Status, Store, StoreError, Wait};

const COUNT: u32 = 600;

/// Every field takes its values in its own rhythm, so that filters meet all combinations.
fn record(n: u32) -> NewRecord {
    let word = |prefix: &str, of: u32| Some(format!("{prefix}{}", n % of));
    NewRecord {
        id: RecordId::new(i64::from(n / 7), u128::from(n) << 60),
        time_ms: i64::from(n / 7),
        kind: Kind::ALL[n as usize % 5],
        status: Status::ALL[n as usize % 6],
        agent: word("agent", 2).filter(|_| !n.is_multiple_of(11)),
        client: None,
        server: word("server", 3),
        tool: word("tool", 4),
        intent_type: [Some(Variant::Read), Some(Variant::Write), Some(Variant::Destructive), None][n as usize % 4],
        code: None,
        message: None,
        duration_us: None,
        metadata: "{}".into(),
        args: None,
    }
}

async fn filled() -> (tempfile::TempDir, Store) {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
    for n in 0..COUNT - 1 {
        store.ledger().note(record(n), Wait::Batched).await.unwrap();
    }
    store.ledger().note(record(COUNT - 1), Wait::Durable).await.unwrap();
    (folder, store)
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
        && filter.since_ms.is_none_or(|since| record.time_ms >= since)
        && filter.until_ms.is_none_or(|until| record.time_ms <= until)
}

async fn read_through(store: &Store, filter: &Filter, limit: usize) -> Vec<Record> {
    let (mut records, mut before) = (Vec::new(), None);
    for _ in 0..=COUNT {
        let page = store.list(filter, before, limit).await.unwrap();
        assert!(page.records.len() == limit || page.next.is_none(), "only the last page may be short");
        records.extend(page.records);
        let Some(next) = page.next else { return records };
        before = Some(Cursor::parse(&next.to_string()).unwrap());
    }
    panic!("the pages do not end");
}

#[tokio::test]
async fn pages_are_complete_and_have_no_duplicates() {
    let (_folder, store) = filled().await;
    let some = |text: &str| Some(text.to_owned());
    let filters = [
        Filter::default(),
        Filter { intent_type: Some(Variant::Destructive), ..Filter::default() },
        Filter { kind: Some(Kind::Settings), ..Filter::default() },
        Filter { status: Some(Status::Refused), ..Filter::default() },
        Filter { server: some("server1"), ..Filter::default() },
        Filter { tool: some("tool3"), ..Filter::default() },
        Filter { agent: some("agent0"), ..Filter::default() },
        Filter { agent: some("nobody"), ..Filter::default() },
        Filter { since_ms: Some(20), until_ms: Some(40), ..Filter::default() },
        Filter { since_ms: Some(40), until_ms: Some(20), ..Filter::default() },
        Filter {
            intent_type: Some(Variant::Read),
            server: some("server2"),
            agent: some("agent0"),
            ..Filter::default()
        },
        Filter { status: Some(Status::Error), kind: Some(Kind::Call), since_ms: Some(10), ..Filter::default() },
    ];
    for filter in &filters {
        let expected: Vec<_> = (0..COUNT).rev().filter(|n| matches(filter, *n)).map(|n| record(n).id).collect();
        for limit in [1, 7, 100, LIMIT_MAX] {
            let found: Vec<_> = read_through(&store, filter, limit).await.iter().map(|record| record.id).collect();
            assert_eq!(found, expected, "{filter:?}, {limit} a page");
        }
    }
}

#[tokio::test]
async fn records_that_arrive_meanwhile_do_not_move_the_pages() {
    let (_folder, store) = filled().await;
    let first = store.list(&Filter::default(), None, 10).await.unwrap();
    store.ledger().note(record(COUNT), Wait::Durable).await.unwrap();
    let second = store.list(&Filter::default(), first.next, 10).await.unwrap();
    assert_eq!(second.records[0].seq, first.records[9].seq - 1);
}

#[tokio::test]
async fn a_page_has_one_record_at_least_and_five_hundred_at_most() {
    let (_folder, store) = filled().await;
    assert_eq!(store.list(&Filter::default(), None, 0).await.unwrap().records.len(), 1);
    assert_eq!(store.list(&Filter::default(), None, usize::MAX).await.unwrap().records.len(), LIMIT_MAX);
}

#[tokio::test]
async fn a_record_is_found_by_as_much_of_its_id_as_is_unique() {
    let folder = tempfile::tempdir().unwrap();
    let store = Store::open(&folder.path().join("mcpproxy.db")).await.unwrap();
    for (time_ms, random) in [(1_700_000_000_000, 1), (1_700_000_000_000, 2), (1_800_000_000_000, 3)] {
        let record = NewRecord { id: RecordId::new(time_ms, random), ..record(0) };
        store.ledger().note(record, Wait::Durable).await.unwrap();
    }
    let check = async |text: &str, expected: Result<Option<&str>, &str>| {
        let found = store.find(text).await.map(|record| record.map(|record| record.id.to_string()));
        let found = found.map_err(|error| error.to_string());
        assert_eq!(found.as_ref().map(Option::as_deref).map_err(String::as_str), expected, "{text:?}");
    };
    let last = Ok(Some("01MCC5RM000000000000000003"));
    check("01HF7YAT000000000000000001", Ok(Some("01HF7YAT000000000000000001"))).await;
    check("01MCC5RM000000000000000003", last).await;
    check("01mc", last).await;
    check("01M", last).await;
    check("01HF", Err("more than one record begins with `01HF`; give more of its id")).await;
    check("0", Err("more than one record begins with `0`; give more of its id")).await;
    for nothing in ["", "7", "01HF7YAT000000000000000004", "01HF7YAT0000000000000000011", "%", "01M_", "~", "é"] {
        check(nothing, Ok(None)).await;
    }
    assert!(matches!(Cursor::parse("01HF"), Err(StoreError::Cursor)));
}
