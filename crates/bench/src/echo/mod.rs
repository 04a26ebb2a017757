//! A minimal and fast MCP server that sends the arguments of a call back. It speaks what [`Server`] names.

mod http;
mod stdio;

use std::borrow::Cow;

pub(crate) use http::serve;
use serde::Deserialize;
use serde_json::value::RawValue;
pub(crate) use stdio::serve_stdio;

use crate::case::Server;
use crate::request::{LEGACY_VERSION, MODERN_VERSION};
use crate::tools;

const METHOD_NOT_FOUND: i32 = -32601;
const INVALID_PARAMS: i32 = -32602;
const PARSE_ERROR: i32 = -32700;
/// The code of the official TypeScript SDK for a request outside of a session.
const NO_SESSION: i32 = -32000;

/// The answer to one message.
#[derive(PartialEq, Eq, Debug)]
enum Answer {
    /// A JSON-RPC response.
    Result(String),
    /// The response to `initialize`, which begins a session.
    Session(String),
    Error(String),
    /// A method that does not exist, or a request that is not valid here.
    Refused(String),
    /// A notification needs no answer.
    None,
}

struct Echo {
    speaks: Server,
    /// The JSON array for `tools/list`, built once.
    tools: String,
}

/// The parts of a JSON-RPC message that are read. Everything else is skipped.
#[derive(Deserialize)]
struct Message<'a> {
    #[serde(borrow)]
    id: Option<&'a RawValue>,
    #[serde(borrow)]
    method: Option<Cow<'a, str>>,
    #[serde(borrow)]
    params: Option<Params<'a>>,
}

#[derive(Deserialize)]
struct Params<'a> {
    #[serde(borrow)]
    name: Option<Cow<'a, str>>,
    #[serde(borrow)]
    arguments: Option<Arguments<'a>>,
}

#[derive(Deserialize)]
struct Arguments<'a> {
    #[serde(borrow)]
    text: Option<&'a RawValue>,
    #[serde(borrow)]
    data: Option<&'a RawValue>,
}

impl Echo {
    fn new(speaks: Server, extra_tools: usize) -> Self {
        Echo { speaks, tools: tools::list(extra_tools).to_string() }
    }

    fn answer(&self, message: &[u8], in_session: bool) -> Answer {
        let Ok(message) = serde_json::from_slice::<Message<'_>>(message) else {
            return Answer::Refused(error("null", PARSE_ERROR, "not a JSON-RPC message"));
        };
        let (Some(id), Some(method)) = (message.id, message.method) else { return Answer::None };
        let id = id.get();
        let (complete, cached) = match self.speaks {
            Server::Stateless => (r#""resultType":"complete","#, r#","ttlMs":3600000,"cacheScope":"public""#),
            Server::Sessions | Server::Stdio => ("", ""),
        };
        match (method.as_ref(), self.speaks) {
            ("initialize", Server::Sessions | Server::Stdio) => Answer::Session(result(
                id,
                &format!(
                    r#"{{"protocolVersion":"{LEGACY_VERSION}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"echo","version":"1"}}}}"#
                ),
            )),
            (_, Server::Sessions) if !in_session => {
                Answer::Refused(error(id, NO_SESSION, "Bad Request: Server not initialized"))
            }
            ("server/discover", Server::Stateless) => Answer::Result(result(
                id,
                &format!(
                    r#"{{"resultType":"complete","supportedVersions":["{MODERN_VERSION}"],"capabilities":{{"tools":{{}}}},"ttlMs":3600000,"cacheScope":"public","_meta":{{"io.modelcontextprotocol/serverInfo":{{"name":"echo","version":"1"}}}}}}"#
                ),
            )),
            ("tools/call", _) => call(id, complete, message.params.as_ref()),
            ("tools/list", _) => {
                Answer::Result(result(id, &format!(r#"{{{complete}"tools":{}{cached}}}"#, self.tools)))
            }
            ("ping", _) => Answer::Result(result(id, "{}")),
            (_, Server::Stateless) => Answer::Refused(error(id, METHOD_NOT_FOUND, "method not found")),
            (_, Server::Sessions | Server::Stdio) => Answer::Error(error(id, METHOD_NOT_FOUND, "method not found")),
        }
    }
}

fn call(id: &str, complete: &str, params: Option<&Params<'_>>) -> Answer {
    let arguments = params
        .filter(|params| matches!(params.name.as_deref(), Some(tools::ECHO | tools::KEEP)))
        .and_then(|params| params.arguments.as_ref());
    let (text, data) = arguments.map_or((None, None), |arguments| (arguments.text, arguments.data));
    match (text.map(RawValue::get).filter(|text| text.starts_with('"')), data) {
        (Some(text), _) => {
            Answer::Result(result(id, &format!(r#"{{{complete}"content":[{{"type":"text","text":{text}}}]}}"#)))
        }
        (None, Some(data)) => Answer::Result(result(
            id,
            &format!(r#"{{{complete}"content":[],"structuredContent":{{"data":{}}}}}"#, data.get()),
        )),
        (None, None) => Answer::Error(error(id, INVALID_PARAMS, "`text` or `data` is missing")),
    }
}

fn result(id: &str, result: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{result}}}"#)
}

fn error(id: &str, code: i32, message: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{{"code":{code},"message":"{message}"}}}}"#)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn answer(speaks: Server, in_session: bool, message: &str) -> Answer {
        Echo { speaks, tools: "[]".to_owned() }.answer(message.as_bytes(), in_session)
    }

    #[test]
    fn both_revisions() {
        let call =
            r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"echo","arguments":{"text":"a\"b"}}}"#;
        let plain = r#"{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"a\"b"}]}}"#;
        assert_eq!(answer(Server::Sessions, true, call), Answer::Result(plain.to_owned()));
        assert_eq!(answer(Server::Stdio, false, call), Answer::Result(plain.to_owned()));
        let list = r#"{"jsonrpc":"2.0","id":"x","method":"tools/list"}"#;
        let cached = r#"{"jsonrpc":"2.0","id":"x","result":{"resultType":"complete","tools":[],"ttlMs":3600000,"cacheScope":"public"}}"#;
        assert_eq!(answer(Server::Stateless, false, list), Answer::Result(cached.to_owned()));
        assert_eq!(
            answer(Server::Sessions, true, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#),
            Answer::None
        );
    }

    #[test]
    fn only_valid_calls_are_answered() {
        let call =
            r#"{"jsonrpc":"2.0","id":2,"method":"tools/call","params":{"name":"other","arguments":{"text":"a"}}}"#;
        assert!(matches!(answer(Server::Sessions, true, call), Answer::Error(_)));
        assert!(matches!(answer(Server::Sessions, false, call), Answer::Refused(_)));
        let discover = r#"{"jsonrpc":"2.0","id":2,"method":"server/discover"}"#;
        assert!(matches!(answer(Server::Stdio, true, discover), Answer::Error(_)));
    }
}
