//! Outlines the arguments of a tool whose schema is too large to show. Every value that fits the schema fits the
//! outline.

use serde_json::{Map, Value, json};

use super::prose::sentences;

const WHOLE: &str =
    "For the full schema, call retrieve_tools with the tool name as query, detail \"full\" and limit 1.";
const DESCRIPTION_MAX_BYTES: usize = 80;
/// Longer `enum` lists are left out.
const CHOICES_MAX_BYTES: usize = 200;
/// Maximum length of the outline with names only.
const NAMES_MAX_BYTES: usize = 1024;
/// Maximum number of references to follow in a row.
const STEPS_MAX: usize = 8;
/// Maximum number of alternatives to look at in one schema. Beyond it, a type counts as unknown.
const LOOKS_MAX: usize = 4_096;

/// Outlines the arguments with their types, without their contents.
pub(super) fn outlined(root: &Value) -> Value {
    let schema = followed(root, root);
    let mut looks = LOOKS_MAX;
    let mut outline = beginning("The contents of the arguments are left out.");
    if let Some(properties) = schema.get("properties").and_then(Value::as_object) {
        let sketches = properties.iter().map(|(name, property)| (name.clone(), sketch(root, property, &mut looks)));
        outline.insert("properties".to_owned(), Value::Object(sketches.collect()));
    }
    if let Some(required) = schema.get("required") {
        outline.insert("required".to_owned(), required.clone());
    }
    if schema.get("additionalProperties") == Some(&Value::Bool(false)) && schema.get("patternProperties").is_none() {
        outline.insert("additionalProperties".to_owned(), Value::Bool(false));
    }
    Value::Object(outline)
}

/// Outlines the required arguments, as many as fit into the limit.
pub(super) fn named(root: &Value) -> Value {
    let schema = followed(root, root);
    let count = schema.get("properties").and_then(Value::as_object).map_or(0, Map::len);
    let required = schema.get("required").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut room = NAMES_MAX_BYTES;
    let names = required.iter().filter_map(Value::as_str).take_while(|name| {
        // Each name appears twice, and escapes count.
        let rest = room.checked_sub(2 * crate::json::quote(name).len() + 32);
        room = rest.unwrap_or_default();
        rest.is_some()
    });
    let names: Vec<&str> = names.collect();
    let mut outline = beginning(&format!("Shows {} of {count} arguments.", names.len()));
    let mut looks = LOOKS_MAX;
    let properties = names.iter().map(|name| {
        let property = schema.get("properties").and_then(|properties| properties.get(*name));
        (
            (*name).to_owned(),
            Value::Object(property.map(|property| typed(root, property, &mut looks)).unwrap_or_default()),
        )
    });
    outline.insert("properties".to_owned(), Value::Object(properties.collect()));
    outline.insert("required".to_owned(), json!(names));
    Value::Object(outline)
}

fn beginning(left_out: &str) -> Map<String, Value> {
    let about = format!("{left_out} {WHOLE}");
    [("type".to_owned(), json!("object")), ("description".to_owned(), json!(about))].into_iter().collect()
}

fn sketch(root: &Value, schema: &Value, looks: &mut usize) -> Value {
    let followed = followed(root, schema);
    let mut sketch = typed(root, schema, looks);
    let is_list =
        |schema: &Value| schema.get("prefixItems").is_none() && schema.get("items").is_some_and(Value::is_object);
    if let Some(items) = followed.get("items").filter(|_| is_list(followed)) {
        sketch.insert("items".to_owned(), Value::Object(typed(root, items, looks)));
    }
    if let Some(choices) = followed.get("enum").filter(|choices| choices.to_string().len() <= CHOICES_MAX_BYTES) {
        sketch.insert("enum".to_owned(), choices.clone());
    }
    let description = schema.get("description").or(followed.get("description")).and_then(Value::as_str);
    if let Some(description) = description {
        sketch.insert("description".to_owned(), Value::String(sentences(description, DESCRIPTION_MAX_BYTES)));
    }
    Value::Object(sketch)
}

/// Returns the type alone, if it is known.
fn typed(root: &Value, schema: &Value, looks: &mut usize) -> Map<String, Value> {
    let types = types(root, followed(root, schema), 0, looks).filter(|types| !types.is_empty());
    let types = types.map(|types| if let [one] = types.as_slice() { json!(one) } else { json!(types) });
    types.map(|types| ("type".to_owned(), types)).into_iter().collect()
}

