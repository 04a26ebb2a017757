//! The tools of one server, as it lists them.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use crate::contract::{Contract, META_KEY};
use crate::json::{members, string_value};
use crate::schema::{Schema, SchemaError};
use crate::trust::Held;
use crate::{Hints, NameError, ServerName, ToolName, Untrusted};

/// Largest description of a tool, and largest tool as a whole. A schema has its own limit, in `schema`.
const DESCRIPTION_MAX_BYTES: usize = 128 << 10;
const TOOL_MAX_BYTES: usize = 512 << 10;

/// The tools of one server, in its own order.
#[derive(Clone, Debug, Default)]
pub struct Offer {
    tools: Vec<Arc<Offered>>,
    quarantined: Vec<(Arc<Offered>, Quarantined)>,
}

/// A tool that waits for a user, or that a user has rejected. For agents it does not exist.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Quarantined {
    pub reason: Held,
    pub since_ms: i64,
    /// True if agents may know the tool, because another definition of it was accepted.
    pub was_shown: bool,
}

/// One tool as its server describes it.
#[derive(Debug, PartialEq)]
pub struct Offered {
    pub name: ToolName,
    pub description: Untrusted,
    pub hints: Hints,
    /// The server's own contract for the tool.
    pub contract: Option<Contract>,
    /// The mistake that makes a schema of the tool unusable. Then only the server checks arguments or results.
    pub schema_mistake: Option<SchemaMistake>,
    /// The server's own JSON for the tool, byte for byte.
    pub json: String,
}

/// The reason why a call is not checked with the server's own schema.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("`{field}` is not valid JSON Schema: {error}")]
pub struct SchemaMistake {
    /// `inputSchema` or `outputSchema`.
    pub field: &'static str,
    error: SchemaError,
}

