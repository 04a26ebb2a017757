//! Steps: changes to approvals, standing approvals, claims, dry runs and rate limits that happen together with a record.
//!
//! An approval must be used once, an idempotency key must run one call, and a standing approval must not exceed its
//! uses. These conditions must hold with many calls at once, several gateways on one database, and a crash at any
//! moment. So a step is a **compare-and-set**: one SQL statement whose `WHERE` clause is the condition. It changes one
//! row, or the condition does not hold and the step conflicts. The writer runs the steps in the same transaction that
//! writes the record:
//!
//! ```text
//! BEGIN
//!   SAVEPOINT                  ── one operation with steps [Consume, Claim]
//!     UPDATE approvals …       ── 1 row: go on · 0 rows: conflict, ROLLBACK TO SAVEPOINT
//!     INSERT INTO claims …     ── 1 row: go on · 0 rows: conflict, ROLLBACK TO SAVEPOINT
//!   … steps of other operations in the batch …
//!   INSERT INTO records …      ── only of operations without a conflict
//! COMMIT
//! ```
//!
//! Invariants:
//! - If `Ledger::open_if` returns `Written`, the record is on disk and every step was taken. The call may be sent.
//! - If it returns `Conflict`, nothing of this operation was written, no record either. Others in the batch are
//!   unaffected.
//! - A step decides on the row alone. Nothing is read first and changed later, so nothing can change in between.
//! - Steps of several gateways run one after the other: PostgreSQL takes an advisory lock, SQLite has one writer.
//!
//! Why not an update first and the record after it? A crash between the two would use up an approval without a trace,
//! or send a call that nothing accounts for.
//!
//! To add a step: add a variant to [`Step`], its statement to `statement`, and the constant to `STATEMENTS`, whose test
//! checks that it uses an index. The compiler names the other places.

use std::collections::BTreeMap;

use mcpproxy_core::contract::RateLimit;
use mcpproxy_core::{ApprovalId, Assurance, RiskLevel, ToolName};
use ulid::Ulid;

use super::approval::NewApproval;
use super::claim::{NewClaim, NewDryRun};
use super::rate;
use super::standing::NewStandingApproval;
use crate::record::id::RecordId;
use crate::sql::{Connection, Dialect, Statement, Value};

/// Serializes the steps of several gateways, so that two transactions cannot wait for each other. SQLite has one writer
/// anyway.
const POSTGRES_BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock(7163470113)";

/// In this time, an agent may create three times as many requests as may be pending.
const LATELY_MS: i64 = 600_000;

const REQUEST: &str = "INSERT INTO approvals (id, binding, agent, client, tool, pin, contract, variant, risk, least, args, \
     args_digest, shown_args, about, created_ms, expires_ms, attached, attached_digest, shown_attached, state) \
     SELECT $1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $19, $20, $21, 'pending' \
     WHERE (SELECT count(*) FROM approvals WHERE agent = $3 AND state = 'pending' AND expires_ms > $15) < $17 \
     AND (SELECT count(*) FROM approvals WHERE agent = $3 AND id > $18) < $17 * 3 \
     AND NOT EXISTS (SELECT 1 FROM approvals WHERE binding = $2 AND args IS NOT NULL AND expires_ms > $15) \
     ON CONFLICT (id) DO NOTHING";
const APPROVE: &str = "UPDATE approvals SET state = 'approved', given = $3, decided_by = $4, decided_ms = $2, \
     expires_ms = $5 \
     WHERE id = $1 AND state = 'pending' AND expires_ms > $2";
const DENY: &str = "UPDATE approvals SET state = 'denied', args = NULL, attached = NULL, decided_by = $3, decided_ms = $2, comment = $4 \
     WHERE id = $1 AND state IN ('pending', 'approved')";
const CONSUME: &str = "UPDATE approvals SET state = 'consumed', args = NULL, attached = NULL, consumed_ms = $2, record_key = $3, \
     record_tail = $4 WHERE id = $1 AND state = 'approved' AND expires_ms > $2";
