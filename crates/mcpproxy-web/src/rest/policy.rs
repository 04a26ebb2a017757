//! The REST endpoints that explain the decision on a call, and that try other files on recorded calls.

use std::sync::Arc;

use axum::Json;
use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::routing::on;
use http::StatusCode;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::settings::{self, Unresolved};
use mcpproxy_core::{Mistake, Variant, json};
use mcpproxy_gateway::{ExplainError, Period, ReplayError, WhatIf, aside};

use super::endpoint::{Answer, BODY_TOO_LARGE, Body, Endpoint, Group, LOG_UNREADABLE};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, time, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "explain_call",
        method: Verb::Post,
        path: "/api/v1/policy/explain",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: Some(Body::json::<wire::ExplainCall>(
            r#"{"variant": "destructive", "parameters": {"name": "demo:delete_user", "args": {"id": "1"}}}"#,
        )),
        group: Group::Servers,
        summary: "Explain the decision on a call",
        description: "Runs every check of a call in order and shows the result of each. Sends nothing to the server.",
        answers: &[Answer::json::<wire::Explanation>(StatusCode::OK, "The checks.")],
        errors: &[
            (StatusCode::NOT_FOUND, "No such agent."),
            BODY_TOO_LARGE,
            (StatusCode::SERVICE_UNAVAILABLE, "The server of the tool is not connected."),
        ],
        handler: |method| on(method, explain_call),
    },
    Endpoint {
        name: "replay_calls",
        method: Verb::Post,
        path: "/api/v1/policy/replay",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: Some(Body::json::<wire::ReplayCalls>(
            r#"{"since": "7d", "contracts": [{"name": "demo.yaml", "text": "tool: demo:delete_user\nriskLevel: forbidden\n"}]}"#,
        )),
        group: Group::Contracts,
        summary: "Try other files on recorded calls",
        description: "Decides recorded calls again, with the files in the body, and shows which calls would end differently. Sends nothing to any server and changes nothing. Without files, the active ones are compared with the records.",
        answers: &[Answer::json::<wire::Replayed>(StatusCode::OK, "The differences.")],
        errors: &[(StatusCode::CONFLICT, "Another replay is running."), BODY_TOO_LARGE, LOG_UNREADABLE],
        handler: |method| on(method, replay_calls),
    },
];

async fn explain_call(
    State(web): State<Arc<Web>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Explanation>, Problem> {
    let body = body?;
    let text = json::read(&body).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let asked: wire::ExplainCall =
        serde_json::from_str(text).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let variant = Variant::from_operation(&asked.variant)
        .ok_or_else(|| Problem::BAD_BODY.message("`variant` must be read, write or destructive".to_owned()))?;
    let (agent, parameters) = (asked.agent.as_deref(), asked.parameters.get());
    let (explanation, rules) = web.gateway.explain(agent, variant, parameters).await.map_err(unexplained)?;
    Ok(Json((variant, explanation, rules).into()))
}

fn unexplained(error: ExplainError) -> Problem {
    match error {
        ExplainError::NoAgent(_) => Problem::AGENT_NOT_FOUND,
        ExplainError::NotConnected(_) => Problem::UPSTREAM_UNAVAILABLE.message(error.to_string()),
        ExplainError::Parameters(_) | ExplainError::Store(_) => Problem::BAD_BODY.message(error.to_string()),
    }
}

/// The start of a replay without `since`.
const SINCE: &str = "7d";
/// Records that one request reads, at most. That takes less than a minute.
const RECORDS_MAX: usize = 1_000_000;

async fn replay_calls(
    State(web): State<Arc<Web>>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::Replayed>, Problem> {
    let body = body?;
    let text = json::read(&body).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let asked: wire::ReplayCalls =
        serde_json::from_str(text).map_err(|error| Problem::BAD_BODY.message(error.to_string()))?;
    let now_ms = (web.facts.now_ms)();
    let since_ms = instant("since", asked.since.as_deref().unwrap_or(SINCE), now_ms)?;
    let until_ms = asked.until.as_deref().map_or(Ok(now_ms), |until| instant("until", until, now_ms))?;
    if since_ms > until_ms {
        return Err(Problem::BAD_BODY.message("`since` is later than `until`, so no call can match"));
    }
    let (since_ms, until_ms) = (Some(since_ms), Some(until_ms));
    let what_if = aside(move || what_if(asked)).await?;
    let is_against_records = what_if.is_empty();
    let period = Period { since_ms, until_ms, records_max: Some(RECORDS_MAX) };
    let (report, unlisted) = web.gateway.replay(what_if, period).await.map_err(not_replayed)?;
    let with = wire::ReplayedWith { since_ms, until_ms, is_against_records, unlisted };
    Ok(Json((report, with).into()))
}

fn not_replayed(error: ReplayError) -> Problem {
    match error {
        ReplayError::Busy => Problem::REPLAY_RUNNING,
        ReplayError::Store(error) => error.into(),
    }
}

fn instant(name: &str, text: &str, now_ms: i64) -> Result<i64, Problem> {
    time::parse(text, now_ms).ok_or_else(|| {
        Problem::BAD_BODY.message(format!("`{name}` must be an RFC 3339 time, or an age such as `24h` or `7d`"))
    })
}

/// Parses the files to try. The answer names the first mistake with its line.
fn what_if(asked: wire::ReplayCalls) -> Result<WhatIf, Problem> {
    let files =
        |files: Vec<wire::TriedFile>| -> Vec<_> { files.into_iter().map(|file| (file.name, file.text)).collect() };
    let contracts = asked.contracts.map(|texts| Contracts::parse(&files(texts))).transpose().map_err(wrong)?;
    let policies = asked.policies.map(|texts| Policies::parse(&files(texts))).transpose().map_err(wrong)?;
    let settings = asked.settings.map(|text| settings::parse(&text, &Unresolved)).transpose();
    let settings = settings
        .map_err(|mistakes| wrong(mistakes.into_iter().map(|mistake| ("settings".to_owned(), mistake)).collect()))?;
    Ok(WhatIf {
        settings: settings.map(Arc::new),
        contracts: contracts.map(Arc::new),
        policies: policies.map(Arc::new),
    })
}

fn wrong(mistakes: Vec<(String, Mistake)>) -> Problem {
    let first = mistakes.first().map(|(file, mistake)| format!("{file}:{mistake}")).unwrap_or_default();
    Problem::BAD_BODY.message(first)
}
