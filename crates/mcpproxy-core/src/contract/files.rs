//! Reads the operator's contract files. A file has one contract or many.

use std::collections::HashMap;
use std::sync::Arc;

use super::{Contract, Contracts, DRAFT_MARKER, ToolPattern, contradictions, fields};
use crate::file::{
    self, Author, FileKind, Format, Keys, Mistake, Mistakes, Node, NodeValue, Reader, SourcePosition, shown,
};

pub const FILE_MAX_BYTES: usize = 256 * 1024;
/// Maximum number of contracts in all files together.
pub const CONTRACTS_MAX: usize = 2000;

pub(super) const KIND: FileKind = FileKind {
    values_max: 50_000,
    too_many: "spread the contracts over several",
    empty: "write `[]` for no contracts",
};

/// The keys of a file that has its contracts in a list.
pub(super) const KEYS: Keys =
    Keys { known: &["$schema", "contracts"], advice: &[("tool", "move it into the list of `contracts`")] };

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

/// Returns the number of the line that marks a file as a draft, counted from 0. A byte order mark before it is ignored,
/// because the file is read without it.
pub(crate) fn draft_line(text: &str) -> Option<usize> {
    text.trim_start_matches('\u{FEFF}').lines().position(|line| line.starts_with(DRAFT_MARKER))
}

#[derive(Default)]
struct All {
    written: Vec<(ToolPattern, Arc<Contract>)>,
    /// The file and line in which each pattern was written first.
    first: HashMap<ToolPattern, (Arc<str>, usize)>,
    count: usize,
    /// True if the file that is being read is marked as a draft.
    is_draft: bool,
}

impl All {
    fn read(&mut self, file: &Arc<str>, text: &str, mistakes: &mut Mistakes) {
        if text.len() > FILE_MAX_BYTES {
            mistakes.add(SourcePosition::START, "larger than 256 KiB; spread the contracts over several files");
            return;
        }
        self.is_draft = draft_line(text).is_some();
        let documents = file::documents(text, Format::of_name(file), KIND, mistakes);
        for node in documents.iter().flat_map(|document| contracts(document, mistakes)).collect::<Vec<_>>() {
            self.count += 1;
            if self.count > CONTRACTS_MAX {
                if self.count == CONTRACTS_MAX + 1 {
                    mistakes.add(node.position, format!("more than {CONTRACTS_MAX} contracts in all files"));
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
        let mut reader = Reader::new(Author::Operator, (), mistakes);
        let Some(fields) = reader.fields(node, &fields::KEYS) else { return };
        if let Some(field) = fields.find("$schema") {
            reader.string(&field.node);
        }
        let tool = reader.required(
            node,
            &fields,
            "tool",
            "the tool that it is for, such as `tool: mail:send` or `tool: mail:*`",
        );
        let pattern = tool.and_then(|node| reader.parsed(node, ToolPattern::parse));
        let read = Contract::read(&mut reader, &fields, Some(Arc::clone(file)));
        let contract = Contract { is_draft: self.is_draft, ..read };
        contradictions::check(&mut reader, &contract);
        let (Some(tool), Some(pattern)) = (tool, pattern) else { return };
        if let Some((first_file, line)) = self.first.get(&pattern) {
            let file = shown(first_file);
            let message = format!("a contract for `{pattern}` is already in `{file}`, line {line}; keep one of them");
            mistakes.add(tool.position, message);
            return;
        }
        self.first.insert(pattern.clone(), (Arc::clone(file), tool.position.line));
        self.written.push((pattern, Arc::new(contract)));
    }
}

/// Returns the documents of a file for an editor. Returns `None` if it is not valid YAML or JSON.
pub(crate) fn documents(name: &str, text: &str) -> Option<Vec<Node>> {
    let mut mistakes = Mistakes::default();
    let documents = file::documents(text, Format::of_name(name), KIND, &mut mistakes);
    mistakes.in_order().is_empty().then_some(documents)
}

/// Returns the contracts of a document for an editor. A shape that is no contract is left to the parser.
pub(crate) fn contracts_of(document: &Node) -> Vec<&Node> {
    contracts(document, &mut Mistakes::default())
}

/// Returns the contracts of a document: the document itself, its list, or the list below `contracts`.
fn contracts<'n>(document: &'n Node, mistakes: &mut Mistakes) -> Vec<&'n Node> {
    match &document.value {
        NodeValue::Array(nodes) => nodes.iter().collect(),
        NodeValue::Object(members) if members.iter().any(|member| member.name == "contracts") => {
            let mut reader = Reader::new(Author::Operator, (), mistakes);
            let Some(fields) = reader.fields(document, &KEYS) else { return Vec::new() };
            if let Some(field) = fields.find("$schema") {
                reader.string(&field.node);
            }
            match fields.find("contracts").map(|field| (&field.node, &field.node.value)) {
                Some((_, NodeValue::Array(nodes))) => nodes.iter().collect(),
                Some((node, _)) => reader.wrong_type(node, "array").unwrap_or_default(),
                None => Vec::new(),
            }
        }
        NodeValue::Object(_)
        | NodeValue::Null
        | NodeValue::Bool(_)
        | NodeValue::Number(_)
        | NodeValue::Text(_)
        | NodeValue::Broken => vec![document],
    }
}
