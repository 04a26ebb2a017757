//! YAML or JSON as a value, with the line and column of everything in it.

use std::collections::HashMap;
use std::fmt;

use mcpproxy_core::Mistake;
use serde::de::{Deserialize, Deserializer, Error, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Number, Value};
use serde_saphyr::{Location, Spanned};

/// A parsed file, with the position of each part.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) value: Value,
    /// By JSON pointer.
    places: HashMap<String, (usize, usize)>,
}

impl Document {
    /// Parses YAML or JSON, which is a subset of YAML.
    pub(crate) fn parse(text: &str) -> Result<Self, Mistake> {
        // `y` and `off` are strings, as in JSON.
        let options = serde_saphyr::options! { strict_booleans: true };
        let node: Spanned<Node> = serde_saphyr::from_str_with_options(text, options).map_err(|error| {
            let (line, column) = error.location().map_or((1, 1), place);
            let whole = error.without_snippet().to_string();
            let first = whole.lines().next().unwrap_or_default();
            // The position is printed before the message.
            let message = first.rsplit_once(" at line ").map_or(first, |(message, _)| message);
            Mistake { line, column, message: crate::terminal::output::line(message) }
        })?;
        let mut document = Self { value: Value::Null, places: HashMap::new() };
        document.value = document.take(node, String::new());
        Ok(document)
    }

    /// Returns the line and column of a JSON pointer, or of its nearest existing parent.
    pub(crate) fn place(&self, pointer: &str) -> (usize, usize) {
        let mut pointer = pointer;
        loop {
            if let Some(place) = self.places.get(pointer) {
                return *place;
            }
            match pointer.rsplit_once('/') {
                Some((around, _)) => pointer = around,
                None => return (1, 1),
            }
        }
    }

    fn take(&mut self, node: Spanned<Node>, pointer: String) -> Value {
        let value = match node.value {
            Node::Scalar(value) => value,
            Node::List(nodes) => {
                let each = nodes.into_iter().enumerate();
                each.map(|(at, node)| self.take(node, format!("{pointer}/{at}"))).collect()
            }
            Node::Fields(fields) => {
                let mut map = Map::new();
                for (key, node) in fields {
                    let below = format!("{pointer}/{}", key.value.replace('~', "~0").replace('/', "~1"));
                    let at = place(key.referenced);
                    let value = self.take(node, below.clone());
                    // Point to the key, where a reader looks first.
                    self.places.insert(below, at);
                    map.insert(key.value, value);
                }
                Value::Object(map)
            }
        };
        self.places.insert(pointer, place(node.referenced));
        value
    }
}

fn place(location: Location) -> (usize, usize) {
    let number = |number: u64| usize::try_from(number).unwrap_or(usize::MAX).max(1);
    (number(location.line()), number(location.column()))
}

enum Node {
    Scalar(Value),
    List(Vec<Spanned<Node>>),
    Fields(Vec<(Spanned<String>, Spanned<Node>)>),
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(AnyNode)
    }
}

struct AnyNode;

impl<'de> Visitor<'de> for AnyNode {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_bool<E: Error>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_i64<E: Error>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_u64<E: Error>(self, value: u64) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_f64<E: Error>(self, value: f64) -> Result<Node, E> {
        Ok(Node::Scalar(Number::from_f64(value).map_or(Value::Null, Value::Number)))
    }

    fn visit_str<E: Error>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Scalar(value.into()))
    }

    fn visit_unit<E: Error>(self) -> Result<Node, E> {
        Ok(Node::Scalar(Value::Null))
    }

    fn visit_none<E: Error>(self) -> Result<Node, E> {
        self.visit_unit()
    }

    fn visit_some<D: Deserializer<'de>>(self, deserializer: D) -> Result<Node, D::Error> {
        Node::deserialize(deserializer)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut nodes: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = nodes.next_element()? {
            list.push(node);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(field) = fields.next_entry()? {
            list.push(field);
        }
        Ok(Node::Fields(list))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn everything_has_its_place() {
        let text = "- name: a\n  tool:\n    name: fx:drop\n    needs: [x, y]\n- {b/c: 1.5, d: null, e: true}\n";
        let document = Document::parse(text).unwrap();
        assert_eq!(
            document.value,
            json!([{"name": "a", "tool": {"name": "fx:drop", "needs": ["x", "y"]}}, {"b/c": 1.5, "d": null, "e": true}])
        );
        let check =
            |pointer: &str, expected: (usize, usize)| assert_eq!(document.place(pointer), expected, "{pointer}");
        check("", (1, 1));
        check("/0/name", (1, 3));
        check("/0/tool", (2, 3));
        check("/0/tool/needs/1", (4, 16));
        check("/0/tool/missing/deeper", (2, 3));
        check("/1/b~1c", (5, 4));
        check("/1/missing", (5, 3));
        check("/7", (1, 1));
    }

    #[test]
    fn json_is_read_the_same() {
        let document = Document::parse("{\n  \"cases\": [\n    {\"expect\": \"deny\"}\n  ]\n}").unwrap();
        assert_eq!(document.value, json!({"cases": [{"expect": "deny"}]}));
        assert_eq!(document.place("/cases/0/expect"), (3, 6));
    }

    #[test]
    fn what_cannot_be_read_has_a_place_too() {
        let check = |text: &str, line: usize| {
            let mistake = Document::parse(text).unwrap_err();
            assert_eq!(mistake.line, line, "{mistake}");
            assert!(!mistake.message.is_empty() && !mistake.message.contains(['\n', '\u{1b}']), "{mistake}");
        };
        check("- a\n- [b", 2);
        check("a: 1\na: 2\n", 2);
        check("a: 1\n  b: 2\n", 2);
    }
}
