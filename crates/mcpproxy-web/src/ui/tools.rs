//! The pages below `/ui/tools`: search and list, one tool, and its contract.

mod contract;
mod dry_run;
mod one;

use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::{StatusCode, Uri};
use mcpproxy_core::{ServerName, ToolName};
use mcpproxy_gateway::{Reasons, aside};
use mcpproxy_store::StoreError;

use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, notice, unavailable};
use crate::auth::identity::AppState;
use crate::query;
use crate::ui::pages::page;
use crate::ui::pages::tools::{FOUND_MAX, Selection, Tools};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "tools",
        method: Verb::Get,
        path: "/ui/tools",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "tool",
        method: Verb::Get,
        path: "/ui/tools/{server}/{tool}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, one::show),
    },
    Page {
        name: "explain_tool",
        method: Verb::Post,
        path: "/ui/tools/{server}/{tool}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, one::explain),
    },
    Page {
        name: "dry_run_tool",
        method: Verb::Post,
        path: "/ui/tools/{server}/{tool}/dry-run",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/tools"),
        is_stream: false,
        handler: |method| on(method, dry_run::run),
    },
    Page {
        name: "contract",
        method: Verb::Get,
        path: "/ui/tools/{server}/{tool}/contract",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, contract::show),
    },
    Page {
        name: "change_contract",
        method: Verb::Post,
        path: "/ui/tools/{server}/{tool}/contract",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, contract::change),
    },
    Page {
        name: "contract_challenge",
        method: Verb::Post,
        path: "/ui/tools/{server}/{tool}/contract/passkey/{digest}",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/tools"),
        is_stream: false,
        handler: |method| on(method, contract::challenge),
    },
];

/// Tools that a search with a filter by risk looks at. The filter drops some of them.
const FILTERED_MAX: usize = 50;
/// Longer queries are cut. No agent needs more words to describe a tool.
const QUERY_MAX_CHARS: usize = 500;

async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let fields = query::pairs(uri.query().unwrap_or_default()).unwrap_or_default();
    let selection = Selection::of(&fields);
    let shown = async || -> Result<Response, StoreError> {
        let frame = frame::around(&app, &signed, "tools", "Tools").await?;
        let web = std::sync::Arc::clone(&app.web);
        let content = aside(move || {
            let servers: Vec<ServerName> = web.gateway.servers().into_iter().map(|server| server.name).collect();
            if selection.query.is_empty() {
                return Tools::list(frame, web.gateway.listed_tools(), &servers, selection);
            }
            let server = servers.iter().find(|server| server.as_str() == selection.server);
            let words: String = selection.query.chars().take(QUERY_MAX_CHARS).collect();
            let most = if selection.risk.is_empty() { FOUND_MAX } else { FILTERED_MAX };
            let found = web.gateway.search(&words, server, most, Reasons::Given);
            let contract = |name: &str| web.gateway.contract(&ToolName::parse(name).ok()?);
            Tools::found(frame, found, contract, &servers, selection)
        });
        Ok(page(StatusCode::OK, &content.await))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

fn not_found() -> Response {
    let text = "No connected server offers this tool. The server may be stopped, or the tool may have been renamed.";
    notice(StatusCode::NOT_FOUND, "Tool not found", text, ("/ui/tools", "All tools"))
}
