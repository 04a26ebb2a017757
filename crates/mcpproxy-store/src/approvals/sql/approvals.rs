//! Questions about approvals and grants.

use mcpproxy_core::{ApprovalId, ApprovalState, Assurance, Digest, RiskLevel, ToolName, Variant};

use crate::sql::Database;
use crate::sql::columns::Columns;
use crate::sql::driver::{Dialect, Row, Statement, Value};
use crate::{ApprovalFilter, StoreError, StoredApproval, StoredStandingApproval};

const DOING: &str = "read the approvals";
const COLUMNS: &str = "id, binding, agent, client, tool, pin, contract, variant, risk, least, args_digest, shown_args, about, \
     created_ms, expires_ms, state, given, decided_by, decided_ms, comment, record_key, record_tail, consumed_ms, \
     attached_digest, shown_attached";
const COLUMN_COUNT: usize = 25;
const GRANT_COLUMNS: &str = "id, agent, tool, pin, contract, schema, granted_by, reason, created_ms, expires_ms, uses, uses_left, \
     revoked_ms, revoked_by";
/// Comes after every id.
const AFTER_ALL: &str = "~";
/// People make grants, one by one.
const GRANTS_MAX: i64 = 1000;

impl Database {
    pub(crate) async fn approval(&self, id: &ApprovalId) -> Result<Option<StoredApproval>, StoreError> {
        let sql = format!("SELECT {COLUMNS}, args, attached FROM approvals WHERE id = $1");
        let rows = self.fetch(Statement::new(sql, vec![Value::text(id.as_str())]), DOING).await?;
        rows.first().map(with_args).transpose()
    }

    pub(crate) async fn open_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, args, attached FROM approvals WHERE binding = $1 AND args IS NOT NULL AND expires_ms > $2 \
             ORDER BY expires_ms DESC LIMIT 1"
        );
        let rows = self.fetch(Statement::new(sql, vec![Value::digest(binding), Value::int(now_ms)]), DOING).await?;
        rows.first().map(with_args).transpose()
    }

    pub(crate) async fn denied_approval(
        &self,
        binding: &Digest,
        now_ms: i64,
    ) -> Result<Option<StoredApproval>, StoreError> {
        let sql = format!(
            "SELECT {COLUMNS}, args, attached FROM approvals WHERE binding = $1 AND state = 'denied' AND expires_ms > $2 \
             ORDER BY expires_ms DESC LIMIT 1"
        );
        let rows = self.fetch(Statement::new(sql, vec![Value::digest(binding), Value::int(now_ms)]), DOING).await?;
        rows.first().map(with_args).transpose()
    }

    /// Newest first.
    pub(crate) async fn approvals(
        &self,
        filter: &ApprovalFilter,
        before: Option<&ApprovalId>,
        limit: usize,
    ) -> Result<Vec<StoredApproval>, StoreError> {
        let statement = page(filter, before, limit, self.dialect());
        self.fetch(statement, DOING).await?.iter().map(approval).collect()
    }

    pub(crate) async fn count_pending(&self) -> Result<u64, StoreError> {
        let sql = "SELECT count(*) FROM approvals WHERE state = 'pending'";
        let rows = self.fetch(Statement::plain(sql), DOING).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row, "a count").number(0).map(i64::unsigned_abs))
    }

    pub(crate) async fn overdue_approvals(&self, now_ms: i64, limit: usize) -> Result<Vec<ApprovalId>, StoreError> {
        let sql = "SELECT id FROM approvals WHERE args IS NOT NULL AND expires_ms <= $1 ORDER BY expires_ms LIMIT $2";
        let rows = self.fetch(Statement::new(sql, vec![Value::int(now_ms), most(limit)]), DOING).await?;
        rows.iter().map(|row| Columns::of(row, WHAT).known(0, ApprovalId::parse)).collect()
    }

    pub(crate) async fn approvals_version(&self) -> Result<i64, StoreError> {
        let rows = self.fetch(Statement::plain("SELECT version FROM approvals_version"), DOING).await?;
        rows.first().map_or(Ok(0), |row| Columns::of(row, "the version of approvals").number(0))
    }

    pub(crate) async fn grants(&self) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let sql = format!("SELECT {GRANT_COLUMNS} FROM grants ORDER BY created_ms DESC, id DESC LIMIT {GRANTS_MAX}");
        self.fetch(Statement::new(sql, Vec::new()), DOING).await?.iter().map(grant).collect()
    }

    pub(crate) async fn grants_for(
        &self,
        agent: &str,
        tool: &ToolName,
        now_ms: i64,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let sql = format!(
            "SELECT {GRANT_COLUMNS} FROM grants WHERE agent = $1 AND tool = $2 AND expires_ms > $3 \
             AND revoked_ms IS NULL ORDER BY expires_ms LIMIT {GRANTS_MAX}"
        );
        let values = vec![Value::text(agent), Value::text(&tool.to_string()), Value::int(now_ms)];
        self.fetch(Statement::new(sql, values), DOING).await?.iter().map(grant).collect()
    }

    pub(crate) async fn grant(&self, id: &str) -> Result<Option<StoredStandingApproval>, StoreError> {
        let sql = format!("SELECT {GRANT_COLUMNS} FROM grants WHERE id = $1");
        let rows = self.fetch(Statement::new(sql, vec![Value::text(id)]), DOING).await?;
        rows.first().map(grant).transpose()
    }
}

