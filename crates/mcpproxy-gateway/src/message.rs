//! JSON-RPC messages as text. Incoming messages are sliced and outgoing ones concatenated, so unknown members survive.

use std::borrow::Cow;
use std::fmt::Write as _;

pub(crate) use mcpproxy_core::json::Members;
pub(crate) use mcpproxy_core::json::member;
use mcpproxy_core::json::{self, ReadError, ReadErrorKind, members, push_quoted, quote, string_value};
use mcpproxy_store::RecordId;
use serde_json::Value;

/// A message from an agent or a server, borrowed from its text.
#[derive(Debug)]
pub(crate) enum Message<'a> {
    Request { id: &'a str, method: Cow<'a, str>, params: Option<&'a str> },
    Notification { method: Cow<'a, str>, params: Option<&'a str> },
    Response { id: &'a str, outcome: Result<&'a str, &'a str> },
}

/// A JSON-RPC error, of the gateway or to pass on.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RpcError {
    pub(crate) code: i64,
    pub(crate) message: String,
    /// Raw JSON.
    pub(crate) data: Option<String>,
}

/// The answer to a request as raw JSON: the result, or a JSON-RPC error.
pub(crate) type Reply = Result<String, RpcError>;

pub(crate) const PARSE_ERROR: i64 = -32700;
pub(crate) const INVALID_REQUEST: i64 = -32600;
pub(crate) const METHOD_NOT_FOUND: i64 = -32601;
pub(crate) const INVALID_PARAMS: i64 = -32602;
pub(crate) const INTERNAL_ERROR: i64 = -32603;
pub(crate) const HEADER_MISMATCH: i64 = -32020;
pub(crate) const MISSING_CAPABILITY: i64 = -32021;
pub(crate) const UNSUPPORTED_VERSION: i64 = -32022;
/// An agent is at one of its limits. Over HTTP, the status is 429.
pub(crate) const AGENT_LIMIT: i64 = -32029;

/// Longest id of a request, and longest progress token. Each is repeated in messages that wait for a slow agent.
pub(crate) const ID_MAX_BYTES: usize = 1024;

/// Bytes that the gateway usually adds to a result.
const OWN_KEYS_ROOM: usize = 128;

/// Prefix of the gateway's own keys in `_meta`. They are for this hop only: no server gets an agent's, and no agent a
/// server's.
pub(crate) const OWN_PREFIX: &str = "mcpproxy/";
/// Key in `_meta` for the intent of a direct call.
pub(crate) const INTENT_KEY: &str = "mcpproxy/intent";
/// Key of the activity record's id: in `_meta` of a result, in `data` of an error.
pub(crate) const RECORD_KEY: &str = "mcpproxy/record";

impl RpcError {
    pub(crate) fn new(code: i64, message: impl Into<String>) -> Self {
        Self { code, message: message.into(), data: None }
    }

    pub(crate) fn with_data(mut self, data: &Value) -> Self {
        self.data = Some(data.to_string());
        self
    }

    /// Adds the id of the activity record. Data that is no object stays as it is.
    pub(crate) fn with_record(self, record: RecordId) -> Self {
        self.with_key(RECORD_KEY, &format!("\"{record}\""))
    }

    /// Adds a key of the gateway with a JSON value. Data that is no object stays as it is.
    pub(crate) fn with_key(mut self, key: &str, value: &str) -> Self {
        match self.data.as_deref() {
            None => self.data = Some(object([(key, value)])),
            Some(data) if data.starts_with('{') => self.data = Some(with_members(data, &[(key, value)])),
            Some(_) => {}
        }
        self
    }

    /// Adds the record's id, if there is a record.
    pub(crate) fn with_record_if(self, record: Option<RecordId>) -> Self {
        match record {
            Some(record) => self.with_record(record),
            None => self,
        }
    }

    pub(crate) fn method_not_found(method: &str) -> Self {
        Self::new(METHOD_NOT_FOUND, format!("Method not found: {method}"))
    }

    pub(crate) fn from_read(error: &ReadError) -> Self {
        if error.kind == ReadErrorKind::Empty {
            Self::new(PARSE_ERROR, format!("Parse error: {}", error.kind))
        } else if error.kind.is_syntax() {
            Self::new(
                PARSE_ERROR,
                format!("Parse error: {} at line {}, column {}", error.kind, error.line, error.column),
            )
        } else {
            Self::new(INVALID_REQUEST, error.kind.to_string())
        }
    }

    /// Reads an error object that a server sent.
    pub(crate) fn parse(error: &str) -> Self {
        let fields = members(error).unwrap_or_default();
        let code = field(&fields, "code").and_then(|code| code.parse().ok()).unwrap_or(INTERNAL_ERROR);
        let message = field(&fields, "message").and_then(string_value).unwrap_or_default().into_owned();
        let data = field(&fields, "data").map(str::to_owned);
        Self { code, message, data }
    }

