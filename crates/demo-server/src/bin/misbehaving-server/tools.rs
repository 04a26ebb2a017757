//! Valid and invalid tool lists.

use serde_json::{Value, json};

use crate::options::Options;

/// Returns the result of `tools/list`. Every other change of the list adds a tool, the next removes it.
pub(crate) fn list(options: &Options, cursor: Option<&str>, changes: u64) -> Value {
    if options.bad_tools {
        return json!({ "tools": bad() });
    }
    if options.endless_list {
        let page = cursor.and_then(|cursor| cursor.parse::<u64>().ok()).unwrap_or(0);
        let tool = json!({ "name": format!("page_{page}"), "inputSchema": anything() });
        return json!({ "tools": [tool], "nextCursor": (page + 1).to_string() });
    }
    let mut tools = vec![
        tool("echo", "Returns its arguments, letter for letter.", true),
        tool("counter", "Counts the calls of this process.", true),
        tool("huge", "Returns a very long text.", true),
        tool("hang", "May never answer.", true),
        tool("crash", "Ends the process.", false),
    ];
    if changes % 2 == 1 {
        tools.push(tool("extra", "Comes and goes.", true));
    }
    if !options.delay.is_zero() {
        tools.push(tool("slow", "Answers after a while.", true));
    }
    if options.floods {
        tools.push(tool("flood", "Sends messages without end.", true));
    }
    let description = "x".repeat(options.description_bytes);
    tools.extend((0..options.more_tools).map(|number| tool(&format!("more_{number}"), &description, true)));
    json!({ "tools": tools })
}

fn tool(name: &str, description: &str, read_only: bool) -> Value {
    json!({
        "name": name,
        "description": description,
        "inputSchema": anything(),
        "annotations": { "readOnlyHint": read_only },
    })
}

fn bad() -> Value {
    json!([
        { "name": "without_schema", "description": "Has no input schema." },
        { "name": "text_hint", "inputSchema": anything(), "annotations": { "readOnlyHint": "true" } },
        { "name": "with:colon", "description": "Has a colon in its name.", "inputSchema": anything() },
        {
            "name": "unknown_fields",
            "description": "Has fields that no specification knows.",
            "inputSchema": anything(),
            "annotations": { "readOnlyHint": true, "category": "test", "x-vendor": { "deep": [1, 2.50, null] } },
            "execution": { "taskSupport": "optional" },
            "x-vendor": "kept or dropped?",
        },
        tool("good", "Has nothing wrong with it.", true),
    ])
}

fn anything() -> Value {
    json!({ "type": "object" })
}
