//! Decisions of users about definitions that wait.

use super::bounds::limit_past;
use super::forms::{self, ACCEPT_WAITING, KEEP_FORMER, REJECT_WAITING, WITHDRAW};
use super::rows::{KeyDigest, State, key_digest};
use super::save::Rows;
use super::{Choice, Decided, PinDecision};
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::{PresenceProof, Store, StoreError};

const DECIDING: &str = "store a decision about the definitions of a server";
/// Locks the row of the server until the end of the transaction. The next list is compared with the rows again.
const LOCK: &str = "UPDATE pinned_servers SET revision = revision + 1, listing = NULL WHERE identity = $1 \
     RETURNING revision";
const MOVE_VERSION: &str = "UPDATE pins_version SET version = version + 1";

impl Store {
    /// Takes the decisions of a user, in one transaction. Returns one result for each, in the same order.
    pub async fn decide_pins(
        &self,
        identity: &str,
        decisions: &[PinDecision],
        user: &PresenceProof,
        now_ms: i64,
    ) -> Result<Vec<Decided>, StoreError> {
        let decision = Decision { identity, user: user.user().name(), now_ms };
        let decide = async |connection: &mut Connection| decision.take(connection, decisions).await;
        self.database().write(decide, DECIDING).await?
    }
}

struct Decision<'a> {
    identity: &'a str,
    user: &'a str,
    now_ms: i64,
}

impl Decision<'_> {
    async fn take(
        &self,
        connection: &mut Connection,
        decisions: &[PinDecision],
    ) -> Result<Result<Vec<Decided>, StoreError>, sqlx::Error> {
        connection.begin().await?;
        let locked = connection.fetch(Statement::new(LOCK, vec![Value::text(self.identity)])).await?;
        let rows = connection.fetch(State::statement(self.identity)).await?;
        let revision = locked.first().map(|row| Columns::of(row, "a malformed server").number(0)).transpose();
        let (state, revision) = match State::of(&rows).and_then(|state| Ok((state, revision?))) {
            Ok(found) => found,
            Err(error) => return Ok(Err(error)),
        };
        let (results, [accepted, rejected]) = judge(decisions, state);
        if let Some(revision) = revision
            && results.contains(&Decided::Done)
        {
            Box::pin(self.write(connection, &accepted, &rejected, revision)).await?;
            connection.execute(Statement::plain("COMMIT")).await?;
        } else {
            connection.execute(Statement::plain("ROLLBACK")).await?;
        }
        Ok(Ok(results))
    }

    async fn write(
        &self,
        connection: &mut Connection,
        accepted: &[KeyDigest],
        rejected: &[KeyDigest],
        revision: i64,
    ) -> Result<(), sqlx::Error> {
        let to = Rows { identity: Value::text(self.identity) };
        let (now, user, revision) = (Value::int(self.now_ms), Value::text(self.user), Value::int(revision));
        let former = to.each(accepted, |key| (key, vec![now.clone(), revision.clone()]));
        forms::run(connection, &KEEP_FORMER, former).await?;
        let accept = to.each(accepted, |key| (key, vec![now.clone(), user.clone()]));
        forms::run(connection, &ACCEPT_WAITING, accept).await?;
        let reject = to.each(rejected, |key| (key, vec![now.clone(), user.clone(), revision.clone()]));
        forms::run(connection, &REJECT_WAITING, reject).await?;
        for keys in [accepted, rejected] {
            forms::run(connection, &WITHDRAW, to.each(keys, |key| (key, Vec::new()))).await?;
        }
        limit_past(connection, self.identity).await?;
        connection.execute(Statement::plain(MOVE_VERSION)).await.map(drop)
    }
}

/// Compares decisions with what waits. Returns the results, and the keys to accept and to reject. Of two decisions about
/// one definition, the first counts.
fn judge(decisions: &[PinDecision], mut state: State) -> (Vec<Decided>, [Vec<KeyDigest>; 2]) {
    let [mut accepted, mut rejected] = [Vec::new(), Vec::new()];
    let judge = |decision: &PinDecision| {
        let key = key_digest(&decision.key);
        match state.waiting.get(&key) {
            None => return Decided::Gone,
            Some(row) if row.pin != decision.pin => return Decided::Changed,
            Some(_) => state.waiting.remove(&key),
        };
        match decision.choice {
            Choice::Accept => accepted.push(key),
            Choice::Reject => rejected.push(key),
        }
        Decided::Done
    };
    let results = decisions.iter().map(judge).collect();
    (results, [accepted, rejected])
}
