//! Queries for records: pages, single records and payloads. No query gets slower as the log grows.
//!
//! A filter can have several conditions. The first one with an index finds candidates in the order of their keys, and
//! the other conditions are applied to at most `SCAN_MAX` candidates. So a rare match costs a bounded scan, and the
//! page says how far it searched.

use mcpproxy_core::{RiskLevel, Untrusted, Variant};

use super::read::{COLUMNS, record};
use crate::log::filter::{Filter, Keys, SCAN_MAX};
use crate::record::id::Key;
use crate::sql::driver::Dialect;
use crate::sql::{Database, Row, Statement, Value};
use crate::{Kind, Record, RecordId, Status, StoreError};

const DOING: &str = "read the activity log";

type Payloads = (RecordId, Option<Untrusted>, Option<Untrusted>);

impl Database {
    /// Lists records, newest first. Searches at most `scan` records.
    pub(crate) async fn records(
        &self,
        filter: &Filter,
        keys: &Keys,
        limit: usize,
        scan: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let search = |keys: &Keys| Search::new(filter, keys, Order::NewestFirst, self.dialect());
        let whole = search(keys);
        // Without an index of its own, a page reads the partitions in their order. With further conditions, looking for
        // candidates takes most of the time, and their number is limited.
        let may_split = whole.rest.is_empty() && has_indexed_condition(filter);
        let recent_from = if may_split { self.recent_from(keys).await } else { None };
        let Some(from) = recent_from else {
            return self.fetch(whole.page(limit, scan), DOING).await?.iter().map(record).collect();
        };
        let recent = search(&Keys { from, ..*keys }).in_partitions();
        let mut rows = self.fetch(recent.page(limit, scan), DOING).await?;
        if rows.len() < limit {
            rows.extend(self.fetch(search(&Keys { before: from, ..*keys }).page(limit, scan), DOING).await?);
        }
        rows.iter().take(limit).map(record).collect()
    }

    /// Lists records, oldest first. Searches at most `SCAN_MAX` records.
    pub(crate) async fn oldest_records(
        &self,
        filter: &Filter,
        keys: &Keys,
        limit: usize,
    ) -> Result<Vec<Record>, StoreError> {
        let statement = Search::new(filter, keys, Order::OldestFirst, self.dialect()).page(limit, SCAN_MAX);
        self.fetch(statement, DOING).await?.iter().map(record).collect()
    }

    /// The last record that `records` searches, if it stops there before the end of the log.
    pub(crate) async fn last_searched(
        &self,
        filter: &Filter,
        keys: &Keys,
        scan: usize,
    ) -> Result<Option<Key>, StoreError> {
        let search = Search::new(filter, keys, Order::NewestFirst, self.dialect());
        if search.rest.is_empty() {
            return Ok(None);
        }
        let rows = self.fetch(search.end(scan), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        let (key, count) = (int(row, 0)?, int(row, 1)?.unwrap_or(0).unsigned_abs());
        Ok(key.filter(|_| usize::try_from(count).is_ok_and(|count| count >= scan)).map(Key))
    }

    /// The first and last position of a chain with a matching record.
    pub(crate) async fn extent(&self, filter: &Filter, chain: u16) -> Result<Option<(i64, i64)>, StoreError> {
        let search = Search::new(filter, &filter.keys(None), Order::NewestFirst, self.dialect());
        let rows = self.fetch(search.extent(chain), DOING).await?;
        let Some(row) = rows.first() else { return Ok(None) };
        Ok(int(row, 0)?.zip(int(row, 1)?.max(int(row, 2)?)))
    }

    /// Lists records, oldest first. Both keys are inclusive.
    pub(crate) async fn records_between(&self, first: Key, last: Key, limit: i64) -> Result<Vec<Record>, StoreError> {
        let sql = format!("SELECT {COLUMNS} FROM records WHERE key >= $1 AND key <= $2 ORDER BY key LIMIT $3");
        let values = vec![Value::int(first.0), Value::int(last.0), Value::int(limit)];
        self.fetch(Statement::new(sql, values), DOING).await?.iter().map(record).collect()
    }

    /// Returns the status of records, in the order of `ids`.
    pub(crate) async fn statuses(&self, ids: &[RecordId]) -> Result<Vec<(RecordId, Status)>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut parameters = Parameters::default();
        let list: Vec<String> = ids.iter().map(|id| parameters.add(Value::int(id.key().0))).collect();
        let sql = format!("SELECT key, status FROM records WHERE key IN ({})", list.join(","));
        let mut found = std::collections::HashMap::new();
        for row in self.fetch(Statement::new(sql, parameters.values), DOING).await? {
            found.insert(int(&row, 0)?, text(&row, 1)?.as_deref().and_then(Status::parse));
        }
        let of = |id: &RecordId| Some((*id, found.get(&Some(id.key().0)).copied().flatten()?));
        Ok(ids.iter().filter_map(of).collect())
    }