/// The reason why a server's tool is not in the catalog.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ToolError {
    #[error("not a JSON object")]
    NotAnObject,
    #[error("it has {0} bytes, the maximum is {TOOL_MAX_BYTES}")]
    TooLarge(usize),
    #[error("its description has {0} bytes, the maximum is {DESCRIPTION_MAX_BYTES}")]
    DescriptionTooLarge(usize),
    #[error("it has no name")]
    NoName,
    #[error("{0}")]
    Name(#[from] NameError),
    #[error("`inputSchema` must be an object")]
    Schema,
    #[error("`{field}` is not used: {error}")]
    Unusable { field: &'static str, error: SchemaError },
    #[error("its contract is not valid: {0}")]
    Contract(String),
    #[error("`annotations.{0}` must be true or false")]
    Hint(&'static str),
    #[error("another tool has the same name")]
    Twice,
}

impl Offer {
    /// Takes the valid tools. Invalid ones are returned with the reason, so that one bad tool never hides a server.
    pub fn new(
        tools: impl IntoIterator<Item = Result<Offered, (String, ToolError)>>,
    ) -> (Self, Vec<(String, ToolError)>) {
        let mut offer = Self::default();
        let mut hidden = Vec::new();
        let mut names = HashSet::new();
        for tool in tools {
            match tool {
                Err(refused) => hidden.push(refused),
                Ok(tool) if !names.insert(tool.name.clone()) => {
                    hidden.push((tool.name.tool().to_owned(), ToolError::Twice));
                }
                Ok(tool) => offer.tools.push(Arc::new(tool)),
            }
        }
        (offer, hidden)
    }

    pub fn tools(&self) -> impl Iterator<Item = &Arc<Offered>> {
        self.tools.iter()
    }

    /// Returns the tools whose names fit.
    pub fn only(&self, fits: impl Fn(&str) -> bool) -> Self {
        let fits = |tool: &Arc<Offered>| fits(tool.name.tool());
        Self {
            tools: self.tools.iter().filter(|tool| fits(tool)).cloned().collect(),
            quarantined: self.quarantined.iter().filter(|(tool, _)| fits(tool)).cloned().collect(),
        }
    }

    /// Returns the whole list of a server without the tools that are held. They are remembered as quarantined.
    #[must_use]
    pub fn admit(&self, held: &HashMap<String, Quarantined>) -> Self {
        let mut admitted = Self::default();
        for tool in &self.tools {
            match held.get(tool.name.tool()) {
                Some(quarantined) => admitted.quarantined.push((Arc::clone(tool), *quarantined)),
                None => admitted.tools.push(Arc::clone(tool)),
            }
        }
        admitted
    }

    /// Returns the quarantined tools. Nothing that an agent sees may be made from these.
    pub fn quarantined(&self) -> impl Iterator<Item = (&Arc<Offered>, Quarantined)> {
        self.quarantined.iter().map(|(tool, quarantined)| (tool, *quarantined))
    }

    pub fn len(&self) -> usize {
        self.tools.len()
    }

    pub fn is_empty(&self) -> bool {
        self.tools.is_empty()
    }
}

impl Offered {
    /// Reads one element of a server's `tools/list`. An error comes with the tool's name, if there is one.
    pub fn parse(server: &ServerName, json: &str) -> Result<Self, (String, ToolError)> {
        let Some(fields) = members(json) else { return Err((String::new(), ToolError::NotAnObject)) };
        let field = |wanted: &str| fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
        let own_name = field("name").and_then(string_value).unwrap_or_default().into_owned();
        let refuse = |error: ToolError| (own_name.clone(), error);
        if own_name.is_empty() {
            return Err(refuse(ToolError::NoName));
        }
        let name = ToolName::of(server, &own_name).map_err(|error| refuse(error.into()))?;
        if json.len() > TOOL_MAX_BYTES {
            return Err(refuse(ToolError::TooLarge(json.len())));
        }
        let description = field("description").and_then(string_value).unwrap_or_default();
        if description.len() > DESCRIPTION_MAX_BYTES {
            return Err(refuse(ToolError::DescriptionTooLarge(description.len())));
        }
        if !field("inputSchema").is_some_and(|schema| schema.starts_with('{')) {
            return Err(refuse(ToolError::Schema));
        }
        let mut schema_mistake = None;
        for part in ["inputSchema", "outputSchema"] {
            let Some(text) = field(part).filter(|text| *text != "null") else { continue };
            let mistake = Schema::inspect(text).map_err(|error| refuse(ToolError::Unusable { field: part, error }))?;
            schema_mistake = schema_mistake.or(mistake.map(|error| SchemaMistake { field: part, error }));
        }
        let hints = Hints::of(field("annotations")).map_err(|name| refuse(ToolError::Hint(name)))?;
        let contract = field("_meta").and_then(members).and_then(|meta| {
            meta.into_iter().find(|(key, _)| key == META_KEY).map(|(_, contract)| Contract::of_server(contract))
        });
        let contract = contract.transpose().map_err(|mistake| refuse(ToolError::Contract(mistake)))?;
        let description = Untrusted::new(description);
        Ok(Self { name, description, hints, contract, schema_mistake, json: json.to_owned() })
    }

    /// Returns one field of the server's own JSON, as text.
    pub fn field(&self, wanted: &str) -> Option<&str> {
        members(&self.json)?.into_iter().find(|(key, _)| key == wanted).map(|(_, value)| value)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(json: &str) -> Result<Offered, (String, ToolError)> {
        Offered::parse(&ServerName::parse("fx").unwrap(), json)
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
    fn a_schema_that_is_not_valid_hides_nothing() {
        let mistake = |schemas: &str| {
            let tool = parse(&format!(r#"{{"name":"t",{schemas}}}"#)).unwrap();
            tool.schema_mistake.map(|mistake| mistake.to_string()).unwrap_or_default()
        };
        let float = r#"{"properties":{"price":{"type":"float"}},"required":"price"}"#;
        assert_eq!(
            mistake(&format!(r#""inputSchema":{float}"#)),
            "`inputSchema` is not valid JSON Schema: `/properties/price/type` must be a JSON type or an array of them"
        );
        assert_eq!(
            mistake(&format!(r#""inputSchema":{{}},"outputSchema":{float}"#)),
            "`outputSchema` is not valid JSON Schema: `/properties/price/type` must be a JSON type or an array of them"
        );
        assert_eq!(
            mistake(r##""inputSchema":{"properties":{"a":{"$ref":"#/$defs/gone"}}}"##),
            "`inputSchema` is not valid JSON Schema: reference \"#/$defs/gone\" points to nothing in the schema"
        );
        assert_eq!(mistake(r#""inputSchema":{},"outputSchema":null"#), "");
    }

    #[test]
    fn large_tools_hide_themselves() {
        let check = |bytes: usize, field: &str, expected: &str| {
            let json = format!(r#"{{"name":"t","inputSchema":{{}},"{field}":"{}"}}"#, "x".repeat(bytes));
            let found = parse(&json).map(|tool| tool.json.len()).map_err(|(name, error)| format!("{name}: {error}"));
            assert_eq!(found.err().unwrap_or_default(), expected);
        };
        check(DESCRIPTION_MAX_BYTES, "description", "");
        check(DESCRIPTION_MAX_BYTES + 1, "description", "t: its description has 131073 bytes, the maximum is 131072");
        check(DESCRIPTION_MAX_BYTES + 1, "x-vendor", "");
        check(TOOL_MAX_BYTES, "x-vendor", "t: it has 524331 bytes, the maximum is 524288");
        let schema = format!(r#"{{"name":"t","inputSchema":{{"x":"{}"}}}}"#, "x".repeat(200_000));
        assert!(matches!(parse(&schema), Err((_, ToolError::Unusable { .. }))));
    }

    /// A mistake must not switch off the limits for the rest of the schema.
    #[test]
    fn a_mistake_excuses_no_bomb() {
        let deep = format!("{}{{}}{}", r#"{"not":"#.repeat(40), "}".repeat(40));
        let loops = r##"{"allOf":[{"$ref":"#/$defs/a"}]}"##;
        for mistake in [
            r#""type":"float""#,
            r#""properties":{"a":7,"b":{"type":"int"}}"#,
            r#""properties":[]"#,
            r#""required":"a""#,
            r#""$ref":7"#,
            r##""$ref":"#/nowhere""##,
        ] {
            for bomb in [
                format!(r#""items":{deep}"#),
                format!(r#""additionalProperties":{deep}"#),
                format!(r#""$defs":{{"a":{loops}}}"#),
            ] {
                let json = format!(r#"{{"name":"t","inputSchema":{{{mistake},{bomb}}}}}"#);
                assert!(matches!(parse(&json), Err((_, ToolError::Unusable { .. }))), "{json}");
            }
        }
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
}