    pub(crate) fn object(&self) -> String {
        let data = self.data.as_ref().map(|data| format!(",\"data\":{data}")).unwrap_or_default();
        format!("{{\"code\":{},\"message\":{}{data}}}", self.code, quote(&self.message))
    }
}

impl<'a> Message<'a> {
    /// Reads text that has passed the strict reader.
    pub(crate) fn parse(text: &'a str) -> Result<Self, RpcError> {
        let invalid = |message: &str| RpcError::new(INVALID_REQUEST, message);
        if text.trim_start().starts_with('[') {
            return Err(invalid("batch requests are not supported"));
        }
        let fields = members(text).ok_or_else(|| invalid("a message must be a JSON object"))?;
        if field(&fields, "jsonrpc") != Some("\"2.0\"") {
            return Err(invalid("jsonrpc must be \"2.0\""));
        }
        let id = field(&fields, "id");
        if id.is_some_and(|id| !is_id(id)) {
            return Err(invalid("id must be a string or an integer"));
        }
        if id.is_some_and(|id| id.len() > ID_MAX_BYTES) {
            return Err(invalid("id is longer than 1024 bytes. Send a shorter one"));
        }
        let params = field(&fields, "params");
        match (field(&fields, "method"), id) {
            (Some(method), id) => {
                let method = string_value(method).ok_or_else(|| invalid("method must be a string"))?;
                Ok(match id {
                    Some(id) => Self::Request { id, method, params },
                    None => Self::Notification { method, params },
                })
            }
            (None, Some(id)) => match (field(&fields, "result"), field(&fields, "error")) {
                (Some(result), None) => Ok(Self::Response { id, outcome: Ok(result) }),
                (None, Some(error)) => Ok(Self::Response { id, outcome: Err(error) }),
                _ => Err(invalid("method is required")),
            },
            (None, None) => Err(invalid("method is required")),
        }
    }
}

/// Reads the id of an otherwise invalid message, so that the error can name it.
pub(crate) fn id_of(text: &str) -> Option<&str> {
    field(&members(text)?, "id").filter(|id| is_id(id) && id.len() <= ID_MAX_BYTES)
}

fn is_id(id: &str) -> bool {
    id.starts_with('"') || (!id.is_empty() && id.strip_prefix('-').unwrap_or(id).bytes().all(|b| b.is_ascii_digit()))
}

pub(crate) fn field<'a>(fields: &Members<'a>, wanted: &str) -> Option<&'a str> {
    fields.iter().find(|(key, _)| key == wanted).map(|(_, value)| *value)
}

/// Returns a required string of the `params`.
pub(crate) fn required<'a>(params: &Members<'a>, name: &str) -> Result<Cow<'a, str>, RpcError> {
    let text =
        field(params, name).ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("params.{name} is required")))?;
    string_value(text).ok_or_else(|| RpcError::new(INVALID_PARAMS, format!("params.{name} must be a string")))
}

pub(crate) fn request(id: &str, method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{},\"params\":{params}}}", quote(method))
}

/// Copies the outcome of a response. Behind a result is room for the gateway's own keys, because it may be megabytes.
pub(crate) fn owned_reply(outcome: Result<&str, &str>) -> Reply {
    let with_room = |result: &str| {
        let mut owned = String::with_capacity(result.len() + OWN_KEYS_ROOM);
        owned.push_str(result);
        owned
    };
    outcome.map(with_room).map_err(RpcError::parse)
}

/// Builds a request from the members of its `params`, each of which is copied once.
pub(crate) fn request_of(id: &str, method: &str, params: &[(&str, &str)]) -> String {
    let mut text = String::with_capacity(object_bytes(params) + id.len() + method.len() + 50);
    let _infallible = write!(text, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"method\":{},\"params\":", quote(method));
    push_object(&mut text, params);
    text.push('}');
    text
}

pub(crate) fn notification(method: &str, params: &str) -> String {
    format!("{{\"jsonrpc\":\"2.0\",\"method\":{},\"params\":{params}}}", quote(method))
}

pub(crate) fn response(id: &str, outcome: &Reply) -> String {
    match outcome {
        Ok(result) => {
            let mut text = String::with_capacity(result.len() + id.len() + 40);
            let _infallible = write!(text, "{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}");
            text
        }
        Err(error) => format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"error\":{}}}", error.object()),
    }
}

/// Builds an object from members, with their exact text.
pub(crate) fn object<'a>(members: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let members: Vec<(&str, &str)> = members.into_iter().collect();
    let mut text = String::with_capacity(object_bytes(&members));
    push_object(&mut text, &members);
    text
}

