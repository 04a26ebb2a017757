//! A small MCP server over an in-memory workspace, to try mcpproxy with and to test it against.

mod contract;
mod demo;
mod failure;
pub mod http;
mod tools;

use std::pin::Pin;

use rmcp::ServiceExt;
use tokio::io::{AsyncRead, AsyncWrite};

pub use demo::Demo;

/// Test cases for the contracts of the demo server, for `mcpproxy policy test`.
pub const CASES: &str = include_str!("../../../docs/demo-cases.yaml");

/// Serves standard input and output. Boxed, so that the server is compiled here and not in the program.
pub fn serve_standard(demo: Demo) -> Pin<Box<dyn Future<Output = Result<(), DemoError>> + Send>> {
    Box::pin(serve_io(demo, tokio::io::stdin(), tokio::io::stdout()))
}

/// Serves one connection with fresh data until the peer closes it.
pub async fn serve_io<R, W>(demo: Demo, reader: R, writer: W) -> Result<(), DemoError>
where
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    let running = demo.serve((reader, writer)).await.map_err(|source| DemoError::Handshake(Box::new(source)))?;
    running.waiting().await.map(|_reason| ()).map_err(DemoError::Task)
}

/// An error that ends the server.
#[derive(Debug, thiserror::Error)]
pub enum DemoError {
    #[error("the client did not complete the MCP handshake")]
    Handshake(#[source] Box<rmcp::service::ServerInitializeError>),
    #[error("the task of the connection failed")]
    Task(#[source] tokio::task::JoinError),
    #[error("could not listen on `{address}`")]
    Listen { address: String, source: std::io::Error },
    #[error("the HTTP server stopped")]
    Http(#[source] std::io::Error),
}
