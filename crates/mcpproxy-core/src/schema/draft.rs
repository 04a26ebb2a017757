//! The drafts of JSON Schema.

use serde_json::Value;

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Draft {
    Four,
    Six,
    Seven,
    Year2019,
    Year2020,
}

impl Draft {
    /// Returns the draft that `$schema` names, or the newest.
    pub(crate) fn of(schema: &Value) -> Self {
        let named = schema.get("$schema").and_then(Value::as_str).unwrap_or_default();
        let named = named.trim_end_matches('#');
        let named = named.strip_prefix("https://").or_else(|| named.strip_prefix("http://"));
        match named.and_then(|named| named.strip_prefix("json-schema.org/")) {
            Some("draft-04/schema") => Self::Four,
            Some("draft-06/schema") => Self::Six,
            Some("draft-07/schema") => Self::Seven,
            Some("draft/2019-09/schema") => Self::Year2019,
            _ => Self::Year2020,
        }
    }

    pub(super) fn in_library(self) -> jsonschema::Draft {
        match self {
            Self::Four => jsonschema::Draft::Draft4,
            Self::Six => jsonschema::Draft::Draft6,
            Self::Seven => jsonschema::Draft::Draft7,
            Self::Year2019 => jsonschema::Draft::Draft201909,
            Self::Year2020 => jsonschema::Draft::Draft202012,
        }
    }

    /// Returns the keyword that holds the identifier of a schema.
    pub(super) fn id_keyword(self) -> &'static str {
        if self == Self::Four { "id" } else { "$id" }
    }

    /// Returns `true` if keywords next to `$ref` are ignored, as up to draft 7.
    pub(super) fn reference_stands_alone(self) -> bool {
        self <= Self::Seven
    }
}
