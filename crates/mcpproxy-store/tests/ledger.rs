//! The ledger: what is accepted is written, whatever happens in between.

#![allow(clippy::unwrap_used, clippy::panic, clippy::indexing_slicing, reason = "a test that cannot go on should stop")]

use std::path::{Path, PathBuf};

use mcpproxy_core::{Untrusted, Variant};
use mcpproxy_store::{
    Cut, Filter, Kind, NewRecord, OpenRecord, Outcome, PAYLOAD_MAX_BYTES, Record, RecordId, Status, Store, StoreError,
    Wait,
};
use sqlx::sqlite::SqliteConnectOptions;
use sqlx::{ConnectOptions as _, Connection as _};

fn place() -> (tempfile::TempDir, PathBuf) {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("mcpproxy.db");
    (folder, path)
}

fn call(n: u32) -> NewRecord {
    NewRecord {
        id: RecordId::new(1_000 + i64::from(n), n.into()),
        time_ms: 1_000 + i64::from(n),
        kind: Kind::Call,
        status: Status::Started,
        agent: Some("local".into()),
        client: Some("cursor 1.2".into()),
        server: Some("mail".into()),
        tool: Some("send".into()),
        intent_type: Some(Variant::Write),
        code: None,
        message: None,
        duration_us: None,
        metadata: r#"{"tool_variant":"call_tool_write"}"#.into(),
        args: Some(Cut::of(r#"{"to":"you"}"#)),
    }
}

fn success() -> Outcome {
    Outcome {
        status: Status::Success,
        code: None,
        message: None,
        duration_us: Some(1_234_567),
        result: Some(Cut::of("sent")),
        metadata: None,
    }
}

async fn all(store: &Store) -> Vec<Record> {
    let mut page = store.list(&Filter::default(), None, 500).await.unwrap();
    page.records.reverse();
    page.records
}

async fn statuses(store: &Store) -> Vec<Status> {
    all(store).await.iter().map(|record| record.status).collect()
}

async fn run_sql(path: &Path, sql: &'static str) {
    let mut connection = SqliteConnectOptions::new().filename(path).connect().await.unwrap();
    sqlx::raw_sql(sql).execute(&mut connection).await.unwrap();
    connection.close().await.unwrap();
}

/// A trigger fails as a full disk does: for a while, and for every row.
async fn break_log(path: &Path) {
    run_sql(
        path,
        "CREATE TRIGGER broken_insert BEFORE INSERT ON records BEGIN SELECT raise(ABORT, 'disk full'); END;
         CREATE TRIGGER broken_update BEFORE UPDATE ON records BEGIN SELECT raise(ABORT, 'disk full'); END;",
    )
    .await;
}

async fn mend_log(path: &Path) {
    run_sql(path, "DROP TRIGGER broken_insert; DROP TRIGGER broken_update;").await;
}

#[tokio::test]
async fn every_field_comes_back() {
    let expected = Record {
        seq: 1,
        id: RecordId::new(1_001, 1),
        time_ms: 1_001,
        kind: Kind::Call,
        status: Status::Success,
        agent: Some("local".into()),
        client: Some(Untrusted::new("cursor 1.2")),
        server: Some(Untrusted::new("mail")),
        tool: Some(Untrusted::new("send")),
        intent_type: Some(Variant::Write),
        code: None,
        message: None,
        duration_us: Some(1_234_567),
        metadata: Untrusted::new(r#"{"tool_variant":"call_tool_write"}"#),
        args: Some(Untrusted::new(r#"{"to":"you"}"#)),
        args_bytes: Some(12),
        result: Some(Untrusted::new("sent")),
        result_bytes: Some(4),
    };
    // Beginning and end in one row, in one batch, and in two.
    for (open, close) in [(Wait::Batched, Wait::Durable), (Wait::Durable, Wait::Durable)] {
        let (_folder, path) = place();
        let store = Store::open(&path).await.unwrap();
        let ledger = store.ledger();
        let record = ledger.open(call(1), open).await.unwrap();
        assert_eq!(record.id(), expected.id);
        ledger.close(record, success(), close).await.unwrap();
        assert_eq!(all(&store).await, std::slice::from_ref(&expected));
    }
}

#[tokio::test]
async fn an_end_may_replace_the_metadata_and_say_what_went_wrong() {
    for open in [Wait::Batched, Wait::Durable] {
        let (_folder, path) = place();
        let store = Store::open(&path).await.unwrap();
        let ledger = store.ledger();
        let record = ledger.open(call(1), open).await.unwrap();
        let outcome = Outcome {
            status: Status::Error,
            code: Some("timeout".into()),
            message: Some("no answer".into()),
            duration_us: Some(1),
            result: None,
            metadata: Some(r#"{"warnings":["late"]}"#.into()),
        };
        ledger.close(record, outcome, Wait::Durable).await.unwrap();
        let record = all(&store).await.remove(0);
        assert_eq!(record.status, Status::Error);
        assert_eq!(record.code, Some(Untrusted::new("timeout")));
        assert_eq!(record.message, Some(Untrusted::new("no answer")));
        assert_eq!(record.metadata, Untrusted::new(r#"{"warnings":["late"]}"#));
        assert_eq!((record.duration_us, record.result, record.result_bytes), (Some(1), None, None));
    }
}

#[tokio::test]
async fn a_durable_beginning_is_on_disk_when_it_returns() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let reader = Store::open_read_only(&path).await.unwrap();
    let record = store.ledger().open(call(1), Wait::Durable).await.unwrap();
    assert_eq!(statuses(&reader).await, [Status::Started]);
    store.ledger().close(record, success(), Wait::Durable).await.unwrap();
    assert_eq!(statuses(&reader).await, [Status::Success]);
}

#[tokio::test]
async fn what_nobody_waits_for_is_written_when_the_store_closes() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let ledger = store.ledger();
    for n in 0..1000 {
        let record = ledger.open(call(n), Wait::Batched).await.unwrap();
        ledger.close(record, success(), Wait::Batched).await.unwrap();
    }
    store.close().await.unwrap();
    assert!(matches!(ledger.open(call(1000), Wait::Batched).await, Err(StoreError::Closed)));
    assert!(matches!(ledger.note(call(1000), Wait::Durable).await, Err(StoreError::Closed)));

    let store = Store::open_read_only(&path).await.unwrap();
    let newest = store.list(&Filter::default(), None, 500).await.unwrap();
    assert_eq!(newest.records[0].seq, 1000);
    assert!(newest.records.iter().all(|record| record.status == Status::Success));
    assert!(matches!(store.ledger().note(call(1), Wait::Batched).await, Err(StoreError::Closed)));
}

#[tokio::test]
async fn calls_that_overlap_get_their_own_ends() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let ledger = store.ledger();
    // More than one batch of beginnings, so that ends meet beginnings that are written and some that are not.
    let mut open: Vec<OpenRecord> = Vec::new();
    for n in 0..300 {
        open.push(ledger.open(call(n), Wait::Batched).await.unwrap());
        if n % 3 == 0 {
            let record = open.swap_remove(open.len() / 2);
            let result = Some(Cut::of(&record.id().to_string()));
            ledger.close(record, Outcome { result, ..success() }, Wait::Batched).await.unwrap();
        }
    }
    for record in open {
        let result = Some(Cut::of(&record.id().to_string()));
        ledger.close(record, Outcome { result, ..success() }, Wait::Batched).await.unwrap();
    }
    store.close().await.unwrap();
    let records = all(&Store::open(&path).await.unwrap()).await;
    assert_eq!(records.len(), 300);
    for record in records {
        assert_eq!(record.result, Some(Untrusted::new(record.id.to_string())));
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn many_durable_calls_at_once() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let reader = Store::open_read_only(&path).await.unwrap();
    let calls: Vec<_> = (0..64)
        .map(|n| {
            let (ledger, reader) = (store.ledger(), reader.clone());
            tokio::spawn(async move {
                let record = ledger.open(call(n), Wait::Durable).await.unwrap();
                let seen = reader.find(&record.id().to_string()).await.unwrap().unwrap();
                assert_eq!(seen.status, Status::Started);
                ledger.close(record, success(), Wait::Durable).await.unwrap();
            })
        })
        .collect();
    for call in calls {
        call.await.unwrap();
    }
    assert_eq!(statuses(&store).await, [Status::Success; 64]);
}

#[tokio::test]
async fn calls_of_a_run_that_ended_badly_are_interrupted() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let ledger = store.ledger();
    let _lost = ledger.open(call(1), Wait::Durable).await.unwrap();
    let done = ledger.open(call(2), Wait::Durable).await.unwrap();
    ledger.close(done, success(), Wait::Durable).await.unwrap();
    drop((store, ledger));

    let store = Store::open(&path).await.unwrap();
    assert_eq!(store.recover_interrupted().await.unwrap(), 1);
    assert_eq!(store.recover_interrupted().await.unwrap(), 0);
    assert_eq!(statuses(&store).await, [Status::Interrupted, Status::Success]);
    let message = all(&store).await.remove(0).message;
    assert_eq!(message, Some(Untrusted::new("the gateway stopped before the call was finished")));
}

#[tokio::test]
async fn a_log_that_cannot_be_written_refuses_calls_and_forgets_nothing_that_happened() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let ledger = store.ledger();
    let written = ledger.open(call(1), Wait::Durable).await.unwrap();
    break_log(&path).await;

    let read = ledger.open(call(2), Wait::Batched).await.unwrap();
    let refused = ledger.open(call(3), Wait::Durable).await.unwrap_err();
    assert_eq!(refused.to_string(), "could not write to the activity log");
    ledger.close(written, success(), Wait::Durable).await.unwrap_err();
    ledger.close(read, success(), Wait::Durable).await.unwrap_err();
    ledger.note(NewRecord { kind: Kind::Refusal, status: Status::Refused, ..call(4) }, Wait::Batched).await.unwrap();
    ledger.open(call(5), Wait::Durable).await.unwrap_err();
    assert_eq!(statuses(&store).await, [Status::Started]);

    mend_log(&path).await;
    let record = ledger.open(call(6), Wait::Durable).await.unwrap();
    ledger.close(record, success(), Wait::Durable).await.unwrap();
    let seen: Vec<_> = all(&store).await.iter().map(|record| (record.time_ms, record.status)).collect();
    let expected =
        [(1_001, Status::Success), (1_002, Status::Success), (1_004, Status::Refused), (1_006, Status::Success)];
    assert_eq!(seen, expected);
}

#[tokio::test]
async fn a_log_that_stays_broken_is_reported_when_the_store_closes() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    break_log(&path).await;
    store.ledger().note(call(1), Wait::Batched).await.unwrap();
    assert_eq!(store.close().await.unwrap_err().to_string(), "could not write to the activity log");
}

#[tokio::test]
async fn a_statement_that_cannot_be_prepared_is_an_error_for_a_while_only() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let ledger = store.ledger();
    let mut other = SqliteConnectOptions::new().filename(&path).connect().await.unwrap();
    sqlx::raw_sql("ALTER TABLE records RENAME TO away").execute(&mut other).await.unwrap();
    ledger.open(call(1), Wait::Durable).await.unwrap_err();
    sqlx::raw_sql("ALTER TABLE away RENAME TO records").execute(&mut other).await.unwrap();
    let _open = ledger.open(call(2), Wait::Durable).await.unwrap();
    assert_eq!(statuses(&store).await, [Status::Started]);
}

#[tokio::test]
async fn long_texts_are_cut_and_their_size_is_kept() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    let long = "x".repeat(10 * PAYLOAD_MAX_BYTES);
    let record = NewRecord {
        args: Some(Cut::of(&long)),
        message: Some(long.clone()),
        client: Some(long.clone()),
        tool: Some("é".repeat(200)),
        ..call(1)
    };
    let record = store.ledger().open(record, Wait::Batched).await.unwrap();
    store.ledger().close(record, Outcome { result: Some(Cut::from(long)), ..success() }, Wait::Durable).await.unwrap();
    let record = all(&store).await.remove(0);
    let length = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().len());
    assert_eq!((length(&record.args), record.args_bytes), (Some(PAYLOAD_MAX_BYTES), Some(655_360)));
    assert_eq!((length(&record.result), record.result_bytes), (Some(PAYLOAD_MAX_BYTES), Some(655_360)));
    assert_eq!((length(&record.client), length(&record.tool)), (Some(256), Some(256)));
}

#[tokio::test]
async fn text_is_stored_as_it_came() {
    let (_folder, path) = place();
    let store = Store::open(&path).await.unwrap();
    for (n, text) in
        ["", "'; DROP TABLE records; --", "nul \0 inside", "\u{202e}🙂\n", "{\"a\":\"\\u0000\"}"].iter().enumerate()
    {
        let record = NewRecord { args: Some(Cut::of(text)), server: Some((*text).into()), ..call(n as u32) };
        store.ledger().note(record, Wait::Durable).await.unwrap();
        let record = all(&store).await.pop().unwrap();
        assert_eq!(record.args, Some(Untrusted::new(*text)));
        assert_eq!(record.server, Some(Untrusted::new(*text)));
        let filter = Filter { server: Some((*text).into()), ..Filter::default() };
        assert_eq!(store.list(&filter, None, 10).await.unwrap().records.len(), 1, "{text:?}");
    }
}
