//! The page of one tool, and the decision on a call that is not made. `dry_run.rs` runs the dry run of the same form.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::Response;
use http::{StatusCode, Uri};
use mcpproxy_core::trust::{DefinitionKey, DefinitionKind};
use mcpproxy_core::{RiskLevel, ServerName, ToolName, Variant, json};
use mcpproxy_gateway::{ExplainError, History, ReviewError};
use mcpproxy_store::{Filter, StoreError};

use super::not_found;
use crate::auth::identity::{AppState, SignedInUser};
use crate::ui::form::Form;
use crate::ui::pages::page;
use crate::ui::pages::tools::explained::Explained;
use crate::ui::pages::tools::one::{About, OneTool, TypedCall};
use crate::ui::pages::tools::quarantined_words;
use crate::ui::posted::Posted;
use crate::ui::visitor::Visitor;
use crate::ui::{frame, notice, unavailable};

const CALLS_MAX: usize = 10;
/// Agents in the form. For others, there is `mcpproxy policy explain`.
const AGENTS_MAX: usize = 200;

pub(super) type ToolPath = Result<Path<(String, String)>, PathRejection>;

pub(super) async fn show(State(app): State<AppState>, Visitor(signed): Visitor, names: ToolPath, uri: Uri) -> Response {
    let Some(name) = tool_name(names) else { return not_found() };
    let is_saved = uri.query() == Some("saved=1");
    match content(&app, &signed, &name, &TypedCall::default()).await {
        Ok(Some(content)) => page(StatusCode::OK, &OneTool { is_saved, ..content }),
        Ok(None) => missing(&app, &name),
        Err(error) => unavailable(&error),
    }
}

pub(super) async fn explain(State(app): State<AppState>, names: ToolPath, posted: Posted) -> Response {
    let Some(name) = tool_name(names) else { return not_found() };
    explained(&app, &name, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) fn tool_name(names: ToolPath) -> Option<ToolName> {
    let Path((server, tool)) = names.ok()?;
    ToolName::of(&ServerName::parse(&server).ok()?, &tool).ok()
}

/// Answers for a tool that has no page: it is quarantined, or does not exist.
pub(super) fn missing(app: &AppState, name: &ToolName) -> Response {
    let Some(quarantined) = app.web.gateway.quarantined_tool(name) else { return not_found() };
    let text = format!("{} Agents cannot see it until a user accepts it.", quarantined_words(quarantined.reason));
    let link = format!("/ui/servers/{}/review", name.server());
    notice(StatusCode::OK, &format!("{name} is quarantined"), &text, (&link, "Review the server"))
}

pub(super) async fn content(
    app: &AppState,
    signed: &SignedInUser,
    name: &ToolName,
    typed: &TypedCall,
) -> Result<Option<OneTool>, StoreError> {
    let Some(tool) = app.web.gateway.contract(name) else { return Ok(None) };
    let filter =
        Filter { server: Some(name.server().to_string()), tool: Some(name.tool().to_owned()), ..Filter::default() };
    let tokens = app.web.store.list_tokens().await?;
    let agents = tokens.into_iter().filter(|token| token.revoked_ms.is_none()).map(|token| token.name);
    let about = About {
        settings: app.web.gateway.contract_settings(),
        calls: app.web.store.list(&filter, None, CALLS_MAX).await?.records,
        agents: agents.take(AGENTS_MAX).collect(),
        history: history(app, name).await?,
        now_ms: app.now_ms(),
    };
    let frame = frame::around(app, signed, "tools", &name.to_string()).await?;
    Ok(Some(OneTool::new(frame, &tool, &about, typed)))
}

async fn history(app: &AppState, name: &ToolName) -> Result<History, StoreError> {
    let key = DefinitionKey { kind: DefinitionKind::Tool, name: name.tool().into() };
    match app.web.gateway.history(name.server(), &key).await {
        Ok(history) => Ok(history),
        // The server went away since its tool was found.
        Err(ReviewError::NoServer | ReviewError::Locked) => Ok(History::default()),
        Err(ReviewError::Store(error)) => Err(error),
    }
}

async fn explained(app: &AppState, name: &ToolName, posted: &Posted) -> Result<Response, StoreError> {
    let typed = typed_call(&posted.form);
    let Some(mut content) = content(app, &posted.signed, name, &typed).await? else { return Ok(missing(app, name)) };
    let status = match explanation(app, name, &typed).await? {
        Ok(explained) => {
            content.explained = Some(explained);
            StatusCode::OK
        }
        Err(error) => {
            content.error = Some(error);
            StatusCode::UNPROCESSABLE_ENTITY
        }
    };
    Ok(page(status, &content))
}

/// Reads the form.
pub(super) fn typed_call(form: &Form) -> TypedCall {
    TypedCall {
        arguments: Some(form.or_empty("arguments").to_owned()),
        agent: form.or_empty("agent").trim().to_owned(),
        variant: Variant::from_operation(form.or_empty("variant")),
        is_dry_run: form.text("dry_run").is_some(),
    }
}

/// Explains the decision on the call, or says why that is not possible.
pub(super) async fn explanation(
    app: &AppState,
    name: &ToolName,
    typed: &TypedCall,
) -> Result<Result<Explained, String>, StoreError> {
    let gone = || Err("The server no longer offers this tool.".to_owned());
    let Some(tool) = app.web.gateway.contract(name) else { return Ok(gone()) };
    let variant = typed.variant.unwrap_or_else(|| tool.call_with());
    let arguments = typed.arguments.as_deref().unwrap_or_default();
    let parameters = match parameters(name, variant, arguments, typed.is_dry_run) {
        Ok(parameters) => parameters,
        Err(error) => return Ok(Err(error)),
    };
    let agent = Some(typed.agent.as_str()).filter(|agent| !agent.is_empty());
    match app.web.gateway.explain(agent, variant, &parameters).await {
        Ok((explanation, policies)) => {
            let is_forbidden = tool.contract.risk() == Some(RiskLevel::Forbidden);
            Ok(Ok(Explained::new(explanation, policies, variant, typed.is_dry_run, is_forbidden)))
        }
        Err(ExplainError::Store(error)) => Err(error),
        Err(error) => Ok(Err(sentence(&error))),
    }
}

/// Builds the parameters of a `call_tool_*`, with the intent that a correct agent declares.
pub(super) fn parameters(
    name: &ToolName,
    variant: Variant,
    arguments: &str,
    is_dry_run: bool,
) -> Result<String, String> {
    let arguments = if arguments.trim().is_empty() { "{}" } else { arguments };
    let arguments =
        json::read(arguments.as_bytes()).map_err(|error| format!("The arguments are not valid JSON: {error}."))?;
    let (name, operation) = (json::quote(&name.to_string()), json::quote(variant.operation()));
    let dry_run = if is_dry_run { ",\"dry_run\":true" } else { "" };
    Ok(format!("{{\"name\":{name},\"args\":{arguments},\"intent\":{{\"operation_type\":{operation}}}{dry_run}}}"))
}

/// Words why a call cannot be explained or tried out.
pub(super) fn sentence(error: &ExplainError) -> String {
    match error {
        ExplainError::NoAgent(_) => "There is no agent with that name. Choose another one.".to_owned(),
        ExplainError::NotConnected(_) | ExplainError::Parameters(_) | ExplainError::Store(_) => {
            format!("The call cannot be decided: {error}.")
        }
    }
}
