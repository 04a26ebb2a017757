//! Steps as statements. Each changes one row or none, and none means that it has lost.

use std::collections::BTreeMap;

use mcpproxy_core::{ApprovalId, RiskLevel};

use ulid::Ulid;

use crate::log::queue::{Operation, Terms};
use crate::sql::driver::{Connection, Dialect, Statement, Value};
use crate::{Lost, NewApproval, NewClaim, NewDryRun, NewStandingApproval, RecordId, Step};

/// The operations that lost, by their index in the batch.
pub(crate) type Losers = BTreeMap<usize, Lost>;

/// Steps of several gateways go one after the other: what one has found stays so until it commits, and none of them can
/// wait for another that waits for it. SQLite has one writer in any case.
const POSTGRES_BEGIN: &str = "BEGIN; SELECT pg_advisory_xact_lock(7163470113)";

/// Whoever asks and is answered all the time may ask three times as much as may be pending in so long.
const LATELY_MS: i64 = 600_000;

const ASK: &str = "INSERT INTO approvals (id, binding, agent, client, tool, pin, contract, variant, risk, least, args, \
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
const GRANT: &str = "INSERT INTO grants (id, agent, tool, pin, contract, schema, granted_by, reason, created_ms, expires_ms, \
     uses, uses_left) VALUES ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $11) ON CONFLICT (id) DO NOTHING";
const REVOKE: &str = "UPDATE grants SET revoked_ms = $2, revoked_by = $3 WHERE id = $1 AND revoked_ms IS NULL";
const USE: &str = "UPDATE grants SET uses_left = uses_left - 1 \
     WHERE id = $1 AND revoked_ms IS NULL AND expires_ms > $2 AND uses_left > 0";
const CLAIM: &str = "INSERT INTO claims (agent, tool, key, args_digest, record_key, record_tail, created_ms, expires_ms) \
     VALUES ($1, $2, $3, $4, $5, $6, $7, $8) ON CONFLICT (agent, tool, key) DO UPDATE \
     SET args_digest = excluded.args_digest, record_key = excluded.record_key, record_tail = excluded.record_tail, \
     created_ms = excluded.created_ms, expires_ms = excluded.expires_ms, answer = NULL \
     WHERE claims.expires_ms <= excluded.created_ms OR EXISTS (SELECT 1 FROM records \
     WHERE records.key = claims.record_key AND records.status = 'cancelled' AND records.code = 'not_sent')";
const FINISH_CLAIM: &str =
    "UPDATE claims SET answer = $4 WHERE agent = $1 AND tool = $2 AND key = $3 AND record_key = $5";
const DROP_CLAIM: &str =
    "DELETE FROM claims WHERE agent = $1 AND tool = $2 AND key = $3 AND record_key = $4 AND answer IS NULL";
const KEEP_DRY_RUN: &str = "INSERT INTO dry_runs (binding, agent, tool, preview, is_native, at_ms) \
     VALUES ($1, $2, $3, $4, $5, $6) ON CONFLICT (binding) DO UPDATE \
     SET preview = excluded.preview, is_native = excluded.is_native, at_ms = excluded.at_ms";
const MOVE_VERSION: &str = "UPDATE approvals_version SET version = version + 1";

/// All of them, for tests.
#[cfg(test)]
pub(super) const STATEMENTS: [&str; 13] =
    [ASK, APPROVE, DENY, CONSUME, EXPIRE, CANCEL, GRANT, REVOKE, USE, CLAIM, FINISH_CLAIM, KEEP_DRY_RUN, MOVE_VERSION];

/// Begins a transaction and takes the steps of all operations in it, in their order. Those that lose leave no trace.
pub(crate) async fn take(
    connection: &mut Connection,
    batch: &[Operation],
    losers: &mut Losers,
) -> Result<(), sqlx::Error> {
    begin(connection).await?;
    let mut has_news = false;
    for (index, operation) in batch.iter().enumerate() {
        let id = operation.id();
        let taken = match &operation.terms {
            Terms::None => continue,
            Terms::With(steps) => {
                for step in steps {
                    connection.execute(statement(step, id)).await?;
                }
                steps
            }
            Terms::If(steps) => match take_all(connection, steps, id).await? {
                None => steps,
                Some(lost) => {
                    losers.insert(index, lost);
                    continue;
                }
            },
        };
        has_news |= taken.iter().any(Step::is_news);
    }
    if has_news {
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

/// All steps of one operation, or none.
async fn take_all(connection: &mut Connection, steps: &[Step], id: RecordId) -> Result<Option<Lost>, sqlx::Error> {
    // What changes nothing when it loses needs no way back.
    let has_way_back = steps.len() > 1;
    if has_way_back {
        connection.execute(Statement::plain("SAVEPOINT steps")).await?;
    }
    let mut lost = None;
    for (index, step) in steps.iter().enumerate() {
        if connection.execute(statement(step, id)).await? == 0 {
            lost = Some(Lost(index));
            break;
        }
    }
    if has_way_back {
        if lost.is_some() {
            connection.execute(Statement::plain("ROLLBACK TO SAVEPOINT steps")).await?;
        }
        connection.execute(Statement::plain("RELEASE SAVEPOINT steps")).await?;
    }
    Ok(lost)
}

/// `record` is the one that is written with it.
fn statement(step: &Step, record: RecordId) -> Statement {
    let of = |sql, id: &ApprovalId, now_ms: i64, more: Vec<Value>| {
        let values = [Value::text(id.as_str()), Value::int(now_ms)];
        Statement::new(sql, values.into_iter().chain(more).collect())
    };
    match step {
        Step::Ask(new) => ask(new),
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
        Step::StandingApproval(new) => grant(new),
        Step::Revoke { id, by, now_ms } => {
            Statement::new(REVOKE, vec![Value::text(id), Value::int(*now_ms), Value::text(by)])
        }
        Step::Use { id, now_ms } => Statement::new(USE, vec![Value::text(id), Value::int(*now_ms)]),
        Step::Claim(new) => claim(new, record),
        Step::FinishClaim { agent, tool, key, answer } => {
            let values = vec![Value::text(agent), Value::text(tool), Value::text(key), Value::bytes(answer.as_bytes())];
            Statement::new(FINISH_CLAIM, values.into_iter().chain([Value::int(record.key().0)]).collect())
        }
        Step::DropClaim { agent, tool, key, record: of } => {
            let of = of.unwrap_or(record).key().0;
            Statement::new(DROP_CLAIM, vec![Value::text(agent), Value::text(tool), Value::text(key), Value::int(of)])
        }
        Step::KeepDryRun(new) => keep_dry_run(new),
    }
}

fn ask(new: &NewApproval) -> Statement {
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
        // Ids are in the order of time.
        Value::text(&Ulid::from_parts(u64::try_from(new.created_ms - LATELY_MS).unwrap_or_default(), 0).to_string()),
        new.attached.as_ref().map_or(Value::Bytes(None), |attached| Value::bytes(attached.as_bytes())),
        Value::digest(&new.attached_digest),
        Value::optional_text(new.shown_attached.as_deref()),
    ];
    Statement::new(ASK, values)
}

fn grant(new: &NewStandingApproval) -> Statement {
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
    ];
    Statement::new(GRANT, values)
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

fn keep_dry_run(new: &NewDryRun) -> Statement {
    let values = vec![
        Value::digest(&new.binding),
        Value::text(&new.agent),
        Value::text(&new.tool),
        Value::text(&new.preview),
        Value::int(new.is_native.into()),
        Value::int(new.at_ms),
    ];
    Statement::new(KEEP_DRY_RUN, values)
}