const EXPIRE: &str = "UPDATE approvals SET state = 'expired', args = NULL, attached = NULL \
     WHERE id = $1 AND state IN ('pending', 'approved') AND expires_ms <= $2";
const CANCEL: &str = "UPDATE approvals SET state = 'cancelled', args = NULL, attached = NULL, decided_ms = $2 \
     WHERE id = $1 AND state IN ('pending', 'approved')";
const CREATE_STANDING: &str = "INSERT INTO grants (id, agent, tool, pin, contract, schema, granted_by, reason, created_ms, expires_ms, \
     uses, uses_left, intent) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11, $12) ON CONFLICT (id) DO NOTHING";
const REVOKE_STANDING: &str = "UPDATE grants SET revoked_ms = $2, revoked_by = $3 WHERE id = $1 AND revoked_ms IS NULL";
const USE_STANDING: &str = "UPDATE grants SET uses_left = uses_left - 1 \
     WHERE id = $1 AND revoked_ms IS NULL AND expires_ms > $2 AND uses_left > 0";
const CLAIM: &str = "INSERT INTO claims (agent, tool, key, args_digest, record_key, record_tail, created_ms, expires_ms) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (agent, tool, key) DO UPDATE \
     SET args_digest = excluded.args_digest, record_key = excluded.record_key, record_tail = excluded.record_tail, \
     created_ms = excluded.created_ms, expires_ms = excluded.expires_ms, answer = NULL \
     WHERE claims.expires_ms <= excluded.created_ms OR EXISTS (SELECT 1 FROM records \
     WHERE records.key = claims.record_key AND records.status = 'cancelled' AND records.code = 'not_sent')";
const FINISH_CLAIM: &str = "UPDATE claims SET answer = $4, expires_ms = CASE WHEN $6 < expires_ms THEN $6 ELSE expires_ms END \
     WHERE agent = $1 AND tool = $2 AND key = $3 AND record_key = $5";
const DROP_CLAIM: &str =
    "DELETE FROM claims WHERE agent = $1 AND tool = $2 AND key = $3 AND record_key = $4 AND answer IS NULL";
const SAVE_DRY_RUN: &str = "INSERT INTO dry_runs (binding, agent, tool, preview, is_native, at_ms) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (binding) DO UPDATE \
     SET preview = excluded.preview, is_native = excluded.is_native, at_ms = excluded.at_ms";
const MOVE_VERSION: &str = "UPDATE approvals_version SET version = version + 1";

/// All statements, for tests.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 14] = [
    REQUEST,
    APPROVE,
    DENY,
    CONSUME,
    EXPIRE,
    CANCEL,
    CREATE_STANDING,
    REVOKE_STANDING,
    USE_STANDING,
    CLAIM,
    FINISH_CLAIM,
    DROP_CLAIM,
    SAVE_DRY_RUN,
    MOVE_VERSION,
];

/// A change that is written only together with a record.
#[derive(Clone, Debug)]
pub enum Step {
    /// Creates an approval request. Conflicts if the agent has too many pending requests, created three times that many
    /// in the last ten minutes, or has an open request with the same binding.
    RequestApproval(Box<NewApproval>),
    /// Needs a pending, unexpired request. The approval is valid until `until_ms`, however long the request had left.
    Approve { id: ApprovalId, by: String, given: Assurance, now_ms: i64, until_ms: i64 },
    /// Needs a pending or approved request.
    Deny { id: ApprovalId, by: String, comment: Option<String>, now_ms: i64 },
    /// Uses an approval. Needs an approved, unexpired request, which then refers to the record.
    Consume { id: ApprovalId, now_ms: i64 },
    /// Needs a pending or approved request that has expired.
    Expire { id: ApprovalId, now_ms: i64 },
    /// Needs a pending or approved request.
    Cancel { id: ApprovalId, now_ms: i64 },
    /// Conflicts if the id exists.
    CreateStandingApproval(Box<NewStandingApproval>),
    /// Needs a standing approval that is not revoked.
    RevokeStandingApproval { id: String, by: String, now_ms: i64 },
    /// Needs a standing approval that is not revoked, expired or used up.
    UseStandingApproval { id: String, now_ms: i64 },
    /// Reserves an idempotency key. Conflicts if another claim holds it, unless that claim has expired or its call was
    /// never sent.
    Claim(Box<NewClaim>),
    /// Saves the answer for repeats of the call. Does nothing if another call holds the claim by now.
    FinishClaim { agent: String, tool: String, key: String, answer: String, expires_ms: Option<i64> },
    /// Releases an idempotency key that has no answer yet, if this record reserved it. `None` is the record that is
    /// written with this step.
    DropClaim { agent: String, tool: String, key: String, record: Option<RecordId> },
    /// Replaces an earlier dry run of the same call.
    SaveDryRun(Box<NewDryRun>),
    /// Counts a call in the rate limit of its tool. Conflicts if the limit is used up.
    CountCall { tool: ToolName, limit: RateLimit },
}

