//! Shortens tools for agents: keeps what an agent needs to choose and call a tool, and removes repetition.

mod arguments;
mod merge;
mod prose;
mod prune;

use serde_json::Value;

/// The level of detail of a brief.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Keep {
    /// Keeps every condition of the schema. Shortens long prose and removes noise.
    Meaning,
    /// Keeps every condition of the schema, but prose only for the arguments themselves.
    Conditions,
    /// Keeps the arguments with their types, but not their contents.
    Arguments,
    /// Keeps the names of required arguments, up to a size limit.
    Required,
}

impl Keep {
    pub const ALL: [Self; 4] = [Self::Meaning, Self::Conditions, Self::Arguments, Self::Required];

    /// Returns true if a value matches the brief schema exactly when it matches the whole one.
    pub fn is_exact(self) -> bool {
        match self {
            Self::Meaning | Self::Conditions => true,
            Self::Arguments | Self::Required => false,
        }
    }
}

/// A shortened description and input schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Brief {
    pub description: String,
    /// A JSON Schema. Every value that fits the whole schema fits this one too.
    pub schema: String,
}

/// Maximum length of a shortened description.
const ABOUT_MAX_BYTES: usize = 320;
/// Most bytes of text about arguments that the schema does not describe.
const ARGUMENTS_MAX_BYTES: usize = 600;

/// Shortens a tool's description and input schema.
pub fn brief(description: &str, schema: &str, keep: Keep) -> Brief {
    let Ok(whole) = serde_json::from_str::<Value>(schema) else {
        return Brief { description: prose::sentences(description, ABOUT_MAX_BYTES), schema: "{}".to_owned() };
    };
    let shortened = match keep {
        Keep::Meaning | Keep::Conditions => prune::pruned(&whole, description, keep),
        Keep::Arguments => arguments::outlined(&whole),
        Keep::Required => arguments::named(&whole),
    };
    Brief { description: self::description(description, &whole, keep), schema: shortened.to_string() }
}

fn description(text: &str, schema: &Value, keep: Keep) -> String {
    let sections = prose::sections(text);
    let about = prose::sentences(&sections.about, if keep.is_exact() { ABOUT_MAX_BYTES } else { ABOUT_MAX_BYTES / 2 });
    if !keep.is_exact() || sections.arguments.is_empty() || says_all(schema) {
        return about;
    }
    format!("{about}\n{}", prose::sentences(&sections.arguments, ARGUMENTS_MAX_BYTES))
}

/// Returns true if the schema describes each of its arguments.
fn says_all(schema: &Value) -> bool {
    let properties = schema.get("properties").and_then(Value::as_object);
    let mut properties = properties.into_iter().flatten().map(|(_, property)| property);
    properties.all(|property| property.get("description").and_then(Value::as_str).is_some_and(|text| !text.is_empty()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_schema_says_is_not_said_twice() {
        let text = "Adds two numbers.\n\nArgs:\n    a: The first.\n    b: The second.\n\nReturns:\n    The sum.\n";
        let check = |schema: &str, keep: Keep, description: &str| {
            assert_eq!(brief(text, schema, keep).description, description, "{schema}");
        };
        let silent = r#"{"properties":{"a":{"type":"number"},"b":{"description":"B."}}}"#;
        let telling = r#"{"properties":{"a":{"description":"A."},"b":{"description":"B."}}}"#;
        check(telling, Keep::Meaning, "Adds two numbers.");
        check(silent, Keep::Meaning, "Adds two numbers.\nArgs:\na: The first.\nb: The second.");
        check(silent, Keep::Conditions, "Adds two numbers.\nArgs:\na: The first.\nb: The second.");
        check(silent, Keep::Arguments, "Adds two numbers.");
        check("{}", Keep::Meaning, "Adds two numbers.");
        check("no JSON", Keep::Meaning, "Adds two numbers.\nArgs:\na: The first.\nb: The second.\nReturns:\nThe sum.");
    }
}
