//! The side of the agents: MCP over HTTP and standard input, in both eras and all three endpoint modes.

mod agent_lines;
mod challenge;
mod dispatch;
mod four;
mod handshake;
mod http;
mod links;
mod listen;
mod lists;
mod reach;
mod receive;
mod request_head;
mod respond;
mod revision;
mod sessions;
mod stdio;

pub use http::router;
pub use stdio::serve_stdio;
