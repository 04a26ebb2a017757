//! Questions about records: pages, single records and their payloads. No answer costs more because the log is longer.

use mcpproxy_core::{RiskLevel, Untrusted, Variant};

use super::read::{COLUMNS, record};
use crate::log::list::{Filter, Keys, SCAN_MAX};
use crate::record::id::Key;
use crate::sql::driver::Dialect;
use crate::sql::{Database, Row, Statement, Value};
use crate::{Kind, Record, RecordId, Status, StoreError};

const DOING: &str = "read the activity log";

type Payloads = (RecordId, Option<Untrusted>, Option<Untrusted>);

impl Database {
    /// Newest first. Looks at `SCAN_MAX` records at most.
    pub(crate) async fn records(&self, filter: &Filter, keys: &Keys, limit: usize) -> Result<Vec<Record>, StoreError> {
        let statement = Search::new(filter, keys, self.dialect()).page(limit);
        self.fetch(statement, DOING).await?.iter().map(record).collect()
    }

    /// The last record that `records` looks at, if it stops there although older ones could follow.
    pub(crate) async fn last_looked_at(&self, filter: &Filter, keys: &Keys) -> Result<Option<Key>, StoreError> {
        let search = Search::new(filter, keys, self.dialect());
        if search.rest.is_empty() {
            return Ok(None);
        }
        let rows = self.fetch(search.end(), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (key, count) = (int(row, 0)?, int(row, 1)?.unwrap_or(0));
        Ok(key.filter(|_| count >= scan_max()).map(Key))
    }

    /// The first and the last position of a chain at which something fits.
    pub(crate) async fn extent(&self, filter: &Filter, chain: u16) -> Result<Option<(i64, i64)>, StoreError> {
        let search = Search::new(filter, &filter.keys(None), self.dialect());
        let rows = self.fetch(search.extent(chain), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(int(row, 0)?.zip(int(row, 1)?.max(int(row, 2)?)))
    }

    /// Oldest first, both ends included.
    pub(crate) async fn records_between(&self, first: Key, last: Key, limit: i64) -> Result<Vec<Record>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM records WHERE key >= $1 AND key <= $2 ORDER BY key LIMIT $3");
        let values = vec![Value::int(first.0), Value::int(last.0), Value::int(limit)];
        self.fetch(Statement::new(sql, values), DOING).await?.iter().map(record).collect()
    }

    /// Of those records that have any, in the order of the ids.
    pub(crate) async fn payloads(&self, ids: &[RecordId]) -> Result<Vec<Payloads>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut places = Places::default();
        let list: Vec<String> = ids.iter().map(|id| places.take(Value::int(id.key().0))).collect();
        let sql = format!("SELECT key, args, result FROM payloads WHERE key IN ({})", list.join(","));
        let mut found = std::collections::HashMap::new();
        for row in self.fetch(Statement::new(sql, places.values), DOING).await? {
            found.insert(int(&row, 0)?, (text(&row, 1)?.map(Untrusted::new), text(&row, 2)?.map(Untrusted::new)));
        }
        let of = |id: &RecordId| found.remove(&Some(id.key().0)).map(|(args, result)| (*id, args, result));
        Ok(ids.iter().filter_map(of).collect())
    }
}

/// One condition has an index, and finds what is looked at. The others choose from that.
struct Search {
    dialect: Dialect,
    /// The values of `first` come first.
    places: Places,
    first: String,
    first_values: usize,
    rest: Vec<String>,
    order: String,
}

impl Search {
    fn new(filter: &Filter, keys: &Keys, dialect: Dialect) -> Self {
        let mut places = Places::default();
        let range = (places.take(Value::int(keys.from)), places.take(Value::int(keys.before)));
        let given: Vec<_> =
            conditions(filter).into_iter().filter_map(|(column, word, index)| Some((column, word?, index))).collect();
        let indexed = given.iter().position(|(.., index)| matches!(index, Index::Full | Index::Where(_)));
        let (first, order) = match indexed.and_then(|position| given.get(position)) {
            Some((column, word, index)) => by_index(dialect, &range, column, &places.take(Value::text(word)), index),
            None => (format!("key >= {} AND key < {}", range.0, range.1), " ORDER BY key DESC".to_owned()),
        };
        let first_values = places.values.len();
        let others = given.iter().enumerate().filter(|(position, _)| Some(*position) != indexed);
        let rest =
            others.map(|(_, (column, word, _))| format!("{column} = {}", places.take(Value::text(word)))).collect();
        let mut search = Self { dialect, places, first, first_values, rest, order };
        search.add_text(filter);
        search
    }