    /// Returns the payloads of records that have any, in the order of `ids`.
    pub(crate) async fn payloads(&self, ids: &[RecordId]) -> Result<Vec<Payloads>, StoreError> {
        if ids.is_empty() {
            return Ok(Vec::new());
        }
        let mut parameters = Parameters::default();
        let list: Vec<String> = ids.iter().map(|id| parameters.add(Value::int(id.key().0))).collect();
        let sql = format!("SELECT key, args, result FROM payloads WHERE key IN ({})", list.join(","));
        let mut found = std::collections::HashMap::new();
        for row in self.fetch(Statement::new(sql, parameters.values), DOING).await? {
            found.insert(int(&row, 0)?, (text(&row, 1)?.map(Untrusted::new), text(&row, 2)?.map(Untrusted::new)));
        }
        let of = |id: &RecordId| found.remove(&Some(id.key().0)).map(|(args, result)| (*id, args, result));
        Ok(ids.iter().filter_map(of).collect())
    }
}

/// A query whose first condition uses an index. The other conditions filter its results.
pub(super) struct Search {
    dialect: Dialect,
    /// The values of `first` are at the start.
    parameters: Parameters,
    first: String,
    first_values: usize,
    rest: Vec<String>,
    order: String,
}

impl Search {
    fn new(filter: &Filter, keys: &Keys, order: Order, dialect: Dialect) -> Self {
        let mut parameters = Parameters::default();
        let range = (parameters.add(Value::int(keys.from)), parameters.add(Value::int(keys.before)));
        let given: Vec<_> =
            conditions(filter).into_iter().filter_map(|(column, word, index)| Some((column, word?, index))).collect();
        let indexed = given.iter().position(|(.., index)| matches!(index, Index::Full | Index::Where(_)));
        let (first, order) = match indexed.and_then(|position| given.get(position)) {
            Some((column, word, index)) => {
                by_index(dialect, &range, column, &parameters.add(Value::text(word)), index, order)
            }
            None => (by_key(dialect, &range), format!(" ORDER BY key{}", order.sql())),
        };
        let first_values = parameters.values.len();
        let others = given.iter().enumerate().filter(|(position, _)| Some(*position) != indexed);
        let rest =
            others.map(|(_, (column, word, _))| format!("{column} = {}", parameters.add(Value::text(word)))).collect();
        let mut search = Self { dialect, parameters, first, first_values, rest, order };
        search.add_members(filter);
        search.add_text(filter);
        search
    }

    /// Tells PostgreSQL which partitions it needs. It does not recognize that in a row value. Of a small table, it then expects
    /// so few rows that it might read and sort them, so this is for large ones.
    fn in_partitions(mut self) -> Self {
        self.first.push_str(" AND key >= $1");
        self
    }

