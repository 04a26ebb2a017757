//! Reads what is stored about servers: for judging their lists, and for reviewers.

use mcpproxy_core::trust::{Accepted, DefinitionKey, Held, Known};

use super::rows::{decided_by, formula, json, key, key_digest, past_state, pin, stored_pin};
use super::{AcceptedPin, PastPin, RejectedPin, WaitingPin};
use crate::sql::columns::Columns;
use crate::sql::{Row, Statement, Value};
use crate::{Store, StoreError};

const READING: &str = "read the definitions of a server";
const WHAT: &str = "a malformed definition of a server";

/// One statement, so that all of it is of one moment. If a server became known between two statements, its accepted
/// definitions would be compared by the rule for first sight.
const KNOWN: &str = "SELECT CAST('accepted' AS TEXT), key, kind, name, formula, pin, json, CAST(NULL AS TEXT), \
     CAST(NULL AS BIGINT) FROM accepted_pins WHERE identity = $1 \
     UNION ALL SELECT 'waiting', key, kind, name, formula, pin, json, reason, first_seen_ms \
     FROM waiting_pins WHERE identity = $1 \
     UNION ALL SELECT 'rejected', key, kind, name, formula, pin, CASE WHEN formula = $2 THEN NULL ELSE json END, NULL, \
     NULL FROM past_pins WHERE identity = $1 AND state = 'rejected' \
     UNION ALL SELECT 'server', NULL, NULL, NULL, NULL, NULL, NULL, NULL, revision FROM pinned_servers WHERE identity = $1";
const WAITING: &str = "SELECT w.key, w.kind, w.name, w.formula, w.pin, w.json, w.reason, w.details, w.first_seen_ms, \
     w.times, s.last_seen_ms, a.formula, a.pin, a.json \
     FROM waiting_pins AS w JOIN pinned_servers AS s ON s.identity = w.identity \
     LEFT JOIN accepted_pins AS a ON a.identity = w.identity AND a.key = w.key WHERE w.identity = $1";
const ACCEPTED: &str = "SELECT a.key, a.kind, a.name, a.formula, a.pin, a.json, a.first_seen_ms, \
     COALESCE(a.gone_ms, s.last_seen_ms), a.accepted_ms, a.accepted_by, a.rule \
     FROM accepted_pins AS a JOIN pinned_servers AS s ON s.identity = a.identity WHERE a.identity = $1";
const PAST: &str = "SELECT key, kind, name, formula, pin, json, state, first_seen_ms, decided_ms, decided_by, rule, \
     ended_ms FROM past_pins WHERE identity = $1 AND key = $2 ORDER BY revision DESC, state, pin";
const REJECTED: &str = "SELECT key, kind, name, formula, pin, json, first_seen_ms, decided_ms, decided_by, rule \
     FROM past_pins WHERE identity = $1 AND state = 'rejected' AND json IS NOT NULL ORDER BY revision DESC, key, pin";
const COUNTS: &str = "SELECT identity, CAST(count(*) AS BIGINT) FROM waiting_pins GROUP BY identity ORDER BY identity";

impl Store {
    /// Returns what is stored about a server, for judging its list. A row that makes no sense damages its definition. If
    /// nobody can say which definition that is, the whole read fails.
    pub async fn known_pins(&self, identity: &str) -> Result<Known, StoreError> {
        let statement = Statement::new(KNOWN, vec![Value::text(identity), formula()]);
        let rows = self.database().fetch(statement, READING).await?;
        Self::read_rows(rows, known).await
    }

    /// Returns the definitions that wait for a user, sorted by kind and name. Rows that make no sense are left out: the
    /// next list of the server writes them again.
    pub async fn waiting_pins(&self, identity: &str) -> Result<Vec<WaitingPin>, StoreError> {
        let rows = self.database().fetch(of_server(WAITING, identity), READING).await?;
        let mut pins = Self::read_rows(rows, |rows| readable(rows, waiting)).await?;
        pins.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(pins)
    }