    fn add_text(&mut self, filter: &Filter) {
        if let Some(part) = filter.part() {
            let place = self.places.take(Value::text(&part));
            let both = "(server || ':' || tool)";
            let columns = ["tool", "server", both, "agent", "client", "code", "message", "metadata", "end_metadata"];
            let found = |column| match self.dialect {
                Dialect::Sqlite => format!("instr(lower({column}), {place}) > 0"),
                // Small letters of ASCII only, whatever the database's language: SQLite knows no others.
                Dialect::Postgres => format!("strpos(lower({column} COLLATE \"C\"), {place}) > 0"),
            };
            let mut ways = columns.map(found).to_vec();
            if let Some(id) = filter.named() {
                let (key, tail) = (Value::int(id.key().0), Value::int(id.tail()));
                ways.push(format!("(key = {} AND tail = {})", self.places.take(key), self.places.take(tail)));
            }
            self.rest.push(format!("({})", ways.join(" OR ")));
        }
    }

    fn page(mut self, limit: usize) -> Statement {
        let limit = self.places.take(Value::int(i64::try_from(limit).unwrap_or(i64::MAX)));
        let looked = format!("SELECT {COLUMNS} FROM records WHERE {}{} LIMIT ", self.first, self.order);
        let sql = if self.rest.is_empty() {
            looked + &limit
        } else {
            let rest = self.rest.join(" AND ");
            let scan = self.places.take(Value::int(scan_max()));
            // SQLite would sort again what is in order already, and look at everything before it answers.
            let order = if self.dialect == Dialect::Sqlite { "" } else { self.order.as_str() };
            format!("SELECT {COLUMNS} FROM ({looked}{scan}) AS looked WHERE {rest}{order} LIMIT {limit}")
        };
        Statement::new(sql, self.places.values)
    }

    /// Over all records, however many: who asks this reads them all anyway.
    fn extent(mut self, chain: u16) -> Statement {
        let chain = self.places.take(Value::int(chain.into()));
        let conditions = [self.first, format!("chain = {chain}")].into_iter().chain(self.rest);
        let conditions = conditions.collect::<Vec<_>>().join(" AND ");
        let sql = format!("SELECT min(seq), max(seq), max(end_seq) FROM records WHERE {conditions}");
        Statement::new(sql, self.places.values)
    }

    /// The oldest that is looked at, and how many those are.
    fn end(self) -> Statement {
        let Self { mut places, first, first_values, order, .. } = self;
        places.values.truncate(first_values);
        let scan = places.take(Value::int(scan_max()));
        let looked = format!("SELECT key FROM records WHERE {first}{order} LIMIT {scan}");
        Statement::new(format!("SELECT min(key), count(*) FROM ({looked}) AS looked"), places.values)
    }
}

/// Finds rows by an index on a column and the key, and by no other. SQLite takes such an index for what it is.
/// PostgreSQL may think it cheaper to go back through all records until enough were found, however long that takes;
/// asked in pairs, and for their order, it has no other way.
fn by_index(
    dialect: Dialect,
    (from, before): &(String, String),
    column: &str,
    word: &str,
    index: &Index,
) -> (String, String) {
    let also = match index {
        Index::Where(also) => (*also).to_owned(),
        Index::Full | Index::None => format!(" AND {column} IS NOT NULL"),
    };
    match dialect {
        Dialect::Sqlite => {
            (format!("{column} = {word} AND key >= {from} AND key < {before}{also}"), " ORDER BY key DESC".to_owned())
        }
        Dialect::Postgres => (
            format!("({column}, key) >= ({word}, {from}) AND ({column}, key) < ({word}, {before}){also}"),
            format!(" ORDER BY {column} DESC, key DESC"),
        ),
    }
}

