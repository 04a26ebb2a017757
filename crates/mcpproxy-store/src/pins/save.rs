//! Stores a judged list, in one transaction. An unchanged list costs one read.

use mcpproxy_core::trust::{Definition, FORMULA, Held};

use super::bounds::{limit_gone, limit_past};
use super::forms::{self, ACCEPT_BY_RULE, COUNT, EXPLAIN, KEEP_FORMER, LEAVE, WAIT, WITHDRAW};
use super::plan::Plan;
use super::rows::{KeyDigest, State, formula, key_digest, pin_value};
use super::{HeldPin, Listing};
use crate::sha256::sha256;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Row, Statement, Value};
use crate::{Store, StoreError};

const CHANGING: &str = "store the definitions of a server";
const WHAT: &str = "a malformed server";
/// A server may send a list every second. Its time is written only this often.
const TOUCH_PAUSE_MS: i64 = 60_000;
/// Locks the row of the server until the end of the transaction.
const LOCK: &str = "INSERT INTO pinned_servers (identity, server, first_seen_ms, last_seen_ms, revision) \
     VALUES ($1, $2, $3, $3, 1) ON CONFLICT (identity) DO UPDATE SET revision = pinned_servers.revision + 1 \
     RETURNING last_seen_ms, revision";
/// Revision 0: nothing was listed yet. Every list and every decision raises it.
const NOTE: &str = "INSERT INTO pinned_servers (identity, server, first_seen_ms, last_seen_ms, revision) \
     VALUES ($1, $2, $3, $3, 0) ON CONFLICT (identity) DO NOTHING";
const SEEN: &str = "UPDATE pinned_servers SET server = $2, last_seen_ms = $3, listing = $4 WHERE identity = $1";

impl Store {
    /// Stores a judged list. What a user decided meanwhile stays.
    pub async fn save_listing(&self, listing: &Listing<'_>) -> Result<(), StoreError> {
        let digest = digest(listing);
        if !listing.has_news
            && listing.admitted.is_empty()
            && let Some((last_seen_ms, last)) = self.last_listing(listing.identity).await?
            && last.is_some_and(|last| last == digest)
        {
            return self.touch(listing, last_seen_ms).await;
        }
        let save = async |connection: &mut Connection| save(connection, listing, &digest).await;
        self.database().write(save, CHANGING).await?
    }

    /// Notes a server that must be reviewed before it has listed anything. Its first list is then never one of a new
    /// server, also after a restart. A server that is known stays as it is.
    pub async fn note_server(&self, identity: &str, server: &str, now_ms: i64) -> Result<(), StoreError> {
        let values = vec![Value::text(identity), Value::text(server), Value::int(now_ms)];
        self.database().change(Statement::new(NOTE, values), CHANGING).await.map(drop)
    }

    async fn last_listing(&self, identity: &str) -> Result<Option<(i64, Option<Vec<u8>>)>, StoreError> {
        let sql = "SELECT last_seen_ms, listing FROM pinned_servers WHERE identity = $1";
        let statement = Statement::new(sql, vec![Value::text(identity)]);
        let Some(row) = self.database().fetch_first(statement, CHANGING).await? else { return Ok(None) };
        let columns = Columns::of(&row, WHAT);
        Ok(Some((columns.number(0)?, columns.bytes(1)?)))
    }

    async fn touch(&self, listing: &Listing<'_>, last_seen_ms: i64) -> Result<(), StoreError> {
        if listing.now_ms.abs_diff(last_seen_ms) < TOUCH_PAUSE_MS.unsigned_abs() {
            return Ok(());
        }
        let sql = "UPDATE pinned_servers SET last_seen_ms = $2 WHERE identity = $1";
        let values = vec![Value::text(listing.identity), Value::int(listing.now_ms)];
        self.database().change(Statement::new(sql, values), CHANGING).await.map(drop)
    }
}

async fn save(
    connection: &mut Connection,
    listing: &Listing<'_>,
    digest: &[u8; 32],
) -> Result<Result<(), StoreError>, sqlx::Error> {
    connection.begin().await?;
    let values = vec![Value::text(listing.identity), Value::text(listing.server), Value::int(listing.now_ms)];
    let server = connection.fetch(Statement::new(LOCK, values)).await?;
    let rows = connection.fetch(State::statement(listing.identity)).await?;
    let (state, (last_seen_ms, revision)) = match State::of(&rows).and_then(|state| Ok((state, locked(&server)?))) {
        Ok(found) => found,
        Err(error) => return Ok(Err(error)),
    };
    let plan = Plan::of(listing, &state);
    Box::pin(apply(connection, listing, &plan, &state, Times { last_seen_ms, revision })).await?;
    let values = [Value::text(listing.identity), Value::text(listing.server), Value::int(listing.now_ms)];
    let values = values.into_iter().chain([Value::bytes(digest)]).collect();
    connection.execute(Statement::new(SEEN, values)).await?;
    connection.execute(Statement::plain("COMMIT")).await?;
    Ok(Ok(()))
}

