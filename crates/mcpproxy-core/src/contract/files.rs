//! All contract files of an operator: one contract in a file, or many.

use std::collections::HashMap;
use std::sync::Arc;

use super::node::{Mistakes, Node, Place, Value};
use super::read::{Reader, Writer};
use super::{Contract, Contracts, ToolPattern, contradictions, fields, json, keys, yaml};
use crate::Mistake;
use crate::settings::suggest::shown;

pub const FILE_MAX_BYTES: usize = 256 * 1024;
/// In all files together.
pub const CONTRACTS_MAX: usize = 2000;

pub(super) fn parse(files: &[(String, String)]) -> Result<Contracts, Vec<(String, Mistake)>> {
    let mut all = All::default();
    let mut wrong = Vec::new();
    for (name, text) in files {
        let mut mistakes = Mistakes::default();
        all.read(&Arc::from(name.as_str()), text, &mut mistakes);
        wrong.extend(mistakes.in_order().into_iter().map(|mistake| (name.clone(), mistake)));
    }
    if !wrong.is_empty() {
        return Err(wrong);
    }
    let lines = all.first.into_iter().map(|(pattern, (_, line))| (pattern, line));
    Ok(Contracts::new(all.written).with_lines(lines.collect()))
}

#[derive(Default)]
struct All {
    written: Vec<(ToolPattern, Arc<Contract>)>,
    /// Where each pattern was written first.
    first: HashMap<ToolPattern, (Arc<str>, usize)>,
    count: usize,
}

impl All {
    fn read(&mut self, file: &Arc<str>, text: &str, mistakes: &mut Mistakes) {
        if text.len() > FILE_MAX_BYTES {
            mistakes.add(Place::START, "larger than 256 KiB; spread the contracts over several files");
            return;
        }
        // Some editors put a byte order mark first; nobody sees it, so it may not shift a column.
        let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
        let documents = if file.to_ascii_lowercase().ends_with(".json") {
            Vec::from_iter(json::document(text, mistakes))
        } else {
            yaml::documents(text, mistakes)
        };
        for node in documents.iter().flat_map(|document| contracts(document, mistakes)).collect::<Vec<_>>() {
            self.count += 1;
            if self.count > CONTRACTS_MAX {
                if self.count == CONTRACTS_MAX + 1 {
                    mistakes.add(node.place, format!("more than {CONTRACTS_MAX} contracts in all files"));
                }
                return;
            }
            self.contract(file, node, mistakes);
            if mistakes.are_enough() {
                return;
            }
        }
    }

    fn contract(&mut self, file: &Arc<str>, node: &Node, mistakes: &mut Mistakes) {
        let mut reader = Reader::new(Writer::Operator, mistakes);
        let Some(fields) = reader.fields(node, &keys::CONTRACT) else { return };
        if let Some(field) = fields.find("$schema") {
            reader.string(field.node);
        }
        let tool =
            reader.required(node, &fields, "tool", "which tool it is for, such as `tool: mail:send` or `tool: mail:*`");
        let pattern = tool.and_then(|node| reader.parsed(node, ToolPattern::parse));
        let contract = fields::contract(&mut reader, &fields, Some(Arc::clone(file)));
        contradictions::check(&mut reader, &contract);
        let (Some(tool), Some(pattern)) = (tool, pattern) else { return };
        if let Some((first_file, line)) = self.first.get(&pattern) {
            let file = shown(first_file);
            let message = format!("a contract for `{pattern}` is already in `{file}`, line {line}; keep one of them");
            mistakes.add(tool.place, message);
            return;
        }
        self.first.insert(pattern.clone(), (Arc::clone(file), tool.place.line));
        self.written.push((pattern, Arc::new(contract)));
    }
}

/// The contracts of a document: itself, what it lists, or what it lists below `contracts`.
fn contracts<'n>(document: &'n Node, mistakes: &mut Mistakes) -> Vec<&'n Node> {
    match &document.value {
        Value::Array(nodes) => nodes.iter().collect(),
        Value::Object(members) if members.iter().any(|member| member.name == "contracts") => {
            let mut reader = Reader::new(Writer::Operator, mistakes);
            let Some(fields) = reader.fields(document, &keys::FILE) else { return Vec::new() };
            if let Some(field) = fields.find("$schema") {
                reader.string(field.node);
            }
            match fields.find("contracts").map(|field| (field.node, &field.node.value)) {
                Some((_, Value::Array(nodes))) => nodes.iter().collect(),
                Some((node, _)) => reader.wrong_type(node, "array").unwrap_or_default(),
                None => Vec::new(),
            }
        }
        _ => vec![document],
    }
}
