//! Statements that insert or update many rows at once.
//!
//! A [`Form`] is written once, with a source of rows named `v`, whose columns are `column1`, `column2` and so on. The
//! source is where the databases differ:
//!
//! | database | source | rows |
//! |---|---|---|
//! | SQLite | `(VALUES (?,?),(?,?))` | one of the sizes 1, 2, 4 … 256, filled up with rows of NULL |
//! | PostgreSQL | `unnest($1::bigint[],$2::text[])` | any number, as one array for each column |
//!
//! A SQLite batch of any size uses a few prepared statements. Filling up is cheaper than preparing another statement,
//! and the forms ignore rows without a first column. PostgreSQL can write several tables with one statement, so a whole
//! batch is one text there ([`combined`]). It takes a single round trip, and needs no `BEGIN` and no `COMMIT`.
//!
//! SQLite can undo a single statement of a transaction. For that it copies every page that the statement changes. A
//! batch is written as a whole or not at all, so an error may as well roll back the transaction: `OR ROLLBACK` says so
//! and saves the copies.

use std::sync::Arc;

use super::driver::{Dialect, Statement, Value};

/// Row counts of the prepared statements.
const SIZES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SIZE_MAX: usize = 256;

/// A statement for many rows: the text before and after their source.
pub(crate) struct Form {
    pub(crate) begin: &'static str,
    pub(crate) columns: &'static [Column],
    pub(crate) end: &'static str,
}

#[derive(Clone, Copy)]
pub(crate) enum Column {
    Int,
    Text,
    Bytes,
}

/// A form in all sizes, for SQLite.
pub(crate) struct Bulk {
    sizes: Vec<(usize, Arc<str>)>,
    columns: &'static [Column],
}

impl Bulk {
    pub(crate) fn new(form: &Form) -> Self {
        let row = format!("({})", vec!["?"; form.columns.len()].join(","));
        let size = |rows: usize| {
            let rows_text = vec![row.as_str(); rows].join(",");
            (rows, format!("{}(VALUES {rows_text}) AS v{}", sqlite_begin(form), form.end).into())
        };
        Self { sizes: SIZES.into_iter().map(size).collect(), columns: form.columns }
    }

    /// Appends as few statements as possible for these values, row by row. The first value of a row must not be NULL.
    pub(crate) fn fill(&self, mut values: Vec<Value>, statements: &mut Vec<Statement>) {
        let width = self.columns.len();
        while !values.is_empty() {
            let rows = (values.len() / width).clamp(1, SIZE_MAX);
            let rest = values.split_off(values.len().min(rows * width));
            let Some((size, sql)) = self.sizes.iter().find(|(size, _)| *size >= rows) else { return };
            values.reserve_exact(size * width - values.len());
            let null_row = self.columns.iter().map(|column| column.null());
            values.extend(std::iter::repeat_n(null_row, size - rows).flatten());
            statements.push(Statement { sql: Arc::clone(sql), values });
            values = rest;
        }
    }
}

/// Joins the forms into one PostgreSQL statement. Its values are those that [`arrays`] makes of the rows of each form,
/// in this order. No form may change a row that another one writes: all of them see the tables as they were before.
pub(crate) fn combined(forms: &[&Form]) -> Arc<str> {
    let mut next = 1;
    let texts: Vec<String> = forms
        .iter()
        .enumerate()
        .map(|(index, form)| {
            let Form { begin, columns, end } = form;
            let places = columns.iter().zip(next..).map(|(column, place)| format!("${place}::{}", column.array()));
            let names = (1..=columns.len()).map(|number| format!("column{number}"));
            let (places, names) = (places.collect::<Vec<_>>().join(","), names.collect::<Vec<_>>().join(","));
            next += columns.len();
            let text = format!("{begin}unnest({places}) AS v({names}){end}");
            match index + 1 == forms.len() {
                true => text,
                false => format!("part{index} AS ({text})"),
            }
        })
        .collect();
    match texts.split_last() {
        Some((last, [])) => last.as_str().into(),
        Some((last, others)) => format!("WITH {} {last}", others.join(", ")).into(),
        None => "".into(),
    }
}

/// Turns values, row by row, into one array for each column.
pub(crate) fn arrays(form: &Form, mut rows: Vec<Value>, values: &mut Vec<Value>) {
    let width = form.columns.len();
    for (index, column) in form.columns.iter().enumerate() {
        let cells = rows.iter_mut().skip(index).step_by(width);
        values.push(match column {
            Column::Int => Value::Ints(cells.map(|cell| cell.to_int()).collect()),
            Column::Text => Value::Texts(cells.map(Value::take_text).collect()),
            Column::Bytes => Value::Blobs(cells.map(Value::take_bytes).collect()),
        });
    }
}