    /// A search among the rows that `first` finds, whatever their keys. The values of `first` are in `parameters`.
    pub(super) fn among(filter: &Filter, keys: &Keys, first: String, parameters: Parameters, dialect: Dialect) -> Self {
        let first_values = parameters.values.len();
        let mut search = Self { dialect, parameters, first, first_values, rest: Vec::new(), order: String::new() };
        let (from, before) =
            (search.parameters.add(Value::int(keys.from)), search.parameters.add(Value::int(keys.before)));
        search.rest.push(format!("key >= {from} AND key < {before}"));
        for (column, word, _) in conditions(filter) {
            let Some(word) = word else { continue };
            search.rest.push(format!("{column} = {}", search.parameters.add(Value::text(word))));
        }
        search.add_members(filter);
        search.add_text(filter);
        search
    }

    /// The newest matches among at most `scan` rows. The limit inside keeps the database from choosing another index.
    pub(super) fn newest(mut self, limit: usize, scan: usize) -> Statement {
        let (limit, scan) = (self.parameters.add(Value::limit(limit)), self.parameters.add(Value::limit(scan)));
        let Self { first, rest, .. } = &self;
        let rest = rest.join(" AND ");
        let candidates = format!("SELECT {COLUMNS} FROM records WHERE {first} LIMIT {scan}");
        let sql =
            format!("SELECT {COLUMNS} FROM ({candidates}) AS candidates WHERE {rest} ORDER BY key DESC LIMIT {limit}");
        Statement::new(sql, self.parameters.values)
    }

    fn add_members(&mut self, filter: &Filter) {
        for (text, wanted) in filter.members() {
            let placeholder = self.parameters.add(Value::text(&text));
            let position = match self.dialect {
                Dialect::Sqlite => format!("instr(metadata, {placeholder})"),
                Dialect::Postgres => format!("strpos(metadata, {placeholder})"),
            };
            self.rest.push(format!("{position} {} 0", if wanted { ">" } else { "=" }));
        }
    }

    fn add_text(&mut self, filter: &Filter) {
        if let Some(part) = filter.part() {
            let placeholder = self.parameters.add(Value::text(&part));
            let both = "(server || ':' || tool)";
            let columns = ["tool", "server", both, "agent", "client", "code", "message", "metadata", "end_metadata"];
            let found = |column| match self.dialect {
                Dialect::Sqlite => format!("instr(lower({column}), {placeholder}) > 0"),
                // `COLLATE "C"` lowers ASCII letters only, as SQLite does.
                Dialect::Postgres => format!("strpos(lower({column} COLLATE \"C\"), {placeholder}) > 0"),
            };
            let mut alternatives = columns.map(found).to_vec();
            if let Some(id) = filter.named() {
                let (key, tail) = (Value::int(id.key().0), Value::int(id.tail()));
                alternatives.push(format!(
                    "(key = {} AND tail = {})",
                    self.parameters.add(key),
                    self.parameters.add(tail)
                ));
            }
            self.rest.push(format!("({})", alternatives.join(" OR ")));
        }
    }

    /// The limits are part of the text. PostgreSQL plans a statement once, and for a tenth of the table if it does not know
    /// the limit.
    fn page(self, limit: usize, scan: usize) -> Statement {
        let candidates = format!("SELECT {COLUMNS} FROM records WHERE {}{} LIMIT ", self.first, self.order);
        let sql = if self.rest.is_empty() {
            format!("{candidates}{limit}")
        } else {
            let rest = self.rest.join(" AND ");
            // With an outer ORDER BY, SQLite would read and sort all candidates first.
            let order = if self.dialect == Dialect::Sqlite { "" } else { self.order.as_str() };
            format!("SELECT {COLUMNS} FROM ({candidates}{scan}) AS candidates WHERE {rest}{order} LIMIT {limit}")
        };
        Statement::new(sql, self.parameters.values)
    }