/// For any choice of conditions there is an index on these columns and the id. PostgreSQL may think it cheaper to look
/// through everything from the newest on; asked for rows of values, and for their order, it has no other way.
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
    values.push(most(limit));
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

fn most(limit: usize) -> Value {
    Value::int(i64::try_from(limit).unwrap_or(i64::MAX))
}

const WHAT: &str = "an approval with something odd in it";

fn with_args(row: &Row) -> Result<StoredApproval, StoreError> {
    let columns = Columns::of(row, WHAT);
    let (args, attached) = (columns.exact(COLUMN_COUNT)?, columns.exact(COLUMN_COUNT + 1)?);
    Ok(StoredApproval { args, attached, ..approval(row)? })
}

fn approval(row: &Row) -> Result<StoredApproval, StoreError> {
    let columns = Columns::of(row, WHAT);
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
        shown_args: columns.untrusted(11)?.ok_or_else(|| columns.odd())?,
        attached: None,
        attached_digest: columns.digest(23)?,
        shown_attached: columns.untrusted(24)?,
        about: columns.untrusted(12)?.ok_or_else(|| columns.odd())?,
        created_ms: columns.number(13)?,
        expires_ms: columns.number(14)?,
        state: columns.known(15, ApprovalState::parse)?,
        given: columns.parsed(16, Assurance::parse)?,
        decided_by: columns.text(17)?,
        decided_ms: columns.int(18)?,
        comment: columns.untrusted(19)?,
        record: columns.record(20)?,
        consumed_ms: columns.int(22)?,
    })
}

fn grant(row: &Row) -> Result<StoredStandingApproval, StoreError> {
    let columns = Columns::of(row, "a grant with something odd in it");
    Ok(StoredStandingApproval {
        id: columns.word(0)?,
        agent: columns.word(1)?,
        tool: columns.tool(2)?,
        pin: columns.digest(3)?,
        contract: columns.digest(4)?,
        schema: columns.word(5)?,
        by: columns.word(6)?,
        reason: columns.untrusted(7)?,
        created_ms: columns.number(8)?,
        expires_ms: columns.number(9)?,
        uses: columns.count(10)?,
        uses_left: columns.count(11)?,
        revoked_ms: columns.int(12)?,
        revoked_by: columns.text(13)?,
    })
}

#[cfg(test)]
mod tests {
    use super::super::claims::FORGET;
    use super::super::steps::STATEMENTS;
    use super::*;
    use crate::Location;

    async fn plan(database: &Database, sql: &str, values: Vec<Value>) -> Vec<String> {
        let statement = Statement::new(format!("EXPLAIN QUERY PLAN {sql}"), values);
        let rows = database.fetch(statement, DOING).await.unwrap();
        rows.iter().map(|row| row.text(3).unwrap().unwrap()).collect()
    }

    async fn database(folder: &tempfile::TempDir) -> Database {
        Database::open(&Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap()
    }

    #[tokio::test]
    async fn every_choice_of_conditions_has_its_index_and_sorts_nothing() {
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
    async fn no_statement_goes_through_a_whole_table() {
        let folder = tempfile::tempdir().unwrap();
        let database = database(&folder).await;
        // These are small: whoever was invited or has signed in lately.
        let small = ["SCAN invitations", "SCAN challenges", "SCAN sessions", "SCAN approvals_version"];
        for sql in STATEMENTS.into_iter().chain(FORGET.map(|(sql, _)| sql)) {
            for step in plan(&database, sql, Vec::new()).await {
                let is_scan =
                    step.starts_with("SCAN") && !step.contains("CONSTANT") && !step.contains("USING COVERING");
                assert!(!is_scan || small.contains(&step.as_str()), "{sql}: {step}");
                assert!(!step.contains("TEMP B-TREE"), "{sql}: {step}");
            }
        }
    }
}
