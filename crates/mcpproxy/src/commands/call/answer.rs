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
    pub(super) variant: Variant,
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

fn detail<'r>(result: &'r Value, name: &str) -> Option<&'r Value> {
    result.pointer("/structuredContent/error/details")?.get(name)
}

fn failure(result: &Value, asked: &Asked<'_>) -> Option<Failure> {
    if result.get("resultType").and_then(Value::as_str) == Some("input_required") {
        return Some(Failure::new(Exit::Refused, "the server asks for input, which the command line cannot give"));
    }
    if result.get("isError") != Some(&Value::Bool(true)) {
        return None;
    }
    let Some((code, message)) = gateways_error(result) else {
        return Some(Failure::new(Exit::ServerFailed, servers_error(result, asked)));
    };
    let exit = match code {
        // The call was made, and what came of it is not passed on.
        "RESULT_TOO_LARGE" | "output_mismatch" => Exit::ServerFailed,
        code if code.starts_with("UPSTREAM_") => Exit::ServerFailed,
        _ => Exit::Refused,
    };
    let failure = Failure::new(exit, refusal(code, message, result, asked));
    Some(match right_command(result, asked).or_else(|| next_step(code, result, asked)) {
        Some(hint) => failure.hint(hint),
        None => failure,
    })
}

/// A server's own error, under the name its contract has for it.
fn servers_error(result: &Value, asked: &Asked<'_>) -> String {
    let failure = result.pointer("/_meta/mcpproxy~1failure").unwrap_or(&Value::Null);
    let named = match (failure.get("declared").and_then(Value::as_bool), member(failure, "code")) {
        (Some(true), code) => format!(": {code}, as its contract declares"),
        (Some(false), code) => match member(failure, "original").as_str() {
            "-" => format!(" that its contract does not declare ({code})"),
            original => format!(" that its contract does not declare: {original} ({code})"),
        },
        (None, _) => String::new(),
    };
    format!("server `{}` reports an error{named}", asked.tool.server())
}