/// Reads the time of the list before, and the number of this change.
fn locked(rows: &[Row]) -> Result<(i64, i64), StoreError> {
    let row = rows.first().ok_or_else(|| StoreError::corrupt(WHAT))?;
    let columns = Columns::of(row, WHAT);
    Ok((columns.number(0)?, columns.number(1)?))
}

#[derive(Clone, Copy)]
struct Times {
    /// The time of the list before.
    last_seen_ms: i64,
    revision: i64,
}

async fn apply(
    connection: &mut Connection,
    listing: &Listing<'_>,
    plan: &Plan<'_>,
    state: &State,
    times: Times,
) -> Result<(), sqlx::Error> {
    let to = Rows { identity: Value::text(listing.identity) };
    let now = Value::int(listing.now_ms);
    let replaced: Vec<KeyDigest> =
        plan.accept.iter().map(|(key, _)| *key).filter(|key| !state.damaged.contains(key)).collect();
    let former = to.each(&replaced, |key| (key, vec![now.clone(), Value::int(times.revision)]));
    forms::run(connection, &KEEP_FORMER, former).await?;
    let accepted = to.each(&plan.accept, |(key, admitted)| {
        let rule = Value::text(admitted.reason.as_str());
        (key, whole(admitted.definition, pin_value(admitted.pin)).into_iter().chain([now.clone(), rule]).collect())
    });
    forms::run(connection, &ACCEPT_BY_RULE, accepted).await?;
    let counts = to.each(&plan.count, |(key, times)| (key, vec![Value::int(*times)]));
    forms::run(connection, &COUNT, counts).await?;
    forms::run(connection, &WITHDRAW, to.each(&plan.withdraw, |key| (key, Vec::new()))).await?;
    let waiting = to.each(&plan.wait, |(key, held, times)| {
        let more = about(held).into_iter().chain([now.clone(), Value::int(*times)]);
        (key, whole(held.definition, pin_value(held.pin)).into_iter().chain(more).collect())
    });
    forms::run(connection, &WAIT, waiting).await?;
    let explained = to.each(&plan.explain, |(key, held)| (key, about(held).to_vec()));
    forms::run(connection, &EXPLAIN, explained).await?;
    let left = to.each(&plan.left, |key| (key, vec![Value::int(times.last_seen_ms)]));
    let back = to.each(&plan.back, |key| (key, vec![Value::Int(None)]));
    forms::run(connection, &LEAVE, left.into_iter().chain(back).collect()).await?;
    if !plan.left.is_empty() {
        limit_gone(connection, listing.identity).await?;
    }
    if !plan.accept.is_empty() {
        limit_past(connection, listing.identity).await?;
    }
    Ok(())
}

/// Writes rows of values, each of which begins with identity and key.
pub(super) struct Rows {
    pub(super) identity: Value,
}

impl Rows {
    pub(super) fn each<'i, T>(&self, items: &'i [T], row: impl Fn(&'i T) -> (&'i KeyDigest, Vec<Value>)) -> Vec<Value> {
        let values = |item| {
            let (key, values) = row(item);
            [self.identity.clone(), Value::bytes(key)].into_iter().chain(values)
        };
        items.iter().flat_map(values).collect()
    }
}

/// Kind, name, formula, pin and text.
fn whole(definition: &Definition, pin: Value) -> [Value; 5] {
    let kind = Value::text(definition.key.kind.as_str());
    [kind, Value::bytes(definition.key.name.as_bytes()), formula(), pin, text(definition)]
}

fn text(definition: &Definition) -> Value {
    Value::bytes(definition.json.as_bytes())
}

fn about(held: &HeldPin<'_>) -> [Value; 2] {
    [Value::text(held.reason.as_str()), Value::text(&held.details)]
}

/// Digest of everything that decides what is stored about a list, whatever its order. Only accepted definitions that are
/// listed unchanged may be in there, or held ones: what is admitted has to be stored in any case.
fn digest(listing: &Listing<'_>) -> [u8; 32] {
    let mut parts: Vec<[u8; 32]> = listing.listed.iter().map(|key| key_digest(key)).collect();
    parts.extend(listing.held.iter().filter(|held| held.reason != Held::Rejected).map(held_digest));
    parts.sort_unstable();
    let mut bytes = parts.concat();
    bytes.extend(FORMULA.to_be_bytes());
    sha256(&bytes)
}

fn held_digest(held: &HeldPin<'_>) -> [u8; 32] {
    let mut bytes = key_digest(&held.definition.key).to_vec();
    bytes.extend(held.pin.digest().as_bytes());
    bytes.extend(held.reason.as_str().as_bytes());
    // A line break ends the word of the reason, which has none.
    bytes.push(b'\n');
    bytes.extend(held.details.as_bytes());
    sha256(&bytes)
}
