//! What came of a call: the result on standard output, and why there is none on standard error.

use mcpproxy_core::{ToolName, Variant};
use serde_json::Value;

use crate::exit::{Exit, Failure};
use crate::jsonrpc::Envelope;
use crate::output::{self, Format, line, lines, member};

/// JSON-RPC's "something broke inside".
const INTERNAL_ERROR: i64 = -32603;

/// What was asked, to say how to ask better.
pub(super) struct Asked<'a> {
    pub(super) tool: &'a ToolName,
    pub(super) args: Option<&'a str>,
    pub(super) reason: Option<&'a str>,
    pub(super) sensitivity: Option<String>,
}

pub(super) fn print(format: Format, answer: &Envelope, asked: &Asked<'_>) -> anyhow::Result<Exit> {
    if let Some(error) = &answer.error {
        let exit = if error.code == INTERNAL_ERROR { Exit::Failed } else { Exit::Refused };
        return Err(Failure::new(exit, line(&error.message)).into());
    }
    let raw = answer.result.as_ref().map_or("null", |result| result.get());
    let result: Value = serde_json::from_str(raw)?;
    let failure = failure(&result, asked);
    match format {
        Format::Json => output::print(raw)?,
        Format::Yaml => format.print(&result, String::new)?,
        // A refusal's text is the failure's message, which goes to standard error.
        Format::Table if gateways_error(&result).is_none() => output::print(&text(&result))?,
        Format::Table => {}
    }
    for warning in result.pointer("/_meta/mcpproxy~1warnings").and_then(Value::as_array).into_iter().flatten() {
        output::tell(&format!("warning: {}", member(warning, "message")));
    }
    match failure {
        None => Ok(Exit::Done),
        Some(failure) => Err(failure.into()),
    }
}

/// The gateway's own error, if this is one. The gateway marks its own, and drops such a mark from a server's answer.
fn gateways_error(result: &Value) -> Option<(&str, &str)> {
    result.pointer("/_meta/mcpproxy~1error")?;
    let error = result.pointer("/structuredContent/error")?;
    Some((error.get("code")?.as_str()?, error.get("message")?.as_str()?))
}

fn failure(result: &Value, asked: &Asked<'_>) -> Option<Failure> {
    if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Some(Failure::new(Exit::Refused, "the server asks for input, which the command line cannot give"));
    }
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let Some((code, message)) = gateways_error(result) else {
        return Some(Failure::new(Exit::ServerFailed, format!("server `{}` reports an error", asked.tool.server())));
    };
    let message = line(message);
    let exit = match code {
        "RESULT_TOO_LARGE" => Exit::ServerFailed,
        code if code.starts_with("UPSTREAM_") => Exit::ServerFailed,
        _ => Exit::Refused,
    };
    let failure = Failure::new(exit, format!("{message} ({})", line(code)));
    Some(match (right_command(result, asked), code) {
        (Some(command), _) => failure.hint(command),
        (None, "UPSTREAM_UNAVAILABLE") => failure.hint("`mcpproxy servers list` shows why"),
        (None, _) => failure,
    })
}

/// The command that would be right, when the tool asks for another variant.
fn right_command(result: &Value, asked: &Asked<'_>) -> Option<String> {
    let call_with = result.pointer("/structuredContent/error/details/call_with")?.as_str()?;
    let right = Variant::from_tool(call_with)?;
    let option = |name: &str, value: Option<&str>| {
        value.map(|value| format!(" --{name} {}", shell_word(&line(value)))).unwrap_or_default()
    };
    let (args, reason) = (option("args", asked.args), option("reason", asked.reason));
    let sensitivity = asked.sensitivity.as_ref().map(|level| format!(" --sensitivity {level}")).unwrap_or_default();
    Some(format!("mcpproxy call tool-{right} {}{args}{sensitivity}{reason}", asked.tool))
}