/// The statements that write these values, row by row, with a form that is used rarely. No rows, no statement.
pub(crate) fn statements(form: &Form, dialect: Dialect, rows: Vec<Value>) -> Vec<Statement> {
    let mut statements = Vec::new();
    if rows.is_empty() {
        return statements;
    }
    match dialect {
        Dialect::Sqlite => Bulk::new(form).fill(rows, &mut statements),
        Dialect::Postgres => {
            let mut values = Vec::with_capacity(form.columns.len());
            arrays(form, rows, &mut values);
            statements.push(Statement { sql: combined(&[form]), values });
        }
    }
    statements
}

impl Column {
    fn null(self) -> Value {
        match self {
            Self::Int => Value::Int(None),
            Self::Text => Value::Text(None),
            Self::Bytes => Value::Bytes(None),
        }
    }

    pub(crate) fn array(self) -> &'static str {
        match self {
            Self::Int => "bigint[]",
            Self::Text => "text[]",
            Self::Bytes => "bytea[]",
        }
    }
}

/// The first words of the statement. An `INSERT` with `ON CONFLICT` is also an update, which `OR` does not reach. A
/// `DELETE` has no `OR`.
fn sqlite_begin(form: &Form) -> String {
    match form.begin.split_once(' ') {
        Some((verb @ ("INSERT" | "UPDATE"), rest)) if !form.end.contains("ON CONFLICT") => {
            format!("{verb} OR ROLLBACK {rest}")
        }
        Some(_) | None => form.begin.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::Column::{Bytes, Int, Text};
    use super::*;

    const INSERT: Form =
        Form { begin: "INSERT INTO t (a, b) SELECT * FROM ", columns: &[Int, Text], end: " WHERE column1 IS NOT NULL" };
    const COUNT: Form = Form {
        begin: "INSERT INTO u (a) SELECT * FROM ",
        columns: &[Bytes],
        end: " WHERE column1 IS NOT NULL ON CONFLICT (a) DO NOTHING",
    };

    #[test]
    fn sqlite_rows_are_filled_up_to_a_size() {
        let rows = (0..3).flat_map(|n| [Value::int(n), Value::text("x")]).collect();
        let mut statements = Vec::new();
        Bulk::new(&INSERT).fill(rows, &mut statements);
        let [statement] = &statements[..] else { panic!("one statement") };
        let expected = "INSERT OR ROLLBACK INTO t (a, b) SELECT * FROM (VALUES (?,?),(?,?),(?,?),(?,?)) AS v \
                        WHERE column1 IS NOT NULL";
        assert_eq!((&*statement.sql, statement.values.len()), (expected, 8));
        let many = (0..300).flat_map(|n| [Value::int(n), Value::text("x")]).collect();
        statements.clear();
        Bulk::new(&INSERT).fill(many, &mut statements);
        let sizes: Vec<usize> = statements.iter().map(|statement| statement.values.len()).collect();
        assert_eq!(sizes, [512, 128]);
        Bulk::new(&COUNT).fill(vec![Value::bytes(b"x")], &mut statements);
        assert!(statements[2].sql.starts_with("INSERT INTO u"), "{}", statements[2].sql);
    }

    #[test]
    fn postgres_takes_one_statement_with_an_array_for_each_column() {
        let expected = "WITH part0 AS (INSERT INTO t (a, b) SELECT * FROM \
             unnest($1::bigint[],$2::text[]) AS v(column1,column2) WHERE column1 IS NOT NULL) \
             INSERT INTO u (a) SELECT * FROM unnest($3::bytea[]) AS v(column1) \
             WHERE column1 IS NOT NULL ON CONFLICT (a) DO NOTHING";
        assert_eq!(&*combined(&[&INSERT, &COUNT]), expected);
        let mut values = Vec::new();
        arrays(&INSERT, vec![Value::int(1), Value::text("x"), Value::int(2), Value::Text(None)], &mut values);
        arrays(&COUNT, Vec::new(), &mut values);
        let [Value::Ints(ints), Value::Texts(texts), Value::Blobs(blobs)] = &values[..] else { panic!("{values:?}") };
        assert_eq!((ints, texts), (&vec![Some(1), Some(2)], &vec![Some("x".into()), None]));
        assert!(blobs.is_empty());
    }
}
