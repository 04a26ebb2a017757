//! Approval requests: creating, finding and listing them. Their state changes in `step.rs`, with a record.

use mcpproxy_core::{Approval, ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Untrusted, Variant};

use super::record_id;
use crate::sql::columns::Columns;
use crate::sql::{Dialect, Row, Statement, Value};
use crate::store::LIMIT_MAX;
use crate::{RecordId, Store, StoreError};

const DOING: &str = "read the approvals";
const COLUMNS: &str = "id, binding, agent, client, tool, pin, contract, variant, risk, least, args_digest, shown_args, about, \
     created_ms, expires_ms, state, given, decided_by, decided_ms, comment, record_key, record_tail, consumed_ms, \
     attached_digest, shown_attached";
const COLUMN_COUNT: usize = 25;
/// Sorts after every id.
const AFTER_ALL: &str = "~";
const CORRUPT: &str = "a malformed approval";

/// A new approval request. The caller passes in times and the id.
#[derive(Clone, Debug)]
pub struct NewApproval {
    pub id: ApprovalId,
    /// Digest of everything that the approval will cover.
    pub binding: Digest,
    pub agent: String,
    /// The program behind the agent, such as `cursor 1.2`.
    pub client: Option<String>,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub variant: Variant,
    pub risk: Option<RiskLevel>,
    /// The least assurance that an approval needs.
    pub least: Assurance,
    /// The exact bytes to send. They are erased as soon as the call can no longer be sent.
    pub args: String,
    pub args_digest: Digest,
    /// The masked arguments, for users.
    pub shown_args: String,
    /// The exact bytes of everything else that goes to the server.
    pub attached: Option<String>,
    pub attached_digest: Digest,
    pub shown_attached: Option<String>,
    /// JSON for the pages and terminals that show the request.
    pub about: String,
    pub created_ms: i64,
    pub expires_ms: i64,
    /// The maximum number of pending requests of the agent.
    pub most: u32,
}

/// An approval request as stored. Text from an agent, a server or a user is `Untrusted`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredApproval {
    pub id: ApprovalId,
    pub binding: Digest,
    pub agent: String,
    pub client: Option<Untrusted>,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub variant: Variant,
    pub risk: Option<RiskLevel>,
    pub least: Assurance,
    /// `Some` only while it is pending or approved, and never in lists.
    pub args: Option<String>,
    pub args_digest: Digest,
    pub shown_args: Untrusted,
    /// Like `args`, for everything else that goes to the server. `None` if nothing does.
    pub attached: Option<String>,
    pub attached_digest: Digest,
    pub shown_attached: Option<Untrusted>,
    pub about: Untrusted,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub state: ApprovalState,
    pub given: Option<Assurance>,
    /// The user who approved or denied it last.
    pub decided_by: Option<String>,
    pub decided_ms: Option<i64>,
    pub comment: Option<Untrusted>,
    /// The record of the call that used the approval.
    pub record: Option<RecordId>,
    pub consumed_ms: Option<i64>,
}

/// Selects approval requests for a list. `None` matches every value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ApprovalFilter {
    pub state: Option<ApprovalState>,
    pub agent: Option<String>,
    /// The full name, `server:tool`.
    pub tool: Option<String>,
}

#[derive(Clone, Debug)]
pub struct ApprovalPage {
    /// Newest first.
    pub approvals: Vec<StoredApproval>,
    /// The cursor of the next page, if there is one.
    pub next: Option<String>,
}

impl StoredApproval {
    /// The part that decisions need.
    pub fn approval(&self) -> Approval {
        Approval {
            id: self.id.clone(),
            binding: self.binding,
            state: self.state,
            given: self.given,
            expires_ms: self.expires_ms,
        }
    }
}

impl Store {
    pub async fn find_approval(&self, id: &ApprovalId) -> Result<Option<StoredApproval>, StoreError> {
        self.find_first_approval("id = $1", vec![Value::text(id.as_str())]).await
    }

