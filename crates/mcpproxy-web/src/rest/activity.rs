//! Answers from the activity log: pages, one record, and what it comes to.

use std::sync::Arc;
use std::time::Duration;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::{Extension, Json};
use mcpproxy_store::RecordId;
use tokio::time::{Instant, timeout_at};

use crate::problem::Problem;
use crate::rest::endpoint::Endpoint;
use crate::rest::parameters::Given;
use crate::{Web, wire};

/// An agent may learn the id of a record a moment before the record is on disk. An id this new is waited for.
pub(crate) const JUST_NAMED: Duration = Duration::from_millis(JUST_NAMED_MS);
const JUST_NAMED_MS: u64 = 1_000;

pub(crate) async fn list(
    State(web): State<Arc<Web>>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Activities>, Problem> {
    let limit = given.number("limit", Endpoint::Activity);
    let page = web.store.list(&given.filter()?, given.cursor(), limit).await?;
    Ok(Json(page.into()))
}

pub(crate) async fn find(
    State(web): State<Arc<Web>>,
    id: Result<Path<String>, PathRejection>,
) -> Result<Json<wire::WholeActivity>, Problem> {
    let Path(id) = id.map_err(|_| Problem::NoRecord)?;
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
            return Err(Problem::NoRecord);
        }
    }
}

pub(crate) async fn summary(
    State(web): State<Arc<Web>>,
    Extension(given): Extension<Given>,
) -> Result<Json<wire::Summary>, Problem> {
    let (since_ms, until_ms) = given.range_ms()?;
    Ok(Json(web.store.summary(since_ms, until_ms).await?.into()))
}
