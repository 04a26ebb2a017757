//! Standing approvals: a user's approval for a bounded set of calls. The table is called `grants`.

use mcpproxy_core::{Digest, ToolName, Untrusted};

use crate::sql::columns::Columns;
use crate::sql::{Row, Statement, Value};
use crate::{Store, StoreError};

const DOING: &str = "read the standing approvals";
const COLUMNS: &str = "id, agent, tool, pin, contract, schema, granted_by, reason, created_ms, expires_ms, uses, uses_left, \
     revoked_ms, revoked_by, intent";
/// Users create standing approvals one by one, so real lists are far shorter.
const ROWS_MAX: i64 = 1000;

#[derive(Clone, Debug)]
pub struct NewStandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    /// A JSON Schema that the arguments must match.
    pub schema: String,
    pub by: String,
    pub reason: Option<String>,
    /// The intent of the call that it was given for, as JSON.
    pub intent: Option<String>,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub uses: u32,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StoredStandingApproval {
    pub id: String,
    pub agent: String,
    pub tool: ToolName,
    pub pin: Digest,
    pub contract: Digest,
    pub schema: String,
    pub by: String,
    pub reason: Option<Untrusted>,
    /// The intent of the call that it was given for, as JSON. `None` if it is older than this column.
    pub intent: Option<Untrusted>,
    pub created_ms: i64,
    pub expires_ms: i64,
    pub uses: u32,
    pub uses_left: u32,
    pub revoked_ms: Option<i64>,
    pub revoked_by: Option<String>,
}

impl StoredStandingApproval {
    /// Returns `true` if it can still be used.
    pub fn is_live(&self, now_ms: i64) -> bool {
        self.revoked_ms.is_none() && self.expires_ms > now_ms && self.uses_left > 0
    }
}

impl Store {
    /// Lists standing approvals, newest first. Those that are revoked, expired or used up are listed only with
    /// `include_over`.
    pub async fn list_standing_approvals(
        &self,
        include_over: bool,
        now_ms: i64,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let mut found =
            self.standing_approvals(&format!("ORDER BY created_ms DESC, id DESC LIMIT {ROWS_MAX}"), vec![]).await?;
        found.retain(|standing| include_over || standing.is_live(now_ms));
        Ok(found)
    }

    /// Lists the standing approvals that could cover a call of this agent, the first to expire first.
    pub async fn standing_approvals_for(
        &self,
        agent: &str,
        tool: &ToolName,
        now_ms: i64,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let condition = format!(
            "WHERE agent = $1 AND tool = $2 AND expires_ms > $3 AND revoked_ms IS NULL ORDER BY expires_ms LIMIT {ROWS_MAX}"
        );
        let values = vec![Value::text(agent), Value::text(&tool.to_string()), Value::int(now_ms)];
        let mut found = self.standing_approvals(&condition, values).await?;
        found.retain(|standing| standing.is_live(now_ms));
        Ok(found)
    }

    pub async fn find_standing_approval(&self, id: &str) -> Result<Option<StoredStandingApproval>, StoreError> {
        Ok(self.standing_approvals("WHERE id = $1", vec![Value::text(id)]).await?.pop())
    }

    async fn standing_approvals(
        &self,
        condition: &str,
        values: Vec<Value>,
    ) -> Result<Vec<StoredStandingApproval>, StoreError> {
        let statement = Statement::new(format!("SELECT {COLUMNS} FROM grants {condition}"), values);
        self.database().fetch(statement, DOING).await?.iter().map(standing).collect()
    }
}

fn standing(row: &Row) -> Result<StoredStandingApproval, StoreError> {
    let columns = Columns::of(row, "a malformed standing approval");
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
        intent: columns.untrusted(14)?,
    })
}
