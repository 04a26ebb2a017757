//! Shortens a schema without changing which values match it: drops noise and repeated text.

use std::collections::HashSet;

use serde_json::{Map, Value};

use super::Keep;
use super::merge::merged;
use super::prose::sentences;
use crate::schema::draft::Draft;

/// Keywords with an object of subschemas.
const MAPS: [&str; 6] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas", "dependencies"];
/// Keywords with one subschema.
const SINGLE: [&str; 12] = [
    "items",
    "additionalProperties",
    "additionalItems",
    "not",
    "if",
    "then",
    "else",
    "contains",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
    "contentSchema",
];
/// Keywords with an array of subschemas. `items` had one before draft 2020-12.
const LISTS: [&str; 5] = ["allOf", "anyOf", "oneOf", "prefixItems", "items"];
const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
const REFERENCES: [&str; 3] = ["$ref", "$dynamicRef", "$recursiveRef"];
/// Keywords that describe a value and set no condition.
pub(super) const ANNOTATIONS: [&str; 9] =
    ["title", "description", "default", "examples", "example", "deprecated", "readOnly", "writeOnly", "$comment"];
/// Keywords whose meaning changed between the drafts from draft 7 on.
const OF_AN_EDITION: [&str; 13] = [
    "prefixItems",
    "additionalItems",
    "dependencies",
    "dependentRequired",
    "dependentSchemas",
    "unevaluatedItems",
    "unevaluatedProperties",
    "minContains",
    "maxContains",
    "$dynamicRef",
    "$recursiveRef",
    "$id",
    "$anchor",
];
/// Longer defaults are removed.
const DEFAULT_MAX_BYTES: usize = 120;

/// Shortens the schema of a tool with the description `about`. Exactly the same values fit the result.
pub(super) fn pruned(whole: &Value, about: &str, keep: Keep) -> Value {
    let about = sentences(about, usize::MAX);
    for care in [PruneMode::Usual, PruneMode::Great] {
        let pruner = Pruner {
            about: &about,
            keep,
            care,
            reached: reached(whole).filter(|_| care == PruneMode::Usual),
            keeps_edition: care == PruneMode::Great || needs_edition(whole),
            // `unevaluated…` depends on which conditions evaluated a property, so none of them may be removed.
            is_open: care == PruneMode::Usual && !mentions(whole, &["unevaluatedProperties", "unevaluatedItems"]),
        };
        let pruned = pruner.schema(whole, SubschemaPosition { name: None, depth: 0 });
        if references_hold(&pruned) {
            return pruned;
        }
    }
    whole.clone()
}

/// The amount that may be removed. References can point anywhere, so the second attempt removes less.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PruneMode {
    Usual,
    /// Shortens prose only.
    Great,
}

struct Pruner<'v> {
    about: &'v str,
    keep: Keep,
    care: PruneMode,
    /// The definitions that are in use, or `None` to keep all.
    reached: Option<HashSet<(String, String)>>,
    keeps_edition: bool,
    is_open: bool,
}

/// The position of a subschema. Depth 0 is the root, 1 an argument.
#[derive(Clone, Copy)]
struct SubschemaPosition<'v> {
    name: Option<&'v str>,
    depth: usize,
}

