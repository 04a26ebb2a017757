//! Applies an edit to plain values. This is the meaning of an edit, whatever the format of the file.

use serde_json::{Map, Value};

use super::{DocumentError, Edit};

pub(super) fn apply(root: &mut Value, edit: &Edit) -> Result<(), DocumentError> {
    match edit {
        Edit::Set { path, value } => {
            let (table, last) = parent(root, path)?;
            table.insert(last.to_owned(), value.clone());
        }
        Edit::AddToList { path, values } => {
            let (table, last) = parent(root, path)?;
            let list = table.entry(last).or_insert_with(|| Value::Array(Vec::new()));
            let list = list.as_array_mut().ok_or_else(|| wrong_kind(path, "a list"))?;
            for value in values.iter().filter(|value| !value.is_empty()) {
                if !list.iter().any(|item| item.as_str() == Some(value)) {
                    list.push(Value::from(value.as_str()));
                }
            }
        }
        Edit::Remove { path } => {
            if let Some((table, last)) = existing_parent(root, path) {
                // Keep the order of the other members.
                table.shift_remove(last);
            }
        }
        Edit::RemoveFromList { path, values } => {
            if let Some((table, last)) = existing_parent(root, path)
                && let Some(list) = table.get_mut(last).and_then(Value::as_array_mut)
            {
                list.retain(|item| !values.iter().any(|value| item.as_str() == Some(value)));
            }
        }
    }
    Ok(())
}

/// Returns the table that holds the last key. Creates tables on the way.
fn parent<'v, 'p>(
    root: &'v mut Value,
    path: &'p [String],
) -> Result<(&'v mut Map<String, Value>, &'p str), DocumentError> {
    let (last, keys) = path.split_last().ok_or_else(|| wrong_kind(path, "a table"))?;
    let mut table = root.as_object_mut().ok_or_else(|| wrong_kind(&[], "a table"))?;
    for (depth, key) in keys.iter().enumerate() {
        let value = table.entry(key.as_str()).or_insert_with(|| Value::Object(Map::new()));
        if value.is_null() {
            *value = Value::Object(Map::new());
        }
        let above = path.get(..=depth).unwrap_or_default();
        table = value.as_object_mut().ok_or_else(|| wrong_kind(above, "a table"))?;
    }
    Ok((table, last))
}

fn existing_parent<'v, 'p>(root: &'v mut Value, path: &'p [String]) -> Option<(&'v mut Map<String, Value>, &'p str)> {
    let (last, keys) = path.split_last()?;
    let table = keys.iter().try_fold(root, |value, key| value.as_object_mut()?.get_mut(key))?;
    Some((table.as_object_mut()?, last))
}

fn wrong_kind(path: &[String], expected: &'static str) -> DocumentError {
    let path = if path.is_empty() { "the whole file".to_owned() } else { path.join(".") };
    DocumentError::WrongKind { path, expected }
}