    /// Finds the request with this binding that is pending or approved, and not expired.
    pub async fn find_open_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let condition = "binding = $1 AND args IS NOT NULL AND expires_ms > $2 ORDER BY expires_ms DESC LIMIT 1";
        self.find_first_approval(condition, vec![Value::digest(binding), Value::int(now_ms)]).await
    }

    /// Finds the request with this binding that was denied, and would not have expired yet.
    pub async fn find_denied_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let condition = "binding = $1 AND state = 'denied' AND expires_ms > $2 ORDER BY expires_ms DESC LIMIT 1";
        self.find_first_approval(condition, vec![Value::digest(binding), Value::int(now_ms)]).await
    }

    async fn find_first_approval(
        &self,
        condition: &str,
        values: Vec<Value>,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, args, attached FROM approvals WHERE {condition}");
        let row = self.database().fetch_first(Statement::new(sql, values), DOING).await?;
        row.as_ref().map(with_args).transpose()
    }

    /// Lists the newest requests before the cursor: at most `limit`, and never more than `LIMIT_MAX`. A page costs the
    /// same however many requests there are.
    pub async fn list_approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<&str>,
        limit: usize,
    ) -> Result<ApprovalPage, StoreError> {
        let limit = limit.clamp(1, LIMIT_MAX);
        let before = before.map(|cursor| ApprovalId::parse(cursor).ok_or(StoreError::Cursor)).transpose()?;
        // One more than `limit` shows if there is a next page.
        let mut approvals = self.newest_approvals(filter, before.as_ref(), limit + 1).await?;
        let has_more = approvals.len() > limit;
        approvals.truncate(limit);
        let next = approvals.last().filter(|_| has_more).map(|last| last.id.to_string());
        Ok(ApprovalPage { approvals, next })
    }

    async fn newest_approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<Vec<StoredApproval>, StoreError> {
        let statement = page(filter, before, limit, self.database().dialect());
        self.database().fetch(statement, DOING).await?.iter().map(approval).collect()
    }

    pub async fn count_pending(&self) -> Result<u64, StoreError> {
        let statement = Statement::plain("SELECT count(*) FROM approvals WHERE state = 'pending'");
        let row = self.database().fetch_first(statement, DOING).await?;
        row.map_or(Ok(0), |row| Columns::of(&row, "a count").number(0).map(i64::unsigned_abs))
    }

    /// Lists requests that have expired and are not marked so yet, the longest overdue first.
    pub async fn overdue_approvals(&self, now_ms: i64, limit: usize) -> Result<Vec<ApprovalId>, StoreError> {
        let sql = "SELECT id FROM approvals WHERE args IS NOT NULL AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2";
        let statement = Statement::new(sql, vec![Value::int(now_ms), Value::limit(limit)]);
        let rows = self.database().fetch(statement, DOING).await?;
        rows.iter().map(|row| Columns::of(row, CORRUPT).known(0, ApprovalId::parse)).collect()
    }

    /// Finds the newest approval that this agent used for this tool, of those requested before `before`.
    pub async fn last_approved(
        &self,
        tool: &ToolName,
        agent: &str,
        before: Option<&ApprovalId>,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let filter = ApprovalFilter {
            state: Some(ApprovalState::Consumed),
            agent: Some(agent.to_owned()),
            tool: Some(tool.to_string()),
        };
        Ok(self.newest_approvals(&filter, before, 1).await?.pop())
    }

    /// A number that changes whenever any process changes an approval or standing approval. It is cheap enough to read
    /// every second.
    pub async fn approvals_version(&self) -> Result<i64, StoreError> {
        let statement = Statement::plain("SELECT version FROM approvals_version");
        let row = self.database().fetch_first(statement, DOING).await?;
        row.map_or(Ok(0), |row| Columns::of(&row, "the version of approvals").number(0))
    }
}

/// Every combination of conditions has an index on these columns and the id. PostgreSQL may prefer to scan all requests
/// from the newest. Comparing row values, and ordering by them, leaves it only the index.
fn page(filter: &ApprovalFilter, before: Option<&ApprovalId>, limit: usize, dialect: Dialect) -> Statement {
    let wanted = [
        ("agent", filter.agent.as_deref()),
        ("tool", filter.tool.as_deref()),
        ("state", filter.state.map(ApprovalState::as_str)),
    ];
    let wanted: Vec<_> = wanted.into_iter().filter_map(|(column, word)| Some((column, word?))).collect();
    let mut values: Vec<Value> = wanted.iter().map(|(_, word)| Value::text(word)).collect();
    values.push(Value::text(before.map_or(AFTER_ALL, ApprovalId::as_str)));
    let before = values.len();
    values.push(Value::limit(limit));
    let (conditions, order) = match dialect {
        Dialect::Sqlite => {
            let equal = |(index, (column, _)): (usize, &(&str, _))| format!("{column} = ${} AND ", index + 1);
            let equal: String = wanted.iter().enumerate().map(equal).collect();
            (format!("{equal}id < ${before}"), "id DESC".to_owned())
        }
        Dialect::Postgres => {
            let columns: String = wanted.iter().map(|(column, _)| format!("{column}, ")).collect();
            let places: String = (1..before).map(|place| format!("${place}, ")).collect();
            let order: String = wanted.iter().map(|(column, _)| format!("{column} DESC, ")).collect();
            let from = format!("({columns}id) >= ({places}'')");
            (format!("({columns}id) < ({places}${before}) AND {from}"), format!("{order}id DESC"))
        }
    };
    let sql = format!("SELECT {COLUMNS} FROM approvals WHERE {conditions} ORDER BY {order} LIMIT ${}", values.len());
    Statement::new(sql, values)
}