/// The outcome of a write with conditional steps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Conditional<T> {
    /// The record and all steps are on disk.
    Written(T),
    /// The condition of this step, counted from 0, did not hold. Nothing was written.
    Conflict { step: usize },
}

/// The steps that are written with one record.
#[derive(Default)]
pub(crate) enum Steps {
    #[default]
    None,
    /// The record is written only if every step changes a row. A caller waits for the outcome and treats an error as
    /// "not written", so the writer never retries such a record.
    IfAll(Box<[Step]>),
    /// Written with the record even if they change nothing, because the event has already happened.
    Always(Box<[Step]>),
}

/// The operations of a batch that were not written: the index of the operation, and of its conflicting step.
pub(crate) type Conflicts = BTreeMap<usize, usize>;

impl<T> Conditional<T> {
    /// `None` after a conflict.
    pub fn written(self) -> Option<T> {
        match self {
            Self::Written(value) => Some(value),
            Self::Conflict { .. } => None,
        }
    }

    pub fn is_written(&self) -> bool {
        match self {
            Self::Written(_) => true,
            Self::Conflict { .. } => false,
        }
    }

    pub fn map<U>(self, f: impl FnOnce(T) -> U) -> Conditional<U> {
        match self {
            Self::Written(value) => Conditional::Written(f(value)),
            Self::Conflict { step } => Conditional::Conflict { step },
        }
    }
}

impl Step {
    /// The size of its texts, which count towards the limit of the queue.
    fn text_bytes(&self) -> usize {
        match self {
            Self::RequestApproval(new) => {
                let attached = [&new.attached, &new.shown_attached].into_iter().flatten().map(String::len);
                new.args.len() + new.shown_args.len() + new.about.len() + attached.sum::<usize>()
            }
            Self::CreateStandingApproval(new) => new.schema.len(),
            Self::SaveDryRun(new) => new.preview.len(),
            Self::FinishClaim { answer, .. } => answer.len(),
            Self::Deny { comment, .. } => comment.as_ref().map_or(0, String::len),
            Self::Approve { .. }
            | Self::Consume { .. }
            | Self::Expire { .. }
            | Self::Cancel { .. }
            | Self::RevokeStandingApproval { .. }
            | Self::UseStandingApproval { .. }
            | Self::Claim(_)
            | Self::CountCall { .. }
            | Self::DropClaim { .. } => 0,
        }
    }

    /// `true` if it changes an approval or standing approval. Then `approvals_version` moves.
    fn changes_approvals(&self) -> bool {
        match self {
            Self::RequestApproval(_)
            | Self::Approve { .. }
            | Self::Deny { .. }
            | Self::Consume { .. }
            | Self::Expire { .. }
            | Self::Cancel { .. }
            | Self::CreateStandingApproval(_)
            | Self::RevokeStandingApproval { .. }
            | Self::UseStandingApproval { .. } => true,
            Self::Claim(_)
            | Self::FinishClaim { .. }
            | Self::DropClaim { .. }
            | Self::SaveDryRun(_)
            | Self::CountCall { .. } => false,
        }
    }
}

