//! JSON with comments, as a syntax tree.

use jsonc_parser::cst::{CstInputValue, CstNode, CstObject, CstRootNode};
use jsonc_parser::errors::ParseError;
use mcpproxy_core::JSONC;
use serde_json::Value;

use super::{DocumentError, Edit};
use crate::operator_files::edit::input;

pub(super) fn parse(text: &str) -> Result<CstRootNode, DocumentError> {
    CstRootNode::parse(text, &JSONC).map_err(|error| syntax(&error))
}

fn syntax(error: &ParseError) -> DocumentError {
    let (line, column) = (error.line_display(), error.column_display());
    DocumentError::Syntax { line, column, message: error.kind().to_string() }
}

pub(super) fn read(text: &str) -> Result<Value, DocumentError> {
    let value = jsonc_parser::parse_to_serde_value::<Option<Value>>(text, &JSONC).map_err(|error| syntax(&error))?;
    Ok(value.unwrap_or(Value::Null))
}

pub(super) fn apply(text: &str, edits: &[Edit]) -> Result<String, DocumentError> {
    let root = parse(text)?;
    let is_new = root.value().is_none();
    let table = root.object_value_or_create().ok_or(DocumentError::TooUnusual)?;
    for edit in edits {
        edit_table(&table, edit)?;
    }
    let mut text = root.to_string();
    if is_new && !text.ends_with('\n') {
        text.push('\n');
    }
    Ok(text)
}

fn edit_table(root: &CstObject, edit: &Edit) -> Result<(), DocumentError> {
    let (last, keys) = edit.path().split_last().ok_or(DocumentError::TooUnusual)?;
    let creates = matches!(edit, Edit::Set { .. } | Edit::AddToList { .. });
    let mut table = root.clone();
    for key in keys {
        only_once(&table, key)?;
        table = match table.object_value(key) {
            Some(inner) => inner,
            None if creates => table.object_value_or_set(key),
            None => return Ok(()),
        };
    }
    only_once(&table, last)?;
    match edit {
        Edit::Set { value, .. } => match table.get(last) {
            Some(property) if property.value().is_some_and(|old| has_value(&old, value)) => {}
            Some(property) => property.set_value(input(value)),
            None => drop(table.append(last, input(value))),
        },
        Edit::AddToList { values, .. } => {
            let list = table.array_value_or_set(last);
            for value in values {
                if !list.elements().iter().any(|element| text_of(element).as_ref() == Some(value)) {
                    list.ensure_multiline();
                    list.append(CstInputValue::String(value.clone()));
                }
            }
        }
        Edit::Remove { .. } => {
            if let Some(property) = table.get(last) {
                property.remove();
            }
        }
        Edit::RemoveFromList { values, .. } => {
            let elements = table.array_value(last).map(|list| list.elements()).unwrap_or_default();
            for element in elements {
                if text_of(&element).is_some_and(|text| values.contains(&text)) {
                    element.remove();
                }
            }
        }
    }
    Ok(())
}

fn text_of(node: &CstNode) -> Option<String> {
    node.as_string_lit().and_then(|text| text.decoded_value().ok())
}

fn has_value(node: &CstNode, value: &Value) -> bool {
    read(&node.to_string()).is_ok_and(|read| read == *value)
}

/// Clients disagree about which of two equal keys counts.
fn only_once(table: &CstObject, key: &str) -> Result<(), DocumentError> {
    let count = table.properties().iter().filter(|property| property.decoded_name().as_deref() == Some(key)).count();
    if count > 1 { Err(DocumentError::Duplicate { key: key.to_owned() }) } else { Ok(()) }
}
