//! Puts an rmcp handler behind a loopback Streamable HTTP endpoint.

use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::DemoError;

/// A bound listener and its URL.
pub struct Endpoint {
    listener: TcpListener,
    url: String,
}

impl Endpoint {
    /// Binds `address`. With port 0, the kernel chooses a port.
    pub async fn bind(address: &str) -> Result<Self, DemoError> {
        let failed = |source| DemoError::Listen { address: address.to_owned(), source };
        let listener = TcpListener::bind(address).await.map_err(failed)?;
        let url = format!("http://{}/mcp", listener.local_addr().map_err(failed)?);
        Ok(Self { listener, url })
    }

    pub fn url(&self) -> &str {
        &self.url
    }

    /// Serves until the process ends.
    pub async fn serve(self, router: Router) -> Result<(), DemoError> {
        // Without TCP_NODELAY, Nagle's algorithm and delayed acknowledgements add 40 ms to every answer.
        let listener = self.listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await.map_err(DemoError::Http)
    }
}

/// Routes `/mcp` to new handlers: one for each session, or one for each request of a protocol without sessions.
pub fn router<H: ServerHandler>(handler: impl Fn() -> H + Send + Sync + 'static) -> Router {
    let origins = ["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"];
    let config = StreamableHttpServerConfig::default().with_allowed_origins(origins);
    let sessions = Arc::new(LocalSessionManager::default());
    Router::new().route_service("/mcp", StreamableHttpService::new(move || Ok(handler()), sessions, config))
}
