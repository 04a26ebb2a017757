//! The `Mcp-*` headers of MCP 2026-07-28: written for servers, checked for agents.

use std::collections::HashSet;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use http::{HeaderMap, HeaderName, HeaderValue};
use mcpproxy_core::Offered;
use mcpproxy_core::json::{Members, string_value};
use serde_json::Value;

use crate::message::field;

pub(crate) const METHOD: HeaderName = HeaderName::from_static("mcp-method");
pub(crate) const NAME: HeaderName = HeaderName::from_static("mcp-name");
pub(crate) const VERSION: HeaderName = HeaderName::from_static("mcp-protocol-version");
pub(crate) const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
pub(crate) const LAST_EVENT: HeaderName = HeaderName::from_static("last-event-id");
const PARAM_PREFIX: &str = "mcp-param-";
const MARK: &str = "x-mcp-header";

/// Returns the parameter whose value the `Mcp-Name` header repeats.
pub(crate) fn name_parameter(method: &str) -> Option<&'static str> {
    match method {
        "tools/call" | "prompts/get" => Some("name"),
        "resources/read" => Some("uri"),
        _ => None,
    }
}

/// Encodes any text as a header value: unchanged where HTTP allows it, otherwise as `=?base64?…?=`.
pub fn header_value(text: &str) -> HeaderValue {
    let is_plain =
        text.bytes().all(|b| (0x20..=0x7E).contains(&b)) && text.trim() == text && !text.starts_with("=?base64?");
    let value = if is_plain { text.to_owned() } else { format!("=?base64?{}?=", STANDARD.encode(text)) };
    // Both forms are visible ASCII, which every header can hold.
    HeaderValue::from_str(&value).unwrap_or(HeaderValue::from_static(""))
}

fn decode(value: &HeaderValue) -> Option<String> {
    let text = value.to_str().ok()?.trim();
    match text.strip_prefix("=?base64?").and_then(|rest| rest.strip_suffix("?=")) {
        Some(inner) => String::from_utf8(STANDARD.decode(inner).ok()?).ok(),
        None => Some(text.to_owned()),
    }
}

/// Checks the headers of an agent's request against its body.
pub(crate) fn check(headers: &HeaderMap, method: &str, params: &Members<'_>) -> Result<(), String> {
    match single(headers, &METHOD)? {
        None => return Err("missing required Mcp-Method header".to_owned()),
        Some(value) if value.as_bytes() != method.as_bytes() => {
            return Err(format!("Mcp-Method header does not match body method `{method}`"));
        }
        Some(_) => {}
    }
    let Some(parameter) = name_parameter(method) else { return Ok(()) };
    let Some(expected) = field(params, parameter).and_then(string_value) else { return Ok(()) };
    match single(headers, &NAME)? {
        None => Err(format!("missing required Mcp-Name header for `{method}`")),
        Some(value) if decode(value).as_deref() == Some(expected.as_ref()) => Ok(()),
        Some(_) => Err(format!("Mcp-Name header does not match params.{parameter} of the body")),
    }
}

/// Checks the `Mcp-Param-*` headers of a direct call against its arguments.
pub(crate) fn check_parameters(headers: &HeaderMap, tool: &Offered, arguments: &str) -> Result<(), String> {
    if !tool.json.contains(MARK) {
        return Ok(());
    }
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    for marked in marked_parameters(tool) {
        let name = HeaderName::try_from(format!("{PARAM_PREFIX}{}", marked.header))
            .map_err(|_| "bad header name".to_owned())?;
        let given = single(headers, &name)?;
        let in_body = marked.value_in(&arguments);
        let is_same = match (given, &in_body) {
            (None, None) => true,
            (Some(value), Some(text)) => decode(value).as_ref() == Some(text),
            (Some(_), None) | (None, Some(_)) => false,
        };
        if !is_same {
            return Err(format!(
                "Mcp-Param-{} header does not match argument `{}`",
                marked.header,
                marked.path.join(".")
            ));
        }
    }
    Ok(())
}

/// Builds the `Mcp-Param-*` headers for a call to a server.
pub(crate) fn parameter_headers(tool: &Offered, arguments: &str) -> Vec<(HeaderName, HeaderValue)> {
    if !tool.json.contains(MARK) {
        return Vec::new();
    }
    let arguments: Value = serde_json::from_str(arguments).unwrap_or_default();
    let header = |marked: Marked| {
        let name = HeaderName::try_from(format!("{PARAM_PREFIX}{}", marked.header)).ok()?;
        Some((name, header_value(&marked.value_in(&arguments)?)))
    };
    marked_parameters(tool).into_iter().filter_map(header).collect()
}

/// Checks a tool's `x-mcp-header` marks. Over HTTP, a tool with invalid marks must not be used.
pub(crate) fn check_marks(tool_json: &str) -> Result<(), String> {
    if !tool_json.contains(MARK) {
        return Ok(());
    }
    let tool: Value = serde_json::from_str(tool_json).unwrap_or_default();
    let schema = tool.get("inputSchema").unwrap_or(&Value::Null);
    if schema.get(MARK).is_some() || marks_anywhere(schema) != marks(schema, &[]).len() {
        return Err(format!("`{MARK}` is allowed only on a property of the input schema"));
    }
    let mut seen = HashSet::new();
    for (path, name, kind) in marks(schema, &[]) {
        let path = path.join(".");
        let Value::String(name) = name else { return Err(format!("`{MARK}` of `{path}` must be a string")) };
        if name.is_empty() || !name.bytes().all(is_token) {
            return Err(format!("`{MARK}` of `{path}` is not an HTTP header name"));
        }
        if !matches!(kind.as_deref(), Some("string" | "integer" | "boolean")) {
            return Err(format!("`{MARK}` of `{path}` needs type string, integer or boolean"));
        }
        if !seen.insert(name.to_ascii_lowercase()) {
            return Err(format!("`{MARK}` of `{path}` is used twice"));
        }
    }
    Ok(())
}

