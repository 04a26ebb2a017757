//! Rows of the pin tables as values, and the current state of a server for a change.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use mcpproxy_core::json::read_server;
use mcpproxy_core::trust::{DefinitionKey, DefinitionKind, FORMULA, Held, Pin};

use super::PastState;
use crate::sql::columns::Columns;
use crate::sql::{Row, Statement, Value};
use crate::{Store, StoreError};

/// The digest of a definition's kind and name, which rows have as their key.
pub(super) type KeyDigest = [u8; 32];

/// Everything that a change of a server's rows depends on, in one statement, so that it is of one moment. The texts are
/// read only of versions that wait and of rows with a pin of another formula, and the names only of rejected versions.
const STATE: &str = "SELECT CAST('accepted' AS TEXT), key, kind, formula, pin, \
     CASE WHEN formula = $2 THEN NULL ELSE json END, gone_ms, times, CAST(NULL AS TEXT), CAST(NULL AS TEXT), \
     CASE WHEN formula = $2 THEN NULL ELSE name END FROM accepted_pins WHERE identity = $1 \
     UNION ALL SELECT 'waiting', key, kind, formula, pin, json, \
     first_seen_ms, times, reason, details, NULL FROM waiting_pins WHERE identity = $1 \
     UNION ALL SELECT 'rejected', key, kind, formula, pin, CASE WHEN formula = $2 THEN NULL ELSE json END, \
     CASE WHEN json IS NULL THEN 0 ELSE 1 END, revision, NULL, NULL, name FROM past_pins WHERE identity = $1 AND state = 'rejected'";

/// The stored rows of a server, without the texts.
#[derive(Default)]
pub(super) struct State {
    pub(super) accepted: HashMap<KeyDigest, AcceptedRow>,
    pub(super) waiting: HashMap<KeyDigest, WaitingRow>,
    pub(super) rejected: HashMap<(KeyDigest, Pin), RejectedRow>,
    /// Definitions whose accepted row makes no sense. A new one replaces it.
    pub(super) damaged: HashSet<KeyDigest>,
    /// Rejected rows that make no sense, with the bytes of their pin. A decision removes them.
    pub(super) damaged_past: Vec<(KeyDigest, Vec<u8>)>,
}

pub(super) struct RejectedRow {
    /// The pin as stored, which may be of another formula.
    pub(super) stored: Vec<u8>,
    pub(super) has_text: bool,
}

pub(super) struct AcceptedRow {
    pub(super) pin: Pin,
    pub(super) is_gone: bool,
    pub(super) times: i64,
}

pub(super) struct WaitingRow {
    pub(super) pin: Pin,
    pub(super) reason: Held,
    pub(super) details: String,
    pub(super) times: i64,
}

impl State {
    pub(super) fn statement(identity: &str) -> Statement {
        Statement::new(STATE, vec![Value::text(identity), formula()])
    }

    pub(super) fn of(rows: &[Row]) -> Result<Self, StoreError> {
        let mut state = Self::default();
        for row in rows {
            state.add(&Columns::of(row, "a malformed pin"))?;
        }
        Ok(state)
    }

    /// Adds a row. One that makes no sense damages its own definition only.
    fn add(&mut self, columns: &Columns<'_>) -> Result<(), StoreError> {
        let key: KeyDigest = *columns.digest(1)?.as_bytes();
        match (columns.word(0)?.as_str(), self.add_whole(columns, key)) {
            (_, Ok(())) => Ok(()),
            ("accepted", Err(StoreError::Corrupt { .. })) => {
                self.damaged.insert(key);
                Ok(())
            }
            // Nobody has decided about it. The next list lets it wait again.
            ("waiting", Err(StoreError::Corrupt { .. })) => Ok(()),
            (_, Err(StoreError::Corrupt { .. })) => {
                self.damaged_past.push((key, columns.bytes(4)?.unwrap_or_default()));
                Ok(())
            }
            (_, Err(other)) => Err(other),
        }
    }

