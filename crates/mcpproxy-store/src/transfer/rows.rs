//! Rows as text: one JSON array for each row.

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use serde_json::Value as Json;

use crate::StoreError;
use crate::sql::bulk::Column;
use crate::sql::tables::Table;
use crate::sql::{Row, Value};

const DOING: &str = "read the rows of a table";

/// Reads a row as values.
pub(super) fn values(table: &Table, row: &Row) -> Result<Vec<Value>, StoreError> {
    let failed = StoreError::while_trying(DOING);
    let value = |(index, column): (usize, &crate::sql::tables::TableColumn)| match column.kind {
        Column::Int => Ok(Value::Int(row.int(index).map_err(&failed)?)),
        Column::Text => Ok(Value::Text(row.text(index).map_err(&failed)?.map(Into::into))),
        Column::Bytes => Ok(Value::Bytes(row.bytes(index).map_err(&failed)?)),
    };
    table.columns.iter().enumerate().map(value).collect()
}

/// Appends the values as one line.
pub(super) fn push_line(text: &mut String, values: &[Value]) {
    let cells: Vec<Json> = values.iter().map(to_json).collect();
    text.push_str(&Json::Array(cells).to_string());
    text.push('\n');
}

/// Reads a line that `push_line` wrote. `kinds` are the types of its values.
pub(super) fn parse_line(line: &str, kinds: &[Column]) -> Option<Vec<Value>> {
    let cells: Vec<Json> = serde_json::from_str(line).ok()?;
    if cells.len() != kinds.len() {
        return None;
    }
    cells.into_iter().zip(kinds).map(|(cell, kind)| from_json(cell, *kind)).collect()
}

fn to_json(value: &Value) -> Json {
    match value {
        Value::Int(Some(number)) => Json::from(*number),
        Value::Text(Some(text)) => Json::from(&**text),
        Value::Bytes(Some(bytes)) => Json::from(BASE64.encode(bytes)),
        Value::Int(None) | Value::Text(None) | Value::Bytes(None) => Json::Null,
        // No column has an array.
        Value::Ints(_) | Value::Texts(_) | Value::Blobs(_) => Json::Null,
    }
}

fn from_json(cell: Json, kind: Column) -> Option<Value> {
    match (kind, cell) {
        (Column::Int, Json::Null) => Some(Value::Int(None)),
        (Column::Text, Json::Null) => Some(Value::Text(None)),
        (Column::Bytes, Json::Null) => Some(Value::Bytes(None)),
        (Column::Int, Json::Number(number)) => number.as_i64().map(Value::int),
        (Column::Text, Json::String(text)) => Some(Value::Text(Some(text.into()))),
        (Column::Bytes, Json::String(text)) => BASE64.decode(text).ok().map(|bytes| Value::Bytes(Some(bytes))),
        (Column::Int | Column::Text | Column::Bytes, _) => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rows_round_trip_as_text() {
        let kinds = [Column::Int, Column::Text, Column::Bytes, Column::Int, Column::Text, Column::Bytes];
        let row = [
            Value::int(i64::MIN),
            Value::text("a \"b\"\n\u{202e}é"),
            Value::bytes(&[0, 255]),
            Value::Int(None),
            Value::Text(None),
            Value::Bytes(None),
        ];
        let mut text = String::new();
        push_line(&mut text, &row);
        assert_eq!(text.lines().count(), 1);
        let read = parse_line(&text, &kinds).unwrap();
        assert_eq!(format!("{read:?}"), format!("{row:?}"));
        for wrong in
            ["", "{}", "[]", "[1.5,null,null,1,null,null]", "[1,2,null,1,null,null]", "[1,null,\"%\",1,null,null]"]
        {
            assert!(parse_line(wrong, &kinds).is_none(), "{wrong}");
        }
    }
}
