//! Runs the dry run that the form of a tool asks for.
//!
//! A server's own dry run is a real `tools/call`, so a session cookie is not enough: the user proves presence first.
//! The gateway makes the call in the name of the chosen agent (`Gateway::dry_run`), and takes the proof as an argument.

use axum::extract::State;
use axum::response::Response;
use http::StatusCode;
use mcpproxy_core::ToolName;
use mcpproxy_gateway::{DryRunReport, DryRunResult, ExplainError};
use mcpproxy_store::StoreError;

use super::not_found;
use super::one::{ToolPath, content, explanation, missing, parameters, sentence, tool_name, typed_call};
use crate::auth::identity::AppState;
use crate::auth::presence::PresenceResult;
use crate::ui::pages::page;
use crate::ui::pages::tools::one::TypedCall;
use crate::ui::pages::tools::ran::Ran;
use crate::ui::posted::Posted;
use crate::ui::unavailable;

const NO_AGENT: &str = "Choose an agent for the dry run. It is made in the name of one, because its token has the \
    permissions. If there is none, create one on the page Agents.";

/// A dry run that was not made.
struct NotRun {
    status: StatusCode,
    error: String,
    asks_password: bool,
}

impl NotRun {
    fn invalid(error: impl Into<String>) -> Self {
        Self { status: StatusCode::UNPROCESSABLE_ENTITY, error: error.into(), asks_password: false }
    }
}

pub(super) async fn run(State(app): State<AppState>, names: ToolPath, posted: Posted) -> Response {
    let Some(name) = tool_name(names) else { return not_found() };
    if app.web.gateway.contract(&name).is_none() {
        return missing(&app, &name);
    }
    ran(&app, &name, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn ran(app: &AppState, name: &ToolName, posted: &Posted) -> Result<Response, StoreError> {
    let typed = typed_call(&posted.form);
    let made = attempt(app, name, posted, &typed).await?;
    // Read after the dry run, so that the last calls contain it.
    let Some(mut content) = content(app, &posted.signed, name, &typed).await? else { return Ok(missing(app, name)) };
    let report = match made {
        Ok(report) => report,
        Err(NotRun { status, error, asks_password }) => {
            content.error = Some(error);
            content.frame.asks_password = asks_password;
            return Ok(page(status, &content));
        }
    };
    if let DryRunResult::Refused { .. } = &report.result
        && let Ok(explained) = explanation(app, name, &TypedCall { is_dry_run: true, ..typed.clone() }).await?
    {
        content.explained = Some(explained);
    }
    content.ran = Some(Ran::new(&report, &typed.agent, name.server()));
    Ok(page(StatusCode::OK, &content))
}

async fn attempt(
    app: &AppState,
    name: &ToolName,
    posted: &Posted,
    typed: &TypedCall,
) -> Result<Result<DryRunReport, NotRun>, StoreError> {
    let variant = typed.variant.or_else(|| app.web.gateway.contract(name).map(|tool| tool.call_with()));
    let Some(variant) = variant else { return Ok(Err(NotRun::invalid("The tool is gone."))) };
    let arguments = typed.arguments.as_deref().unwrap_or_default();
    let parameters = match parameters(name, variant, arguments, true) {
        Ok(parameters) => parameters,
        Err(error) => return Ok(Err(NotRun::invalid(error))),
    };
    if typed.agent.is_empty() {
        return Ok(Err(NotRun::invalid(NO_AGENT)));
    }
    let present = match app.prove_presence(&posted.signed, posted.presence()).await? {
        PresenceResult::Present(present) => present,
        PresenceResult::Absent(absent) => {
            let error = absent.message();
            return Ok(Err(NotRun { status: StatusCode::FORBIDDEN, error, asks_password: true }));
        }
    };
    match app.web.gateway.dry_run(&present, &typed.agent, variant, &parameters).await {
        Ok(report) => Ok(Ok(report)),
        Err(ExplainError::Store(error)) => Err(error),
        Err(error) => Ok(Err(NotRun::invalid(sentence(&error)))),
    }
}