/// The gateway's words, with a line for each thing that is wrong where there are several.
fn refusal(code: &str, message: &str, result: &Value, asked: &Asked<'_>) -> String {
    let list = |name: &str| detail(result, name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let (problems, rules) = (list("problems"), list("rules"));
    let headline = match code {
        // The message has all of them in one long line, which agents prefer.
        "invalid_arguments" if !problems.is_empty() => format!("Invalid arguments for '{}'", asked.tool),
        _ => line(message),
    };
    let mut text = format!("{headline} ({})", line(code));
    for problem in problems {
        let place = match member(problem, "pointer").as_str() {
            "" | "-" => "the whole".to_owned(),
            pointer => pointer.to_owned(),
        };
        let words = problem.get("description").and_then(Value::as_str).map(|words| format!(" ({})", line(words)));
        let (expected, found) = (member(problem, "expected"), member(problem, "found"));
        text.push_str(&format!("\n  {place}: expected {expected}, found {found}{}", words.unwrap_or_default()));
    }
    for rule in rules.iter().skip(1) {
        let words = rule.get("message").and_then(Value::as_str).map(|words| format!(": {}", line(words)));
        text.push_str(&format!("\n  also refused by rule '{}'{}", member(rule, "rule"), words.unwrap_or_default()));
    }
    text
}

fn next_step(code: &str, result: &Value, asked: &Asked<'_>) -> Option<String> {
    let tool = asked.tool;
    Some(match code {
        "UPSTREAM_UNAVAILABLE" => "`mcpproxy servers list` shows why".to_owned(),
        "permission_denied" => {
            let missing = detail(result, "missing_permissions").and_then(Value::as_array)?;
            let grants = missing.iter().filter_map(Value::as_str);
            let grants: String = grants.map(|grant| format!(" --grant {}", shell_word(&line(grant)))).collect();
            format!("a token that has them: mcpproxy token create NAME{grants}")
        }
        "policy_violation" => {
            format!("the rules that were looked at: mcpproxy policy explain {tool} --variant {}", asked.variant)
        }
        "contract_required" => format!("`mcpproxy contract draft {}` makes a first contract", tool.server()),
        "invalid_arguments" => {
            format!("`mcpproxy tools show {tool}` has the schema, `mcpproxy contract show {tool}` what a contract adds")
        }
        "confirmation_required" | "dry_run_required" | "rate_limit_exceeded" | "output_mismatch" => {
            format!("`mcpproxy contract show {tool}` shows who asks for this")
        }
        _ => return None,
    })
}

/// The command that would be right, when the tool asks for another variant.
fn right_command(result: &Value, asked: &Asked<'_>) -> Option<String> {
    let call_with = detail(result, "call_with")?.as_str()?;
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
        let variant = Variant::Write;
        let asked = Asked { tool: &tool, variant, args, reason, sensitivity: Some("private".to_owned()) };
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
    fn refusals_say_what_to_do() {
        let refused = |code: &str, message: &str, details: Value| {
            json!({"isError": true, "content": [{"type": "text", "text": message}],
                   "structuredContent": {"error": {"code": code, "message": message, "details": details}},
                   "_meta": {"mcpproxy/error": code}})
        };
        check(
            &refused(
                "invalid_arguments",
                "Invalid arguments for 'fx:delete_thing': /id: expected string, found 1; arguments: …",
                json!({"problems": [
                    {"pointer": "/id", "expected": "string", "found": "1\u{1b}", "description": "Which\none."},
                    {"pointer": "", "expected": "`to`", "found": "nothing", "description": null},
                ]}),
            ),
            Some((
                Exit::Refused,
                "Invalid arguments for 'fx:delete_thing' (invalid_arguments)\n  \
                 /id: expected string, found 1\\u{1b} (Which\\none.)\n  \
                 the whole: expected `to`, found nothing\n\
                 hint: `mcpproxy tools show fx:delete_thing` has the schema, `mcpproxy contract show fx:delete_thing` what a \
                 contract adds",
            )),
        );
        check(
            &refused(
                "policy_violation",
                "Tool 'fx:delete_thing' is refused by rule 'a': not now",
                json!({"rule": "a", "rules": [{"rule": "a", "message": "not now"}, {"rule": "b", "message": null}]}),
            ),
            Some((
                Exit::Refused,
                "Tool 'fx:delete_thing' is refused by rule 'a': not now (policy_violation)\n  \
                 also refused by rule 'b'\n\
                 hint: the rules that were looked at: mcpproxy policy explain fx:delete_thing --variant write",
            )),
        );
        check(
            &refused("permission_denied", "lacks", json!({"missing_permissions": ["a:b", "c:it's"]})),
            Some((
                Exit::Refused,
                "lacks (permission_denied)\n\
                 hint: a token that has them: mcpproxy token create NAME --grant 'a:b' --grant 'c:it'\\''s'",
            )),
        );
        check(
            &refused("permission_denied", "may only read", json!({"operation": "write"})),
            Some((Exit::Refused, "may only read (permission_denied)")),
        );
        check(
            &refused("confirmation_required", "needs a human", json!({"needs": ["confirmation"]})),
            Some((
                Exit::Refused,
                "needs a human (confirmation_required)\n\
                 hint: `mcpproxy contract show fx:delete_thing` shows who asks for this",
            )),
        );
        check(
            &refused("output_mismatch", "not as promised", json!({"problems": []})),
            Some((
                Exit::ServerFailed,
                "not as promised (output_mismatch)\n\
                 hint: `mcpproxy contract show fx:delete_thing` shows who asks for this",
            )),
        );
    }

    #[test]
    fn a_servers_error_is_named_as_its_contract_names_it() {
        let failed = |failure: Value| json!({"isError": true, "content": [], "_meta": {"mcpproxy/failure": failure}});
        check(
            &failed(json!({"code": "no_such_user", "declared": true})),
            Some((Exit::ServerFailed, "server `fx` reports an error: no_such_user, as its contract declares")),
        );
        check(
            &failed(json!({"code": "undeclared_failure", "declared": false, "original": "odd\u{1b}"})),
            Some((
                Exit::ServerFailed,
                "server `fx` reports an error that its contract does not declare: odd\\u{1b} (undeclared_failure)",
            )),
        );
        check(
            &failed(json!({"code": "undeclared_failure", "declared": false, "original": null})),
            Some((
                Exit::ServerFailed,
                "server `fx` reports an error that its contract does not declare (undeclared_failure)",
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
