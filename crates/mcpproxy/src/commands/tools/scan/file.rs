//! Reads tools from a file: a JSON array, the result of `tools/list`, or JSON lines.

use std::fs::File;
use std::io::Read as _;
use std::path::Path;

use serde_json::Value;

use crate::exit::{Exit, Failure};

const FILE_MAX_BYTES: u64 = 256 * 1024 * 1024;
const HINT: &str = "pass a JSON array of tools, the result of `tools/list`, or one tool per line";

/// A tool of the file.
pub(super) struct FileTool {
    pub(super) name: String,
    pub(super) json: String,
}

pub(super) fn read(path: &Path) -> Result<Vec<FileTool>, Failure> {
    let shown = path.display();
    let failure = |message: String| Failure::new(Exit::Usage, message).hint(HINT);
    let mut bytes = Vec::new();
    let read = File::open(path).and_then(|file| file.take(FILE_MAX_BYTES + 1).read_to_end(&mut bytes));
    read.map_err(|error| failure(format!("could not read `{shown}`: {error}")))?;
    if u64::try_from(bytes.len()).is_ok_and(|length| length > FILE_MAX_BYTES) {
        return Err(failure(format!("`{shown}` has more than {} MB", FILE_MAX_BYTES / 1024 / 1024)));
    }
    let text = String::from_utf8(bytes).map_err(|_| failure(format!("`{shown}` is not UTF-8 text")))?;
    let tools = parse(&text).map_err(|error| failure(format!("`{shown}` {error}")))?;
    if tools.is_empty() {
        return Err(failure(format!("`{shown}` has no tools")));
    }
    Ok(tools)
}

/// Reads the tools of a text. The error continues the name of the file.
fn parse(text: &str) -> Result<Vec<FileTool>, String> {
    let text = text.trim_start_matches('\u{feff}');
    let values = match serde_json::from_str::<Value>(text) {
        Ok(value) => listed(value)?,
        // Several values one after another are JSON lines, unless the first line is no value either.
        Err(error) => {
            let lines = text.lines().map(str::trim).filter(|line| !line.is_empty());
            let values: Result<Vec<Value>, _> = lines.map(serde_json::from_str).collect();
            values.map_err(|_| format!("is not JSON: {error}"))?
        }
    };
    values.into_iter().enumerate().map(|(index, value)| tool(index + 1, value)).collect()
}

/// Returns the list of tools in a value.
fn listed(mut value: Value) -> Result<Vec<Value>, String> {
    for pointer in ["/tools", "/result/tools"] {
        if let Some(tools) = value.pointer_mut(pointer) {
            value = tools.take();
            break;
        }
    }
    match value {
        Value::Array(tools) => Ok(tools),
        // One line of JSON lines.
        Value::Object(ref tool) if tool.get("name").is_some_and(Value::is_string) => Ok(vec![value]),
        _ => Err("has no list of tools".to_owned()),
    }
}

fn tool(number: usize, value: Value) -> Result<FileTool, String> {
    match value.get("name").and_then(Value::as_str) {
        Some(name) => Ok(FileTool { name: name.to_owned(), json: value.to_string() }),
        None => Err(format!("is not a list of tools: element {number} has no `name`")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_come_in_several_forms() {
        let check = |text: &str, expected: Result<&[&str], &str>| {
            let found = parse(text).map(|tools| tools.into_iter().map(|tool| tool.name).collect::<Vec<_>>());
            let expected = expected.map(|names| names.iter().map(|name| (*name).to_owned()).collect());
            assert_eq!(found, expected.map_err(str::to_owned), "{text}");
        };
        check(r#"[{"name":"a"},{"name":"b"}]"#, Ok(&["a", "b"]));
        check(r#"{"tools":[{"name":"a"}],"nextCursor":"x"}"#, Ok(&["a"]));
        check(r#"{"jsonrpc":"2.0","id":1,"result":{"tools":[{"name":"a"}]}}"#, Ok(&["a"]));
        check("{\"name\":\"a\"}\n\n{\"name\":\"b\"}\n", Ok(&["a", "b"]));
        check("{\"name\":\"a\"}\n", Ok(&["a"]));
        check("\u{feff}[]", Ok(&[]));
        check("", Ok(&[]));
        check("[{", Err("is not JSON: EOF while parsing an object at line 1 column 2"));
        check("7", Err("has no list of tools"));
        check(r#"{"tools":{}}"#, Err("has no list of tools"));
        check(r#"[{"title":"a"}]"#, Err("is not a list of tools: element 1 has no `name`"));
    }
}
