//! Invariants of reading any headers, of an agent's request and of a server's response.
//!
//! An input is a list of headers, an empty line, and the text that the headers are compared with: first a tool or the
//! parameters of a request, then, on the next line, the arguments of a call.

use http::{HeaderMap, HeaderName, HeaderValue, header};
use mcpproxy_core::json::{self, members, quote};
use mcpproxy_core::{Offered, ServerName};
use serde_json::Value;

use crate::headers;
use crate::request_head::{self, HeadError};
use crate::response_head;

const BODY_MAX_BYTES: usize = 1000;

pub(crate) fn check(bytes: &[u8]) {
    let at = bytes.windows(2).position(|pair| pair == b"\n\n").unwrap_or(bytes.len());
    let headers = read(bytes.get(..at).unwrap_or_default());
    of_request(&headers);
    of_response(&headers);
    let Some(Ok(body)) = bytes.get(at + 2..).map(str::from_utf8) else { return };
    any_name_can_be_repeated(body);
    let (first, second) = body.split_once('\n').unwrap_or((body, "{}"));
    if json::read(first.as_bytes()).is_ok() {
        matches_parameters(&headers, first);
        if json::read(second.as_bytes()).is_ok() {
            matches_arguments(&headers, first, second.trim());
        }
    }
}

fn read(bytes: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in bytes.split(|byte| *byte == b'\n') {
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { continue };
        let (name, value) = line.split_at(colon);
        let value = value.get(1..).unwrap_or_default().trim_ascii();
        if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(name), HeaderValue::from_bytes(value)) {
            headers.append(name, value);
        }
    }
    headers
}

fn of_request(headers: &HeaderMap) {
    let text = |name: HeaderName| headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default();
    let names = |list: &str| -> Vec<String> {
        let name = |part: &str| part.split(';').next().unwrap_or_default().trim().to_ascii_lowercase();
        list.split(',').map(name).collect()
    };
    let accepted = names(text(header::ACCEPT));
    let takes = |name: &str| accepted.iter().any(|accepted| accepted == name);
    let is_json =
        text(header::CONTENT_TYPE).to_ascii_lowercase().split(';').next().map(str::trim) == Some("application/json");
    let is_acceptable = takes("*/*") || takes("application/json") && takes("text/event-stream");
    let is_long = text(header::CONTENT_LENGTH).parse().is_ok_and(|length: usize| length > BODY_MAX_BYTES);
    let expected = match (is_json, is_acceptable, is_long) {
        (false, _, _) => Err(HeadError::NotJson),
        (true, false, _) => Err(HeadError::NotAcceptable),
        (true, true, true) => Err(HeadError::TooLarge),
        (true, true, false) => Ok(()),
    };
    assert_eq!(request_head::check(headers, BODY_MAX_BYTES), expected, "{headers:?}");
}

fn of_response(headers: &HeaderMap) {
    assert!(response_head::idle_time(headers) <= response_head::IDLE_TIME, "{headers:?}");
    let kind = response_head::content_type(headers);
    assert!(kind.is_none_or(|kind| !kind.contains(';') && kind.trim() == kind), "{headers:?}");
    let length = response_head::announced_length(headers);
    assert!(length.is_none() || headers.contains_key(header::CONTENT_LENGTH), "{headers:?}");
}

/// Checks that the headers of a call with this name are accepted, and those of a call with another name are not.
fn any_name_can_be_repeated(name: &str) {
    let value = headers::header_value(name);
    assert!(value.to_str().is_ok(), "{name:?}");
    let mut given = HeaderMap::new();
    given.insert(headers::METHOD, HeaderValue::from_static("tools/call"));
    given.insert(headers::NAME, value);
    for (text, is_same) in [(name.to_owned(), true), (format!("{name}x"), false), (format!(" {name}"), false)] {
        let params = format!("{{\"name\":{}}}", quote(&text));
        let found = headers::check(&given, "tools/call", &members(&params).unwrap_or_default());
        assert_eq!(found.is_ok(), is_same, "{name:?} {text:?}: {found:?}");
    }
    given.append(headers::NAME, headers::header_value(name));
    let params = format!("{{\"name\":{}}}", quote(name));
    assert!(headers::check(&given, "tools/call", &members(&params).unwrap_or_default()).is_err(), "twice: {name:?}");
}

/// Checks that accepted headers name the method and the tool of the body.
fn matches_parameters(given: &HeaderMap, params: &str) {
    let Ok(Value::Object(fields)) = serde_json::from_str(params) else { return };
    for method in ["tools/call", "resources/read", "tools/list"] {
        let found = headers::check(given, method, &members(params).unwrap_or_default());
        let named: Vec<&HeaderValue> = given.get_all(headers::NAME).iter().collect();
        let is_method = given.get_all(headers::METHOD).iter().map(HeaderValue::as_bytes).eq([method.as_bytes()]);
        let name = headers::name_parameter(method).and_then(|name| fields.get(name)).and_then(Value::as_str);
        // A plain name is in the header as it is. Other names are encoded.
        let is_named = match (name, named.as_slice()) {
            (None, _) => true,
            (Some(name), [value]) => {
                let is_plain = headers::header_value(name) == name && !name.is_empty();
                !is_plain || value.to_str().is_ok_and(|text| text == name || text.starts_with("=?base64?"))
            }
            (Some(_), _) => false,
        };
        assert!(found.is_err() || is_method && is_named, "{method} {params} {given:?}");
    }
}

/// Checks that the gateway accepts the headers that it would write itself, and no others.
fn matches_arguments(given: &HeaderMap, tool: &str, arguments: &str) {
    let Ok(server) = ServerName::parse("fx") else { return };
    let (true, Ok(tool)) = (headers::check_marks(tool).is_ok(), Offered::parse(&server, tool)) else { return };
    let written: HeaderMap = headers::parameter_headers(&tool, arguments).into_iter().collect();
    assert_eq!(headers::check_parameters(&written, &tool, arguments), Ok(()), "{} {arguments}", tool.json);
    for name in written.keys() {
        let mut fewer = written.clone();
        fewer.remove(name);
        assert!(headers::check_parameters(&fewer, &tool, arguments).is_err(), "{name} {} {arguments}", tool.json);
        let mut other = written.clone();
        other.insert(name, HeaderValue::from_static("another value, with (brackets)"));
        let is_this = written.get(name).is_some_and(|value| value == "another value, with (brackets)");
        let found = headers::check_parameters(&other, &tool, arguments);
        assert!(is_this || found.is_err(), "{name} {} {arguments}", tool.json);
    }
    if headers::check_parameters(given, &tool, arguments).is_ok() {
        assert!(written.keys().all(|name| given.contains_key(name)), "{given:?} {} {arguments}", tool.json);
    }
}
