//! Edits the contract of one tool in a YAML file and keeps everything else: comments, order and other contracts.
//!
//! No YAML library for Rust keeps comments, so this editor replaces, inserts and removes whole lines. The parser of
//! contract files says where each key is. The editor understands block style: one key per line, and children on deeper
//! lines. `contract draft` and most people write that. A contract on one line (`{ tool: … }`) and JSON files are
//! refused with [`TooUnusual`], and then the operator edits by hand.
//!
//! The lines are not trusted. [`edited`] first computes the expected contracts as plain values, then edits the text,
//! parses it again and compares. If anything else differs, such as the contract of another tool, the edit fails.

mod lines;

use serde_json::{Map, Value};

use super::writer;
use crate::ToolName;
use crate::contract::{FIELDS, contracts_of, documents};
use crate::file::{Format, Member, Node, NodeValue};
use lines::{Block, append};

/// New values of a contract, by key. `None` removes the key.
pub type FieldEdits = [(&'static str, Option<Value>)];

/// The file is JSON, or written in a way that this editor cannot change without loss.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("the file is written in a way that mcpproxy cannot edit without loss")]
pub struct TooUnusual;

/// The contract of one tool, as its file has it.
#[derive(Clone, Debug, PartialEq)]
pub struct WrittenContract {
    pub line: usize,
    /// Key and value, in the order of the file.
    pub fields: Vec<(&'static str, Value)>,
}

/// Finds the contract that a file has for exactly this tool. A pattern such as `mail:*` is another contract.
pub fn written(file: &str, text: &str, tool: &ToolName) -> Option<WrittenContract> {
    let documents = documents(file, text)?;
    let members = members_of(&documents, tool)?;
    let line = members.first().map_or(1, |member| member.position.line);
    let field = |member: &Member| {
        let key = FIELDS.iter().find(|field| field.key == member.name)?.key;
        Some((key, member.node.to_json()?))
    };
    Some(WrittenContract { line, fields: members.iter().filter_map(field).collect() })
}

/// Writes a contract as an element of a list, for a user who edits the file by hand.
pub fn entry(tool: &ToolName, edits: &FieldEdits) -> String {
    let set = edits.iter().filter_map(|(key, value)| Some((*key, value.clone()?)));
    writer::contract(&writer::Notes::default(), &tool.to_string(), &set.collect::<Vec<_>>())
}

/// Returns the text of a file with the changed contract. Adds the contract at the end if the file has none.
pub fn edited(file: &str, text: &str, tool: &ToolName, edits: &FieldEdits) -> Result<String, TooUnusual> {
    if Format::of_name(file) == Format::Jsonc {
        return Err(TooUnusual);
    }
    let (mark, body) = match text.strip_prefix('\u{FEFF}') {
        Some(body) => ("\u{FEFF}", body),
        None => ("", text),
    };
    let plain = body.replace("\r\n", "\n");
    let ending = if plain.len() == body.len() { "\n" } else { "\r\n" };
    // A file with both endings would be changed in every line.
    if plain.replace('\n', ending) != body {
        return Err(TooUnusual);
    }
    let expected = expected(values(file, &plain)?, tool, edits);
    let new = if written(file, &plain, tool).is_some() {
        edits.iter().try_fold(plain, |text, (key, value)| set(file, &text, tool, key, value.as_ref()))?
    } else {
        append(&documents(file, &plain).ok_or(TooUnusual)?, &plain, tool, edits)?
    };
    if values(file, &new)? != expected {
        return Err(TooUnusual);
    }
    Ok(format!("{mark}{}", new.replace('\n', ending)))
}

/// Sets or removes one key of a contract.
fn set(file: &str, text: &str, tool: &ToolName, key: &str, value: Option<&Value>) -> Result<String, TooUnusual> {
    let documents = documents(file, text).ok_or(TooUnusual)?;
    let members = members_of(&documents, tool).ok_or(TooUnusual)?;
    let mut block = Block::of(text, members)?;
    let at = members.iter().position(|member| member.name == key);
    match (at, value) {
        (None, None) => {}
        (Some(at), Some(value)) => block.replace(at, key, &writer::flow(value)),
        (Some(at), None) => block.remove(at)?,
        (None, Some(value)) => block.insert_after(before(members, key), key, &writer::flow(value)),
    }
    Ok(block.text())
}

/// Returns the member after which a new key stands, in the order of drafts.
fn before(members: &[Member], key: &str) -> usize {
    let rank = |name: &str| FIELDS.iter().position(|field| field.key == name);
    let own = rank(key);
    let is_before = |member: &Member| member.name == "tool" || rank(&member.name).is_some_and(|rank| Some(rank) < own);
    members.iter().rposition(is_before).unwrap_or_default()
}

fn members_of<'n>(documents: &'n [Node], tool: &ToolName) -> Option<&'n [Member]> {
    let name = tool.to_string();
    documents.iter().flat_map(contracts_of).find_map(|node| match &node.value {
        NodeValue::Object(members) => {
            let is_this = members.iter().any(|member| member.name == "tool" && member.node.text() == Some(&name));
            is_this.then_some(members.as_slice())
        }
        NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Number(_)
        | NodeValue::Text(_)
        | NodeValue::Array(_)
        | NodeValue::Broken => None,
    })
}

/// Returns all contracts of a file as plain values.
fn values(file: &str, text: &str) -> Result<Vec<Value>, TooUnusual> {
    let documents = documents(file, text).ok_or(TooUnusual)?;
    let all = documents.iter().flat_map(contracts_of).filter(|node| !matches!(node.value, NodeValue::Null));
    all.map(Node::to_json).collect::<Option<_>>().ok_or(TooUnusual)
}

fn expected(mut all: Vec<Value>, tool: &ToolName, edits: &FieldEdits) -> Vec<Value> {
    let name = tool.to_string();
    let is_this = |value: &Value| value.get("tool").and_then(Value::as_str) == Some(&name);
    if !all.iter().any(is_this) {
        all.push(Value::Object(Map::from_iter([("tool".to_owned(), name.clone().into())])));
    }
    if let Some(Value::Object(fields)) = all.iter_mut().find(|value| is_this(value)) {
        for (key, value) in edits {
            match value {
                Some(value) => drop(fields.insert((*key).to_owned(), value.clone())),
                None => drop(fields.shift_remove(*key)),
            }
        }
    }
    all
}

#[cfg(test)]
mod tests;
