//! Agents in: MCP over HTTP and standard input, in both kinds of the protocol and all three endpoint modes.

mod dispatch;
mod four;
mod http;
mod lists;
mod respond;
mod revision;
mod stdio;

pub use http::router;
pub use stdio::serve_stdio;
