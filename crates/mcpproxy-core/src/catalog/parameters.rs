//! The arguments of a tool, as far as its own schema names them.

use std::borrow::Cow;

use super::Offered;
use crate::json::{Members, members};

/// The named arguments of a tool.
pub(crate) struct Parameters<'a> {
    properties: Members<'a>,
    /// False if other keywords beside `properties` may allow more arguments.
    is_complete: bool,
}

/// Keywords by which a schema can allow arguments that `properties` does not name.
const WIDENING: [&str; 9] = [
    "$ref",
    "$dynamicRef",
    "allOf",
    "anyOf",
    "oneOf",
    "if",
    "patternProperties",
    "unevaluatedProperties",
    "dependentSchemas",
];

impl<'a> Parameters<'a> {
    pub(crate) fn of(offered: &'a Offered) -> Self {
        Self::of_schema(offered.field("inputSchema").unwrap_or_default())
    }

    pub(crate) fn of_schema(schema: &'a str) -> Self {
        let keywords = members(schema).unwrap_or_default();
        let find = |wanted: &str| keywords.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
        let properties = find("properties").and_then(members);
        let is_wide = keywords.iter().any(|(key, _)| WIDENING.contains(&key.as_ref()))
            || find("additionalProperties").is_some_and(|value| value != "false");
        Self { is_complete: properties.is_some() && !is_wide, properties: properties.unwrap_or_default() }
    }

    pub(crate) fn names(&self) -> impl Iterator<Item = &str> {
        self.properties.iter().map(|(name, _)| name.as_ref())
    }

    pub(crate) fn find(&self, wanted: &str) -> Option<&'a str> {
        self.properties.iter().find(|(name, _)| name == wanted).map(|(_, schema)| *schema)
    }

    /// Returns true if the tool certainly takes no such argument.
    pub(crate) fn lacks(&self, wanted: &str) -> bool {
        self.is_complete && self.find(wanted).is_none()
    }

    /// Returns true for an argument that is boolean or has no type.
    pub(crate) fn is_flag(&self, wanted: &str) -> bool {
        let Some(keywords) = self.find(wanted).and_then(members) else { return false };
        let kind = keywords.into_iter().find(|(key, _)| *key == Cow::Borrowed("type")).map(|(_, value)| value);
        kind.is_none_or(|kind| kind == "\"boolean\"")
    }
}
