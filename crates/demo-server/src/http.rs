//! Puts an rmcp handler behind a loopback Streamable HTTP endpoint.

use std::sync::Arc;

use axum::Router;
use axum::serve::ListenerExt;
use rmcp::ServerHandler;
use rmcp::transport::streamable_http_server::session::local::LocalSessionManager;
use rmcp::transport::streamable_http_server::{StreamableHttpServerConfig, StreamableHttpService};
use tokio::net::TcpListener;

use crate::DemoError;

/// A bound listener that knows the URL agents should use.
pub struct Endpoint {
    listener: TcpListener,
    url: String,
}

impl Endpoint {
    /// Binds `address`; port 0 lets the kernel choose.
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
        // Nagle's algorithm and delayed acknowledgements together cost 40 ms on every answer.
        let listener = self.listener.tap_io(|stream| {
            let _ = stream.set_nodelay(true);
        });
        axum::serve(listener, router).await.map_err(DemoError::Http)
    }
}

/// Routes `/mcp` to handlers made by `handler`: one for each legacy session, one for each modern request.
pub fn router<H: ServerHandler>(handler: impl Fn() -> H + Send + Sync + 'static) -> Router {
    let origins = ["http://127.0.0.1:*", "http://localhost:*", "http://[::1]:*"];
    let config = StreamableHttpServerConfig::default().with_allowed_origins(origins);
    let sessions = Arc::new(LocalSessionManager::default());
    Router::new().route_service("/mcp", StreamableHttpService::new(move || Ok(handler()), sessions, config))
}