struct Marked {
    path: Vec<String>,
    header: String,
}

impl Marked {
    fn value_in(&self, arguments: &Value) -> Option<String> {
        match self.path.iter().try_fold(arguments, |value, key| value.get(key))? {
            Value::String(text) => Some(text.clone()),
            Value::Bool(yes) => Some(yes.to_string()),
            Value::Number(number) => Some(number.to_string()),
            Value::Null | Value::Array(_) | Value::Object(_) => None,
        }
    }
}

fn marked_parameters(tool: &Offered) -> Vec<Marked> {
    let schema: Value =
        tool.field("inputSchema").and_then(|schema| serde_json::from_str(schema).ok()).unwrap_or_default();
    let marked = |(path, name, _kind): (Vec<String>, Value, Option<String>)| match name {
        Value::String(header) if !header.is_empty() => Some(Marked { path, header }),
        _ => None,
    };
    marks(&schema, &[]).into_iter().filter_map(marked).collect()
}

/// Collects every mark on a chain of `properties` from the root: path, mark and declared type.
fn marks(schema: &Value, path: &[String]) -> Vec<(Vec<String>, Value, Option<String>)> {
    let Some(Value::Object(properties)) = schema.get("properties") else { return Vec::new() };
    let mut found = Vec::new();
    for (name, property) in properties {
        let path: Vec<String> = path.iter().cloned().chain([name.clone()]).collect();
        if let Some(mark) = property.get(MARK) {
            let kind = property.get("type").and_then(Value::as_str).map(str::to_owned);
            found.push((path.clone(), mark.clone(), kind));
        }
        found.extend(marks(property, &path));
    }
    found
}

fn marks_anywhere(schema: &Value) -> usize {
    match schema {
        Value::Object(fields) => fields
            .iter()
            .filter(|(key, _)| !matches!(key.as_str(), "default" | "const" | "enum" | "examples"))
            .map(|(key, value)| usize::from(key == MARK) + marks_anywhere(value))
            .sum(),
        Value::Array(values) => values.iter().map(marks_anywhere).sum(),
        _ => 0,
    }
}

fn single<'h>(headers: &'h HeaderMap, name: &HeaderName) -> Result<Option<&'h HeaderValue>, String> {
    let mut values = headers.get_all(name).iter();
    match (values.next(), values.next()) {
        (first, None) => Ok(first),
        (_, Some(_)) => Err(format!("header {name} given more than once")),
    }
}

fn is_token(b: u8) -> bool {
    b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b)
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpproxy_core::ServerName;

    fn tool(schema: &str) -> Offered {
        Offered::parse(&ServerName::parse("fx").unwrap(), &format!(r#"{{"name":"t","inputSchema":{schema}}}"#)).unwrap()
    }

    #[test]
    fn values_survive_a_round_trip() {
        for text in ["plain", "", " padded ", "ünï", "=?base64?x?=", "a\nb"] {
            assert_eq!(decode(&header_value(text)).as_deref(), Some(text), "{text:?}");
        }
        assert_eq!(decode(&HeaderValue::from_static("=?base64?!!?=")), None);
    }

    #[test]
    fn marked_arguments_travel_as_headers() {
        let tool = tool(
            r#"{"properties":{"region":{"type":"string","x-mcp-header":"Region"},"o":{"properties":{"n":{"type":"integer","x-mcp-header":"N"}}}}}"#,
        );
        let headers: HeaderMap = parameter_headers(&tool, r#"{"region":"é","o":{"n":7}}"#).into_iter().collect();
        assert_eq!(headers.get("mcp-param-n").unwrap(), "7");
        assert_eq!(headers.get("mcp-param-region").unwrap(), "=?base64?w6k=?=");
        assert_eq!(check_parameters(&headers, &tool, r#"{"region":"é","o":{"n":7}}"#), Ok(()));
        assert!(check_parameters(&headers, &tool, r#"{"region":"x","o":{"n":7}}"#).is_err());
        assert!(check_parameters(&HeaderMap::new(), &tool, r#"{"region":"x"}"#).is_err());
    }

    #[test]
    fn unsound_marks_are_found() {
        let check = |schema: &str, is_sound: bool| {
            assert_eq!(check_marks(&format!(r#"{{"inputSchema":{schema}}}"#)).is_ok(), is_sound, "{schema}");
        };
        check(r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"}}}"#, true);
        check(r#"{"properties":{"a":{"type":"string","default":{"x-mcp-header":1}}}}"#, true);
        check(r#"{"properties":{"a":{"type":"number","x-mcp-header":"A"}}}"#, false);
        check(r#"{"properties":{"a":{"type":"string","x-mcp-header":""}}}"#, false);
        check(r#"{"properties":{"a":{"type":"string","x-mcp-header":"a b"}}}"#, false);
        check(r#"{"properties":{"a":{"type":"string","x-mcp-header":7}}}"#, false);
        check(
            r#"{"properties":{"a":{"type":"string","x-mcp-header":"A"},"b":{"type":"string","x-mcp-header":"a"}}}"#,
            false,
        );
        check(r#"{"x-mcp-header":"A"}"#, false);
        check(r#"{"properties":{"a":{"type":"array","items":{"type":"string","x-mcp-header":"A"}}}}"#, false);
    }
}