impl Steps {
    pub(crate) fn always(steps: Vec<Step>) -> Self {
        if steps.is_empty() { Self::None } else { Self::Always(steps.into()) }
    }

    pub(crate) fn if_all(steps: Vec<Step>) -> Self {
        Self::IfAll(steps.into())
    }

    pub(crate) fn list(&self) -> &[Step] {
        match self {
            Self::None => &[],
            Self::IfAll(steps) | Self::Always(steps) => steps,
        }
    }

    pub(crate) fn text_bytes(&self) -> usize {
        self.list().iter().map(Step::text_bytes).sum()
    }
}

/// Begins a transaction and takes the steps of all operations in order. An operation with a conflict leaves no trace.
pub(crate) async fn take<'s>(
    connection: &mut Connection,
    operations: impl Iterator<Item = (RecordId, &'s Steps)>,
    conflicts: &mut Conflicts,
) -> Result<(), sqlx::Error> {
    begin(connection).await?;
    let mut changes_approvals = false;
    for (index, (record, steps)) in operations.enumerate() {
        match steps {
            Steps::None => continue,
            Steps::Always(steps) => {
                for step in steps {
                    connection.execute(statement(step, record, connection.dialect())).await?;
                }
            }
            Steps::IfAll(steps) => {
                if let Some(step) = first_conflict(connection, steps, record).await? {
                    conflicts.insert(index, step);
                    continue;
                }
            }
        }
        changes_approvals |= steps.list().iter().any(Step::changes_approvals);
    }
    if changes_approvals {
        connection.execute(Statement::plain(MOVE_VERSION)).await?;
    }
    Ok(())
}

pub(super) async fn begin(connection: &mut Connection) -> Result<(), sqlx::Error> {
    match connection.dialect() {
        Dialect::Sqlite => connection.begin().await,
        Dialect::Postgres => connection.run(POSTGRES_BEGIN).await,
    }
}

/// Takes all steps of one operation, or none. Returns the index of the step that conflicts.
async fn first_conflict(
    connection: &mut Connection,
    steps: &[Step],
    record: RecordId,
) -> Result<Option<usize>, sqlx::Error> {
    // A single step that conflicts has changed nothing, so it needs no savepoint.
    let has_savepoint = steps.len() > 1;
    if has_savepoint {
        connection.execute(Statement::plain("SAVEPOINT steps")).await?;
    }
    let mut conflict = None;
    for (index, step) in steps.iter().enumerate() {
        if connection.execute(statement(step, record, connection.dialect())).await? == 0 {
            conflict = Some(index);
            break;
        }
    }
    if has_savepoint {
        if conflict.is_some() {
            connection.execute(Statement::plain("ROLLBACK TO SAVEPOINT steps")).await?;
        }
        connection.execute(Statement::plain("RELEASE SAVEPOINT steps")).await?;
    }
    Ok(conflict)
}

