//! The typical calls whose work is counted.

use hyper::{HeaderMap, StatusCode};
use serde_json::{Value, json};

pub(crate) struct Call {
    /// The name in the file of expected figures.
    pub(crate) name: &'static str,
    tool: &'static str,
    arguments: Arguments,
    /// Text that the answer must contain.
    answer: &'static str,
}

enum Arguments {
    /// A call of a server's tool, with this many bytes of text.
    Echo {
        tool: &'static str,
        bytes: usize,
    },
    Query(&'static str),
}

const ECHOED: &str = r#""text":"the quick brown fox"#;

/// One row per call. Every server answers with the text of the call.
pub(crate) const CALLS: [Call; 6] = [
    Call { name: "http_read", tool: "call_tool_read", arguments: echo("sessions:echo", 100), answer: ECHOED },
    Call { name: "stdio_read", tool: "call_tool_read", arguments: echo("stdio:echo", 100), answer: ECHOED },
    // A write returns when its record is on disk, so this count includes two commits.
    Call { name: "http_write", tool: "call_tool_write", arguments: echo("sessions:keep", 100), answer: ECHOED },
    Call { name: "http_read_10kb", tool: "call_tool_read", arguments: echo("sessions:echo", 10_000), answer: ECHOED },
    Call { name: "retrieve_tools", tool: "retrieve_tools", arguments: QUERY, answer: "list_invoice" },
    // This tool changes data, so it needs `call_tool_write`.
    Call { name: "refused", tool: "call_tool_read", arguments: echo("sessions:keep", 100), answer: "call_tool_write" },
];

const QUERY: Arguments = Arguments::Query("list the open invoices of a customer");

const fn echo(tool: &'static str, bytes: usize) -> Arguments {
    Arguments::Echo { tool, bytes }
}

impl Call {
    pub(crate) fn message(&self, id: u64) -> String {
        let arguments = match self.arguments {
            Arguments::Echo { tool, bytes } => json!({ "name": tool, "args_json": arguments(bytes) }),
            Arguments::Query(query) => json!({ "query": query }),
        };
        let params = json!({ "name": self.tool, "arguments": arguments });
        json!({ "jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params }).to_string()
    }

    pub(crate) fn check(&self, status: StatusCode, headers: &HeaderMap, answer: &[u8]) {
        let text = String::from_utf8_lossy(answer);
        let is_right = text.contains(self.answer) && text.contains(r#""isError":true"#) == (self.name == "refused");
        assert!(status == StatusCode::OK && is_right, "{}: {status} {headers:?}\n{text}", self.name);
        if let Arguments::Echo { bytes, .. } = self.arguments {
            assert!(self.name == "refused" || answer.len() > bytes, "{}: {text}", self.name);
        }
    }
}

/// Returns the JSON of the arguments of an echo tool.
pub(crate) fn arguments(bytes: usize) -> String {
    Value::Object([("text".to_owned(), words(bytes).into())].into_iter().collect()).to_string()
}

pub(crate) fn words(bytes: usize) -> String {
    "the quick brown fox jumps over the lazy dog and runs on ".chars().cycle().take(bytes).collect()
}