impl Pruner<'_> {
    fn schema(&self, schema: &Value, place: SubschemaPosition<'_>) -> Value {
        let Value::Object(members) = schema else { return schema.clone() };
        let kept = members.iter().filter_map(|(key, value)| Some((key.clone(), self.member(key, value, place)?)));
        let kept: Map<String, Value> = kept.collect();
        Value::Object(if self.is_open { merged(kept) } else { kept })
    }

    /// Shortens the value of a keyword. Returns `None` to remove the keyword.
    fn member(&self, key: &str, value: &Value, place: SubschemaPosition<'_>) -> Option<Value> {
        let inner = |name: Option<&str>| self.schema(value, SubschemaPosition { name, depth: place.depth.max(1) + 1 });
        match (key, value) {
            ("description", Value::String(text)) => self.description(text, place),
            ("title", Value::String(text)) => self.title(text, place),
            ("$schema", _) if place.depth == 0 && !self.keeps_edition => None,
            ("$comment" | "examples" | "example", _) if self.care == PruneMode::Usual => None,
            ("default", Value::Null) => None,
            ("default", value) if value.to_string().len() > DEFAULT_MAX_BYTES => None,
            ("required", Value::Array(names)) if names.is_empty() => None,
            ("additionalProperties", Value::Bool(true)) if self.is_open => None,
            ("additionalProperties", Value::Object(any)) if self.is_open && any.is_empty() => None,
            (key, Value::Object(subs)) if MAPS.contains(&key) => Some(self.map(key, subs, place)).filter(|left| {
                let is_gone = left.as_object().is_some_and(Map::is_empty);
                !(is_gone && DEFINITIONS.contains(&key))
            }),
            (key, Value::Array(subs)) if LISTS.contains(&key) => {
                Some(subs.iter().map(|sub| self.schema(sub, SubschemaPosition { name: None, ..place })).collect())
            }
            (key, Value::Object(_)) if SINGLE.contains(&key) => Some(inner(None)),
            _ => Some(value.clone()),
        }
    }

    fn map(&self, key: &str, subs: &Map<String, Value>, place: SubschemaPosition<'_>) -> Value {
        let is_definition = DEFINITIONS.contains(&key);
        let depth = if is_definition { 2 } else { place.depth + 1 };
        let is_wanted = |name: &str| {
            let known = self.reached.as_ref().filter(|_| is_definition && place.depth == 0);
            known.is_none_or(|reached| reached.contains(&(key.to_owned(), name.to_owned())))
        };
        let subs = subs.iter().filter(|(name, _)| is_wanted(name));
        subs.map(|(name, sub)| (name.clone(), self.schema(sub, SubschemaPosition { name: Some(name), depth })))
            .collect()
    }

    fn description(&self, text: &str, place: SubschemaPosition<'_>) -> Option<Value> {
        let max_bytes = match (self.keep, place.depth) {
            (Keep::Meaning, 0 | 1) => 160,
            (Keep::Meaning, 2) => 100,
            (Keep::Meaning, _) => 60,
            (_, 1) => 80,
            (_, _) => return None,
        };
        let text = sentences(text, max_bytes);
        let is_said = place.depth == 0 && self.about.contains(text.trim_end_matches(['…', ' ']));
        let says_nothing = text.is_empty() || is_said || place.name.is_some_and(|name| is_same(name, &text));
        (!says_nothing).then_some(Value::String(text))
    }

    fn title(&self, text: &str, place: SubschemaPosition<'_>) -> Option<Value> {
        let says_nothing = place.depth == 0 || place.name.is_some_and(|name| is_same(name, text));
        (self.keep == Keep::Meaning && !says_nothing).then(|| Value::String(sentences(text, 80)))
    }
}

/// Returns `true` if a title only repeats a name, as `Repo Name` does for `repo_name`.
fn is_same(name: &str, text: &str) -> bool {
    let letters =
        |text: &str| text.chars().filter(|c| c.is_alphanumeric()).flat_map(char::to_lowercase).collect::<String>();
    letters(name) == letters(text)
}

/// Returns `true` if the schema would change its meaning without its `$schema`.
fn needs_edition(root: &Value) -> bool {
    match Draft::of(root) {
        Draft::Year2020 => false,
        Draft::Four | Draft::Six => true,
        Draft::Seven | Draft::Year2019 => {
            mentions(root, &OF_AN_EDITION)
                || any(root, &|members| {
                    let has_list = members.get("items").is_some_and(Value::is_array);
                    let has_more = members.contains_key("$ref")
                        && members.keys().any(|key| key != "$ref" && !ANNOTATIONS.contains(&key.as_str()));
                    has_list || has_more
                })
        }
    }
}

fn mentions(value: &Value, keywords: &[&str]) -> bool {
    any(value, &|members| keywords.iter().any(|keyword| members.contains_key(*keyword)))
}

/// Returns `true` if a test holds for an object anywhere in a value.
fn any(value: &Value, is_so: &impl Fn(&Map<String, Value>) -> bool) -> bool {
    match value {
        Value::Object(members) => is_so(members) || members.values().any(|member| any(member, is_so)),
        Value::Array(items) => items.iter().any(|item| any(item, is_so)),
        _ => false,
    }
}

/// Returns the definitions in use, by keyword and name, or `None` if a reference cannot be followed.
fn reached(root: &Value) -> Option<HashSet<(String, String)>> {
    let mut reached = HashSet::new();
    let members = root.as_object()?.iter().filter(|(key, _)| !DEFINITIONS.contains(&key.as_str()));
    let mut open: Vec<&Value> = members.map(|(_, value)| value).collect();
    let mut found: Vec<&str> = root.get("$ref").and_then(Value::as_str).into_iter().collect();
    while !(open.is_empty() && found.is_empty()) {
        open.drain(..).for_each(|value| references(value, &mut found));
        for text in std::mem::take(&mut found) {
            let pointer = text.strip_prefix('#').filter(|pointer| !pointer.contains('%'))?;
            let mut steps = pointer.split('/').map(|step| step.replace("~1", "/").replace("~0", "~"));
            let (start, keyword, name) = (steps.next()?, steps.next(), steps.next());
            if !start.is_empty() {
                return None;
            }
            let (Some(keyword), Some(name)) = (keyword, name) else { continue };
            let target = root.get(&keyword).filter(|_| DEFINITIONS.contains(&keyword.as_str()));
            let target = target.and_then(|definitions| definitions.get(&name));
            if reached.insert((keyword, name)) {
                open.extend(target);
            }
        }
    }
    Some(reached)
}

