//! Error codes of tool calls and of the REST API, and exit codes.

use mcpproxy_core::ErrorCode;
use mcpproxy_web::REST_ERRORS;

use crate::{cell, table};

pub(crate) fn page() -> String {
    let calls: Vec<Vec<String>> = ErrorCode::ALL
        .iter()
        .map(|code| vec![format!("`{}`", code.as_str()), cell(code.meaning()), cell(code.next_step())])
        .collect();
    let rest: Vec<Vec<String>> = REST_ERRORS
        .iter()
        .map(|error| {
            let status = error.status.as_u16().to_string();
            vec![format!("`{}`", error.code), status, cell(&sentence(error.message)), cell(&sentence(error.hint))]
        })
        .collect();
    format!(
        "\
# Error codes

This page is generated from the code.

## Tool calls

A refused call is a tool result with `isError: true`. The code is in `structuredContent.error.code` and in
`_meta[\"mcpproxy/error\"]`. A server cannot set that key, so the code always comes from the gateway.

Seven codes are in upper case. They belong to the intent declaration and never change.

{}
## REST API

An error is a JSON object with `error.code`, `error.message` and `error.hint`.

{}
## Exit codes

See [Command line](command-line.md).
",
        table(&["code", "meaning", "next step"], &calls),
        table(&["code", "status", "meaning", "next step"], &rest),
    )
}

/// Turns a message into a sentence.
fn sentence(message: &str) -> String {
    let mut letters = message.chars();
    let first = letters.next().map(|letter| letter.to_ascii_uppercase());
    let end = if message.ends_with('.') { "" } else { "." };
    first.into_iter().chain(letters).chain(end.chars()).collect()
}
