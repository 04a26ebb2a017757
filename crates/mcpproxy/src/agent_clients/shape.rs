//! The shape of an entry: a tree with places for the address, the token and the program.

use serde_json::{Map, Value};

/// A node of an entry. The members of an object keep their order.
pub(crate) enum Shape {
    Text(&'static str),
    Bool(bool),
    Number(u32),
    /// The address of the gateway, such as `http://127.0.0.1:8080/mcp`.
    Url,
    /// `Bearer` and the token.
    Bearer,
    /// The full path of `mcpproxy`. Desktop applications often have a short `PATH`.
    Program,
    /// The arguments of `mcpproxy`, as a list.
    Arguments,
    /// Program and arguments in one list.
    CommandLine,
    List(&'static [Shape]),
    Object(&'static [(&'static str, Shape)]),
}

/// The values for the places of a shape.
#[derive(Clone, Debug)]
pub(crate) struct EntryValues {
    pub(crate) url: String,
    pub(crate) token: String,
    pub(crate) program: String,
    pub(crate) arguments: Vec<String>,
}

impl Shape {
    pub(crate) fn fill(&self, values: &EntryValues) -> Value {
        let texts = |texts: &[String]| Value::Array(texts.iter().cloned().map(Value::String).collect());
        match self {
            Self::Text(text) => Value::from(*text),
            Self::Bool(value) => Value::from(*value),
            Self::Number(number) => Value::from(*number),
            Self::Url => Value::from(values.url.as_str()),
            Self::Bearer => Value::from(format!("Bearer {}", values.token)),
            Self::Program => Value::from(values.program.as_str()),
            Self::Arguments => texts(&values.arguments),
            Self::CommandLine => {
                let program = std::iter::once(values.program.clone());
                texts(&program.chain(values.arguments.iter().cloned()).collect::<Vec<_>>())
            }
            Self::List(items) => Value::Array(items.iter().map(|item| item.fill(values)).collect()),
            Self::Object(members) => {
                let members = members.iter().map(|(name, value)| ((*name).to_owned(), value.fill(values)));
                Value::Object(members.collect::<Map<_, _>>())
            }
        }
    }
}
