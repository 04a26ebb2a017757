//! Bounds of the pin tables, for each server identity.
//!
//! | rows | bound | beyond it |
//! |---|---|---|
//! | waiting | 32 MiB of texts | the rest stays quarantined and is stored when others are decided (`plan.rs`) |
//! | accepted and listed | the limits of a list | |
//! | accepted and no longer listed | 10,000 rows, 32 MiB | the longest gone are forgotten: if they return, they are new |
//! | former | 20 for each definition | the oldest are removed |
//! | rejected | 20 for each definition | the oldest are removed |
//! | former and rejected together | 8 MiB of texts | texts are removed, and hashes stay: former first, then the oldest |
//! | former and rejected together | 50,000 rows, 8 MiB of names | rows are removed in the same order |
//!
//! A forgotten definition is never trusted more than before: it has to be accepted again.

use crate::sql::{Connection, Statement, Value};

/// Bytes of names, texts and details that may wait. As much as one list may have.
pub(super) const WAITING_MAX_BYTES: usize = 32 * 1024 * 1024;
const VERSIONS_MAX: usize = 20;
const PAST_MAX_BYTES: usize = 8 * 1024 * 1024;
const PAST_NAMES_MAX_BYTES: usize = 8 * 1024 * 1024;
const PAST_MAX_ROWS: usize = 50_000;
const GONE_MAX_BYTES: usize = 32 * 1024 * 1024;
const GONE_MAX_ROWS: usize = 10_000;

const REMOVE_GONE: &str = "DELETE FROM accepted_pins WHERE identity = $1 AND key IN (SELECT key FROM \
     (SELECT key, row_number() OVER newest AS place, sum(length(name) + length(json)) OVER newest AS bytes \
      FROM accepted_pins WHERE identity = $1 AND gone_ms IS NOT NULL \
      WINDOW newest AS (ORDER BY gone_ms DESC, key)) AS gone WHERE place > $2 OR bytes > $3)";
/// Rejected versions are worth more than former ones: they keep a definition from coming back.
const REMOVE_PAST: &str = "DELETE FROM past_pins WHERE identity = $1 AND (key, state, pin) IN \
     (SELECT key, state, pin FROM (SELECT key, state, pin, \
      row_number() OVER (PARTITION BY key, state ORDER BY revision DESC, pin) AS version, \
      row_number() OVER worth AS place, sum(length(name)) OVER worth AS bytes \
      FROM past_pins WHERE identity = $1 \
      WINDOW worth AS (ORDER BY CASE state WHEN 'rejected' THEN 0 ELSE 1 END, revision DESC, key, pin)) AS past \
      WHERE version > $2 OR place > $3 OR bytes > $4)";
const REMOVE_TEXTS: &str = "UPDATE past_pins SET json = NULL WHERE identity = $1 AND (key, state, pin) IN \
     (SELECT key, state, pin FROM (SELECT key, state, pin, sum(length(json)) OVER \
      (ORDER BY CASE state WHEN 'rejected' THEN 0 ELSE 1 END, revision DESC, key, pin) AS bytes \
      FROM past_pins WHERE identity = $1 AND json IS NOT NULL) AS past WHERE bytes > $2)";

/// Forgets definitions that were accepted and are no longer listed.
pub(super) async fn limit_gone(connection: &mut Connection, identity: &str) -> Result<(), sqlx::Error> {
    let limits = [GONE_MAX_ROWS, GONE_MAX_BYTES];
    connection.execute(limited(REMOVE_GONE, identity, &limits)).await.map(drop)
}

/// Removes former and rejected versions, or their texts.
pub(super) async fn limit_past(connection: &mut Connection, identity: &str) -> Result<(), sqlx::Error> {
    let limits = [VERSIONS_MAX, PAST_MAX_ROWS, PAST_NAMES_MAX_BYTES];
    connection.execute(limited(REMOVE_PAST, identity, &limits)).await?;
    connection.execute(limited(REMOVE_TEXTS, identity, &[PAST_MAX_BYTES])).await.map(drop)
}

fn limited(sql: &str, identity: &str, limits: &[usize]) -> Statement {
    let limits = limits.iter().map(|limit| Value::limit(*limit));
    Statement::new(sql, [Value::text(identity)].into_iter().chain(limits).collect())
}