    /// Returns the accepted definitions, sorted by kind and name. The server may list some of them no longer.
    pub async fn accepted_pins(&self, identity: &str) -> Result<Vec<AcceptedPin>, StoreError> {
        let rows = self.database().fetch(of_server(ACCEPTED, identity), READING).await?;
        let mut pins = Self::read_rows(rows, |rows| rows.iter().map(accepted).collect::<Result<Vec<_>, _>>()).await?;
        pins.sort_by(|one, other| one.key.cmp(&other.key));
        Ok(pins)
    }

    /// Returns former and rejected versions of a definition, the latest first. Rows that make no sense are left out.
    pub async fn pin_history(&self, identity: &str, key: &DefinitionKey) -> Result<Vec<PastPin>, StoreError> {
        let statement = Statement::new(PAST, vec![Value::text(identity), Value::bytes(&key_digest(key))]);
        let rows = self.database().fetch(statement, READING).await?;
        readable(&rows, past)
    }

    /// Returns the versions that users rejected and whose text is still there, the latest decision first. Rows that make
    /// no sense are left out: their definitions are damaged, and wait.
    pub async fn rejected_pins(&self, identity: &str) -> Result<Vec<RejectedPin>, StoreError> {
        let rows = self.database().fetch(of_server(REJECTED, identity), READING).await?;
        Self::read_rows(rows, |rows| readable(rows, rejected)).await
    }

    /// Returns how many definitions of each server wait. Servers without any are left out.
    pub async fn waiting_counts(&self) -> Result<Vec<(String, u64)>, StoreError> {
        let rows = self.database().fetch(Statement::plain(COUNTS), READING).await?;
        let count = |row| {
            let columns = Columns::of(row, WHAT);
            Ok((columns.word(0)?, u64::try_from(columns.number(1)?).map_err(|_| columns.corrupt())?))
        };
        rows.iter().map(count).collect()
    }

    /// Returns a number that rises with every decision of a user, so that another gateway notices.
    pub async fn pins_version(&self) -> Result<i64, StoreError> {
        let statement = Statement::plain("SELECT version FROM pins_version");
        let row = self.database().fetch_first(statement, READING).await?;
        let row = row.ok_or_else(|| StoreError::corrupt("no version of the pins"))?;
        Columns::of(&row, "a malformed version of the pins").number(0)
    }
}

fn of_server(sql: &str, identity: &str) -> Statement {
    Statement::new(sql, vec![Value::text(identity)])
}

/// Reads rows, and leaves out those that make no sense.
fn readable<T>(rows: &[Row], read: impl Fn(&Row) -> Result<T, StoreError>) -> Result<Vec<T>, StoreError> {
    rows.iter().filter_map(|row| whole(read(row)).transpose()).collect()
}

/// Returns `None` for a row that makes no sense.
fn whole<T>(read: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match read {
        Ok(found) => Ok(Some(found)),
        Err(StoreError::Corrupt { .. }) => Ok(None),
        Err(other) => Err(other),
    }
}

fn known(rows: &[Row]) -> Result<Known, StoreError> {
    let mut known = Known::default();
    for row in rows {
        let columns = Columns::of(row, WHAT);
        let what = columns.word(0)?;
        if what == "server" {
            known.is_known = true;
            known.is_noted = columns.number(8)? == 0;
            continue;
        }
        let digest = columns.digest(1)?;
        match (what.as_str(), whole(add_known(&mut known, &what, &columns))?) {
            (_, Some(())) => {}
            // Nobody has decided about it. The next list lets it wait again.
            ("waiting", None) => {}
            (_, None) => {
                known.damaged.insert(digest);
            }
        }
    }
    // Rows of a server are only ever written together with its own row.
    let is_empty = known.definitions.is_empty() && known.damaged.is_empty();
    if known.is_known || is_empty { Ok(known) } else { Err(StoreError::corrupt(WHAT)) }
}

