//! Takes typed values out of a tree, and collects what is wrong with them.

use std::fmt::Display;
use std::ops::RangeInclusive;
use std::time::Duration;

use super::amount::duration;
use super::{Keys, Member, Mistakes, Node, NodeValue, SourcePosition, list, shown, words};
use crate::Untrusted;

/// The author of what is read.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Author {
    /// Everything unexpected is a mistake.
    Operator,
    /// A server may know more keys than the gateway does, so unknown keys and `null` are ignored.
    Server,
}

/// Reads values. Each method returns `None` for a value that is wrong, after it has reported the mistake.
///
/// `context` is for what a kind of file needs beside the tree: settings resolve `${env:NAME}` references with it.
pub(crate) struct Reader<'m, C = ()> {
    pub(crate) author: Author,
    pub(crate) context: C,
    mistakes: &'m mut Mistakes,
}

/// The known keys that an object has.
#[derive(Default)]
pub(crate) struct Fields<'n>(Vec<&'n Member>);

impl<'n> Fields<'n> {
    pub(crate) fn find(&self, name: &str) -> Option<&'n Member> {
        self.0.iter().find(|member| member.name == name).copied()
    }
}

impl<'m, C> Reader<'m, C> {
    pub(crate) fn new(author: Author, context: C, mistakes: &'m mut Mistakes) -> Self {
        Self { author, context, mistakes }
    }

    pub(crate) fn report(&mut self, position: SourcePosition, message: impl Into<String>) {
        self.mistakes.add(position, message);
    }

    /// Reports a mistake, for a value that then does not exist.
    pub(crate) fn mistake<T>(&mut self, position: SourcePosition, message: impl Into<String>) -> Option<T> {
        self.report(position, message);
        None
    }

