//! Standing approvals as they are shown, with sensitive values masked.
//!
//! The schema of a standing approval repeats arguments of the call that it comes from. The gateway needs them in the
//! clear to compare calls. Everything that shows a standing approval takes a [`ShownStandingApproval`], so that a value
//! that is masked in the log and on the page of the request is masked here too.

use std::ops::Deref;

use mcpproxy_core::json::{members, quote};
use mcpproxy_core::{Pointer, Tool, mask};
use mcpproxy_store::StoredStandingApproval;

use super::details::StatedRisk;
use crate::sensitive::pointers;

/// A standing approval whose schema contains no sensitive value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ShownStandingApproval {
    stored: StoredStandingApproval,
    risk: Option<StatedRisk>,
}

impl ShownStandingApproval {
    /// Masks the fields that the tool's contract marks as sensitive. If the tool is not known any more, nobody knows
    /// its sensitive fields, so all values are masked.
    pub fn new(stored: StoredStandingApproval, tool: Option<&Tool>) -> Self {
        let sensitive = tool.map_or_else(everything, pointers);
        let risk = tool.map(|tool| StatedRisk::of_contract(&tool.contract));
        Self { risk, ..Self::masking(stored, &sensitive) }
    }

    /// Masks the values at these pointers into the arguments. Nothing is known about the tool.
    pub fn masking(stored: StoredStandingApproval, sensitive: &[Pointer]) -> Self {
        let schema = masked(&stored.schema, sensitive);
        Self { stored: StoredStandingApproval { schema, ..stored }, risk: None }
    }

    /// Returns the risk level that the tool has now. `None` if no connected server offers the tool.
    pub fn risk(&self) -> Option<StatedRisk> {
        self.risk
    }
}

impl Deref for ShownStandingApproval {
    type Target = StoredStandingApproval;

    fn deref(&self) -> &Self::Target {
        &self.stored
    }
}

fn everything() -> Vec<Pointer> {
    Pointer::parse("").into_iter().collect()
}

/// Masks a schema. In the form that the console writes, each constant is masked as the argument that it repeats. A
/// schema that a user wrote can repeat a value anywhere, so it is masked as a whole if the tool has sensitive fields.
fn masked(schema: &str, sensitive: &[Pointer]) -> String {
    match masked_constants(schema, sensitive) {
        Some(masked) => masked,
        None if sensitive.is_empty() => mask(schema, &[]).into_owned(),
        None => mask(schema, &everything()).into_owned(),
    }
}

/// Returns `None` if a property has a condition other than its type or its value.
fn masked_constants(schema: &str, sensitive: &[Pointer]) -> Option<String> {
    const KNOWN: [&str; 4] = ["type", "properties", "required", "additionalProperties"];
    let fields = members(schema.trim())?;
    if fields.iter().any(|(name, _)| !KNOWN.contains(&name.as_ref())) {
        return None;
    }
    let properties = fields.iter().find(|(name, _)| name == "properties").map_or(Some(Vec::new()), |(_, value)| {
        let properties = members(value)?.into_iter();
        properties.map(|(name, condition)| Some((name.into_owned(), Condition::of(condition)?))).collect()
    })?;
    let constants = properties.iter().filter_map(|(name, condition)| match condition {
        Condition::Constant(value) => Some(format!("{}:{value}", quote(name))),
        Condition::Type(_) => None,
    });
    let arguments = format!("{{{}}}", constants.collect::<Vec<_>>().join(","));
    let masked = mask(&arguments, sensitive);
    if !masked.is_changed() {
        return Some(schema.to_owned());
    }
    let arguments = members(masked.as_str())?;
    let mut values = arguments.iter();
    let mut lines = Vec::new();
    for (name, condition) in &properties {
        let condition = match condition {
            Condition::Constant(_) => format!("{{\"const\": {}}}", values.next()?.1.trim()),
            Condition::Type(whole) => (*whole).to_owned(),
        };
        lines.push(format!("    {}: {condition}", quote(name)));
    }
    let fields = fields.iter().map(|(name, value)| match name.as_ref() {
        "properties" if !lines.is_empty() => format!("  {}: {{\n{}\n  }}", quote(name), lines.join(",\n")),
        _ => format!("  {}: {}", quote(name), value.trim()),
    });
    Some(format!("{{\n{}\n}}", fields.collect::<Vec<_>>().join(",\n")))
}

/// The condition on one property.
enum Condition<'a> {
    Constant(&'a str),
    /// The type, or no condition at all.
    Type(&'a str),
}

impl<'a> Condition<'a> {
    fn of(condition: &'a str) -> Option<Self> {
        match members(condition)?.as_slice() {
            [] => Some(Self::Type(condition.trim())),
            [(name, _)] if name == "type" => Some(Self::Type(condition.trim())),
            [(name, value)] if name == "const" => Some(Self::Constant(value.trim())),
            _ => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn constants_are_masked_as_arguments() {
        let sensitive = [Pointer::parse("/changes").unwrap_or_else(|error| panic!("{error}"))];
        let schema = "{\n  \"type\": \"object\",\n  \"properties\": {\n    \"id\": {\"const\": \"c_1\"},\n    \
            \"changes\": {\"const\": {\"name\": \"ACME\"}},\n    \"password\": {\"const\": \"hunter22\"},\n    \
            \"n\": {\"type\": \"number\"}\n  },\n  \"required\": [\"id\"],\n  \"additionalProperties\": false\n}";
        let shown = masked(schema, &sensitive);
        let expected = schema.replace("ACME", "***").replace("hunter22", "***");
        assert_eq!(shown, expected);
        // The tool is gone, so nobody knows what is sensitive.
        let shown = masked(schema, &everything());
        assert!(!shown.contains("c_1") && shown.contains("\"id\": {\"const\": \"***\"}"), "{shown}");
    }

    #[test]
    fn a_users_own_schema_is_masked_as_a_whole() {
        let sensitive = [Pointer::parse("/note").unwrap_or_else(|error| panic!("{error}"))];
        for schema in [
            r#"{"properties":{"note":{"enum":["blue"]}}}"#,
            r#"{"anyOf":[{"properties":{"note":{"const":"blue"}}}]}"#,
            r#"{"properties":{"note":{"const":"blue","type":"string"}}}"#,
        ] {
            assert!(!masked(schema, &sensitive).contains("blue"), "{schema}");
            assert_eq!(masked(schema, &[]), schema);
        }
        assert_eq!(masked("{}", &sensitive), "{}");
    }
}
