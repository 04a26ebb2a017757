//! A small tree of values, each with its place in the file, whatever the file was written in.

use serde_json::{Map, Number, Value as Json};

use crate::Mistake;

/// Deepest nesting of a contract file, and of a server's contract.
pub(super) const DEPTH_MAX: usize = 32;
/// Most values and keys of one file.
pub(super) const NODES_MAX: usize = 50_000;
/// Nobody reads more than this, and a hostile file cannot make us write more.
const MISTAKES_MAX: usize = 100;

#[derive(Debug)]
pub(super) struct Node {
    pub(super) place: Place,
    pub(super) value: Value,
}

#[derive(Debug)]
pub(super) enum Value {
    Null,
    Bool(bool),
    Number(Number),
    Text(String),
    Array(Vec<Node>),
    /// No two members have the same name.
    Object(Vec<Member>),
    /// Something was here that has been complained about; there is nothing more to say.
    Broken,
}

#[derive(Debug)]
pub(super) struct Member {
    pub(super) name: String,
    /// Of the name.
    pub(super) place: Place,
    pub(super) node: Node,
}

/// Lines and columns count from 1, columns in characters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Place {
    pub(super) line: usize,
    pub(super) column: usize,
}

impl Place {
    pub(super) const START: Self = Self { line: 1, column: 1 };
}

impl Node {
    /// The same value without places; `None` if a part of it is broken.
    pub(super) fn to_json(&self) -> Option<Json> {
        Some(match &self.value {
            Value::Null => Json::Null,
            Value::Bool(value) => Json::Bool(*value),
            Value::Number(number) => Json::Number(number.clone()),
            Value::Text(text) => Json::String(text.clone()),
            Value::Array(nodes) => Json::Array(nodes.iter().map(Self::to_json).collect::<Option<_>>()?),
            Value::Object(members) => Json::Object(to_object(members)?),
            Value::Broken => return None,
        })
    }

    pub(super) fn kind(&self) -> &'static str {
        match self.value {
            Value::Null => "null",
            Value::Bool(_) => "boolean",
            Value::Number(_) => "number",
            Value::Text(_) => "string",
            Value::Array(_) => "array",
            Value::Object(_) => "object",
            Value::Broken => "nothing",
        }
    }
}

pub(super) fn to_object<'m>(members: impl IntoIterator<Item = &'m Member>) -> Option<Map<String, Json>> {
    members.into_iter().map(|member| Some((member.name.clone(), member.node.to_json()?))).collect()
}

/// What is wrong with one file.
#[derive(Debug, Default)]
pub(super) struct Mistakes {
    found: Vec<Mistake>,
    are_more: bool,
}

impl Mistakes {
    pub(super) fn add(&mut self, place: Place, message: impl Into<String>) {
        self.add_with(place, || message.into());
    }

    /// As `add`, for a message that takes long to make.
    pub(super) fn add_with(&mut self, Place { line, column }: Place, message: impl FnOnce() -> String) {
        if self.found.len() < MISTAKES_MAX {
            self.found.push(Mistake { line, column, message: message() });
        } else {
            self.are_more = true;
        }
    }

    /// Whether there are more than are listed, so that looking for others is a waste.
    pub(super) fn are_enough(&self) -> bool {
        self.are_more
    }

    /// All of them, in the order of the file.
    pub(super) fn in_order(mut self) -> Vec<Mistake> {
        self.found.sort_by_key(|mistake| (mistake.line, mistake.column));
        if let Some(&Mistake { line, column, .. }) = self.found.last()
            && self.are_more
        {
            let message = "and more mistakes; fix these first".to_owned();
            self.found.push(Mistake { line, column, message });
        }
        self.found
    }
}

/// Counts the values and keys of a file, so that no file becomes a tree that costs more than its text.
#[derive(Debug, Default)]
pub(super) struct Count(usize);

impl Count {
    /// One more; `false` when the file is given up, which has been complained about then.
    pub(super) fn add(&mut self, place: Place, mistakes: &mut Mistakes) -> bool {
        self.0 += 1;
        if self.0 > NODES_MAX {
            mistakes.add(place, format!("more than {NODES_MAX} values in one file; spread the contracts over several"));
        }
        self.0 <= NODES_MAX && !mistakes.are_enough()
    }
}

/// `false` when a value may not have further values inside it, which has been complained about then.
pub(super) fn may_open(depth: usize, place: Place, mistakes: &mut Mistakes) -> bool {
    if depth >= DEPTH_MAX {
        mistakes.add(place, format!("nested deeper than {DEPTH_MAX} levels"));
    }
    depth < DEPTH_MAX
}

/// What is said about the second of two equal keys. Which of them counts differs from parser to parser, so neither does.
pub(super) fn duplicate(name: &str, first: Place) -> String {
    let name = crate::settings::suggest::shown(name);
    let Place { line, column } = first;
    format!("duplicate key `{name}`, first used at line {line}, column {column}; keep one of them")
}