/// Estimates the length of an object. It is exact but for one byte if no key has escapes.
fn object_bytes(members: &[(&str, &str)]) -> usize {
    2 + members.iter().map(|(key, value)| key.len() + value.len() + 4).sum::<usize>()
}

fn push_object(text: &mut String, members: &[(&str, &str)]) {
    text.push('{');
    for (at, (key, value)) in members.iter().enumerate() {
        if at > 0 {
            text.push(',');
        }
        push_quoted(text, key);
        text.push(':');
        text.push_str(value);
    }
    text.push('}');
}

/// Sets members of an object: in place where they exist, otherwise at the end.
pub(crate) fn with_members(object_text: &str, set: &[(&str, &str)]) -> String {
    let old = members(object_text).unwrap_or_default();
    let replaced = |key: &str| set.iter().find(|(name, _)| *name == key).map(|(_, value)| *value);
    let added = set.iter().filter(|(name, _)| !old.iter().any(|(key, _)| key == name)).copied();
    let kept = old.iter().map(|(key, value)| (key.as_ref(), replaced(key).unwrap_or(value)));
    object(kept.chain(added))
}

/// Puts the text on one line, for transports that end a message with a line break. In JSON, a line break is always
/// between tokens, where a space means the same.
pub(crate) fn one_line(text: &str) -> Cow<'_, str> {
    if has_line_break(text) { Cow::Owned(text.replace(['\n', '\r'], " ")) } else { Cow::Borrowed(text) }
}

/// As [`one_line`], without a copy of text that is on one line already.
pub(crate) fn into_one_line(text: String) -> String {
    if has_line_break(&text) { text.replace(['\n', '\r'], " ") } else { text }
}

fn has_line_break(text: &str) -> bool {
    memchr::memchr2(b'\n', b'\r', text.as_bytes()).is_some()
}

/// Reads a message from a server, strictly.
pub(crate) fn read_server(bytes: &[u8]) -> Result<&str, ReadError> {
    json::read_server(bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn refuses_what_is_not_a_message() {
        let check =
            |text: &str, expected: &str| assert_eq!(Message::parse(text).unwrap_err().message, expected, "{text}");
        check("[{}]", "batch requests are not supported");
        check("7", "a message must be a JSON object");
        check(r#"{"jsonrpc":"1.0","id":1,"method":"x"}"#, "jsonrpc must be \"2.0\"");
        check(r#"{"jsonrpc":"2.0","id":null,"method":"x"}"#, "id must be a string or an integer");
        check(r#"{"jsonrpc":"2.0","id":1.5,"method":"x"}"#, "id must be a string or an integer");
        let long = format!(r#"{{"jsonrpc":"2.0","id":"{}","method":"x"}}"#, "x".repeat(ID_MAX_BYTES));
        check(&long, "id is longer than 1024 bytes. Send a shorter one");
        assert_eq!(id_of(&long), None);
        check(r#"{"jsonrpc":"2.0","id":1,"Method":"x"}"#, "method is required");
        check(r#"{"jsonrpc":"2.0","id":1,"method":7}"#, "method must be a string");
        check(r#"{"jsonrpc":"2.0","method_":"x"}"#, "method is required");
    }

    #[test]
    fn members_are_set_in_place() {
        assert_eq!(with_members(r#"{"a":1.0,"b":2}"#, &[("b", "3"), ("c", "4")]), r#"{"a":1.0,"b":3,"c":4}"#);
        assert_eq!(with_members("{}", &[("c", "4")]), r#"{"c":4}"#);
    }

    #[test]
    fn requests_have_one_form() {
        let params = [("name", "\"t\""), ("a\"b", "{ \"x\" : 1.0 }")];
        assert_eq!(request_of("7", "prompts/get", &params), request("7", "prompts/get", &object(params)));
        assert_eq!(request_of("7", "ping", &[]), r#"{"jsonrpc":"2.0","id":7,"method":"ping","params":{}}"#);
        assert_eq!(object_bytes(&[("a", "1"), ("b", "2")]), object([("a", "1"), ("b", "2")]).len() + 1);
    }

    #[test]
    fn line_breaks_become_spaces() {
        for text in ["", "{\"a\":1}", "{\n\"a\":\r\n1}", "\r"] {
            let expected: String = text.chars().map(|c| if matches!(c, '\n' | '\r') { ' ' } else { c }).collect();
            assert_eq!(one_line(text), expected);
            assert_eq!(into_one_line(text.to_owned()), expected);
        }
    }

    #[test]
    fn errors_keep_their_data() {
        let error = RpcError::parse(r#"{"code":-32021,"message":"no \"x\"","data":{"b":1,"a":2.0}}"#);
        assert_eq!(error.object(), r#"{"code":-32021,"message":"no \"x\"","data":{"b":1,"a":2.0}}"#);
    }
}
