//! Changes of accounts that the operator made at the terminal, on their way to the activity log.
//!
//! A command cannot write to the log while a gateway runs, because a chain has one writer. So the command stores the action
//! in the same transaction as the change. A gateway takes it, records it, and then removes it. If the gateway dies in
//! between, the action is taken again after [`TAKEN_MS`]. So an action may be recorded twice, but never not at all.

use super::secret::digest;
use crate::sql::columns::Columns;
use crate::sql::{Connection, Statement, Value};
use crate::text::hex;
use crate::{Store, StoreError};

pub(super) const INVITED: &str = "user_invited_by_operator";
pub(super) const RESET: &str = "user_reset_by_operator";
/// Time for a gateway to record what it took.
const TAKEN_MS: i64 = 60_000;
/// Actions to take at once.
const ACTIONS_MAX: usize = 100;
const DOING: &str = "record changes of accounts by the operator";

/// A change of an account that the operator made at the terminal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OperatorAction {
    pub id: String,
    pub time_ms: i64,
    /// The code of the record: `user_invited_by_operator` or `user_reset_by_operator`.
    pub code: String,
    pub user_name: String,
}

impl Store {
    /// Takes actions that no gateway has recorded yet. Call `finish_operator_action` when one is in the log.
    pub async fn take_operator_actions(&self, now_ms: i64) -> Result<Vec<OperatorAction>, StoreError> {
        let waiting = "SELECT id FROM operator_actions WHERE taken_ms <= $1 LIMIT 1";
        let before = || Value::int(now_ms.saturating_sub(TAKEN_MS));
        // Almost always nothing waits, and reading is cheaper than writing.
        if self.database().fetch_first(Statement::new(waiting, vec![before()]), DOING).await?.is_none() {
            return Ok(Vec::new());
        }
        let sql = "UPDATE operator_actions SET taken_ms = $2 WHERE id IN (SELECT id FROM operator_actions \
                   WHERE taken_ms <= $1 ORDER BY time_ms LIMIT $3) AND taken_ms <= $1 \
                   RETURNING id, time_ms, code, user_name";
        let values = vec![before(), Value::int(now_ms), Value::limit(ACTIONS_MAX)];
        let take = async |connection: &mut Connection| connection.fetch(Statement::new(sql, values)).await;
        let rows = self.database().write(take, DOING).await?;
        let action = |row| {
            let columns = Columns::of(row, "a malformed action of the operator");
            let (id, time_ms) = (columns.word(0)?, columns.number(1)?);
            Ok(OperatorAction { id, time_ms, code: columns.word(2)?, user_name: columns.word(3)? })
        };
        rows.iter().map(action).collect()
    }

    /// Removes an action that is in the activity log.
    pub async fn finish_operator_action(&self, action: &OperatorAction) -> Result<(), StoreError> {
        let sql = "DELETE FROM operator_actions WHERE id = $1";
        self.database().change(Statement::new(sql, vec![Value::text(&action.id)]), DOING).await.map(drop)
    }
}

/// Stores an action. `unique` is a secret of the same change, whose digest becomes the id.
pub(super) fn insert(unique: &str, code: &str, name: &str, now_ms: i64) -> Statement {
    let sql = "INSERT INTO operator_actions (id, time_ms, code, user_name, taken_ms) VALUES ($1, $2, $3, $4, 0)";
    let id = hex(&digest(&format!("operator action {unique}")));
    Statement::new(sql, vec![Value::text(&id), Value::int(now_ms), Value::text(code), Value::text(name)])
}
