//! The tools that the echo server lists: `echo`, `keep`, and any number of generated tools of realistic size.

use serde_json::{Map, Value, json};

const VERBS: [(&str, &str); 8] = [
    ("list", "Lists"),
    ("search", "Searches"),
    ("read", "Reads"),
    ("create", "Creates"),
    ("update", "Updates"),
    ("delete", "Deletes"),
    ("export", "Exports"),
    ("compare", "Compares"),
];
const THINGS: [&str; 12] = [
    "issue",
    "branch",
    "invoice",
    "customer",
    "dashboard",
    "alert",
    "calendar_event",
    "document",
    "deployment",
    "database_row",
    "message",
    "subscription",
];
const PARAMETERS: [(&str, &str, &str); 9] = [
    ("project_id", "string", "Identifier of the project, as shown in its address, for example `acme/website`."),
    ("query", "string", "Words to look for in the title and the text; quotation marks keep words together."),
    ("limit", "integer", "How many results to return at most; the rest can be fetched with the cursor."),
    ("cursor", "string", "Where to go on, taken from the previous answer; leave it out to begin at the start."),
    ("since", "string", "Only what changed after this moment, in RFC 3339 form such as 2026-01-31T12:00:00Z."),
    ("include_archived", "boolean", "Whether to include what was archived; left out unless it is asked for."),
    ("labels", "array", "Only what carries all of these labels; the spelling must be exact."),
    ("title", "string", "A short title in one line, shown in lists and in notifications."),
    ("body", "string", "The text itself; Markdown is understood, attachments are referred to by their links."),
];

/// A tool that reads.
pub(crate) const ECHO: &str = "echo";
/// A tool that writes.
pub(crate) const KEEP: &str = "keep";
/// Number of tools that every echo server has.
pub(crate) const OWN: usize = 2;
/// Number of generated tools for `retrieve_tools`, and for the memory of a large catalog.
pub(crate) const MANY: usize = 999;

/// Returns the value of `tools` in the answer to `tools/list`.
pub(crate) fn list(extra: usize) -> Value {
    let own = [echo(ECHO, true), echo(KEEP, false)];
    own.into_iter().chain((0..extra).map(made_up)).collect()
}

/// Returns a tool that sends its arguments back.
fn echo(name: &str, read_only: bool) -> Value {
    json!({
        "name": name,
        "description": "Answers with the text or the data it was given.",
        "inputSchema": {
            "type": "object",
            "properties": {
                "text": { "type": "string", "description": "What to answer." },
                "data": { "type": "object", "properties": { "rows": { "type": "array", "items": { "type": "object" } } } },
            },
        },
        "annotations": { "readOnlyHint": read_only, "destructiveHint": false, "openWorldHint": false },
    })
}

fn made_up(number: usize) -> Value {
    let (verb, verb_in_words) = VERBS.get(number % VERBS.len()).copied().unwrap_or(("list", "Lists"));
    let thing = THINGS.get(number / VERBS.len() % THINGS.len()).copied().unwrap_or("issue");
    let words = thing.replace('_', " ");
    let parameters: Vec<_> = PARAMETERS.iter().cycle().skip(number).take(3 + number % 6).collect();
    let properties: Map<String, Value> = parameters.iter().map(|parameter| property(parameter)).collect();
    let required: Vec<_> = parameters.iter().take(1 + number % 2).map(|(name, _, _)| name).collect();
    let read_only = matches!(verb, "list" | "search" | "read" | "export" | "compare");
    json!({
        "name": format!("{verb}_{thing}_{number}"),
        "title": format!("{verb_in_words} {words}"),
        "description": format!(
            "{verb_in_words} a {words} in workspace {number}. Use it when somebody asks about a {words} by its name \
             or number; the answer holds its identifier, its state, who changed it last, and a link to open it."
        ),
        "inputSchema": { "type": "object", "properties": properties, "required": required, "additionalProperties": false },
        "annotations": { "readOnlyHint": read_only, "destructiveHint": verb == "delete", "openWorldHint": true },
    })
}

fn property((name, kind, description): &(&str, &str, &str)) -> (String, Value) {
    let mut schema = json!({ "type": kind, "description": description });
    if let (Some(schema), "array") = (schema.as_object_mut(), *kind) {
        schema.insert("items".to_owned(), json!({ "type": "string" }));
    }
    ((*name).to_owned(), schema)
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn made_up_tools_have_their_own_names_and_a_real_size() {
        let tools = list(1000);
        let tools = tools.as_array().unwrap();
        let names: HashSet<_> = tools.iter().map(|tool| tool["name"].as_str().unwrap()).collect();
        assert_eq!((tools.len(), names.len()), (1002, 1002));
        // Real tools have a median of 1,159 bytes.
        let bytes = list(1000).to_string().len() / 1000;
        assert!((900..1500).contains(&bytes), "{bytes} bytes per tool");
    }
}
