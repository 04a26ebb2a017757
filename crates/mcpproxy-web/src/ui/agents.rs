//! The page `/ui/agents`: tokens, what they may do and did, and forms to create, change and revoke them.

mod edit;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::{StatusCode, Uri};
use mcpproxy_core::Scope;
use mcpproxy_store::{AgentCalls, Filter, Kind, Record, Status, StoreError, TokenInfo};
use serde_json::{Value, json};

use super::events::Topic;
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::visitor::Visitor;
use super::{frame, unavailable};
use crate::action::Action;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::tokens::described;
use crate::ui::pages::agents::{Agents, Facts, NewAgent, ProviderAgent, Said, provider_names};
use crate::ui::pages::overview::chart::Period;
use crate::ui::pages::{Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "agents",
        method: Verb::Get,
        path: "/ui/agents",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "create_agent",
        method: Verb::Post,
        path: "/ui/agents",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, create),
    },
    Page {
        name: "revoke_agent",
        method: Verb::Post,
        path: "/ui/agents/revoke",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/agents"),
        is_stream: false,
        handler: |method| on(method, revoke),
    },
    Page {
        name: "edit_agent",
        method: Verb::Get,
        path: "/ui/agents/edit",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, edit::show),
    },
    Page {
        name: "change_agent",
        method: Verb::Post,
        path: "/ui/agents/edit",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/agents"),
        is_stream: false,
        handler: |method| on(method, edit::save),
    },
];

/// Agents for which the page looks up the client of the newest record.
const CLIENTS_MAX: usize = 50;
/// Records of one agent among which the page looks for the agent's own newest one.
const LOOKED_AT_MAX: usize = 20;
/// The query of the page after a token was created. The page with the token puts it into the address, so that a reload
/// opens the list and does not send the form again.
const CREATED: &str = "done=created";
/// A form of the same user for the same name with the same scope is a repeated one for this time. Without JavaScript, a
/// reload of the page with the token sends the form again.
const REPEATED_MS: i64 = 10 * 60_000;
/// The code of the record about a new token.
const TOKEN_CREATED: &str = "token_created";

async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let done = match uri.query() {
        Some("done=changed") => Some("The token was changed. Its next request follows that."),
        Some(CREATED) => Some(
            "The token was created. It was shown once and cannot be shown again. If you did not copy it, revoke it below \
             and create another.",
        ),
        Some(_) | None => None,
    };
    let said = Said { done, ..Said::default() };
    shown(&app, &signed, StatusCode::OK, said).await.unwrap_or_else(|error| unavailable(&error))
}

async fn shown(app: &AppState, signed: &SignedInUser, code: StatusCode, said: Said) -> Result<Response, StoreError> {
    let store = &app.web.store;
    let tokens = store.list_tokens().await?;
    let mut clients = Vec::new();
    for token in tokens.iter().filter(|token| token.revoked_ms.is_none() && token.last_used_ms.is_some()) {
        if clients.len() == CLIENTS_MAX {
            break;
        }
        let newest = newest_request(app, &token.name).await?;
        clients.push((token.name.clone(), newest.and_then(|record| record.client)));
    }
    // The same hours as the overview.
    let calls = store.calls_by_agent(Period::Week.since_ms(app.now_ms())).await?;
    let of_provider = of_provider(app, &calls).await?;
    let frame = frame::around(app, signed, "agents", "Agents").await?;
    let is_fresh = said.created.is_some();
    // An open page fetches itself again. The page with a new token must not be replaced by one without it.
    let live = if is_fresh { frame.live } else { Some(Topic::Calls) };
    let frame = Frame { asks_password: said.asks_password, live, ..frame };
    let facts = Facts {
        calls,
        of_provider,
        sessions: app.web.gateway.clients(),
        clients,
        servers: app.web.gateway.servers().into_iter().map(|server| server.name.to_string()).collect(),
        now_ms: app.now_ms(),
        tokens,
    };
    Ok(page(code, &Agents::new(frame, &facts, said)))
}

/// Finds the newest record that the agent itself caused. A user's decision on its request names the agent too, but it has
/// no client, and it is no sign of life of the agent.
async fn newest_request(app: &AppState, agent: &str) -> Result<Option<Record>, StoreError> {
    let filter = Filter { agent: Some(agent.to_owned()), ..Filter::default() };
    let records = app.web.store.list(&filter, None, LOOKED_AT_MAX).await?.records;
    let is_own = |record: &Record| record.kind != Kind::Approval || record.client.is_some();
    Ok(records.into_iter().find(is_own))
}

/// Agents that came with a token of the identity provider: those that the gateway knows, and those with recent calls.
async fn of_provider(app: &AppState, calls: &[AgentCalls]) -> Result<Vec<ProviderAgent>, StoreError> {
    let known = app.web.gateway.provider_agents();
    let mut found = Vec::new();
    for name in provider_names(&known, calls, CLIENTS_MAX) {
        let newest = newest_request(app, &name).await?;
        found.push(ProviderAgent {
            agent: known.iter().find(|agent| agent.name == name).cloned(),
            last_seen_ms: newest.as_ref().map(|record| record.id.time_ms()),
            client: newest.and_then(|record| record.client),
            name,
        });
    }
    Ok(found)
}

