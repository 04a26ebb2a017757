//! Builds the tree of a JSON file with comments and trailing commas.

use std::collections::HashMap;

use jsonc_parser::ast::{Object, ObjectPropName, Value};
use jsonc_parser::common::Ranged;

use super::node::{Count, Member, Node, NodeValue, SourcePosition, duplicate, may_open};
use super::{FileKind, Mistakes, jsonc_syntax};
use crate::json::is_exact;

/// Returns the value of a file, or `None` if it cannot be read, which has been reported then.
pub(super) fn document(text: &str, kind: FileKind, mistakes: &mut Mistakes) -> Option<Node> {
    let mut cursor = Cursor { text, at: 0, position: SourcePosition::START };
    match jsonc_syntax::parse(text) {
        Err((at, message)) => {
            mistakes.add(cursor.position_of(at), message);
            None
        }
        Ok(None) => {
            mistakes.add(SourcePosition::START, format!("the file is empty; {}", kind.empty));
            None
        }
        Ok(Some(value)) => Builder { cursor, count: Count::new(kind), mistakes }.node(&value, 0),
    }
}

/// Converts ever later offsets to positions. Counting from the start of the line each time would take a second for a
/// file that is one long line.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    position: SourcePosition,
}

impl Cursor<'_> {
    fn position_of(&mut self, at: usize) -> SourcePosition {
        let passed = self.text.get(self.at..at).unwrap_or_default();
        let mut chars = passed.chars().peekable();
        while let Some(c) = chars.next() {
            let ends_line = match c {
                '\n' => true,
                '\r' => !matches!(chars.peek(), Some('\n')),
                _ => false,
            };
            if ends_line {
                self.position = SourcePosition { line: self.position.line + 1, column: 1 };
            } else {
                self.position.column += 1;
            }
        }
        self.at = self.at.max(at);
        self.position
    }
}

struct Builder<'t, 'm> {
    cursor: Cursor<'t>,
    count: Count,
    mistakes: &'m mut Mistakes,
}

impl Builder<'_, '_> {
    /// Returns `None` when the file is given up.
    fn node(&mut self, parsed: &Value<'_>, depth: usize) -> Option<Node> {
        let range = parsed.range();
        let position = self.cursor.position_of(range.start);
        if !self.count.add(position, self.mistakes) {
            return None;
        }
        let value = match parsed {
            Value::StringLit(literal) => {
                let text = literal.value.as_ref().to_owned();
                let is_verbatim = range.end - range.start == text.len() + 2;
                return Some(Node { position, value: NodeValue::Text(text), is_verbatim });
            }
            Value::BooleanLit(literal) => NodeValue::Bool(literal.value),
            Value::NullKeyword(_) => NodeValue::Null,
            Value::NumberLit(literal) => match serde_json::from_str(literal.value) {
                Ok(number) if is_exact(literal.value) => NodeValue::Number(number),
                Ok(_) => {
                    self.mistakes.add(position, "this number has more digits than 64 bits hold exactly; use fewer");
                    NodeValue::Broken
                }
                Err(_) => {
                    self.mistakes.add(position, "expected a plain number such as 10 that is not too large");
                    NodeValue::Broken
                }
            },
            Value::Array(_) | Value::Object(_) if !may_open(depth, position, self.mistakes) => return None,
            Value::Array(array) => {
                let nodes = array.elements.iter().map(|element| self.node(element, depth + 1));
                NodeValue::Array(nodes.collect::<Option<_>>()?)
            }
            Value::Object(object) => NodeValue::Object(self.members(object, depth)?),
        };
        Some(Node::new(position, value))
    }

    fn members(&mut self, object: &Object<'_>, depth: usize) -> Option<Vec<Member>> {
        let mut first_used = HashMap::new();
        let mut members = Vec::new();
        for property in &object.properties {
            let name = match &property.name {
                ObjectPropName::String(literal) => literal.value.as_ref(),
                ObjectPropName::Word(literal) => literal.value,
            };
            let position = self.cursor.position_of(property.name.range().start);
            if !self.count.add(position, self.mistakes) {
                return None;
            }
            let node = self.node(&property.value, depth + 1)?;
            if let Some(first) = first_used.get(name).copied() {
                self.mistakes.add_with(position, || duplicate(name, first));
                continue;
            }
            first_used.insert(name, position);
            members.push(Member { name: name.to_owned(), position, node });
        }
        Some(members)
    }
}
