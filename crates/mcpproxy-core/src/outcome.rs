//! Checks a server's answer against the tool's contract: declared failure modes and output schemas.

use crate::catalog::Tool;
use crate::json::{ExactValue, members, string_value};
use crate::schema::Problem;

/// The code of a failure that the contract does not declare.
pub const UNDECLARED: &str = "undeclared_failure";
/// Maximum number of characters that are kept of a server's own error code.
const CODE_MAX_CHARS: usize = 128;

/// A failure of a tool whose contract declares its failure modes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// The contract declares this code.
    Declared(String),
    /// The contract does not declare it. `original` is the server's own code, if it has a usable one.
    Undeclared { original: Option<String> },
}

/// A result that does not match its schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mismatch {
    pub problems: Vec<Problem>,
    /// True if the contract forbids returning such a result.
    pub is_strict: bool,
}

impl Failure {
    /// Classifies a result with `isError`. Returns `None` if the contract declares no failure modes.
    pub fn of_result(tool: &Tool, result: &str) -> Option<Self> {
        Self::of(tool, || result_code(result))
    }

    /// Classifies a JSON-RPC error. Returns `None` if the contract declares no failure modes.
    pub fn of_error(tool: &Tool, code: i64, data: Option<&str>) -> Option<Self> {
        Self::of(tool, || data.and_then(code_in).or_else(|| Some(code.to_string())))
    }

    fn of(tool: &Tool, code: impl FnOnce() -> Option<String>) -> Option<Self> {
        let declared = &tool.contract.failure_modes.as_ref()?.value;
        Some(match code() {
            Some(code) if declared.contains(&code) => Self::Declared(code),
            original => Self::Undeclared { original },
        })
    }

    /// Returns the code for the record.
    pub fn code(&self) -> &str {
        match self {
            Self::Declared(code) => code,
            Self::Undeclared { .. } => UNDECLARED,
        }
    }
}

/// Checks a result against the server's own schema and the contract's.
pub fn check_result(tool: &Tool, result: &str) -> Result<(), Mismatch> {
    let promised = tool.contract.output_schema.as_ref().map(|schema| &schema.value);
    let own = tool.output_schema();
    if own.is_none() && promised.is_none() {
        return Ok(());
    }
    let is_strict = promised.is_some_and(|promised| promised.is_strict);
    let Some(value) = structured(result) else {
        let problem = Problem {
            pointer: String::new(),
            expected: "a structured result".to_owned(),
            found: "text only".to_owned(),
            description: None,
        };
        return Err(Mismatch { problems: vec![problem], is_strict });
    };
    for schema in own.into_iter().chain(promised.map(|promised| promised.schema.as_ref())) {
        schema.check(&value).map_err(|mut problems| {
            tool.hide_sensitive(&mut problems);
            Mismatch { problems, is_strict }
        })?;
    }
    Ok(())
}

/// Finds a server's own error code: where this gateway puts one, where others do, or before the colon of its text.
fn result_code(result: &str) -> Option<String> {
    let fields = members(result)?;
    let field = |wanted: &str| fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
    field("structuredContent").and_then(code_in).or_else(|| {
        let text = only_text(field("content")?)?;
        code_in(&text).or_else(|| text.split_once(':').and_then(|(code, _)| word(code)))
    })
}

/// Returns `error.code`, `code`, or `error` itself if it is a single word.
fn code_in(json: &str) -> Option<String> {
    let fields = members(json)?;
    let field = |wanted: &str| fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
    let of_error = field("error").and_then(|error| match members(error) {
        Some(inner) => inner.iter().find(|(key, _)| key == "code").and_then(|(_, code)| code_value(code)),
        None => code_value(error),
    });
    of_error.or_else(|| field("code").and_then(code_value))
}

fn code_value(json: &str) -> Option<String> {
    match string_value(json) {
        Some(text) => word(&text),
        None => json.parse::<i64>().ok().map(|number| number.to_string()),
    }
}

/// Returns the text if it can be a code. Codes are words, not sentences.
fn word(text: &str) -> Option<String> {
    let is_word = !text.is_empty()
        && text.len() <= CODE_MAX_CHARS
        && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'.' | b'-'));
    is_word.then(|| text.to_owned())
}

/// Returns the structured part of a result, or the JSON of its only text.
pub(crate) fn structured(result: &str) -> Option<ExactValue> {
    let fields = members(result)?;
    let field = |wanted: &str| fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value);
    match field("structuredContent") {
        Some(value) => ExactValue::read(value),
        // Servers from before structured results put the same JSON into one text block.
        None => ExactValue::read(&only_text(field("content")?)?),
    }
}

/// Returns the text of a result that has one text block and nothing else.
fn only_text(content: &str) -> Option<String> {
    let blocks: Vec<&serde_json::value::RawValue> = serde_json::from_str(content).ok()?;
    let [block] = blocks.as_slice() else { return None };
    let fields = members(block.get())?;
    fields.iter().find(|(key, _)| key == "text").and_then(|(_, text)| string_value(text)).map(Into::into)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn codes_are_found_where_servers_put_them() {
        let check = |result: &str, expected: Option<&str>| {
            assert_eq!(result_code(result).as_deref(), expected, "{result}");
        };
        check(r#"{"structuredContent":{"error":{"code":"not_found","message":"x"}},"content":[]}"#, Some("not_found"));
        check(r#"{"structuredContent":{"code":"E42"},"content":[]}"#, Some("E42"));
        check(r#"{"structuredContent":{"error":"quota"},"content":[]}"#, Some("quota"));
        check(r#"{"structuredContent":{"error":{"code":404}},"content":[]}"#, Some("404"));
        check(r#"{"content":[{"type":"text","text":"not_found: no such file"}]}"#, Some("not_found"));
        check(r#"{"content":[{"type":"text","text":"{\"error\":{\"code\":\"bad\"}}"}]}"#, Some("bad"));
        check(r#"{"content":[{"type":"text","text":"It did not work: sorry"}]}"#, None);
        check(r#"{"content":[{"type":"text","text":"a: 1"},{"type":"text","text":"b: 2"}]}"#, None);
        check(r#"{"structuredContent":{"error":{"code":"\u001b[2J"}},"content":[]}"#, None);
        check(r#"{"content":[]}"#, None);
    }
}
