//! Pages over many partitions use an index of each, and read little more than the page.

use super::common::{Place, all, until};
use super::{HOUR_MS, bounds};
use mcpproxy_core::{RiskLevel, Variant};
use mcpproxy_store::{Filter, Kind, Status, Store};

/// The number of partitions, and of the records of each.
const MANY: (i64, i64) = (64, 300);
/// Enough for a page to read recent partitions first.
const LARGE: (i64, i64) = (8, 7_500);
/// The log of a new gateway. PostgreSQL must not read it as a whole because it is small.
const FEW: (i64, i64) = (3, 3_000);
const LIMIT: usize = 50;

/// Creates partitions of a day with records in each, as years of operation would.
async fn filled((partitions, each): (i64, i64)) -> (Place, Store) {
    let place = Place::postgres();
    place.store().await.close().await;
    let days = partitions - 2;
    place
        .sql(&format!(
            "ALTER TABLE records DETACH PARTITION records_last; ALTER TABLE records DETACH PARTITION records_first;
             DROP TABLE records_first;
             DO $$
             DECLARE
                 begin_ms CONSTANT bigint := 1700000000000 / {HOUR_MS} * {HOUR_MS};
                 first bigint; after bigint; name text;
             BEGIN
                 FOR day IN 0..{days} LOOP
                     first := (begin_ms + day::bigint * 24 * {HOUR_MS}) << 21;
                     after := (begin_ms + (day::bigint + 1) * 24 * {HOUR_MS}) << 21;
                     name := CASE WHEN day = 0 THEN 'records_first' ELSE 'records_' || day END;
                     EXECUTE format('CREATE TABLE %s (LIKE records INCLUDING INDEXES)', name);
                     EXECUTE format('CREATE UNIQUE INDEX ON %s (chain, seq)', name);
                     EXECUTE format('CREATE UNIQUE INDEX ON %s (chain, end_seq) WHERE end_seq IS NOT NULL', name);
                     EXECUTE format('ALTER TABLE records ATTACH PARTITION %s FOR VALUES FROM (%s) TO (%s)', name,
                         CASE WHEN day = 0 THEN 'MINVALUE' ELSE first::text END, after);
                     EXECUTE format('INSERT INTO records (key, tail, chain, seq, hash, kind, status, agent, server, tool, \
                         intent_type, risk, metadata) SELECT %s + n * (1::bigint << 21), n, 0, %s + n, '''', \
                         CASE WHEN n %% 3 = 0 THEN ''refusal'' ELSE ''call'' END, \
                         CASE WHEN n %% 3 = 0 THEN ''refused'' ELSE ''success'' END, ''agent'' || n %% 3, \
                         ''server'' || n %% 3, CASE WHEN n = 7 THEN ''rare'' ELSE ''tool'' || n %% 3 END, \
                         CASE WHEN n %% 3 = 0 THEN ''write'' ELSE ''read'' END, \
                         CASE WHEN n %% 3 = 0 THEN ''high'' ELSE ''low'' END, ''{{}}'' \
                         FROM generate_series(1, {each}) AS n', first, day * {each});
                 END LOOP;
                 EXECUTE format('ALTER TABLE records ATTACH PARTITION records_last FOR VALUES FROM (%s) TO (MAXVALUE)', after);
             END $$;
             INSERT INTO chains (number, name, verifier, created_ms, removed_seq, removed_hash) VALUES (0, 'x', 'x', 0, 0, '');
             ANALYZE"
        ))
        .await;
    assert_eq!(bounds(&place).await.len() as i64, partitions);
    let store = place.store().await;
    (place, store)
}

/// The rows that were fetched through indexes, the entries of indexes that were read, and the number of whole tables that
/// were read, since the last reset. The server has these numbers when the connections of the store are closed.
async fn work(place: &Place, store: Store) -> (i64, i64) {
    store.close().await;
    let sessions =
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = 'mcpproxy' AND datname = current_database()";
    until("the sessions have ended", async || place.sql(sessions).await == [0]).await;
    let sum = async |what: &str| {
        let sql =
            format!("SELECT CAST(sum({what}) AS bigint) FROM pg_stat_user_tables WHERE relname LIKE 'records\\_%'");
        place.sql(&sql).await[0]
    };
    let found = (sum("coalesce(idx_tup_fetch, 0)").await, sum("seq_scan").await);
    place.sql("SELECT pg_stat_reset()").await;
    found
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_many_partitions_reads_little_more_than_its_records() {
    check_pages(MANY, MANY.0).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_large_log_reads_recent_partitions() {
    check_pages(LARGE, 4).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_page_of_a_small_log_reads_little_more_than_its_records() {
    check_pages(FEW, FEW.0).await;
}

/// `looks` is the number of partitions in which a filter may look for its first match.
async fn check_pages(size: (i64, i64), looks: i64) {
    let (place, store) = filled(size).await;
    work(&place, store).await;
    let word = |word: &str| Some(word.to_owned());
    let cases = [
        ("no filter", Filter::default(), 51),
        ("status", Filter { status: Some(Status::Refused), ..Filter::default() }, 51 + looks),
        ("kind", Filter { kind: Some(Kind::Refusal), ..Filter::default() }, 51 + looks),
        ("tool", Filter { tool: word("tool1"), ..Filter::default() }, 51 + looks),
        ("server", Filter { server: word("server1"), ..Filter::default() }, 51 + looks),
        ("agent", Filter { agent: word("agent1"), ..Filter::default() }, 51 + looks),
        ("risk", Filter { risk: Some(RiskLevel::High), ..Filter::default() }, 51 + looks),
        ("intent", Filter { intent_type: Some(Variant::Write), ..Filter::default() }, 51 + looks),
        // One in each partition: three recent ones, and then those that the page needs of the others.
        ("rare tool", Filter { tool: word("rare"), ..Filter::default() }, 51 + 4 + size.0),
        ("no tool", Filter { tool: word("none"), ..Filter::default() }, 0),
        ("time", Filter { until_ms: Some(1_700_020_000_000), ..Filter::default() }, 51),
        (
            "tool and time",
            Filter { tool: word("tool1"), until_ms: Some(1_700_020_000_000), ..Filter::default() },
            51 + looks,
        ),
    ];
    for (name, filter, most) in cases {
        let store = place.store().await;
        let page = store.list(&filter, None, LIMIT).await.unwrap();
        let expected = match name {
            "no tool" => 0,
            "rare tool" => LIMIT.min(size.0 as usize - 1),
            _ => LIMIT,
        };
        assert_eq!(page.records.len(), expected, "{name}");
        assert!(page.records.is_sorted_by(|a, b| a.id > b.id), "{name}");
        let (rows, scans) = work(&place, store).await;
        // Also proves that the numbers are there.
        let least = expected as i64;
        assert!((least..=most).contains(&rows) && scans == 0, "{name}: {rows} rows, {scans} whole partitions");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn pages_over_all_partitions_have_every_record_once() {
    let (_place, store) = filled(MANY).await;
    let (filled, each) = (MANY.0 - 1, MANY.1);
    assert_eq!(all(&store).await.len() as i64, filled * each);
    for (tool, expected) in [("rare", filled), ("tool1", filled * (each / 3 - 1))] {
        let filter = Filter { tool: Some(tool.to_owned()), ..Filter::default() };
        let (mut found, mut before) = (Vec::new(), None);
        loop {
            let page = store.list(&filter, before, LIMIT).await.unwrap();
            found.extend(page.records.iter().map(|record| record.id));
            before = page.next;
            if before.is_none() {
                break;
            }
        }
        assert_eq!(found.len() as i64, expected, "{tool}");
        assert!(found.is_sorted_by(|a, b| a > b), "{tool}");
    }
}