    /// Searches all records: an export reads them all anyway.
    fn extent(mut self, chain: u16) -> Statement {
        let chain = self.parameters.add(Value::int(chain.into()));
        let conditions = [self.first, format!("chain = {chain}")].into_iter().chain(self.rest);
        let conditions = conditions.collect::<Vec<_>>().join(" AND ");
        let sql = format!("SELECT min(seq), max(seq), max(end_seq) FROM records WHERE {conditions}");
        Statement::new(sql, self.parameters.values)
    }

    /// The oldest candidate, and the number of candidates.
    fn end(self, scan: usize) -> Statement {
        let Self { mut parameters, first, first_values, order, .. } = self;
        parameters.values.truncate(first_values);
        let scan = parameters.add(Value::limit(scan));
        let candidates = format!("SELECT key FROM records WHERE {first}{order} LIMIT {scan}");
        Statement::new(format!("SELECT min(key), count(*) FROM ({candidates}) AS candidates"), parameters.values)
    }
}

/// Finds rows by their keys. PostgreSQL plans a statement once, without the values, and takes two ends for a small range. It
/// might read and sort all of it. It does not recognize an end in a row value.
fn by_key(dialect: Dialect, (from, before): &(String, String)) -> String {
    match dialect {
        Dialect::Sqlite => format!("key >= {from} AND key < {before}"),
        Dialect::Postgres => format!("(key, tail) >= ({from}, {}) AND key < {before}", i64::MIN),
    }
}

/// Finds rows by the index on a column and the key. SQLite chooses that index by itself. PostgreSQL may prefer to scan
/// all records from the newest until it has found enough. Comparing row values, and ordering by them, leaves it only
/// the index.
fn by_index(
    dialect: Dialect,
    (from, before): &(String, String),
    column: &str,
    word: &str,
    index: &Index,
    order: Order,
) -> (String, String) {
    let also = match index {
        Index::Where(also) => (*also).to_owned(),
        Index::Full | Index::None => format!(" AND {column} IS NOT NULL"),
    };
    let order = order.sql();
    match dialect {
        Dialect::Sqlite => {
            (format!("{column} = {word} AND key >= {from} AND key < {before}{also}"), format!(" ORDER BY key{order}"))
        }
        Dialect::Postgres => (
            format!("({column}, key) >= ({word}, {from}) AND ({column}, key) < ({word}, {before}){also}"),
            format!(" ORDER BY {column}{order}, key{order}"),
        ),
    }
}

/// The order of the results, and the end at which a search begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Order {
    NewestFirst,
    OldestFirst,
}

impl Order {
    fn sql(self) -> &'static str {
        match self {
            Self::NewestFirst => " DESC",
            Self::OldestFirst => "",
        }
    }
}

