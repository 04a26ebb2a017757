//! A tree of values, each with its position in the file.

use serde_json::{Map, Number, Value};

use super::{DEPTH_MAX, FileKind, Mistakes, shown};

#[derive(Clone, Debug)]
pub(crate) struct Node {
    pub(crate) position: SourcePosition,
    pub(crate) value: NodeValue,
    /// True for a quoted text without escapes, which reads exactly as written. Then an offset in the text is an offset
    /// in the line. Escapes make the source longer than the text.
    pub(super) is_verbatim: bool,
}

#[derive(Clone, Debug)]
pub(crate) enum NodeValue {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Vec<Node>),
    /// No two members have the same name.
    Object(Vec<Member>),
    /// A value that has been reported as a mistake. There is nothing more to say about it.
    Broken,
}

/// A key of an object and its value.
#[derive(Clone, Debug)]
pub(crate) struct Member {
    pub(crate) name: String,
    /// The position of the key.
    pub(crate) position: SourcePosition,
    pub(crate) node: Node,
}

/// A position in a file. Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct SourcePosition {
    pub(crate) line: usize,
    pub(crate) column: usize,
}

impl SourcePosition {
    pub(crate) const START: Self = Self { line: 1, column: 1 };
}

impl Node {
    pub(crate) fn new(position: SourcePosition, value: NodeValue) -> Self {
        Self { position, value, is_verbatim: false }
    }

    /// Converts to JSON, without positions. Returns `None` if a part of the value is broken.
    pub(crate) fn to_json(&self) -> Option<Value> {
        Some(match &self.value {
            NodeValue::Null => Value::Null,
            NodeValue::Bool(value) => Value::Bool(*value),
            NodeValue::Number(number) => Value::Number(number.clone()),
            NodeValue::Text(text) => Value::String(text.clone()),
            NodeValue::Array(nodes) => Value::Array(nodes.iter().map(Self::to_json).collect::<Option<_>>()?),
            NodeValue::Object(members) => Value::Object(to_object(members)?),
            NodeValue::Broken => return None,
        })
    }

    pub(crate) fn text(&self) -> Option<&str> {
        match &self.value {
            NodeValue::Text(text) => Some(text),
            NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Number(_)
            | NodeValue::Array(_)
            | NodeValue::Object(_)
            | NodeValue::Broken => None,
        }
    }

    /// The type of the value, as messages name it.
    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            NodeValue::Null => "null",
            NodeValue::Bool(_) => "boolean",
            NodeValue::Number(_) => "number",
            NodeValue::Text(_) => "string",
            NodeValue::Array(_) => "array",
            NodeValue::Object(_) => "object",
            NodeValue::Broken => "nothing",
        }
    }

    /// The position of a byte of this text, or of the text itself where that is not known.
    pub(crate) fn position_inside(&self, at: usize) -> SourcePosition {
        match &self.value {
            NodeValue::Text(text) if self.is_verbatim => {
                let before = text.get(..at).unwrap_or_default().chars().count();
                SourcePosition { column: self.position.column + 1 + before, ..self.position }
            }
            NodeValue::Text(_)
            | NodeValue::Null
            | NodeValue::Bool(_)
            | NodeValue::Number(_)
            | NodeValue::Array(_)
            | NodeValue::Object(_)
            | NodeValue::Broken => self.position,
        }
    }

    /// The JSON pointer from this node to the value or key at a position.
    pub(crate) fn pointer_to(&self, position: SourcePosition) -> Option<String> {
        if self.position == position {
            return Some(String::new());
        }
        match &self.value {
            NodeValue::Array(nodes) => nodes
                .iter()
                .enumerate()
                .find_map(|(index, node)| node.pointer_to(position).map(|rest| format!("/{index}{rest}"))),
            NodeValue::Object(members) => members.iter().find_map(|member| {
                let rest =
                    if member.position == position { Some(String::new()) } else { member.node.pointer_to(position) };
                rest.map(|rest| format!("/{}{rest}", member.name.replace('~', "~0").replace('/', "~1")))
            }),
            NodeValue::Null | NodeValue::Bool(_) | NodeValue::Number(_) | NodeValue::Text(_) | NodeValue::Broken => {
                None
            }
        }
    }
}

pub(crate) fn to_object<'m>(members: impl IntoIterator<Item = &'m Member>) -> Option<Map<String, Value>> {
    members.into_iter().map(|member| Some((member.name.clone(), member.node.to_json()?))).collect()
}

/// Counts the values and keys of a file, so that no file becomes a tree that costs more than its text.
#[derive(Debug)]
pub(super) struct Count {
    kind: FileKind,
    values: usize,
}

impl Count {
    pub(super) fn new(kind: FileKind) -> Self {
        Self { kind, values: 0 }
    }

    /// Counts one more value. Returns false when the file is given up, which has been reported then.
    pub(super) fn add(&mut self, position: SourcePosition, mistakes: &mut Mistakes) -> bool {
        let FileKind { values_max, too_many, .. } = self.kind;
        self.values += 1;
        if self.values > values_max {
            mistakes.add(position, format!("more than {values_max} values in one file; {too_many}"));
        }
        self.values <= values_max && !mistakes.are_enough()
    }
}

/// Returns false when a value may not contain further values, which has been reported then.
pub(super) fn may_open(depth: usize, position: SourcePosition, mistakes: &mut Mistakes) -> bool {
    if depth >= DEPTH_MAX {
        mistakes.add(position, format!("nested deeper than {DEPTH_MAX} levels"));
    }
    depth < DEPTH_MAX
}

/// The message about the second of two equal keys. Parsers disagree on which of them counts, so neither does here.
pub(super) fn duplicate(name: &str, first: SourcePosition) -> String {
    let SourcePosition { line, column } = first;
    format!("duplicate key `{}`, first used at line {line}, column {column}; keep one of them", shown(name))
}
