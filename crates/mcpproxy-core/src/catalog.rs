//! What the servers offer, as one immutable list that listing and calling share.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

use crate::json::{members, string_value};
use crate::{NameError, Scope, ServerName, ToolName, Untrusted, Variant};

/// All tools of all servers. A tool that is not in here does not exist for agents.
#[derive(Clone, Debug, Default)]
pub struct Catalog {
    servers: BTreeMap<ServerName, Arc<Offer>>,
}

/// The tools of one server.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    tools: Vec<Arc<Tool>>,
    by_name: HashMap<String, usize>,
}

/// One tool, with its server's own words for it.
#[derive(Debug, PartialEq, Eq)]
pub struct Tool {
    pub name: ToolName,
    pub description: Untrusted,
    pub hints: Hints,
    /// The server's own JSON for the tool, byte for byte.
    pub json: String,
}

/// The two annotations that matter for the choice of a variant.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Hints {
    pub read_only: Option<bool>,
    pub destructive: Option<bool>,
}

/// Why a tool that a server offers is not in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("not a JSON object")]
    NotAnObject,
    #[error("it has no name")]
    NoName,
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("`inputSchema` must be an object")]
    Schema,
    #[error("`annotations.{0}` must be true or false")]
    Hint(&'static str),
    #[error("another tool has the same name")]
    Twice,
}

impl Catalog {
    pub fn new(servers: impl IntoIterator<Item = (ServerName, Arc<Offer>)>) -> Self {
        Self { servers: servers.into_iter().collect() }
    }

    pub fn resolve(&self, name: &ToolName) -> Option<&Arc<Tool>> {
        self.servers.get(name.server())?.find(name.tool())
    }

    pub fn offer(&self, server: &ServerName) -> Option<&Arc<Offer>> {
        self.servers.get(server)
    }

    /// Every tool an agent may see, by server and in the server's own order.
    pub fn visible<'a>(&'a self, scope: &'a Scope) -> impl Iterator<Item = &'a Arc<Tool>> + 'a {
        self.servers.iter().filter(|(server, _)| scope.sees(server)).flat_map(|(_, offer)| offer.tools())
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.servers.values().flat_map(|offer| offer.tools())
    }
}

impl Offer {
    /// Takes what is sound; the rest comes back with the reason, so that one bad tool never hides a server.
    pub fn new(tools: impl IntoIterator<Item = Result<Tool, (String, ToolError)>>) -> (Self, Vec<(String, ToolError)>) {
        let mut offer = Self::default();
        let mut hidden = Vec::new();
        for tool in tools {
            match tool {
                Err(refused) => hidden.push(refused),
                Ok(tool) if offer.by_name.contains_key(tool.name.tool()) => {
                    hidden.push((tool.name.tool().to_owned(), ToolError::Twice));
                }
                Ok(tool) => {
                    offer.by_name.insert(tool.name.tool().to_owned(), offer.tools.len());
                    offer.tools.push(Arc::new(tool));
                }
            }
        }
        (offer, hidden)
    }

