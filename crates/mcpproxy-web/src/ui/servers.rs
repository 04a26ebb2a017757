//! The pages of servers: the list, one server, adding one, and the review of what it lists.

mod actions;
mod add;
mod details;
mod review;
mod sign_in;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use axum::routing::on;
use http::StatusCode;
use mcpproxy_core::ServerName;
use mcpproxy_gateway::ServerStatus;
use mcpproxy_store::StoreError;

use super::events::Topic;
use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, notice, unavailable};
use crate::auth::identity::{AppState, SignedInUser};
use crate::ui::pages::servers::Servers;
use crate::ui::pages::{Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "servers",
        method: Verb::Get,
        path: "/ui/servers",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "new_server",
        method: Verb::Get,
        path: "/ui/servers/add",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, add::show),
    },
    Page {
        name: "add_server",
        method: Verb::Post,
        path: "/ui/servers/add",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, add::add),
    },
    Page {
        name: "server",
        method: Verb::Get,
        path: "/ui/servers/{server}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, details::show),
    },
    Page {
        name: "change_server",
        method: Verb::Post,
        path: "/ui/servers/{server}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, actions::change),
    },
    Page {
        name: "finish_sign_in",
        method: Verb::Get,
        path: "/ui/servers/{server}/sign-in",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, sign_in::finish),
    },
    Page {
        name: "review_server",
        method: Verb::Get,
        path: "/ui/servers/{server}/review",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, review::show),
    },
    Page {
        name: "decide_server",
        method: Verb::Post,
        path: "/ui/servers/{server}/review",
        access: PageAccess::User,
        decides: true,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, review::decide),
    },
    Page {
        name: "whole_definition",
        method: Verb::Get,
        path: "/ui/servers/{server}/review/whole",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, review::whole),
    },
];

async fn show(State(app): State<AppState>, Visitor(signed): Visitor) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let frame = around(&app, &signed, "Servers").await?;
        let coverage = app.web.gateway.contract_coverage();
        Ok(page(StatusCode::OK, &Servers::new(frame, app.web.gateway.servers(), &coverage.tools)))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

/// Builds the frame of a page that follows changes of servers.
async fn around(app: &AppState, signed: &SignedInUser, title: &str) -> Result<Frame, StoreError> {
    let frame = frame::around(app, signed, "servers", title).await?;
    Ok(Frame { live: Some(Topic::Servers), ..frame })
}

/// Finds the server that a path names.
fn find(app: &AppState, name: Result<Path<String>, PathRejection>) -> Option<ServerStatus> {
    let name = name.ok().and_then(|Path(name)| ServerName::parse(&name).ok())?;
    app.web.gateway.servers().into_iter().find(|server| server.name == name)
}

fn not_found() -> Response {
    let text = "The settings have no server with this name. It may have been removed or renamed.";
    notice(StatusCode::NOT_FOUND, "Server not found", text, ("/ui/servers", "All servers"))
}
