//! The page `/ui/activity`.

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::StatusCode;
use mcpproxy_store::StoreError;

use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, unavailable};
use crate::auth::identity::AppState;
use crate::ui::pages::activity::Activity;
use crate::ui::pages::page;
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[Page {
    name: "activity",
    method: Verb::Get,
    path: "/ui/activity",
    access: PageAccess::User,
    decides: false,
    sent_from: None,
    is_stream: false,
    handler: |method| on(method, show),
}];

async fn show(State(app): State<AppState>, Visitor(signed): Visitor) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let frame = frame::around(&app, &signed, "activity", "Activity").await?;
        Ok(page(StatusCode::OK, &Activity { frame }))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}
