//! Proves for single keywords that a schema admits less than before.

use std::collections::BTreeSet;

use super::members::elements;
use crate::json::{canonical, member, members, string_value};

/// The addresses of JSON Schema dialects, without the `#` that some servers write at the end.
const DIALECTS: [&str; 5] = [
    "json-schema.org/draft-04/schema",
    "json-schema.org/draft-06/schema",
    "json-schema.org/draft-07/schema",
    "json-schema.org/draft/2019-09/schema",
    "json-schema.org/draft/2020-12/schema",
];

/// Keywords that mean the same in all dialects.
const PLAIN: [&str; 14] = [
    "$schema",
    "type",
    "properties",
    "required",
    "additionalProperties",
    "title",
    "description",
    "default",
    "enum",
    "minLength",
    "maxLength",
    "minItems",
    "maxItems",
    "items",
];

const TYPES: [&str; 7] = ["null", "boolean", "object", "array", "number", "string", "integer"];

/// Schemas below this depth are not looked at, and count as doubtful.
const DEPTH_MAX: usize = 24;

/// A keyword that limits a number or a size.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Bound {
    Lowest,
    /// As `Lowest`, for something that is never below zero.
    Least,
    Most,
    Unique,
}

impl Bound {
    pub(super) fn find(keyword: &str) -> Option<Self> {
        match keyword {
            "minimum" | "exclusiveMinimum" => Some(Self::Lowest),
            "minLength" | "minItems" | "minProperties" => Some(Self::Least),
            "maximum" | "exclusiveMaximum" | "maxLength" | "maxItems" | "maxProperties" => Some(Self::Most),
            "uniqueItems" => Some(Self::Unique),
            _ => None,
        }
    }

    pub(super) fn is_narrower(self, old: Option<&str>, new: Option<&str>) -> bool {
        if self == Self::Unique {
            return matches!(old, None | Some("false")) && new == Some("true");
        }
        let number = |json: &str| json.parse::<f64>().ok().filter(|number| number.is_finite());
        let Some(is) = new.and_then(number) else { return false };
        match (self, old.map(number)) {
            (Self::Lowest | Self::Least | Self::Most, Some(None)) => false,
            (Self::Lowest, None) | (Self::Most, None) => true,
            (Self::Least, None) => is > 0.0,
            (Self::Lowest | Self::Least, Some(Some(was))) => is > was,
            (Self::Most, Some(Some(was))) => is < was,
            (Self::Unique, _) => false,
        }
    }
}

/// Returns true if fewer types are allowed than before.
pub(super) fn has_fewer_types(old: Option<&str>, new: Option<&str>) -> bool {
    let types = |json: &str| -> Option<BTreeSet<String>> {
        let names = if json.starts_with('[') { elements(json)? } else { vec![json] };
        let mut found = BTreeSet::new();
        for name in names {
            let name = string_value(name).filter(|name| TYPES.contains(&name.as_ref()))?;
            if name == "number" {
                found.insert("integer".to_owned());
            }
            found.insert(name.into_owned());
        }
        Some(found)
    };
    match (old.map(types), new.and_then(types)) {
        (Some(Some(was)), Some(is)) => is.is_subset(&was) && is != was,
        (None, Some(_)) => true,
        (Some(None), _) | (_, None) => false,
    }
}

/// Returns true if a property can go and the schema admits less: nothing may be sent under its name any more, it was not
/// required, and it was no switch. A switch such as `confirm` or `mode` may have kept calls harmless.
pub(super) fn is_removable(name: &str, (old, new): (&str, &str)) -> bool {
    let was_required = match member(old, "required") {
        None => false,
        Some(names) => elements(names)
            .is_none_or(|names| names.into_iter().any(|one| string_value(one).is_none_or(|one| one == name))),
    };
    let property = member(old, "properties").and_then(|properties| member(properties, name)).unwrap_or_default();
    let is_switch = member(property, "type").is_none_or(|kind| kind.contains("boolean"))
        || member(property, "enum").is_some()
        || member(property, "const").is_some();
    let has_patterns = member(old, "patternProperties").is_some() || member(new, "patternProperties").is_some();
    member(new, "additionalProperties") == Some("false") && !was_required && !is_switch && !has_patterns
}

/// Returns the elements of an array, in the form in which equal values are equal.
pub(super) fn set(json: Option<&str>) -> Option<BTreeSet<String>> {
    Some(elements(json?)?.into_iter().map(canonical).collect())
}

pub(super) fn is_dialect(json: &str) -> bool {
    let Some(address) = string_value(json) else { return false };
    let address = address.strip_prefix("https://").or_else(|| address.strip_prefix("http://")).unwrap_or_default();
    DIALECTS.contains(&address.strip_suffix('#').unwrap_or(address))
}

/// Returns true if all references lead to `$defs` or `definitions`, which no stricter change touches. Others could lead
/// to a part that becomes narrower, from a place where narrower means wider.
pub(super) fn has_plain_references(schema: &str) -> bool {
    all_keys(schema, 0, &|key, value| match key {
        "$ref" => string_value(value)
            .is_some_and(|target| target.starts_with("#/$defs/") || target.starts_with("#/definitions/")),
        "$id" | "id" | "$dynamicRef" | "$recursiveRef" | "$anchor" | "$dynamicAnchor" => !value.starts_with('"'),
        _ => true,
    })
}

/// Returns true if the schema means the same in all dialects.
pub(super) fn is_plain(schema: &str) -> bool {
    fn is_plain_below(schema: &str, depth: usize) -> bool {
        let Some(keywords) = members(schema).filter(|_| depth <= DEPTH_MAX) else { return false };
        keywords.into_iter().all(|(keyword, value)| match keyword.as_ref() {
            "properties" => {
                members(value).is_some_and(|all| all.into_iter().all(|(_, schema)| is_plain_below(schema, depth + 1)))
            }
            "items" => is_plain_below(value, depth + 1),
            "additionalProperties" => matches!(value, "true" | "false") || is_plain_below(value, depth + 1),
            keyword => PLAIN.contains(&keyword),
        })
    }
    is_plain_below(schema, 0)
}

/// Returns true if `fits` is true for every key at any depth.
fn all_keys(json: &str, depth: usize, fits: &dyn Fn(&str, &str) -> bool) -> bool {
    if depth > DEPTH_MAX {
        return false;
    }
    match json.bytes().next() {
        Some(b'{') => members(json).is_some_and(|all| {
            all.into_iter().all(|(key, value)| fits(&key, value) && all_keys(value, depth + 1, fits))
        }),
        Some(b'[') => elements(json).is_some_and(|all| all.into_iter().all(|value| all_keys(value, depth + 1, fits))),
        _ => true,
    }
}