/// Returns the possible types, or `None` if a value may have any type.
fn types<'v>(root: &'v Value, schema: &'v Value, depth: usize, looks: &mut usize) -> Option<Vec<&'v str>> {
    *looks = looks.checked_sub(1)?;
    if depth > STEPS_MAX {
        return None;
    }
    match schema.get("type") {
        Some(Value::String(name)) => return Some(vec![name]),
        Some(Value::Array(names)) => return names.iter().map(Value::as_str).collect::<Option<_>>().map(each_once),
        _ => {}
    }
    let branches = schema.get("anyOf").or(schema.get("oneOf"))?.as_array()?;
    let mut all = Vec::new();
    for branch in branches {
        all.extend(types(root, followed(root, branch), depth + 1, looks)?);
    }
    Some(each_once(all))
}

/// Removes duplicates. A server may repeat the same type thousands of times.
fn each_once(mut types: Vec<&str>) -> Vec<&str> {
    types.sort_unstable();
    types.dedup();
    types
}

/// Returns the schema that `$ref` points to, or the schema itself.
fn followed<'v>(root: &'v Value, schema: &'v Value) -> &'v Value {
    let mut at = schema;
    for _ in 0..STEPS_MAX {
        let target = at.get("$ref").and_then(Value::as_str).and_then(|text| root.pointer(text.strip_prefix('#')?));
        match target {
            Some(target) => at = target,
            None => break,
        }
    }
    at
}

#[cfg(test)]
mod tests {
    use super::*;

    fn schema() -> Value {
        json!({"$ref": "#/$defs/Root", "$defs": {
            "Root": {"type": "object", "required": ["to", "body"], "additionalProperties": false, "properties": {
                "to": {"type": "array", "minItems": 1, "items": {"$ref": "#/$defs/Person"}},
                "body": {"anyOf": [{"$ref": "#/$defs/Person"}, {"type": "string"}, {"type": "string", "const": "a"}], "description": "What it says."},
                "mode": {"enum": ["a", "b"]},
                "any": {"anyOf": [{}, {"type": "string"}]},
                "yes": true,
                "twice": {"type": ["string", "null", "string"]},
            }},
            "Person": {"type": "object", "description": "Somebody.", "properties": {"name": {"type": "string"}}},
        }})
    }

    #[test]
    fn arguments_keep_their_types() {
        assert_eq!(
            outlined(&schema()),
            json!({
                "type": "object",
                "description": format!("The contents of the arguments are left out. {WHOLE}"),
                "properties": {
                    "to": {"type": "array", "items": {"type": "object"}},
                    "body": {"type": ["object", "string"], "description": "What it says."},
                    "mode": {"enum": ["a", "b"]},
                    "any": {},
                    "yes": {},
                    "twice": {"type": ["null", "string"]},
                },
                "required": ["to", "body"],
                "additionalProperties": false,
            })
        );
        assert_eq!(
            outlined(&json!({})),
            json!({"type": "object", "description": format!("The contents of the arguments are left out. {WHOLE}")})
        );
    }

    #[test]
    fn the_outline_allows_what_other_keywords_allow() {
        let closed = json!({"additionalProperties": false, "patternProperties": {"^x": {}}, "properties": {"a": {}}});
        assert_eq!(outlined(&closed).get("additionalProperties"), None);
        let list = json!({"properties": {"a": {"prefixItems": [{"type": "string"}], "items": {"type": "number"}}}});
        assert_eq!(outlined(&list)["properties"]["a"], json!({}));
    }

    #[test]
    fn a_schema_made_to_be_slow_is_outlined_soon() {
        let level = |number: usize| json!({"anyOf": vec![json!({"$ref": format!("#/$defs/l{}", number + 1)}); 3]});
        let mut levels: Map<String, Value> = (0..6).map(|number| (format!("l{number}"), level(number))).collect();
        levels.insert("l6".to_owned(), json!({"type": "string"}));
        let properties: Map<String, Value> =
            (0..3_000).map(|number| (format!("p{number}"), json!({"$ref": "#/$defs/l0"}))).collect();
        let schema = json!({"properties": properties, "$defs": levels});
        assert_eq!(crate::schema::Schema::inspect(&schema.to_string()), Ok(None));
        let outline = outlined(&schema);
        assert_eq!(outline["properties"]["p0"], json!({"type": "string"}));
        assert_eq!(outline["properties"]["p2999"], json!({}), "beyond the limit");
    }

    #[test]
    fn names_are_few() {
        assert_eq!(
            named(&schema()),
            json!({
                "type": "object",
                "description": format!("Shows 2 of 6 arguments. {WHOLE}"),
                "properties": {"to": {"type": "array"}, "body": {"type": ["object", "string"]}},
                "required": ["to", "body"],
            })
        );
        let names: Vec<String> = (0..10_000).map(|number| format!("argument_{number}")).collect();
        let many = named(&json!({"type": "object", "required": names}));
        assert!(many.to_string().len() < 2 * NAMES_MAX_BYTES, "{}", many.to_string().len());
        assert!(many["required"].as_array().is_some_and(|names| names.len() > 10));
    }
}
