//! Runs the demo server over stdio, or over Streamable HTTP with `--http ADDRESS`.

use std::io::Write;

use demo_server::http::{Endpoint, router};
use demo_server::{Demo, DemoError, serve_standard};

const USAGE: &str = "usage: demo-server [--http ADDRESS | --without-contracts]

Serves a small in-memory workspace over MCP. Nothing in it is real.

  (no option)          serve one client over standard input and output
  --http ADDRESS       serve Streamable HTTP at ADDRESS, for example 127.0.0.1:8000
  --without-contracts  leave out the contracts, as most servers do";

#[tokio::main]
async fn main() -> std::process::ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    let outcome = match arguments.as_slice() {
        [] => serve_standard(Demo::new()).await,
        ["--without-contracts"] => serve_standard(Demo::new().without_contracts()).await,
        ["--http", address] => serve_http(address).await,
        _ => {
            let _ = writeln!(std::io::stderr(), "{USAGE}");
            return std::process::ExitCode::from(2);
        }
    };
    match outcome {
        Ok(()) => std::process::ExitCode::SUCCESS,
        Err(error) => {
            let _ = writeln!(std::io::stderr(), "demo-server: {error}");
            std::process::ExitCode::FAILURE
        }
    }
}

async fn serve_http(address: &str) -> Result<(), DemoError> {
    let endpoint = Endpoint::bind(address).await?;
    // The parent process may have closed our standard output. Serve anyway.
    let _ = writeln!(std::io::stdout(), "listening {}", endpoint.url());
    let demo = Demo::new();
    endpoint.serve(router(move || demo.clone())).await
}
