//! Decisions of users about definitions that wait.

use std::collections::HashSet;

use mcpproxy_core::trust::Held;

use super::bounds::limit_past;
use super::forms::{
    self, ACCEPT_REJECTED, ACCEPT_WAITING, FORGET_REJECTED, KEEP_FORMER, REJECT_WAITING, REMOVE_ACCEPTED, WITHDRAW,
};
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
        let (results, taken) = judge(decisions, state);
        if let Some(revision) = revision
            && results.contains(&Decided::Done)
        {
            Box::pin(self.write(connection, &taken, revision)).await?;
            connection.execute(Statement::plain("COMMIT")).await?;
        } else {
            connection.execute(Statement::plain("ROLLBACK")).await?;
        }
        Ok(Ok(results))
    }

    async fn write(&self, connection: &mut Connection, taken: &Taken, revision: i64) -> Result<(), sqlx::Error> {
        let to = Rows { identity: Value::text(self.identity) };
        let (now, user, revision) = (Value::int(self.now_ms), Value::text(self.user), Value::int(revision));
        let former = to.each(&taken.replaced, |key| (key, vec![now.clone(), revision.clone()]));
        forms::run(connection, &KEEP_FORMER, former).await?;
        let accept = to.each(&taken.accepted, |key| (key, vec![now.clone(), user.clone()]));
        forms::run(connection, &ACCEPT_WAITING, accept).await?;
        let restore = to.each(&taken.restored, |(key, pin)| (key, vec![Value::bytes(pin), now.clone(), user.clone()]));
        forms::run(connection, &ACCEPT_REJECTED, restore).await?;
        for rows in [&taken.restored, &taken.damaged] {
            forms::run(connection, &FORGET_REJECTED, to.each(rows, |(key, pin)| (key, vec![Value::bytes(pin)])))
                .await?;
        }
        let reject = to.each(&taken.rejected, |key| (key, vec![now.clone(), user.clone(), revision.clone()]));
        forms::run(connection, &REJECT_WAITING, reject).await?;
        // A damaged version is neither accepted nor something to compare with. A rejection leaves nothing in its place.
        forms::run(connection, &REMOVE_ACCEPTED, to.each(&taken.removed, |key| (key, Vec::new()))).await?;
        for keys in [&taken.accepted, &taken.rejected] {
            forms::run(connection, &WITHDRAW, to.each(keys, |key| (key, Vec::new()))).await?;
        }
        limit_past(connection, self.identity).await?;
        connection.execute(Statement::plain(MOVE_VERSION)).await.map(drop)
    }
}

/// The rows that decisions change.
#[derive(Default)]
struct Taken {
    /// Definitions that waited.
    accepted: Vec<KeyDigest>,
    rejected: Vec<KeyDigest>,
    /// Rejected versions to accept, with the pin as stored.
    restored: Vec<(KeyDigest, Vec<u8>)>,
    /// Definitions whose accepted version becomes a former one.
    replaced: Vec<KeyDigest>,
    /// Rejected definitions whose accepted version is damaged.
    removed: Vec<KeyDigest>,
    /// Damaged rejections of definitions that were decided on.
    damaged: Vec<(KeyDigest, Vec<u8>)>,
}

/// Compares decisions with what is stored. Of two decisions about one definition, the first counts.
fn judge(decisions: &[PinDecision], state: State) -> (Vec<Decided>, Taken) {
    let (mut taken, mut decided) = (Taken::default(), HashSet::new());
    let results = decisions.iter().map(|decision| {
        let key = key_digest(&decision.key);
        let is_first = !decided.contains(&key);
        let result = match decision.choice {
            Choice::Accept | Choice::Reject => match state.waiting.get(&key).filter(|_| is_first) {
                None => Decided::Gone,
                Some(row) if row.pin != decision.pin => Decided::Changed,
                Some(_) => Decided::Done,
            },
            Choice::AcceptRejected => match state.rejected.get(&(key, decision.pin)) {
                _ if state.waiting.contains_key(&key) => Decided::Changed,
                Some(row) if is_first && row.has_text => Decided::Done,
                Some(_) | None => Decided::Gone,
            },
        };
        if result == Decided::Done {
            decided.insert(key);
            taken.add(key, decision, &state);
        }
        result
    });
    let results = results.collect();
    taken.damaged = state.damaged_past.into_iter().filter(|(key, _)| decided.contains(key)).collect();
    (results, taken)
}

impl Taken {
    fn add(&mut self, key: KeyDigest, decision: &PinDecision, state: &State) {
        // The judgement has read the texts and the names, too.
        let was_unreadable = state.waiting.get(&key).is_some_and(|row| row.reason == Held::Unreadable);
        let is_damaged = was_unreadable || state.damaged.contains(&key);
        match decision.choice {
            Choice::Accept => self.accepted.push(key),
            Choice::AcceptRejected => {
                let stored = state.rejected.get(&(key, decision.pin)).map(|row| (key, row.stored.clone()));
                self.restored.extend(stored);
            }
            Choice::Reject => {
                self.rejected.push(key);
                self.removed.extend(is_damaged.then_some(key));
                return;
            }
        }
        self.replaced.extend((!is_damaged).then_some(key));
    }
}
