//! Takes values out of the tree, and collects what is wrong with them.

use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use super::Written;
use super::keys::{Keys, words};
use super::node::{Mistakes, Node, Place, Value};
use crate::Untrusted;
use crate::schema::Schema;
use crate::settings::amount::duration;
use crate::settings::suggest::{list, shown};

/// Who wrote what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Writer {
    /// Every slip is worth a word.
    Operator,
    /// It may know more than we do, so what we do not know is left alone.
    Server,
}

pub(super) struct Reader<'m> {
    pub(super) writer: Writer,
    mistakes: &'m mut Mistakes,
}

/// The known keys of an object that are there.
pub(super) struct Fields<'n>(Vec<Field<'n>>);

#[derive(Clone, Copy)]
pub(super) struct Field<'n> {
    name: &'n str,
    /// Of the key.
    pub(super) place: Place,
    pub(super) node: &'n Node,
}

impl<'n> Fields<'n> {
    pub(super) fn find(&self, name: &str) -> Option<Field<'n>> {
        self.0.iter().find(|field| field.name == name).copied()
    }
}

impl<'m> Reader<'m> {
    pub(super) fn new(writer: Writer, mistakes: &'m mut Mistakes) -> Self {
        Self { writer, mistakes }
    }

    pub(super) fn mistake<T>(&mut self, place: Place, message: impl Into<String>) -> Option<T> {
        self.mistakes.add(place, message);
        None
    }