/// `record` is the record that is written with the step.
fn statement(step: &Step, record: RecordId, dialect: Dialect) -> Statement {
    let of = |sql, id: &ApprovalId, now_ms: i64, more: Vec<Value>| {
        let values = [Value::text(id.as_str()), Value::int(now_ms)];
        Statement::new(sql, values.into_iter().chain(more).collect())
    };
    match step {
        Step::RequestApproval(new) => request(new),
        Step::Approve { id, by, given, now_ms, until_ms } => {
            of(APPROVE, id, *now_ms, vec![Value::text(given.as_str()), Value::text(by), Value::int(*until_ms)])
        }
        Step::Deny { id, by, comment, now_ms } => {
            of(DENY, id, *now_ms, vec![Value::text(by), Value::optional_text(comment.as_deref())])
        }
        Step::Consume { id, now_ms } => {
            of(CONSUME, id, *now_ms, vec![Value::int(record.key().0), Value::int(record.tail())])
        }
        Step::Expire { id, now_ms } => of(EXPIRE, id, *now_ms, Vec::new()),
        Step::Cancel { id, now_ms } => of(CANCEL, id, *now_ms, Vec::new()),
        Step::CreateStandingApproval(new) => create_standing(new),
        Step::RevokeStandingApproval { id, by, now_ms } => {
            Statement::new(REVOKE_STANDING, vec![Value::text(id), Value::int(*now_ms), Value::text(by)])
        }
        Step::UseStandingApproval { id, now_ms } => {
            Statement::new(USE_STANDING, vec![Value::text(id), Value::int(*now_ms)])
        }
        Step::Claim(new) => claim(new, record),
        Step::FinishClaim { agent, tool, key, answer, expires_ms } => {
            let values = [Value::text(agent), Value::text(tool), Value::text(key), Value::bytes(answer.as_bytes())];
            let more = [Value::int(record.key().0), Value::int(expires_ms.unwrap_or(i64::MAX))];
            Statement::new(FINISH_CLAIM, values.into_iter().chain(more).collect())
        }
        Step::DropClaim { agent, tool, key, record: of } => {
            let of = of.unwrap_or(record).key().0;
            Statement::new(DROP_CLAIM, vec![Value::text(agent), Value::text(tool), Value::text(key), Value::int(of)])
        }
        Step::SaveDryRun(new) => save_dry_run(new),
        Step::CountCall { tool, limit } => rate::count(tool, *limit, dialect),
    }
}

fn request(new: &NewApproval) -> Statement {
    let values = vec![
        Value::text(new.id.as_str()),
        Value::digest(&new.binding),
        Value::text(&new.agent),
        Value::optional_text(new.client.as_deref()),
        Value::text(&new.tool.to_string()),
        Value::digest(&new.pin),
        Value::digest(&new.contract),
        Value::text(new.variant.operation()),
        Value::optional_text(new.risk.map(RiskLevel::as_str)),
        Value::text(new.least.as_str()),
        Value::bytes(new.args.as_bytes()),
        Value::digest(&new.args_digest),
        Value::text(&new.shown_args),
        Value::text(&new.about),
        Value::int(new.created_ms),
        Value::int(new.expires_ms),
        Value::int(new.most.into()),
        // Ids sort by time.
        Value::text(&Ulid::from_parts(u64::try_from(new.created_ms - LATELY_MS).unwrap_or_default(), 0).to_string()),
        new.attached.as_ref().map_or(Value::Bytes(None), |attached| Value::bytes(attached.as_bytes())),
        Value::digest(&new.attached_digest),
        Value::optional_text(new.shown_attached.as_deref()),
    ];
    Statement::new(REQUEST, values)
}

fn create_standing(new: &NewStandingApproval) -> Statement {
    let values = vec![
        Value::text(&new.id),
        Value::text(&new.agent),
        Value::text(&new.tool.to_string()),
        Value::digest(&new.pin),
        Value::digest(&new.contract),
        Value::text(&new.schema),
        Value::text(&new.by),
        Value::optional_text(new.reason.as_deref()),
        Value::int(new.created_ms),
        Value::int(new.expires_ms),
        Value::int(new.uses.into()),
        Value::optional_text(new.intent.as_deref()),
    ];
    Statement::new(CREATE_STANDING, values)
}

fn claim(new: &NewClaim, record: RecordId) -> Statement {
    let values = vec![
        Value::text(&new.agent),
        Value::text(&new.tool),
        Value::text(&new.key),
        Value::digest(&new.args_digest),
        Value::int(record.key().0),
        Value::int(record.tail()),
        Value::int(new.now_ms),
        Value::int(new.expires_ms),
    ];
    Statement::new(CLAIM, values)
}

fn save_dry_run(new: &NewDryRun) -> Statement {
    let values = vec![
        Value::digest(&new.binding),
        Value::text(&new.agent),
        Value::text(&new.tool),
        Value::text(&new.preview),
        Value::int(new.is_native.into()),
        Value::int(new.at_ms),
    ];
    Statement::new(SAVE_DRY_RUN, values)
}
