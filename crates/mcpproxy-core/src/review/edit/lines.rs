//! The lines of a contract in block style.

use std::ops::Range;

use super::{FieldEdits, TooUnusual, entry};
use crate::ToolName;
use crate::file::{Member, Node, NodeValue};

/// A file as lines, and the lines of each key of one contract.
pub(super) struct Block {
    lines: Vec<String>,
    /// Characters before each key.
    indent: usize,
    /// The lines of each key with its value, without the comments that follow.
    members: Vec<Range<usize>>,
}

impl Block {
    pub(super) fn of(text: &str, members: &[Member]) -> Result<Self, TooUnusual> {
        let lines: Vec<String> = text.lines().map(str::to_owned).collect();
        let indent = members.first().ok_or(TooUnusual)?.position.column - 1;
        let starts: Vec<usize> = members.iter().map(|member| member.position.line - 1).collect();
        for (member, start) in members.iter().zip(&starts) {
            let prefix: String = lines.get(*start).ok_or(TooUnusual)?.chars().take(indent).collect();
            let may_have_dash = Some(start) == starts.first();
            let fits = prefix.chars().all(|c| c == ' ' || c == '-' && may_have_dash);
            if member.position.column - 1 != indent || !fits {
                return Err(TooUnusual);
            }
        }
        if !starts.is_sorted_by(|one, next| one < next) {
            return Err(TooUnusual);
        }
        let end = end_of_mapping(&lines, *starts.last().ok_or(TooUnusual)?, indent);
        let limits = starts.iter().skip(1).copied().chain([end]);
        let members =
            starts.iter().zip(limits).map(|(start, limit)| *start..content_end(&lines, start + 1..limit)).collect();
        Ok(Self { lines, indent, members })
    }

    /// Replaces a value. A comment behind the old value stays.
    pub(super) fn replace(&mut self, at: usize, key: &str, value: &str) {
        let Some(range) = self.members.get(at).cloned() else { return };
        let old = self.lines.get(range.start).cloned().unwrap_or_default();
        let new = format!("{}{key}: {value}{}", self.prefix(&old), comment(&old));
        self.lines.splice(range, [new]);
    }

    /// Removes a key. If it stands behind the dash of a list, the next key takes its place.
    pub(super) fn remove(&mut self, at: usize) -> Result<(), TooUnusual> {
        let range = self.members.get(at).cloned().ok_or(TooUnusual)?;
        let prefix = self.prefix(self.lines.get(range.start).ok_or(TooUnusual)?);
        if prefix.contains('-') {
            let next = self.members.get(at + 1).ok_or(TooUnusual)?.start;
            let line = self.lines.get_mut(next).ok_or(TooUnusual)?;
            *line = format!("{prefix}{}", line.trim_start());
        }
        self.lines.drain(range);
        Ok(())
    }

    pub(super) fn insert_after(&mut self, at: usize, key: &str, value: &str) {
        let end = self.members.get(at).map_or(self.lines.len(), |range| range.end);
        self.lines.insert(end, format!("{}{key}: {value}", " ".repeat(self.indent)));
    }

    pub(super) fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }

    fn prefix(&self, line: &str) -> String {
        line.chars().take(self.indent).collect()
    }
}

/// Adds a contract at the end of a file.
pub(super) fn append(
    documents: &[Node],
    text: &str,
    tool: &ToolName,
    edits: &FieldEdits,
) -> Result<String, TooUnusual> {
    let element = entry(tool, edits);
    let begin = match text {
        "" => String::new(),
        text => format!("{}\n\n", text.trim_end()),
    };
    let Some(last) = documents.last() else { return Ok(begin + &element) };
    let list = match &last.value {
        NodeValue::Null => return Ok(begin + &element),
        NodeValue::Array(nodes) => Some(nodes),
        NodeValue::Object(members) => {
            members.iter().find(|member| member.name == "contracts").and_then(|member| match &member.node.value {
                NodeValue::Array(nodes) => Some(nodes),
                NodeValue::Null
                | NodeValue::Bool(_)
                | NodeValue::Number(_)
                | NodeValue::Text(_)
                | NodeValue::Object(_)
                | NodeValue::Broken => None,
            })
        }
        NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Broken => return Err(TooUnusual),
    };
    let Some(list) = list else {
        let mapping: Vec<&str> = element.lines().map(|line| line.get(2..).unwrap_or_default()).collect();
        return Ok(format!("{begin}---\n{}\n", mapping.join("\n")));
    };
    let first = list.first().and_then(|node| text.lines().nth(node.position.line - 1)).ok_or(TooUnusual)?;
    let spaces = " ".repeat(depth_of(first));
    let lines: Vec<String> = element.lines().map(|line| format!("{spaces}{line}\n")).collect();
    Ok(begin + &lines.concat())
}

/// Returns the first line behind a mapping whose last key is in line `last`.
fn end_of_mapping(lines: &[String], last: usize, indent: usize) -> usize {
    let is_behind = |line: &String| {
        let is_marker = line.starts_with("---") || line.starts_with("...");
        is_marker || is_content(line) && depth_of(line) < indent
    };
    (last + 1..lines.len()).find(|at| lines.get(*at).is_some_and(is_behind)).unwrap_or(lines.len())
}

/// Returns the end of a range without the blank lines and comments at its end. They belong to what follows.
fn content_end(lines: &[String], range: Range<usize>) -> usize {
    let last = range.clone().rev().find(|at| lines.get(*at).is_some_and(|line| is_content(line)));
    last.map_or(range.start, |at| at + 1)
}

fn is_content(line: &str) -> bool {
    let rest = line.trim_start();
    !rest.is_empty() && !rest.starts_with('#')
}

fn depth_of(line: &str) -> usize {
    line.len() - line.trim_start_matches(' ').len()
}

/// Returns the comment at the end of a line, with the spaces before it.
fn comment(line: &str) -> &str {
    let mut quote = None;
    let mut last = ' ';
    for (at, c) in line.char_indices() {
        match quote {
            None if c == '#' && last == ' ' => {
                let before = line.get(..at).unwrap_or_default().trim_end().len();
                return line.get(before..).unwrap_or_default();
            }
            None if matches!(c, '"' | '\'') => quote = Some(c),
            Some(open) if open == c && last != '\\' => quote = None,
            None | Some(_) => {}
        }
        last = c;
    }
    ""
}
