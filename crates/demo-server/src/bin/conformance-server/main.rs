//! An MCP server with the fixtures of the official conformance suite, with and without sessions on one endpoint.

#![expect(deprecated, reason = "the scenarios of 2025-11-25 still test logging and sampling")]

mod calls;
mod content;
mod fixture;
mod rounds;
mod tools;

use std::error::Error;
use std::io::Write;
use std::process::ExitCode;

use axum::body::Body;
use axum::extract::Request;
use axum::http::header::CONTENT_TYPE;
use axum::middleware::{Next, from_fn};
use axum::response::Response;
use demo_server::http::{Endpoint, router};
use futures::StreamExt;

use crate::calls::StreamCloser;
use crate::fixture::{Fixture, Shared};

const USAGE: &str = "usage: conformance-server [--listen ADDRESS]";

#[tokio::main]
async fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [] => serve("127.0.0.1:0").await,
        ["--listen", address] => serve(address).await,
        _ => {
            let _ = writeln!(std::io::stderr(), "{USAGE}");
            return ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "conformance-server: {error}");
            ExitCode::FAILURE
        }
    }
}

async fn serve(address: &str) -> Result<(), Box<dyn Error>> {
    let endpoint = Endpoint::bind(address).await?;
    // The parent process may have closed our standard output. Serve anyway.
    let _ = writeln!(std::io::stdout(), "listening {}", endpoint.url());
    let shared = Shared::new()?;
    let router = router(move || Fixture::new(&shared)).layer(from_fn(closable));
    Ok(endpoint.serve(router).await?)
}

/// Gives every call a handle to close its own event stream, as a server does that makes its client poll.
async fn closable(mut request: Request, next: Next) -> Response {
    let closer = StreamCloser::default();
    request.extensions_mut().insert(closer.clone());
    let response = next.run(request).await;
    let kind = response.headers().get(CONTENT_TYPE);
    if !kind.is_some_and(|kind| kind.as_bytes().starts_with(b"text/event-stream")) {
        return response;
    }
    response.map(|body| Body::from_stream(body.into_data_stream().take_until(closer.closed())))
}
