//! JSON to tree, with comments and trailing commas as in the settings file.

use std::collections::HashMap;

use jsonc_parser::ast::{Object, ObjectPropName, Value as Parsed};
use jsonc_parser::common::Ranged;

use super::node::{Count, Member, Mistakes, Node, Place, Value, duplicate, may_open};
use crate::settings::syntax;

/// The value of a file; `None` if it cannot be read, which has been complained about then.
pub(super) fn document(text: &str, mistakes: &mut Mistakes) -> Option<Node> {
    let mut cursor = Cursor { text, at: 0, place: Place::START };
    match syntax::parse(text) {
        Err((at, message)) => {
            mistakes.add(cursor.place_of(at), message);
            None
        }
        Ok(None) => {
            mistakes.add(Place::START, "the file is empty; write `[]` for no contracts");
            None
        }
        Ok(Some(parsed)) => Builder { cursor, count: Count::default(), mistakes }.node(&parsed, 0),
    }
}

/// Knows the places of ever later offsets. Counting from the start of the line each time would take a second for a file
/// that is one long line.
struct Cursor<'t> {
    text: &'t str,
    at: usize,
    place: Place,
}

impl Cursor<'_> {
    fn place_of(&mut self, at: usize) -> Place {
        let passed = self.text.get(self.at..at).unwrap_or_default();
        let mut chars = passed.chars().peekable();
        while let Some(c) = chars.next() {
            let ends_line = match c {
                '\n' => true,
                '\r' => !matches!(chars.peek(), Some('\n')),
                _ => false,
            };
            if ends_line {
                self.place = Place { line: self.place.line + 1, column: 1 };
            } else {
                self.place.column += 1;
            }
        }
        self.at = self.at.max(at);
        self.place
    }
}

struct Builder<'t, 'm> {
    cursor: Cursor<'t>,
    count: Count,
    mistakes: &'m mut Mistakes,
}

impl Builder<'_, '_> {
    /// `None` when the file is given up.
    fn node(&mut self, parsed: &Parsed<'_>, depth: usize) -> Option<Node> {
        let place = self.cursor.place_of(parsed.range().start);
        if !self.count.add(place, self.mistakes) {
            return None;
        }
        let value = match parsed {
            Parsed::StringLit(literal) => Value::Text(literal.value.as_ref().to_owned()),
            Parsed::BooleanLit(literal) => Value::Bool(literal.value),
            Parsed::NullKeyword(_) => Value::Null,
            Parsed::NumberLit(literal) => match serde_json::from_str(literal.value) {
                Ok(number) => Value::Number(number),
                Err(_) => {
                    self.mistakes.add(place, "expected a plain number such as 10, and none too large");
                    Value::Broken
                }
            },
            Parsed::Array(_) | Parsed::Object(_) if !may_open(depth, place, self.mistakes) => return None,
            Parsed::Array(array) => {
                let nodes = array.elements.iter().map(|element| self.node(element, depth + 1));
                Value::Array(nodes.collect::<Option<_>>()?)
            }
            Parsed::Object(object) => Value::Object(self.members(object, depth)?),
        };
        Some(Node { place, value })
    }

    fn members(&mut self, object: &Object<'_>, depth: usize) -> Option<Vec<Member>> {
        let mut seen = HashMap::new();
        let mut members = Vec::new();
        for property in &object.properties {
            let name = match &property.name {
                ObjectPropName::String(literal) => literal.value.as_ref(),
                ObjectPropName::Word(literal) => literal.value,
            };
            let place = self.cursor.place_of(property.name.range().start);
            if !self.count.add(place, self.mistakes) {
                return None;
            }
            let node = self.node(&property.value, depth + 1)?;
            if let Some(first) = seen.get(name).copied() {
                self.mistakes.add_with(place, || duplicate(name, first));
                continue;
            }
            seen.insert(name, place);
            members.push(Member { name: name.to_owned(), place, node });
        }
        Some(members)
    }
}

/// The JSON pointer to what stands at a place; `None` if nothing does.
pub(super) fn pointer(root: &Node, place: Place) -> Option<String> {
    if root.place == place {
        return Some(String::new());
    }
    match &root.value {
        Value::Array(nodes) => nodes
            .iter()
            .enumerate()
            .find_map(|(index, node)| pointer(node, place).map(|rest| format!("/{index}{rest}"))),
        Value::Object(members) => members.iter().find_map(|Member { name, place: key, node }| {
            let rest = if *key == place { Some(String::new()) } else { pointer(node, place) };
            rest.map(|rest| format!("/{}{rest}", name.replace('~', "~0").replace('/', "~1")))
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::Text(_) | Value::Broken => None,
    }
}