fn shell_word(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

/// The content for people: texts as they are, the rest described.
fn text(result: &Value) -> String {
    let content = result.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if content.is_empty() {
        let structured = result.get("structuredContent").unwrap_or(&Value::Null);
        let pretty = serde_json::to_string_pretty(structured).unwrap_or_default();
        return if structured.is_null() { String::new() } else { lines(&pretty) };
    }
    content.iter().map(|part| block(part) + "\n").collect()
}

fn block(part: &Value) -> String {
    let kind = part.get("type").and_then(Value::as_str).unwrap_or_default();
    let text = |pointer: &str| part.pointer(pointer).and_then(Value::as_str);
    match kind {
        "text" => lines(text("/text").unwrap_or_default()).trim_end_matches('\n').to_owned(),
        "image" | "audio" => {
            let base64_chars = text("/data").map_or(0, str::len);
            format!("[{kind} {}, {base64_chars} characters of Base64; -o json has them]", member(part, "mimeType"))
        }
        "resource_link" => format!("[{} {}]", member(part, "name"), member(part, "uri")),
        "resource" if text("/resource/text").is_some() => lines(text("/resource/text").unwrap_or_default()),
        _ => line(&part.to_string()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn check(result: &Value, expected: Option<(Exit, &str)>) {
        let tool = ToolName::parse("fx:delete_thing").unwrap();
        let (args, reason) = (Some("{\"a\": \"it's\"}"), Some("because"));
        let asked = Asked { tool: &tool, args, reason, sensitivity: Some("private".to_owned()) };
        let reported = failure(result, &asked).map(|failure| crate::exit::report(&Err(failure.into())));
        let expected = expected.map(|(exit, text)| (exit, Some(text.to_owned())));
        assert_eq!(reported, expected, "{result}");
    }

    #[test]
    fn who_said_no() {
        let refusal = |code: &str, message: &str| {
            json!({"isError": true, "content": [{"type": "text", "text": message}],
                   "structuredContent": {"error": {"code": code, "message": message,
                                                   "details": {"call_with": "call_tool_destructive"}}},
                   "_meta": {"mcpproxy/error": code}})
        };
        let hint = "hint: mcpproxy call tool-destructive fx:delete_thing --args '{\"a\": \"it'\\''s\"}' \
                    --sensitivity private --reason 'because'";
        check(&json!({"content": []}), None);
        check(&json!({"content": [], "isError": false}), None);
        check(
            &json!({"content": [{"type": "text", "text": "no"}], "isError": true}),
            Some((Exit::ServerFailed, "server `fx` reports an error")),
        );
        check(
            &json!({"content": [{"type": "text", "text": "no user"}], "isError": true,
                    "structuredContent": {"error": {"code": "not_found", "message": "no user"}}}),
            Some((Exit::ServerFailed, "server `fx` reports an error")),
        );
        check(
            &refusal("UPSTREAM_TIMEOUT", "server did not answer"),
            Some((Exit::ServerFailed, &format!("server did not answer (UPSTREAM_TIMEOUT)\n{hint}"))),
        );
        let too_long = format!("too long (REASON_TOO_LONG)\n{hint}");
        check(&refusal("REASON_TOO_LONG", "too long"), Some((Exit::Refused, &too_long)));
        check(
            &refusal("SERVER_MISMATCH", "marked destructive, use call_tool_destructive instead of call_tool_read"),
            Some((
                Exit::Refused,
                &format!(
                    "marked destructive, use call_tool_destructive instead of call_tool_read (SERVER_MISMATCH)\n{hint}"
                ),
            )),
        );
    }

    #[test]
    fn content_for_people() {
        let check = |result: Value, expected: &str| assert_eq!(text(&result), expected);
        check(
            json!({"content": [{"type": "text", "text": "a\n\u{1b}[2Jb\n"}, {"type": "image", "mimeType": "image/png", "data": "AAAA"}]}),
            "a\n\\u{1b}[2Jb\n[image image/png, 4 characters of Base64; -o json has them]\n",
        );
        check(json!({"structuredContent": {"a": 1}}), "{\n  \"a\": 1\n}");
        check(json!({"content": [{"type": "new", "x": 1}]}), "{\"type\":\"new\",\"x\":1}\n");
        check(json!({}), "");
    }
}