fn references<'v>(value: &'v Value, found: &mut Vec<&'v str>) {
    match value {
        Value::Object(members) => {
            for (key, member) in members {
                let reference = member.as_str().filter(|_| REFERENCES.contains(&key.as_str()));
                found.extend(reference);
                references(member, found);
            }
        }
        Value::Array(items) => items.iter().for_each(|item| references(item, found)),
        _ => {}
    }
}

/// Returns `true` if every reference points to something in the schema itself.
fn references_hold(root: &Value) -> bool {
    let mut found = Vec::new();
    references(root, &mut found);
    found.iter().all(|text| text.strip_prefix('#').is_some_and(|pointer| root.pointer(pointer).is_some()))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn check(whole: &Value, expected: &Value) {
        assert_eq!(pruned(whole, "Sends mail.", Keep::Meaning), *expected, "{whole}");
    }

    #[test]
    fn noise_goes() {
        check(
            &json!({"$schema": "https://json-schema.org/draft/2020-12/schema", "title": "sendArguments", "type": "object",
                "description": "Sends   mail.", "required": [], "additionalProperties": true, "$comment": "made by hand",
                "properties": {"repo_name": {"title": "Repo Name", "type": "string", "examples": ["a"], "default": null}}}),
            &json!({"type": "object", "properties": {"repo_name": {"type": "string"}}}),
        );
        check(
            &json!({"properties": {"a": {"type": "integer", "default": 5, "title": "How many", "description": "A"}},
                "additionalProperties": false, "required": ["a"]}),
            &json!({"properties": {"a": {"type": "integer", "default": 5, "title": "How many"}},
                "additionalProperties": false, "required": ["a"]}),
        );
    }

    #[test]
    fn arguments_may_be_called_like_keywords() {
        let names = json!({"title": {"type": "string"}, "description": {"type": "string"}, "examples": {"type": "array"},
            "$schema": {"type": "string"}, "default": {}, "$ref": {"type": "string"}, "$comment": {"type": "string"}});
        let whole = json!({"type": "object", "properties": names});
        check(&whole, &whole);
        let data = json!({"enum": [{"title": "a", "examples": []}], "const": {"$comment": "b"}});
        check(&json!({"properties": {"a": data}}), &json!({"properties": {"a": data}}));
    }

    #[test]
    fn only_definitions_in_use_are_kept() {
        check(
            &json!({"properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"title": "A", "items": {"$ref": "#/definitions/B~1b"}}, "C": {"$ref": "#/$defs/C"}},
                "definitions": {"B/b": {"type": "string"}, "D": {}}}),
            &json!({"properties": {"a": {"$ref": "#/$defs/A"}},
                "$defs": {"A": {"items": {"$ref": "#/definitions/B~1b"}}}, "definitions": {"B/b": {"type": "string"}}}),
        );
        check(&json!({"type": "object", "$defs": {"A": {}}}), &json!({"type": "object"}));
        let anchored = json!({"properties": {"a": {"$ref": "#here"}}, "$defs": {"A": {"$anchor": "here"}, "B": {}}});
        check(&anchored, &anchored);
        let into_noise = json!({"properties": {"a": {"$ref": "#/examples/0"}}, "examples": [{"type": "string"}]});
        check(&into_noise, &into_noise);
    }

    #[test]
    fn the_edition_stays_where_it_matters() {
        let seven = "http://json-schema.org/draft-07/schema#";
        check(
            &json!({"$schema": seven, "properties": {"a": {"$ref": "#/properties/b", "description": "An A."}, "b": {}}}),
            &json!({"properties": {"a": {"$ref": "#/properties/b", "description": "An A."}, "b": {}}}),
        );
        for differs in [
            json!({"$ref": "#/properties/b", "type": "string"}),
            json!({"items": [{"type": "string"}]}),
            json!({"minContains": 2}),
        ] {
            let whole = json!({"$schema": seven, "properties": {"a": differs, "b": {}}});
            check(&whole, &whole);
        }
        let four =
            json!({"$schema": "http://json-schema.org/draft-04/schema#", "minimum": 1, "exclusiveMinimum": true});
        check(&four, &four);
    }

    #[test]
    fn prose_is_shortened_by_its_place() {
        let long = "One sentence of words here. ".repeat(20);
        let whole = json!({"properties": {"a": {"description": long, "properties": {"b": {"description": long}}}}});
        let lengths = |keep: Keep| {
            let pruned = pruned(&whole, "", keep);
            let length = |pointer: &str| pruned.pointer(pointer).and_then(Value::as_str).map(str::len);
            [length("/properties/a/description"), length("/properties/a/properties/b/description")]
        };
        assert_eq!(lengths(Keep::Meaning), [Some(143), Some(87)]);
        assert_eq!(lengths(Keep::Conditions), [Some(59), None]);
    }
}
