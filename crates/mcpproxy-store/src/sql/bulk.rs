//! Statements for many rows at once.

use std::sync::Arc;

use super::driver::{Dialect, Statement, Value};

/// How many rows one statement takes: a few sizes, so that each is prepared once and found again. What is missing to a
/// size is filled up with rows of nothing, which costs less than another statement.
const SIZES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SIZE_MAX: usize = 256;

/// A statement for many rows, without the rows.
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

/// A form in all sizes, for one database.
pub(crate) struct Bulk {
    sizes: Vec<(usize, Arc<str>)>,
    columns: &'static [Column],
}

impl Bulk {
    pub(crate) fn new(form: &Form, dialect: Dialect) -> Self {
        let size = |rows: usize| {
            let rows_text: Vec<String> = (0..rows).map(|row| places(form.columns, row, dialect)).collect();
            (rows, format!("{}{}{}", form.begin, rows_text.join(","), form.end).into())
        };
        Self { sizes: SIZES.into_iter().map(size).collect(), columns: form.columns }
    }

    /// As few statements as possible for these values of rows, one after the other. Each row begins with something that
    /// is not NULL.
    pub(crate) fn fill(&self, mut values: Vec<Value>, statements: &mut Vec<Statement>) {
        let width = self.columns.len();
        while !values.is_empty() {
            let rows = (values.len() / width).clamp(1, SIZE_MAX);
            let rest = values.split_off(values.len().min(rows * width));
            let Some((size, sql)) = self.sizes.iter().find(|(size, _)| *size >= rows) else { return };
            values.reserve_exact(size * width - values.len());
            let nothing = self.columns.iter().map(|column| column.nothing());
            values.extend(std::iter::repeat_n(nothing, size - rows).flatten());
            statements.push(Statement { sql: Arc::clone(sql), values });
            values = rest;
        }
    }
}

impl Column {
    fn nothing(self) -> Value {
        match self {
            Self::Int => Value::Int(None),
            Self::Text => Value::Text(None),
            Self::Bytes => Value::Bytes(None),
        }
    }

    fn postgres(self) -> &'static str {
        match self {
            Self::Int => "::bigint",
            Self::Text => "::text",
            Self::Bytes => "::bytea",
        }
    }
}

/// `(?,?)`, or `($3,$4)` with types in the first row, from which PostgreSQL takes those of all rows.
fn places(columns: &[Column], row: usize, dialect: Dialect) -> String {
    let place = |(index, column): (usize, &Column)| match dialect {
        Dialect::Sqlite => "?".to_owned(),
        Dialect::Postgres => {
            let kind = if row == 0 { column.postgres() } else { "" };
            format!("${}{kind}", row * columns.len() + index + 1)
        }
    };
    let places: Vec<String> = columns.iter().enumerate().map(place).collect();
    format!("({})", places.join(","))
}