    /// The keys of an object that we know; the others are mistakes of an operator.
    pub(super) fn fields<'n>(&mut self, node: &'n Node, keys: &Keys) -> Option<Fields<'n>> {
        let Value::Object(members) = &node.value else { return self.wrong_type(node, "object") };
        let mut fields = Vec::new();
        for member in members {
            let is_known = keys.known.contains(&member.name.as_str());
            if is_known && !(self.writer == Writer::Server && matches!(member.node.value, Value::Null)) {
                fields.push(Field { name: &member.name, place: member.place, node: &member.node });
            } else if self.writer == Writer::Operator {
                let name = member.name.as_str();
                let message = || format!("unknown key `{}`; {}", shown(name), keys.advice(name));
                self.mistakes.add_with(member.place, message);
            }
        }
        Some(Fields(fields))
    }

    /// One field with its place, if it is there and right.
    pub(super) fn field<'n, T>(
        &mut self,
        fields: &Fields<'n>,
        name: &str,
        read: impl FnOnce(&mut Self, &'n Node) -> Option<T>,
    ) -> Option<Written<T>> {
        let field = fields.find(name)?;
        let value = read(self, field.node)?;
        let Place { line, column } = match self.writer {
            Writer::Operator => field.place,
            Writer::Server => Place { line: 0, column: 0 },
        };
        Some(Written { value, line, column })
    }

    /// A field without which its object means nothing.
    pub(super) fn required<'n>(
        &mut self,
        of: &Node,
        fields: &Fields<'n>,
        name: &str,
        example: &str,
    ) -> Option<&'n Node> {
        match fields.find(name) {
            Some(field) => Some(field.node),
            None => self.mistake(of.place, format!("`{name}` is missing; write {example}")),
        }
    }

    pub(super) fn string<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            Value::Text(text) => Some(text),
            Value::Number(_) | Value::Bool(_) => self.wrong_type_but(node, "string", "; put it in quotes"),
            _ => self.wrong_type(node, "string"),
        }
    }

    pub(super) fn boolean(&mut self, node: &Node) -> Option<bool> {
        match &node.value {
            Value::Bool(value) => Some(*value),
            Value::Text(text) => {
                let hint = match text.to_ascii_lowercase().as_str() {
                    "true" | "false" => "; remove the quotes",
                    "yes" | "on" => "; write `true`",
                    "no" | "off" => "; write `false`",
                    _ => "",
                };
                self.wrong_type_but(node, "boolean", hint)
            }
            _ => self.wrong_type(node, "boolean"),
        }
    }

    pub(super) fn choice<T: Copy>(&mut self, node: &Node, choices: &'static [(&'static str, T)]) -> Option<T> {
        let known = || list(words(choices));
        let Value::Text(word) = &node.value else {
            return self.wrong_type(node, &format!("one of {}", known()));
        };
        let chosen = choices.iter().find(|(name, _)| name == word).map(|(_, choice)| *choice);
        chosen
            .or_else(|| self.mistake(node.place, format!("unknown value `{}`; write one of {}", shown(word), known())))
    }

    pub(super) fn text(&mut self, node: &Node, max_chars: usize) -> Option<Untrusted> {
        let text = self.string(node)?;
        if text.chars().count() > max_chars {
            return self.mistake(node.place, format!("longer than {max_chars} characters"));
        }
        Some(Untrusted::new(text))
    }

    /// A string that means something.
    pub(super) fn parsed<T>(&mut self, node: &Node, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        match parse(self.string(node)?) {
            Ok(parsed) => Some(parsed),
            Err(message) => self.mistake(node.place, message),
        }
    }

    /// A list without repetitions; one that goes wrong in part is wrong as a whole.
    pub(super) fn list<T: PartialEq>(
        &mut self,
        node: &Node,
        max: usize,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let Value::Array(nodes) = &node.value else { return self.wrong_type(node, "array") };
        if nodes.len() > max {
            return self.mistake(node.place, format!("{} entries; at most {max} are possible", nodes.len()));
        }
        let mut found: Vec<T> = Vec::with_capacity(nodes.len());
        let mut is_whole = true;
        for node in nodes {
            match read(self, node) {
                None => is_whole = false,
                Some(value) if found.contains(&value) => {
                    // A server that says a thing twice has still said it.
                    if self.writer == Writer::Operator {
                        is_whole = false;
                        self.mistakes.add(node.place, "written twice; remove one of them");
                    }
                }
                Some(value) => found.push(value),
            }
        }
        is_whole.then_some(found)
    }

    pub(super) fn whole_number(&mut self, node: &Node, range: RangeInclusive<u32>) -> Option<u32> {
        let Value::Number(number) = &node.value else { return self.wrong_type(node, "number") };
        let number = number.as_u64().and_then(|number| u32::try_from(number).ok());
        number.filter(|number| range.contains(number)).or_else(|| {
            self.mistake(node.place, format!("expected a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// A duration of at least a second.
    pub(super) fn duration(&mut self, node: &Node, max: Duration, max_text: &str) -> Option<Duration> {
        const EXAMPLE: &str = "a duration such as \"30s\", \"5m\" or \"24h\"";
        let Value::Text(text) = &node.value else { return self.wrong_type(node, EXAMPLE) };
        match duration(text) {
            None => self.mistake(node.place, format!("expected {EXAMPLE}")),
            Some(duration) if duration >= Duration::from_secs(1) && duration <= max => Some(duration),
            Some(_) => self.mistake(node.place, format!("expected a duration between \"1s\" and \"{max_text}\"")),
        }
    }

    /// A schema of this text, which stands at `node`.
    pub(super) fn schema(&mut self, node: &Node, json: &serde_json::Value) -> Option<Arc<Schema>> {
        let text = json.to_string();
        let unusable = |why: &str| format!("unusable schema: {}", Untrusted::shortened(why, 400).for_terminal());
        // JSON from outside passes the strict reader, also when it was written as YAML.
        if let Err(error) = crate::json::read_server(text.as_bytes()) {
            return self.mistake(node.place, unusable(&error.kind.to_string()));
        }
        let schema = match self.writer {
            Writer::Operator => Schema::parse(&text),
            // Of a server, thousands of tools come at once, and few of them are ever called.
            Writer::Server => Schema::deferred(&text),
        };
        match schema {
            Ok(schema) => Some(Arc::new(schema)),
            Err(error) => self.mistake(node.place, unusable(&error.to_string())),
        }
    }

    pub(super) fn wrong_type<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let hint = if matches!(node.value, Value::Null) { "; fill it in or remove it" } else { "" };
        self.wrong_type_but(node, expected, hint)
    }

    fn wrong_type_but<T>(&mut self, node: &Node, expected: &str, hint: &str) -> Option<T> {
        if !matches!(node.value, Value::Broken) {
            self.mistakes.add(node.place, format!("expected {expected}, found {}{hint}", node.kind()));
        }
        None
    }
}