    /// Returns every member of an object, whatever its name.
    pub(crate) fn object<'n>(&mut self, node: &'n Node) -> Option<&'n [Member]> {
        let NodeValue::Object(members) = &node.value else { return self.wrong_type(node, "object") };
        Some(members)
    }

    /// Returns the known members of an object. In an operator's file, unknown members are mistakes.
    pub(crate) fn fields<'n>(&mut self, node: &'n Node, keys: &Keys) -> Option<Fields<'n>> {
        let mut fields = Vec::new();
        for member in self.object(node)? {
            let name = member.name.as_str();
            let is_null = matches!(member.node.value, NodeValue::Null);
            match self.author {
                Author::Operator if !keys.known.contains(&name) => {
                    let message = || format!("unknown key `{}`; {}", shown(name), keys.advice(name));
                    self.mistakes.add_with(member.position, message);
                }
                Author::Server if is_null || !keys.known.contains(&name) => {}
                Author::Operator | Author::Server => fields.push(member),
            }
        }
        Some(Fields(fields))
    }

    /// Returns a required field.
    pub(crate) fn required<'n>(
        &mut self,
        object: &Node,
        fields: &Fields<'n>,
        name: &str,
        example: &str,
    ) -> Option<&'n Node> {
        match fields.find(name) {
            Some(member) => Some(&member.node),
            None => self.mistake(object.position, format!("`{name}` is missing; write {example}")),
        }
    }

    pub(crate) fn string<'n>(&mut self, node: &'n Node) -> Option<&'n str> {
        match &node.value {
            NodeValue::Text(text) => Some(text),
            NodeValue::Number(_) | NodeValue::Bool(_) => self.wrong_type_but(node, "string", "; put it in quotes"),
            NodeValue::Null | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {
                self.wrong_type(node, "string")
            }
        }
    }

    /// Returns the text of a field, if the field is there.
    pub(crate) fn string_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<String> {
        fields.find(name).and_then(|member| self.string(&member.node)).map(str::to_owned)
    }

    pub(crate) fn boolean(&mut self, node: &Node) -> Option<bool> {
        match &node.value {
            NodeValue::Bool(value) => Some(*value),
            NodeValue::Text(text) => {
                let hint = match text.to_ascii_lowercase().as_str() {
                    "true" | "false" => "; remove the quotes",
                    "yes" | "on" => "; write `true`",
                    "no" | "off" => "; write `false`",
                    _ => "",
                };
                self.wrong_type_but(node, "boolean", hint)
            }
            NodeValue::Null | NodeValue::Number(_) | NodeValue::Array(_) | NodeValue::Object(_) | NodeValue::Broken => {
                self.wrong_type(node, "boolean")
            }
        }
    }

    pub(crate) fn boolean_of(&mut self, fields: &Fields<'_>, name: &str) -> Option<bool> {
        fields.find(name).and_then(|member| self.boolean(&member.node))
    }

    /// Reads one of a few words.
    pub(crate) fn choice<T: Copy>(&mut self, node: &Node, choices: &[(&'static str, T)]) -> Option<T> {
        let NodeValue::Text(word) = &node.value else {
            return self.wrong_type(node, &format!("one of {}", list(words(choices))));
        };
        let chosen = choices.iter().find(|(name, _)| name == word).map(|(_, choice)| *choice);
        chosen.or_else(|| {
            let message = format!("unknown value `{}`; write one of {}", shown(word), list(words(choices)));
            self.mistake(node.position, message)
        })
    }

    pub(crate) fn choice_of<T: Copy>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        choices: &[(&'static str, T)],
    ) -> Option<T> {
        fields.find(name).and_then(|member| self.choice(&member.node, choices))
    }

    /// Reads a text of limited length.
    pub(crate) fn text(&mut self, node: &Node, max_chars: usize) -> Option<Untrusted> {
        let text = self.string(node)?;
        if text.chars().count() > max_chars {
            return self.mistake(node.position, format!("longer than {max_chars} characters"));
        }
        Some(Untrusted::new(text))
    }

    /// Reads a text with `parse`.
    pub(crate) fn parsed<T>(&mut self, node: &Node, parse: impl Fn(&str) -> Result<T, String>) -> Option<T> {
        let parsed = parse(self.string(node)?);
        self.checked(node, parsed)
    }

    pub(crate) fn parsed_of<T>(
        &mut self,
        fields: &Fields<'_>,
        name: &str,
        parse: impl Fn(&str) -> Result<T, String>,
    ) -> Option<T> {
        fields.find(name).and_then(|member| self.parsed(&member.node, parse))
    }

    /// Returns the result of a check of `node`, and reports its error.
    pub(crate) fn checked<T>(&mut self, node: &Node, result: Result<T, String>) -> Option<T> {
        match result {
            Ok(value) => Some(value),
            Err(message) => self.mistake(node.position, message),
        }
    }

    pub(crate) fn array<'n>(&mut self, node: &'n Node) -> Option<&'n [Node]> {
        let NodeValue::Array(nodes) = &node.value else { return self.wrong_type(node, "array") };
        Some(nodes)
    }

    /// Reads a list without duplicates. One wrong element makes the whole list wrong.
    pub(crate) fn list<T: PartialEq>(
        &mut self,
        node: &Node,
        max: usize,
        mut read: impl FnMut(&mut Self, &Node) -> Option<T>,
    ) -> Option<Vec<T>> {
        let nodes = self.array(node)?;
        if nodes.len() > max {
            return self.mistake(node.position, format!("{} entries; at most {max} are possible", nodes.len()));
        }
        let mut found: Vec<T> = Vec::with_capacity(nodes.len());
        let mut is_whole = true;
        for node in nodes {
            match read(self, node) {
                None => is_whole = false,
                Some(value) if found.contains(&value) => match self.author {
                    // A duplicate from a server is harmless.
                    Author::Server => {}
                    Author::Operator => {
                        is_whole = false;
                        self.report(node.position, "written twice; remove one of them");
                    }
                },
                Some(value) => found.push(value),
            }
        }
        is_whole.then_some(found)
    }

    pub(crate) fn whole_number<N>(&mut self, node: &Node, range: RangeInclusive<N>) -> Option<N>
    where
        N: Copy + Display + PartialOrd + TryFrom<u64>,
    {
        let NodeValue::Number(number) = &node.value else { return self.wrong_type(node, "number") };
        let number = number.as_u64().and_then(|number| N::try_from(number).ok());
        number.filter(|number| range.contains(number)).or_else(|| {
            self.mistake(node.position, format!("expected a whole number from {} to {}", range.start(), range.end()))
        })
    }

    /// Reads a duration of at least a second.
    pub(crate) fn duration(&mut self, node: &Node, max: Duration, max_text: &str) -> Option<Duration> {
        const EXAMPLE: &str = "a duration such as \"30s\", \"5m\" or \"24h\"";
        let NodeValue::Text(text) = &node.value else { return self.wrong_type(node, EXAMPLE) };
        match duration(text) {
            None => self.mistake(node.position, format!("expected {EXAMPLE}")),
            Some(duration) if duration >= Duration::from_secs(1) && duration <= max => Some(duration),
            Some(_) => self.mistake(node.position, format!("expected a duration between \"1s\" and \"{max_text}\"")),
        }
    }

    pub(crate) fn wrong_type<T>(&mut self, node: &Node, expected: &str) -> Option<T> {
        let hint = if matches!(node.value, NodeValue::Null) { "; fill it in or remove it" } else { "" };
        self.wrong_type_but(node, expected, hint)
    }

    /// As [`Self::wrong_type`], with a hint. A broken value has been reported already.
    pub(crate) fn wrong_type_but<T>(&mut self, node: &Node, expected: &str, hint: &str) -> Option<T> {
        if !matches!(node.value, NodeValue::Broken) {
            self.report(node.position, format!("expected {expected}, found {}{hint}", node.kind()));
        }
        None
    }
}