fn with_args(row: &Row) -> Result<StoredApproval, StoreError> {
    let columns = Columns::of(row, CORRUPT);
    let (args, attached) = (columns.exact(COLUMN_COUNT)?, columns.exact(COLUMN_COUNT + 1)?);
    Ok(StoredApproval { args, attached, ..approval(row)? })
}

fn approval(row: &Row) -> Result<StoredApproval, StoreError> {
    let columns = Columns::of(row, CORRUPT);
    Ok(StoredApproval {
        id: columns.known(0, ApprovalId::parse)?,
        binding: columns.digest(1)?,
        agent: columns.word(2)?,
        client: columns.untrusted(3)?,
        tool: columns.tool(4)?,
        pin: columns.digest(5)?,
        contract: columns.digest(6)?,
        variant: columns.known(7, Variant::from_operation)?,
        risk: columns.parsed(8, RiskLevel::parse)?,
        least: columns.known(9, Assurance::parse)?,
        args: None,
        args_digest: columns.digest(10)?,
        shown_args: columns.untrusted(11)?.ok_or_else(|| columns.corrupt())?,
        attached: None,
        attached_digest: columns.digest(23)?,
        shown_attached: columns.untrusted(24)?,
        about: columns.untrusted(12)?.ok_or_else(|| columns.corrupt())?,
        created_ms: columns.number(13)?,
        expires_ms: columns.number(14)?,
        state: columns.known(15, ApprovalState::parse)?,
        given: columns.parsed(16, Assurance::parse)?,
        decided_by: columns.text(17)?,
        decided_ms: columns.int(18)?,
        comment: columns.untrusted(19)?,
        record: record_id(&columns, 20)?,
        consumed_ms: columns.int(22)?,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Location;
    use crate::approvals::claim::EXPIRED;
    use crate::approvals::rate::count_sql;
    use crate::approvals::step::STATEMENTS;
    use crate::sql::Database;

    async fn plan(database: &Database, sql: &str, values: Vec<Value>) -> Vec<String> {
        let statement = Statement::new(format!("EXPLAIN QUERY PLAN {sql}"), values);
        let rows = database.fetch(statement, DOING).await.unwrap();
        rows.iter().map(|row| row.text(3).unwrap().unwrap()).collect()
    }

    async fn database(folder: &tempfile::TempDir) -> Database {
        Database::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap()
    }

    #[tokio::test]
    async fn every_filter_uses_its_index_without_sorting() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder).await;
        for choice in 0..8_u8 {
            let has = |bit: u8| choice & (1 << bit) != 0;
            let filter = ApprovalFilter {
                agent: has(0).then(|| "a".into()),
                tool: has(1).then(|| "s:t".into()),
                state: has(2).then_some(ApprovalState::Pending),
            };
            let columns: Vec<_> =
                ["agent", "tool", "state"].into_iter().enumerate().filter(|(bit, _)| has(*bit as u8)).collect();
            let name: String = columns.iter().map(|(_, column)| format!("_{column}")).collect();
            let name = if choice == 0 { "sqlite_autoindex_approvals_1".into() } else { format!("approvals{name}") };
            let equal: String = columns.iter().map(|(_, column)| format!("{column}=? AND ")).collect();
            let Statement { sql, values } = page(&filter, None, 50, Dialect::Sqlite);
            let expected = format!("SEARCH approvals USING INDEX {name} ({equal}id<?)");
            assert_eq!(plan(&database, &sql, values).await, [expected], "{filter:?}");
        }
    }

    #[tokio::test]
    async fn no_statement_scans_a_whole_table() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder).await;
        // These tables are small: recent invitations and sign-ins.
        let small = ["SCAN invitations", "SCAN challenges", "SCAN sessions", "SCAN approvals_version"];
        let count = count_sql(Dialect::Sqlite);
        for sql in STATEMENTS.into_iter().chain(EXPIRED.map(|(sql, _)| sql)).chain([count.as_str()]) {
            for step in plan(&database, sql, Vec::new()).await {
                let is_scan =
                    step.starts_with("SCAN") && !step.contains("CONSTANT") && !step.contains("USING COVERING");
                assert!(!is_scan || small.contains(&step.as_str()), "{sql}: {step}");
                assert!(!step.contains("TEMP B-TREE"), "{sql}: {step}");
            }
        }
    }
}
