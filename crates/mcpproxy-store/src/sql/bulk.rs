//! Statements that insert or update many rows at once.
//!
//! A batch of any size uses a few prepared statements: each form exists for 1, 2, 4 … 256 rows. The rows of a batch are
//! filled up to the next size with rows of NULL, which the statement ignores. That is cheaper than preparing another
//! statement.

use std::sync::Arc;

use super::driver::{Dialect, Statement, Value};

/// Row counts of the prepared statements.
const SIZES: [usize; 9] = [1, 2, 4, 8, 16, 32, 64, 128, 256];
const SIZE_MAX: usize = 256;

/// A statement for many rows: the text before and after them.
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

/// A form in all sizes, for one dialect.
pub(crate) struct Bulk {
    sizes: Vec<(usize, Arc<str>)>,
    columns: &'static [Column],
}

impl Bulk {
    pub(crate) fn new(form: &Form, dialect: Dialect) -> Self {
        let size = |rows: usize| {
            let rows_text: Vec<String> = (0..rows).map(|row| placeholders(form.columns, row, dialect)).collect();
            (rows, format!("{}{}{}", form.begin, rows_text.join(","), form.end).into())
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

impl Column {
    fn null(self) -> Value {
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

/// `(?,?)` for SQLite, `($3,$4)` for PostgreSQL. PostgreSQL takes the types of all rows from casts in the first row.
fn placeholders(columns: &[Column], row: usize, dialect: Dialect) -> String {
    let placeholder = |(index, column): (usize, &Column)| match dialect {
        Dialect::Sqlite => "?".to_owned(),
        Dialect::Postgres => {
            let kind = if row == 0 { column.postgres() } else { "" };
            format!("${}{kind}", row * columns.len() + index + 1)
        }
    };
    let placeholders: Vec<String> = columns.iter().enumerate().map(placeholder).collect();
    format!("({})", placeholders.join(","))
}