    fn add_whole(&mut self, columns: &Columns<'_>, key: KeyDigest) -> Result<(), StoreError> {
        let kind = columns.known(2, DefinitionKind::parse)?;
        let pin = pin(columns, kind, [3, 4, 5])?;
        match columns.word(0)?.as_str() {
            "accepted" => {
                let pin = pin.ok_or_else(|| columns.corrupt())?;
                let row = AcceptedRow { pin, is_gone: columns.int(6)?.is_some(), times: columns.number(7)? };
                self.accepted.insert(key, row);
            }
            "waiting" => {
                let pin = pin.ok_or_else(|| columns.corrupt())?;
                json(columns, 5)?.ok_or_else(|| columns.corrupt())?;
                let (reason, details) = (columns.known(8, Held::parse)?, columns.word(9)?);
                self.waiting.insert(key, WaitingRow { pin, reason, details, times: columns.number(7)? });
            }
            _ => {
                self::key(columns, [1, 2, 10])?;
                let stored = columns.bytes(4)?.unwrap_or_default();
                let row = RejectedRow { stored, has_text: columns.number(6)? != 0 };
                self.rejected.extend(pin.map(|pin| ((key, pin), row)));
            }
        }
        Ok(())
    }
}

/// Keys as rows have them.
pub(super) fn key_digest(key: &DefinitionKey) -> KeyDigest {
    *key.digest().as_bytes()
}

pub(super) fn formula() -> Value {
    Value::int(FORMULA.into())
}

pub(super) fn pin_value(pin: Pin) -> Value {
    Value::digest(&pin.digest())
}

/// Reads the pin from the columns of formula, pin and text. The pin of another formula is computed again from the text.
/// Returns `None` if it cannot be, because the text is no longer there.
pub(super) fn pin(
    columns: &Columns<'_>,
    kind: DefinitionKind,
    [formula, pin, json]: [usize; 3],
) -> Result<Option<Pin>, StoreError> {
    let stored = stored_pin(columns, pin)?;
    if columns.number(formula)? == i64::from(FORMULA) {
        return Ok(Some(stored));
    }
    Ok(self::json(columns, json)?.map(|json| Pin::of(kind, &json)))
}

/// Reads a pin as it is, whatever its formula.
pub(super) fn stored_pin(columns: &Columns<'_>, column: usize) -> Result<Pin, StoreError> {
    Pin::parse(&columns.digest(column)?.to_string()).ok_or_else(|| columns.corrupt())
}

/// Reads a key from the columns of its digest, kind and name. They must agree.
pub(super) fn key(columns: &Columns<'_>, [digest, kind, name]: [usize; 3]) -> Result<DefinitionKey, StoreError> {
    let kind = columns.known(kind, DefinitionKind::parse)?;
    let name = columns.exact(name)?.ok_or_else(|| columns.corrupt())?;
    let key = DefinitionKey { kind, name: name.into() };
    if key_digest(&key) == *columns.digest(digest)?.as_bytes() { Ok(key) } else { Err(columns.corrupt()) }
}

/// Reads the text of a definition, which must be JSON.
pub(super) fn json(columns: &Columns<'_>, column: usize) -> Result<Option<Arc<str>>, StoreError> {
    let Some(bytes) = columns.bytes(column)? else { return Ok(None) };
    let text = read_server(&bytes).map_err(|_| columns.corrupt())?;
    Ok(Some(text.into()))
}

/// Reads who decided, from the columns of the user and of the rule.
pub(super) fn decided_by(columns: &Columns<'_>, [user, rule]: [usize; 2]) -> Result<(String, bool), StoreError> {
    match (columns.text(user)?, columns.text(rule)?) {
        (Some(user), _) => Ok((user, true)),
        (None, Some(rule)) => Ok((rule, false)),
        (None, None) => Err(columns.corrupt()),
    }
}

pub(super) fn past_state(columns: &Columns<'_>, column: usize) -> Result<PastState, StoreError> {
    columns.known(column, PastState::parse)
}

impl Store {
    /// Runs on another thread: reading thirty megabytes of JSON strictly takes a while.
    pub(super) async fn read_rows<T: Send + 'static>(
        rows: Vec<Row>,
        read: impl Fn(&[Row]) -> Result<T, StoreError> + Send + 'static,
    ) -> Result<T, StoreError> {
        tokio::task::spawn_blocking(move || read(&rows)).await.map_err(|_| StoreError::Closed)?
    }
}
