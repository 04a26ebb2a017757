//! Logs for searches, written in no time.

use mcpproxy_store::{Filter, NewRecord, Store, WaitFor};

use super::{Place, refusal};

/// Fills a log with records that were written in no time, one line and one second each. Only the oldest is rare.
pub(crate) async fn fill(place: &Place, count: usize) -> (Store, i64) {
    let (store, ledger) = place.open().await;
    let rare = NewRecord { message: Some("a Rare one".into()), ..refusal(0) };
    ledger.append(rare, WaitFor::Disk).await.unwrap();
    ledger.finish().await.unwrap();
    let sql = format!(
        "WITH RECURSIVE numbers (n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < {count}) \
         INSERT INTO records (key, tail, chain, seq, hash, kind, status, agent, server, tool, metadata) \
         SELECT key + CAST(n AS BIGINT) * 1000 * 2097152, tail, chain, seq + n, hash, kind, 'success', agent, server, \
                'tool' || (n % 200), \
                '{{\"intent\":{{\"operation_type\":\"read\",\"reason\":\"look for item ' || (n * 7919 % 1000003) || \
                '\"}},\"tool_variant\":\"call_tool_read\"}}' \
         FROM records, numbers WHERE seq = 1"
    );
    place.sql(&sql).await;
    let last_ms = 1_700_000_000_000 + i64::try_from(count).unwrap() * 1_000;
    (store, last_ms)
}

/// Searches for a text.
pub(crate) fn text(text: &str) -> Filter {
    Filter { text: Some(text.to_owned()), ..Filter::default() }
}
