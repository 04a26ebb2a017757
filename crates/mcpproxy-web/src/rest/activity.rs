//! The REST endpoints for the activity log: pages, single records and a summary.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_store::RecordId;
use tokio::time::{Instant, timeout_at};

use super::endpoint::{Answer, Endpoint, Group, LOG_UNREADABLE};
use super::filters::with_filters;
use super::parameters::{CURSOR, FROM, LIMIT, Parameter, QueryValues, SINCE, TO, UNTIL};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "activity",
        method: Verb::Get,
        path: "/api/v1/activity",
        access: Access::Operator,
        decides: false,
        parameters: with_filters!([], [SINCE, UNTIL, FROM, TO, LIMIT, CURSOR]),
        body: None,
        group: Group::Activity,
        summary: "List records, newest first",
        description: "A record must match all filters. `next` is the cursor of the next page, or null on the last page. A page can be short or empty and still have a next page.",
        answers: &[Answer::json::<wire::Activities>(StatusCode::OK, "A page of records.")],
        errors: &[LOG_UNREADABLE],
        handler: |method| on(method, list),
    },
    Endpoint {
        name: "activity_record",
        method: Verb::Get,
        path: "/api/v1/activity/{id}",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Activity,
        summary: "Show a record",
        description: "Includes arguments and result while they are kept. Answers to agents name their record in `_meta[\"mcpproxy/record\"]`.",
        answers: &[Answer::json::<wire::WholeActivity>(StatusCode::OK, "The record.")],
        errors: &[
            (StatusCode::BAD_REQUEST, "More than one record id begins like this, or the request has a parameter."),
            (StatusCode::NOT_FOUND, "No such record."),
            LOG_UNREADABLE,
        ],
        handler: |method| on(method, find),
    },
    Endpoint {
        name: "activity_summary",
        method: Verb::Get,
        path: "/api/v1/activity/summary",
        access: Access::Operator,
        decides: false,
        parameters: &[Parameter { example: Some("24h"), ..SINCE }, UNTIL, FROM, TO],
        body: None,
        group: Group::Activity,
        summary: "Summarize activity",
        description: "Counts by type, status, intent, risk, server and tool, and the median and 95th percentile of call durations. Dry runs and replayed answers are counted apart, because nothing ran. Covers whole hours, including the hours of `since` and `until`.",
        answers: &[Answer::json::<wire::Summary>(StatusCode::OK, "The summary.")],
        errors: &[LOG_UNREADABLE],
        handler: |method| on(method, summary),
    },
];

/// Waits this long for a record that is not on disk yet. An agent can learn the id of a record before the record is
/// written.
pub(crate) const JUST_NAMED: Duration = Duration::from_millis(JUST_NAMED_MS);
const JUST_NAMED_MS: u64 = 1_000;

async fn list(
    State(web): State<Arc<Web>>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Activities>, Problem> {
    let limit = query.number("limit");
    let page = web.store.list(&query.filter()?, query.cursor(), limit).await?;
    Ok(Json(page.into()))
}

async fn find(
    State(web): State<Arc<Web>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeActivity>, Problem> {
    let Path(id) = id.map_err(|_| Problem::RECORD_NOT_FOUND)?;
    let mut commits = web.ledger.committed();
    let now_ms = (web.facts.now_ms)();
    let deadline = Instant::now() + JUST_NAMED;
    loop {
        commits.mark_unchanged();
        if let Some(record) = web.store.find(&id).await? {
            return Ok(Json(record.into()));
        }
        let is_new = |id: RecordId| now_ms.abs_diff(id.time_ms()) <= JUST_NAMED_MS;
        let may_come = RecordId::parse(&id).is_some_and(is_new);
        if !may_come || !matches!(timeout_at(deadline, commits.changed()).await, Ok(Ok(()))) {
            return Err(Problem::RECORD_NOT_FOUND);
        }
    }
}

async fn summary(
    State(web): State<Arc<Web>>,
    Extension(query): Extension<QueryValues>,
) -> Result<Json<wire::Summary>, Problem> {
    let (since_ms, until_ms) = query.range_ms()?;
    Ok(Json(web.store.summary(since_ms, until_ms).await?.into()))
}
