//! The page `/ui/tools`.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::StatusCode;
use mcpproxy_store::StoreError;

use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, unavailable};
use crate::auth::identity::AppState;
use crate::ui::pages::page;
use crate::ui::pages::tools::Tools;
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[Page {
    name: "tools",
    method: Verb::Get,
    path: "/ui/tools",
    access: PageAccess::User,
    decides: false,
    sent_from: None,
    is_stream: false,
    handler: |method| on(method, show),
}];

async fn show(State(app): State<AppState>, Visitor(signed): Visitor) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let frame = frame::around(&app, &signed, "tools", "Tools").await?;
        Ok(page(StatusCode::OK, &Tools { frame }))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}