fn add_known(known: &mut Known, what: &str, columns: &Columns<'_>) -> Result<(), StoreError> {
    let key = key(columns, [1, 2, 3])?;
    let pin = pin(columns, key.kind, [4, 5, 6])?;
    let json = json(columns, 6)?;
    match what {
        "accepted" => {
            let accepted = pin.zip(json).map(|(pin, json)| Accepted { pin, json });
            let accepted = accepted.ok_or_else(|| columns.corrupt())?;
            known.definitions.entry(key).or_default().accepted = Some(accepted);
        }
        "waiting" => {
            // A reviewer needs all of it. If the row cannot be shown, it does not wait, and the next list writes it again.
            let _reason = columns.known(7, Held::parse)?;
            let pin = pin.filter(|_| json.is_some()).ok_or_else(|| columns.corrupt())?;
            let since_ms = columns.number(8)?;
            let pinned = known.definitions.entry(key).or_default();
            (pinned.waiting, pinned.waiting_since_ms) = (Some(pin), Some(since_ms));
        }
        // Without its text, a pin of another formula matches nothing. The definition waits for a user again.
        _ => known.definitions.entry(key).or_default().rejected.extend(pin),
    }
    Ok(())
}

fn waiting(row: &Row) -> Result<WaitingPin, StoreError> {
    let columns = Columns::of(row, WHAT);
    let missing = || columns.corrupt();
    let key = key(&columns, [0, 1, 2])?;
    let reason = columns.known(6, Held::parse)?;
    // A damaged version is no version to compare with.
    let old = if reason == Held::Unreadable { None } else { whole(json(&columns, 13))?.flatten() };
    let accepted = old.and_then(|json| Some(Accepted { pin: pin(&columns, key.kind, [11, 12, 13]).ok()??, json }));
    Ok(WaitingPin {
        pin: pin(&columns, key.kind, [3, 4, 5])?.ok_or_else(missing)?,
        json: json(&columns, 5)?.ok_or_else(missing)?,
        reason,
        details: columns.word(7)?,
        first_seen_ms: columns.number(8)?,
        times: u64::try_from(columns.number(9)?).map_err(|_| columns.corrupt())?,
        last_seen_ms: columns.number(10)?,
        accepted,
        key,
    })
}

fn accepted(row: &Row) -> Result<AcceptedPin, StoreError> {
    let columns = Columns::of(row, WHAT);
    let key = key(&columns, [0, 1, 2])?;
    let (accepted_by, is_by_user) = decided_by(&columns, [9, 10])?;
    Ok(AcceptedPin {
        pin: pin(&columns, key.kind, [3, 4, 5])?.ok_or_else(|| columns.corrupt())?,
        json: json(&columns, 5)?.ok_or_else(|| columns.corrupt())?,
        first_seen_ms: columns.number(6)?,
        last_seen_ms: columns.number(7)?,
        accepted_ms: columns.number(8)?,
        accepted_by,
        is_by_user,
        key,
    })
}

fn rejected(row: &Row) -> Result<RejectedPin, StoreError> {
    let columns = Columns::of(row, WHAT);
    let key = key(&columns, [0, 1, 2])?;
    let (rejected_by, _) = decided_by(&columns, [8, 9])?;
    Ok(RejectedPin {
        pin: pin(&columns, key.kind, [3, 4, 5])?.ok_or_else(|| columns.corrupt())?,
        json: json(&columns, 5)?.ok_or_else(|| columns.corrupt())?,
        first_seen_ms: columns.number(6)?,
        rejected_ms: columns.number(7)?,
        rejected_by,
        key,
    })
}

fn past(row: &Row) -> Result<PastPin, StoreError> {
    let columns = Columns::of(row, WHAT);
    let key = key(&columns, [0, 1, 2])?;
    let (decided_by, is_by_user) = decided_by(&columns, [9, 10])?;
    let pin = match pin(&columns, key.kind, [3, 4, 5])? {
        Some(pin) => pin,
        None => stored_pin(&columns, 4)?,
    };
    Ok(PastPin {
        pin,
        state: past_state(&columns, 6)?,
        json: json(&columns, 5)?,
        first_seen_ms: columns.number(7)?,
        decided_ms: columns.number(8)?,
        decided_by,
        is_by_user,
        ended_ms: columns.number(11)?,
    })
}