enum Index {
    Full,
    /// Only of the rows with this condition, which must be repeated where it is to be used.
    Where(&'static str),
    None,
}

/// The sooner, the fewer records a condition usually leaves.
fn conditions(filter: &Filter) -> [(&'static str, Option<&str>, Index); 7] {
    let status = match filter.status {
        Some(Status::Success) | None => Index::None,
        Some(_) => Index::Where(" AND status <> 'success'"),
    };
    let kind = match filter.kind {
        Some(Kind::Call) | None => Index::None,
        Some(_) => Index::Where(" AND kind <> 'call'"),
    };
    [
        ("tool", filter.tool.as_deref(), Index::Full),
        ("status", filter.status.map(Status::as_str), status),
        ("kind", filter.kind.map(Kind::as_str), kind),
        ("agent", filter.agent.as_deref(), Index::Full),
        ("server", filter.server.as_deref(), Index::Full),
        ("risk", filter.risk.map(RiskLevel::as_str), Index::Full),
        ("intent_type", filter.intent_type.map(Variant::operation), Index::Full),
    ]
}

/// Values, and the places that stand for them.
#[derive(Default)]
struct Places {
    values: Vec<Value>,
}

impl Places {
    fn take(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
}

fn scan_max() -> i64 {
    i64::try_from(SCAN_MAX).unwrap_or(i64::MAX)
}

pub(super) fn int(row: &Row, column: usize) -> Result<Option<i64>, StoreError> {
    row.int(column).map_err(StoreError::while_trying(DOING))
}

pub(super) fn text(row: &Row, column: usize) -> Result<Option<String>, StoreError> {
    row.text(column).map_err(StoreError::while_trying(DOING))
}

#[cfg(test)]
mod tests {
    use super::*;

    async fn plan(database: &Database, statement: Statement) -> Vec<String> {
        let statement = Statement::new(format!("EXPLAIN QUERY PLAN {}", statement.sql), statement.values);
        let rows = database.fetch(statement, DOING).await.unwrap();
        rows.iter().map(|row| text(row, 3).unwrap().unwrap()).collect()
    }

    #[tokio::test]
    async fn every_filter_has_its_index_and_sorts_nothing() {
        let folder = tempfile::tempdir().unwrap();
        let database = Database::open(&crate::Location::Sqlite(folder.path().join("mcpproxy.db"))).await.unwrap();
        let some = |text: &str| Some(text.to_owned());
        let key = "SEARCH records USING INTEGER PRIMARY KEY (rowid>? AND rowid<?)".to_owned();
        let index =
            |column: &str| format!("SEARCH records USING INDEX records_{column} ({column}=? AND key>? AND key<?)");
        let cases = [
            (Filter::default(), key.clone()),
            (Filter { status: Some(Status::Success), ..Filter::default() }, key.clone()),
            (Filter { kind: Some(Kind::Call), ..Filter::default() }, key.clone()),
            (Filter { text: some("q"), ..Filter::default() }, key.clone()),
            (Filter { since_ms: Some(1), until_ms: Some(2), ..Filter::default() }, key),
            (Filter { status: Some(Status::Error), ..Filter::default() }, index("status")),
            (Filter { kind: Some(Kind::Refusal), ..Filter::default() }, index("kind")),
            (Filter { tool: some("t"), ..Filter::default() }, index("tool")),
            (Filter { server: some("s"), ..Filter::default() }, index("server")),
            (Filter { agent: some("a"), ..Filter::default() }, index("agent")),
            (Filter { risk: Some(RiskLevel::High), ..Filter::default() }, index("risk")),
            (Filter { intent_type: Some(Variant::Destructive), ..Filter::default() }, index("intent_type")),
            (Filter { agent: some("a"), tool: some("t"), text: some("q"), ..Filter::default() }, index("tool")),
            (Filter { agent: some("a"), status: Some(Status::Success), ..Filter::default() }, index("agent")),
            (Filter { agent: some("a"), status: Some(Status::Error), ..Filter::default() }, index("status")),
        ];
        for (filter, expected) in cases {
            let search = || Search::new(&filter, &filter.keys(None), database.dialect());
            let page = plan(&database, search().page(50)).await;
            // Row by row: the outer question stops the inner one as soon as it has enough.
            let allowed = |step: &String| *step == expected || step == "CO-ROUTINE looked" || step == "SCAN looked";
            assert!(page.contains(&expected) && page.iter().all(allowed), "{filter:?}: {page:?}");
            let end = plan(&database, search().end()).await;
            let covering = expected.replace("USING INDEX", "USING COVERING INDEX");
            assert!(end.contains(&covering) && !end.iter().any(|step| step.contains("B-TREE")), "{filter:?}: {end:?}");
        }
    }
}
