//! Merges alternatives that differ in their type only.

use serde_json::{Map, Value};

use super::prune::ANNOTATIONS;

/// Rewrites `{"anyOf":[{"type":"string"},{"type":"null"}]}` as `{"type":["string","null"]}`. The same values fit.
pub(super) fn merged(schema: Map<String, Value>) -> Map<String, Value> {
    let is_alone = schema.keys().all(|key| key == "anyOf" || ANNOTATIONS.contains(&key.as_str()));
    let branches = schema.get("anyOf").and_then(Value::as_array).filter(|_| is_alone);
    let Some((types, conditions)) = branches.and_then(|branches| alternatives(branches)) else { return schema };
    let one = [("type".to_owned(), Value::Array(types))].into_iter().chain(conditions);
    one.chain(schema.into_iter().filter(|(key, _)| key != "anyOf")).collect()
}

type Conditions = Vec<(String, Value)>;

/// Returns the types and conditions of the branches, if each condition concerns values of its own branch only.
fn alternatives(branches: &[Value]) -> Option<(Vec<Value>, Conditions)> {
    let (mut types, mut kinds, mut conditions) = (Vec::new(), Vec::new(), Vec::new());
    for branch in branches {
        let branch = branch.as_object()?;
        let name = branch.get("type")?.as_str()?;
        let (kind, own) = kind(name)?;
        if kinds.contains(&kind) {
            return None;
        }
        kinds.push(kind);
        types.push(Value::String(name.to_owned()));
        for (key, value) in branch.iter().filter(|(key, _)| *key != "type") {
            own.contains(&key.as_str()).then(|| conditions.push((key.clone(), value.clone())))?;
        }
    }
    (types.len() > 1).then_some((types, conditions))
}

/// Returns the kind of value that a type stands for, and the keywords that concern only such values.
fn kind(name: &str) -> Option<(&'static str, &'static [&'static str])> {
    Some(match name {
        "null" => ("null", &[]),
        "boolean" => ("boolean", &[]),
        "string" => ("string", &["minLength", "maxLength", "pattern", "format"]),
        "integer" | "number" => {
            ("number", &["minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"])
        }
        "array" => ("array", &["items", "minItems", "maxItems", "uniqueItems"]),
        "object" => (
            "object",
            &["properties", "required", "additionalProperties", "patternProperties", "minProperties", "maxProperties"],
        ),
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_what_is_the_same_is_merged() {
        let check = |schema: Value, expected: Option<Value>| {
            let merged = Value::Object(merged(schema.as_object().unwrap().clone()));
            assert_eq!(merged, expected.unwrap_or_else(|| schema.clone()), "{schema}");
        };
        let string = json!({"type": "string"});
        let nothing = json!({"type": "null"});
        check(
            json!({"anyOf": [string, nothing], "description": "A."}),
            Some(json!({"type": ["string", "null"], "description": "A."})),
        );
        check(
            json!({"anyOf": [{"type": "array", "items": {"type": "string"}, "minItems": 1}, {"type": "string", "minLength": 2}]}),
            Some(json!({"type": ["array", "string"], "items": {"type": "string"}, "minItems": 1, "minLength": 2})),
        );
        check(json!({"anyOf": [{"type": "string", "enum": ["a"]}, nothing]}), None);
        check(json!({"anyOf": [{"type": "string", "description": "B."}, nothing]}), None);
        check(json!({"anyOf": [{"type": "integer", "minimum": 1}, {"type": "number"}]}), None);
        check(json!({"anyOf": [{"$ref": "#/$defs/A"}, nothing]}), None);
        check(json!({"anyOf": [string, nothing], "minLength": 1}), None);
        check(json!({"anyOf": [string, nothing], "type": "string"}), None);
        check(json!({"anyOf": [string, true]}), None);
        check(json!({"anyOf": [string]}), None);
        check(json!({"oneOf": [string, nothing]}), None);
    }
}
