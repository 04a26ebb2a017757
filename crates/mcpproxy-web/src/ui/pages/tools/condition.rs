//! Conditions of a contract in words: `{"when": {"properties": {"to": {"minItems": 5}}}}` becomes "to has at least 5
//! entries".
//!
//! Only the keywords that contracts commonly use have words. Any other schema has none: words must not leave out a part
//! of a condition. The page then shows the JSON.

use serde_json::{Map, Value};

/// Words may not grow beyond this. A longer condition is shown as JSON.
const WORDS_MAX_CHARS: usize = 240;
const DEPTH_MAX: usize = 4;

/// Words the schema of a `when`. Returns `None` if it has a part without words.
pub(crate) fn condition(schema: &Value) -> Option<String> {
    of_arguments(schema, DEPTH_MAX).filter(|words| words.chars().count() <= WORDS_MAX_CHARS)
}

/// Words a field of a contract that is an object with `when`.
pub(crate) fn when(field: &Value) -> Option<String> {
    match field.as_object().filter(|members| members.len() == 1)?.get("when")? {
        Value::Bool(_) => None,
        schema => condition(schema),
    }
}

fn of_arguments(schema: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let members = schema.as_object()?;
    let mut parts = Vec::new();
    for (keyword, value) in members {
        match keyword.as_str() {
            "type" if value == "object" => {}
            "properties" => {
                for (name, schema) in value.as_object()? {
                    parts.push(of_value(name, schema, depth)?);
                }
            }
            // A schema for a value says more than that the value is there.
            "required" => {
                let described = members.get("properties").and_then(Value::as_object);
                for name in value.as_array()? {
                    let name = name.as_str()?;
                    if !described.is_some_and(|described| described.contains_key(name)) {
                        parts.push(format!("{name} is given"));
                    }
                }
            }
            "anyOf" | "oneOf" => parts.push(joined(value, " or ", depth)?),
            "allOf" => parts.push(joined(value, " and ", depth)?),
            "not" => parts.push(format!("not ({})", of_arguments(value, depth)?)),
            _ => return None,
        }
    }
    (!parts.is_empty()).then(|| parts.join(" and "))
}

fn joined(schemas: &Value, word: &str, depth: usize) -> Option<String> {
    let all: Option<Vec<String>> = schemas.as_array()?.iter().map(|schema| of_arguments(schema, depth)).collect();
    all.filter(|all| !all.is_empty()).map(|all| all.join(word))
}

fn of_value(name: &str, schema: &Value, depth: usize) -> Option<String> {
    let depth = depth.checked_sub(1)?;
    let members = schema.as_object()?;
    if let Some(inner) = members.get("properties") {
        let inner = inner.as_object()?;
        let named: Map<String, Value> =
            inner.iter().map(|(key, value)| (format!("{name}.{key}"), value.clone())).collect();
        let is_all = members.keys().all(|key| matches!(key.as_str(), "properties" | "required" | "type"));
        let schema = Value::Object(Map::from_iter([("properties".to_owned(), Value::Object(named))]));
        return is_all.then(|| of_arguments(&schema, depth)).flatten();
    }
    let mut parts = Vec::new();
    for (keyword, value) in members {
        let words = match keyword.as_str() {
            "type" => continue,
            "const" => format!("is {}", plain(value)?),
            "enum" => format!("is {}", value.as_array()?.iter().map(plain).collect::<Option<Vec<_>>>()?.join(" or ")),
            "minimum" => format!("is at least {}", plain(value)?),
            "exclusiveMinimum" => format!("is more than {}", plain(value)?),
            "maximum" => format!("is at most {}", plain(value)?),
            "exclusiveMaximum" => format!("is less than {}", plain(value)?),
            "minItems" => format!("has at least {} entries", plain(value)?),
            "maxItems" => format!("has at most {} entries", plain(value)?),
            "minLength" => format!("has at least {} characters", plain(value)?),
            "maxLength" => format!("has at most {} characters", plain(value)?),
            "pattern" => format!("matches {}", plain(value)?),
            _ => return None,
        };
        parts.push(format!("{name} {words}"));
    }
    if parts.is_empty() { Some(format!("{name} is given")) } else { Some(parts.join(" and ")) }
}

fn plain(value: &Value) -> Option<String> {
    match value {
        Value::String(text) => Some(format!("“{text}”")),
        Value::Number(_) | Value::Bool(_) | Value::Null => Some(value.to_string()),
        Value::Array(_) | Value::Object(_) => None,
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn common_conditions_have_words() {
        let check = |schema: &Value, expected: Option<&str>| assert_eq!(condition(schema).as_deref(), expected);
        let many = json!({"properties": {"to": {"minItems": 5}}, "required": ["to"]});
        check(&many, Some("to has at least 5 entries"));
        let either = json!({"anyOf": [many, {"properties": {"amount": {"type": "number", "exclusiveMinimum": 100}}}]});
        check(&either, Some("to has at least 5 entries or amount is more than 100"));
        check(&json!({"required": ["bcc"]}), Some("bcc is given"));
        check(
            &json!({"properties": {"changes": {"type": "object", "properties": {"plan": {"enum": ["free", "pro"]}}}}}),
            Some("changes.plan is “free” or “pro”"),
        );
        // Words must not leave out a part.
        check(&json!({"properties": {"to": {"minItems": 5, "contains": {}}}}), None);
        check(&json!({"minProperties": 2}), None);
        check(&json!({}), None);
        assert_eq!(when(&json!({"when": many})).as_deref(), Some("to has at least 5 entries"));
        assert_eq!(when(&json!({"when": true})), None);
    }
}
