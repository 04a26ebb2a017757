//! TOML, as a syntax tree.

use serde_json::{Map, Value};
use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike};

use super::{DocumentError, Edit};

pub(super) fn parse(text: &str) -> Result<DocumentMut, DocumentError> {
    text.parse::<DocumentMut>().map_err(|error| {
        let start = error.span().map_or(0, |span| span.start);
        let above = text.get(..start).unwrap_or(text);
        let column = above.rsplit('\n').next().unwrap_or_default().chars().count() + 1;
        let message = error.message().lines().collect::<Vec<_>>().join(", ");
        DocumentError::Syntax { line: above.matches('\n').count() + 1, column, message }
    })
}

pub(super) fn read(text: &str) -> Result<Value, DocumentError> {
    Ok(table_value(parse(text)?.as_table()))
}

pub(super) fn apply(text: &str, edits: &[Edit]) -> Result<String, DocumentError> {
    let mut document = parse(text)?;
    if document.is_empty() && !text.is_empty() {
        // The comments of an empty file would move below the new table.
        let separator = if text.ends_with('\n') { "\n" } else { "\n\n" };
        return Ok(format!("{text}{separator}{}", apply("", edits)?));
    }
    for edit in edits {
        edit_table(document.as_table_mut(), edit)?;
    }
    Ok(document.to_string())
}

fn edit_table(root: &mut Table, edit: &Edit) -> Result<(), DocumentError> {
    let (last, keys) = edit.path().split_last().ok_or(DocumentError::TooUnusual)?;
    let creates = matches!(edit, Edit::Set { .. } | Edit::AddToList { .. });
    let mut table: &mut dyn TableLike = root;
    for key in keys {
        if !table.contains_key(key) {
            if !creates {
                return Ok(());
            }
            let mut inner = Table::new();
            inner.set_implicit(true);
            table.insert(key, Item::Table(inner));
        }
        table = table.get_mut(key).and_then(Item::as_table_like_mut).ok_or(DocumentError::TooUnusual)?;
    }
    match edit {
        Edit::Set { value, .. } => set(table, last, value),
        Edit::AddToList { values, .. } => {
            let item = table.entry(last).or_insert_with(|| toml_edit::value(Array::new()));
            let list = item.as_array_mut().ok_or(DocumentError::TooUnusual)?;
            for value in values {
                if !list.iter().any(|item| item.as_str() == Some(value)) {
                    list.push(value.as_str());
                }
            }
        }
        Edit::Remove { .. } => drop(table.remove(last)),
        Edit::RemoveFromList { values, .. } => {
            if let Some(list) = table.get_mut(last).and_then(Item::as_array_mut) {
                list.retain(|item| !values.iter().any(|value| item.as_str() == Some(value)));
            }
        }
    }
    Ok(())
}

/// Sets a value. A table becomes `[a.b]`, and a table inside it `{ … }`.
fn set(table: &mut dyn TableLike, key: &str, value: &Value) {
    let mut item = match value {
        Value::Object(members) => {
            let mut inner = Table::new();
            for (name, value) in members {
                inner.insert(name, toml_edit::value(inline(value)));
            }
            Item::Table(inner)
        }
        other => toml_edit::value(inline(other)),
    };
    // A replaced table keeps its place and the comment above it.
    if let (Some(Item::Table(old)), Item::Table(new)) = (table.get(key), &mut item) {
        new.set_position(old.position());
        *new.decor_mut() = old.decor().clone();
    }
    table.insert(key, item);
}

fn inline(json: &Value) -> toml_edit::Value {
    match json {
        Value::Null => toml_edit::Value::from(""),
        Value::Bool(value) => toml_edit::Value::from(*value),
        Value::Number(number) => match number.as_i64() {
            Some(number) => toml_edit::Value::from(number),
            None => toml_edit::Value::from(number.as_f64().unwrap_or_default()),
        },
        Value::String(text) => toml_edit::Value::from(text.as_str()),
        Value::Array(values) => toml_edit::Value::Array(values.iter().map(inline).collect()),
        Value::Object(members) => {
            let mut table = InlineTable::new();
            for (name, value) in members {
                table.insert(name, inline(value));
            }
            toml_edit::Value::InlineTable(table)
        }
    }
}

fn table_value(table: &dyn TableLike) -> Value {
    let members = table.iter().filter_map(|(name, item)| Some((name.to_owned(), item_value(item)?)));
    Value::Object(members.collect::<Map<_, _>>())
}

fn item_value(item: &Item) -> Option<Value> {
    match item {
        Item::None => None,
        Item::Value(value) => Some(plain(value)),
        Item::Table(table) => Some(table_value(table)),
        Item::ArrayOfTables(tables) => Some(Value::Array(tables.iter().map(|table| table_value(table)).collect())),
    }
}

fn plain(value: &toml_edit::Value) -> Value {
    match value {
        toml_edit::Value::String(text) => Value::from(text.value().as_str()),
        toml_edit::Value::Integer(number) => Value::from(*number.value()),
        // JSON has no infinity, and dates are compared as text.
        toml_edit::Value::Float(number) => Value::from(number.value().to_string()),
        toml_edit::Value::Boolean(value) => Value::from(*value.value()),
        toml_edit::Value::Datetime(date) => Value::from(date.value().to_string()),
        toml_edit::Value::Array(values) => Value::Array(values.iter().map(plain).collect()),
        toml_edit::Value::InlineTable(table) => table_value(table),
    }
}
