//! Shortens real tools: the same arguments fit, and the text is much smaller.

#[path = "data/tools.rs"]
mod tools;
#[path = "data/values.rs"]
mod values;

use mcpproxy_core::schema::Schema;
use mcpproxy_core::{Keep, brief};
use serde_json::{Value, json};
use values::{mistaken, sample};

/// Maximum number of mistakes that are tried per value, one at a time.
const PLACES_MAX: usize = 12;

#[test]
fn the_same_arguments_fit() {
    let (mut fitting, mut not_fitting) = (0, 0);
    // Test every tool in the form that agents see, and in one of the other forms.
    let mut others = Keep::ALL.into_iter().skip(1).cycle();
    for_each_tool(|name, description, schema| {
        let text = schema.to_string();
        let whole = Schema::of_server(&text).unwrap();
        let values = values_of(schema);
        for keep in [Keep::Meaning].into_iter().chain(others.next()) {
            let short = brief(description, &text, keep);
            let kept = Schema::of_server(&short.schema).unwrap_or_else(|error| panic!("{name} {keep:?}: {error}"));
            for value in &values {
                let exact = value.clone().into();
                let (before, after) = (whole.admits(&exact), kept.admits(&exact));
                // Arguments are always an object, so the shortest forms only need to be right about objects.
                let is_right = if keep.is_exact() { before == after } else { !before || after || !value.is_object() };
                assert!(is_right, "{name} {keep:?} {before} {after} {value}\n{text}\n{}", short.schema);
                *(if before { &mut fitting } else { &mut not_fitting }) += 1;
            }
        }
    });
    assert!(fitting > 20_000 && not_fitting > 50_000, "{fitting} {not_fitting}");
}

#[test]
fn every_step_is_smaller() {
    let mut bytes = [0; 5];
    for_each_tool(|name, description, schema| {
        let text = schema.to_string();
        let mut sizes = vec![description.len() + text.len()];
        for keep in Keep::ALL {
            let short = brief(description, &text, keep);
            sizes.push(short.description.len() + short.schema.len());
        }
        assert!(sizes[1] <= sizes[0] && sizes[2] <= sizes[1], "{name} {sizes:?}");
        assert!(sizes[4] <= 2_500, "{name} {sizes:?}");
        bytes.iter_mut().zip(&sizes).for_each(|(sum, size)| *sum += size);
    });
    let share = bytes.map(|sum| sum * 100 / bytes[0]);
    assert_eq!(share, SHARES, "{bytes:?}");
}

/// Sizes in percent: the whole tool, then each level of `Keep`.
const SHARES: [usize; 5] = [100, 71, 55, 45, 19];

fn for_each_tool(mut look: impl FnMut(&str, &str, &Value)) {
    for json in tools::lists().iter().flat_map(|list| &list.tools) {
        let tool: Value = serde_json::from_str(json).unwrap_or_default();
        let text = |field: &str| tool.get(field).and_then(Value::as_str).unwrap_or_default();
        tool.get("inputSchema").into_iter().for_each(|schema| look(text("name"), text("description"), schema));
    }
}

/// Returns a value that may fit, and copies with a mistake at the top level or anywhere.
fn values_of(schema: &Value) -> Vec<Value> {
    let fitting = sample(schema, schema, 0);
    let mut values = mistaken(&fitting);
    let mut places = Vec::new();
    pointers(&fitting, String::new(), &mut places);
    for place in places.iter().take(PLACES_MAX) {
        for wrong in [json!(null), json!(-1e9), json!("?"), json!({"unknown": 1}), json!(["a", "a"])] {
            let mut value = fitting.clone();
            if let Some(there) = value.pointer_mut(place) {
                *there = wrong;
            }
            values.push(value);
        }
    }
    values
}

fn pointers(value: &Value, at: String, found: &mut Vec<String>) {
    let inner = |key: &str| format!("{at}/{}", key.replace('~', "~0").replace('/', "~1"));
    match value {
        Value::Object(members) => members.iter().for_each(|(key, member)| pointers(member, inner(key), found)),
        Value::Array(items) => {
            items.iter().enumerate().for_each(|(number, item)| pointers(item, inner(&number.to_string()), found));
        }
        _ => {}
    }
    found.push(at);
}