    pub fn find(&self, tool: &str) -> Option<&Arc<Tool>> {
        self.tools.get(*self.by_name.get(tool)?)
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Tool>> {
        self.tools.iter()
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

impl Tool {
    /// Reads one element of a server's `tools/list`. The name comes back with an error, as far as there is one.
    pub fn parse(server: &ServerName, json: &str) -> Result<Self, (String, ToolError)> {
        let Some(fields) = members(json) else { return Err((String::new(), ToolError::NotAnObject)) };
        let field = |wanted: &str| fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
        let own_name = field("name").and_then(string_value).unwrap_or_default().into_owned();
        let refuse = |error: ToolError| (own_name.clone(), error);
        if own_name.is_empty() {
            return Err(refuse(ToolError::NoName));
        }
        let name = ToolName::of(server, &own_name).map_err(|error| refuse(error.into()))?;
        if !field("inputSchema").is_some_and(|schema| schema.starts_with('{')) {
            return Err(refuse(ToolError::Schema));
        }
        let annotations = field("annotations").and_then(members).unwrap_or_default();
        let hint =
            |wanted: &'static str| match annotations.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value) {
                None | Some("null") => Ok(None),
                Some("true") => Ok(Some(true)),
                Some("false") => Ok(Some(false)),
                Some(_) => Err(refuse(ToolError::Hint(wanted))),
            };
        let hints = Hints { read_only: hint("readOnlyHint")?, destructive: hint("destructiveHint")? };
        let description = field("description").and_then(string_value).unwrap_or_default();
        Ok(Self { name, description: Untrusted::new(description), hints, json: json.to_owned() })
    }

    /// One field of the server's own JSON, as text.
    pub fn field(&self, wanted: &str) -> Option<&str> {
        members(&self.json)?.into_iter().find(|(key, _)| key == wanted).map(|(_, value)| value)
    }

    /// The variant this tool asks for.
    pub fn call_with(&self) -> Variant {
        self.hints.call_with()
    }
}

impl Hints {
    pub fn call_with(self) -> Variant {
        // Destructive wins when a server claims both: the stricter reading is the safe one.
        match (self.destructive, self.read_only) {
            (Some(true), _) => Variant::Destructive,
            (_, Some(true)) => Variant::Read,
            _ => Variant::Write,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Tool, (String, ToolError)> {
        Tool::parse(&ServerName::parse("fx").unwrap(), json)
    }

    #[test]
    fn reads_hints_and_keeps_the_text() {
        let json = r#"{"name":"t","x":1,"inputSchema":{"z":1,"a":2},"annotations":{"destructiveHint":true,"v":1}}"#;
        let tool = parse(json).unwrap();
        assert_eq!(tool.hints, Hints { read_only: None, destructive: Some(true) });
        assert_eq!(tool.json, json);
        assert_eq!(tool.field("inputSchema"), Some(r#"{"z":1,"a":2}"#));
    }

    #[test]
    fn one_bad_tool_hides_only_itself() {
        let good = |name: &str| format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#);
        let all = [
            good("a"),
            r#"{"name":"no_schema"}"#.to_owned(),
            r#"{"name":"bool_schema","inputSchema":true}"#.to_owned(),
            r#"{"name":"hint","inputSchema":{},"annotations":{"readOnlyHint":"true"}}"#.to_owned(),
            r#"{"name":"a:b","inputSchema":{}}"#.to_owned(),
            r#"{"inputSchema":{}}"#.to_owned(),
            "7".to_owned(),
            good("a"),
            good("b"),
        ];
        let (offer, hidden) = Offer::new(all.iter().map(|json| parse(json)));
        assert_eq!(offer.tools().map(|tool| tool.name.to_string()).collect::<Vec<_>>(), ["fx:a", "fx:b"]);
        let hidden: Vec<String> = hidden.iter().map(|(name, error)| format!("{name}: {error}")).collect();
        assert_eq!(
            hidden,
            [
                "no_schema: `inputSchema` must be an object",
                "bool_schema: `inputSchema` must be an object",
                "hint: `annotations.readOnlyHint` must be true or false",
                "a:b: tool names consist of letters, digits, `_`, `.` and `-`",
                ": it has no name",
                ": not a JSON object",
                "a: another tool has the same name",
            ]
        );
    }

    #[test]
    fn call_with_follows_the_hints() {
        let check = |read_only, destructive, expected| {
            assert_eq!(Hints { read_only, destructive }.call_with(), expected);
        };
        check(None, None, Variant::Write);
        check(Some(true), None, Variant::Read);
        check(Some(true), Some(true), Variant::Destructive);
        check(Some(false), Some(true), Variant::Destructive);
        check(Some(false), Some(false), Variant::Write);
        check(Some(true), Some(false), Variant::Read);
    }
}