enum Index {
    Full,
    /// A partial index. The query must repeat its condition.
    Where(&'static str),
    None,
}

/// Ordered by how few records a condition usually leaves.
fn conditions(filter: &Filter) -> [(&'static str, Option<&str>, Index); 8] {
    let status = match filter.status {
        Some(Status::Success) | None => Index::None,
        Some(_) => Index::Where(" AND status <> 'success'"),
    };
    let kind = match filter.kind {
        Some(Kind::Call) | None => Index::None,
        Some(_) => Index::Where(" AND kind <> 'call'"),
    };
    let risk = match filter.risk {
        Some(RiskLevel::Low) | None => Index::None,
        Some(_) => Index::Where(" AND risk <> 'low'"),
    };
    let intent_type = match filter.intent_type {
        Some(Variant::Read) | None => Index::None,
        Some(_) => Index::Where(" AND intent_type <> 'read'"),
    };
    [
        ("tool", filter.tool.as_deref(), Index::Full),
        ("status", filter.status.map(Status::as_str), status),
        ("kind", filter.kind.map(Kind::as_str), kind),
        ("agent", filter.agent.as_deref(), Index::Full),
        ("server", filter.server.as_deref(), Index::Full),
        ("risk", filter.risk.map(RiskLevel::as_str), risk),
        ("intent_type", filter.intent_type.map(Variant::operation), intent_type),
        ("code", filter.code.as_deref(), Index::None),
    ]
}

/// Tells if a condition other than the text finds its records through an index.
pub(in crate::log) fn has_indexed_condition(filter: &Filter) -> bool {
    conditions(filter).iter().any(|(_, word, index)| match index {
        Index::Full | Index::Where(_) => word.is_some(),
        Index::None => false,
    })
}

/// Values and their placeholders.
#[derive(Default)]
pub(super) struct Parameters {
    pub(super) values: Vec<Value>,
}

impl Parameters {
    pub(super) fn add(&mut self, value: Value) -> String {
        self.values.push(value);
        format!("${}", self.values.len())
    }
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
    async fn every_filter_uses_its_index_without_sorting() {
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
            (Filter { intent_type: Some(Variant::Read), ..Filter::default() }, key.clone()),
            (Filter { risk: Some(RiskLevel::Low), ..Filter::default() }, key.clone()),
            (Filter { text: some("q"), ..Filter::default() }, key.clone()),
            (Filter { code: some("c"), ..Filter::default() }, key.clone()),
            (Filter { category: some("c"), dry_run: Some(false), ..Filter::default() }, key.clone()),
            (Filter { since_ms: Some(1), until_ms: Some(2), ..Filter::default() }, key),
            (Filter { status: Some(Status::Error), ..Filter::default() }, index("status")),
            (Filter { kind: Some(Kind::Refusal), ..Filter::default() }, index("kind")),
            (Filter { tool: some("t"), ..Filter::default() }, index("tool")),
            (Filter { server: some("s"), ..Filter::default() }, index("server")),
            (Filter { agent: some("a"), ..Filter::default() }, index("agent")),
            (Filter { risk: Some(RiskLevel::High), ..Filter::default() }, index("risk")),
            (Filter { risk: Some(RiskLevel::Medium), ..Filter::default() }, index("risk")),
            (Filter { intent_type: Some(Variant::Write), ..Filter::default() }, index("intent_type")),
            (Filter { intent_type: Some(Variant::Destructive), ..Filter::default() }, index("intent_type")),
            (Filter { server: some("s"), intent_type: Some(Variant::Read), ..Filter::default() }, index("server")),
            (Filter { agent: some("a"), tool: some("t"), text: some("q"), ..Filter::default() }, index("tool")),
            (Filter { agent: some("a"), status: Some(Status::Success), ..Filter::default() }, index("agent")),
            (Filter { agent: some("a"), status: Some(Status::Error), ..Filter::default() }, index("status")),
            (Filter { code: some("c"), status: Some(Status::Refused), ..Filter::default() }, index("status")),
        ];
        let orders = [Order::NewestFirst, Order::OldestFirst];
        for ((filter, expected), order) in cases.iter().flat_map(|case| orders.map(|order| (case, order))) {
            let (filter, expected) = (filter.clone(), expected.clone());
            assert_eq!(has_indexed_condition(&filter), expected.contains("USING INDEX"), "{filter:?}");
            let search = || Search::new(&filter, &filter.keys(None), order, database.dialect());
            let page = plan(&database, search().page(50, SCAN_MAX)).await;
            // A co-routine stops the inner query as soon as the outer one has enough rows.
            let allowed =
                |step: &String| *step == expected || step == "CO-ROUTINE candidates" || step == "SCAN candidates";
            assert!(page.contains(&expected) && page.iter().all(allowed), "{filter:?}: {page:?}");
            let end = plan(&database, search().end(SCAN_MAX)).await;
            let covering = expected.replace("USING INDEX", "USING COVERING INDEX");
            assert!(end.contains(&covering) && !end.iter().any(|step| step.contains("B-TREE")), "{filter:?}: {end:?}");
        }
    }
}