async fn create(State(app): State<AppState>, posted: Posted) -> Response {
    created(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

/// Creates a token. The answer to the form is the only page that shows it: no address leads there again.
async fn created(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    let known: Vec<String> = app.web.gateway.servers().iter().map(|server| server.name.to_string()).collect();
    let typed = NewAgent::of(&posted.form, &known);
    if let PresenceResult::Absent(absent) = app.prove_presence(signed, posted.presence()).await? {
        let said = Said { error: Some(absent.message()), asks_password: true, typed, ..Said::default() };
        return shown(app, signed, StatusCode::FORBIDDEN, said).await;
    }
    let scope = match typed.scope(&known) {
        Ok(scope) => scope,
        Err(error) => {
            let said = Said { error: Some(error), typed, ..Said::default() };
            return shown(app, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await;
        }
    };
    let facts = described(&typed.name, &scope);
    let action = Action { code: TOKEN_CREATED, server: None, facts }.begin(app, signed).await?;
    let random: [u8; 32] = rand::random();
    match app.web.store.create_token(&typed.name, &scope, random, app.now_ms()).await {
        Ok(token) => {
            action.done(app).await;
            let snippets = app.web.client_settings.snippets(&token);
            let created = Some((typed.name.clone(), token, snippets));
            shown(app, signed, StatusCode::OK, Said { created, ..Said::default() }).await
        }
        Err(error) => {
            action.failed(app, &error.to_string()).await;
            let message = if matches!(error, StoreError::AgentName) {
                "A name has letters, digits, . _ and -, and at most 64 of them.".to_owned()
            } else if matches!(error, StoreError::AgentExists { .. }) {
                if is_repeated(app, signed, &typed.name, &scope).await? {
                    return Ok(Redirect::to(&format!("/ui/agents?{CREATED}")).into_response());
                }
                "An agent with this name has a token already. Revoke it first, or choose another name.".to_owned()
            } else {
                return Err(error);
            };
            let said = Said { error: Some(message), typed, ..Said::default() };
            shown(app, signed, StatusCode::UNPROCESSABLE_ENTITY, said).await
        }
    }
}

/// Returns true if a form that created a token was sent again. A token of another user is none of this one's business: who
/// is told that it was created here may revoke it.
async fn is_repeated(app: &AppState, signed: &SignedInUser, name: &str, scope: &Scope) -> Result<bool, StoreError> {
    let tokens = app.web.store.list_tokens().await?;
    let since_ms = app.now_ms().saturating_sub(REPEATED_MS);
    let is_same = |token: &TokenInfo| {
        token.name == name && token.revoked_ms.is_none() && token.scope == *scope && token.created_ms >= since_ms
    };
    if !tokens.iter().any(is_same) {
        return Ok(false);
    }
    let filter = Filter {
        kind: Some(Kind::Auth),
        status: Some(Status::Success),
        code: Some(TOKEN_CREATED.to_owned()),
        since_ms: Some(since_ms),
        ..Filter::default()
    };
    let records = app.web.store.list(&filter, None, LOOKED_AT_MAX).await?.records;
    let metadata = |record: &Record| serde_json::from_str::<Value>(record.metadata.for_json()).unwrap_or_default();
    let newest = records.iter().map(metadata).find(|facts| facts.get("agent").and_then(Value::as_str) == Some(name));
    Ok(newest.is_some_and(|facts| facts.get("user").and_then(Value::as_str) == Some(signed.name())))
}

async fn revoke(State(app): State<AppState>, posted: Posted) -> Response {
    revoked(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn revoked(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let name = posted.form.or_empty("name");
    let tokens = app.web.store.list_tokens().await?;
    let is_live = tokens.iter().any(|token| token.name == name && token.revoked_ms.is_none());
    let gone = || Said {
        error: Some("This agent has no valid token. It may have been revoked already.".to_owned()),
        ..Said::default()
    };
    if !is_live {
        return shown(app, &posted.signed, StatusCode::CONFLICT, gone()).await;
    }
    let action = Action { code: "token_revoked", server: None, facts: json!({"agent": name}) };
    let action = action.begin(app, &posted.signed).await?;
    let revoked = app.web.store.revoke_token(name, app.now_ms()).await;
    match &revoked {
        Ok(()) => action.done(app).await,
        Err(error) => action.failed(app, &error.to_string()).await,
    }
    match revoked {
        Ok(()) => {}
        Err(StoreError::NoSuchAgent { .. }) => return shown(app, &posted.signed, StatusCode::CONFLICT, gone()).await,
        Err(error) => return Err(error),
    }
    // The gateway remembers tokens for a moment. The next request of the agent is refused.
    app.web.gateway.forget_tokens();
    Ok(Redirect::to("/ui/agents").into_response())
}
