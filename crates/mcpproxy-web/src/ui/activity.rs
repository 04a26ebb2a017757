//! The pages about the activity log: the list, one record, and the session around a record.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::{StatusCode, Uri};
use mcpproxy_core::{ApprovalId, Untrusted};
use mcpproxy_store::{Cursor, Filter, Record, SCAN_MAX, Status, StoreError, StoredApproval, WholeRecord};

use super::events::Topic;
use super::page::{Page, PageAccess};
use super::visitor::Visitor;
use super::{frame, notice, unavailable};
use crate::auth::identity::{AppState, SignedInUser};
use crate::parameters::filters::with_filters;
use crate::parameters::{CURSOR, FROM, Parameter, QueryValues, SINCE, TO, UNTIL, ValueType, optional};
use crate::query;
use crate::ui::pages::activity::form::Names;
use crate::ui::pages::activity::links::Filters;
use crate::ui::pages::activity::list::{ActivityList, Found, NEWER};
use crate::ui::pages::activity::record::{Known, RecordPage};
use crate::ui::pages::activity::session::{Around, SIDE_MAX, SessionPage};
use crate::ui::pages::activity::steps::{STEPS_MAX, approval_of};
use crate::ui::pages::activity::words;
use crate::ui::pages::{Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "activity",
        method: Verb::Get,
        path: "/ui/activity",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, list),
    },
    Page {
        name: "activity_record",
        method: Verb::Get,
        path: "/ui/activity/{id}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, record),
    },
    Page {
        name: "activity_session",
        method: Verb::Get,
        path: "/ui/activity/{id}/session",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, session),
    },
];

/// The filters of REST, with their names, and the position in the list.
const PARAMETERS: &[Parameter] = with_filters!([], [SINCE, UNTIL, FROM, TO, CURSOR, NEWER_THAN]);
const NEWER_THAN: Parameter = optional(NEWER, "Shows the page of records next after this cursor.", ValueType::Cursor);

const PAGE_ROWS: usize = 50;
/// Records that the first page of a search looks at.
const FIRST_SCAN: usize = 2_000;
/// The longest life of an approval request: a day for unattended agents, and the time to use the approval.
const REQUEST_MAX_MS: i64 = 25 * 60 * 60_000;
/// Records are written a moment after the times that the request has.
const STEPS_SLACK_MS: i64 = 60_000;
/// Choices in the form.
const NAMES_MAX: usize = 200;

async fn list(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let given = uri.query().unwrap_or_default();
    let pairs = query::pairs(given);
    // A form sends its empty fields too. Without them, the address is short and can be shared.
    if let Ok(pairs) = &pairs
        && pairs.iter().any(|(_, value)| value.trim().is_empty())
    {
        return Redirect::to(&filled(pairs).list()).into_response();
    }
    let shown = async || -> Result<Response, StoreError> {
        let (filters, found) = match pairs {
            Ok(pairs) => {
                let all = filled(&pairs);
                (all.without(CURSOR.name).without(NEWER), find(&app, &all).await?)
            }
            Err(problem) => (Filters::default(), Err(problem.sentences())),
        };
        let status = if found.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        let is_newest = found.as_ref().is_ok_and(|found| !found.has_newer);
        let frame = frame::around(&app, &signed, "activity", "Activity").await?;
        let frame = if is_newest { live(frame) } else { frame };
        let names = names(&app).await?;
        Ok(page(status, &ActivityList::new(frame, &filters, &names, found, app.now_ms())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

/// Returns the parameters that have a value.
fn filled(pairs: &[(String, String)]) -> Filters {
    let trimmed = pairs.iter().map(|(name, value)| (name.clone(), value.trim().to_owned()));
    Filters::new(trimmed.filter(|(_, value)| !value.is_empty()))
}

fn live(frame: Frame) -> Frame {
    Frame { live: frame.live.map(|_| Topic::Calls), ..frame }
}

/// Finds the records of a page. An invalid filter is a sentence for the user.
async fn find(app: &AppState, all: &Filters) -> Result<Result<Found, String>, StoreError> {
    let values = QueryValues::read(&all.query(), PARAMETERS, app.now_ms());
    let read = values.and_then(|values| Ok((values.filter()?, values.cursor(), values.cursor_in(NEWER))));
    match read {
        Ok((filter, before, None)) => older(app, &filter, before).await.map(Ok),
        Ok((filter, _, Some(after))) => newer(app, &filter, after).await.map(Ok),
        Err(problem) => Ok(Err(problem.sentences())),
    }
}

async fn older(app: &AppState, filter: &Filter, before: Option<Cursor>) -> Result<Found, StoreError> {
    // The first page answers fast. A user who asks for more waits a little longer for each step.
    let scan = if before.is_none() { FIRST_SCAN } else { SCAN_MAX };
    let found = app.web.store.list_scanning(filter, before, PAGE_ROWS, scan).await?;
    Ok(Found {
        records: found.records,
        older: found.next,
        has_newer: before.is_some(),
        searched_to_ms: found.searched_to_ms,
    })
}

/// Finds the page before an older one. If it is not full, the newest records are shown instead.
async fn newer(app: &AppState, filter: &Filter, after: Cursor) -> Result<Found, StoreError> {
    let records = app.web.store.list_newer(filter, after, PAGE_ROWS + 1).await?;
    match records.get(1..) {
        Some(rest) if rest.len() == PAGE_ROWS => {
            let records: Vec<Record> = rest.to_vec();
            let older = records.last().map(Cursor::after);
            Ok(Found { records, older, has_newer: true, searched_to_ms: None })
        }
        _ => older(app, filter, None).await,
    }
}

async fn names(app: &AppState) -> Result<Names, StoreError> {
    let servers = app.web.gateway.servers().into_iter().take(NAMES_MAX).map(|server| server.name.to_string());
    Ok(Names { agents: app.web.store.agent_names(NAMES_MAX).await?, servers: servers.collect() })
}

async fn record(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let Some(whole) = whole(&app, id).await? else { return Ok(not_found()) };
        let metadata = words::metadata(&whole.record);
        let (approval, steps) = match approval_of(&metadata) {
            Some(id) => {
                let approval = app.web.store.find_approval(&id).await?;
                let steps = steps(&app, &whole.record, &id, approval.as_ref()).await?;
                (approval, steps)
            }
            None => (None, Vec::new()),
        };
        let place = app.web.store.chain_place(&whole.record).await?;
        let frame = around(&app, &signed, &whole.record).await?;
        // A record changes when its call ends, and when a checkpoint covers it. After that it never does.
        let is_signed = place.as_ref().is_none_or(|place| place.checkpoint.is_some());
        let is_final = is_signed && whole.record.status != Status::Started;
        let frame = if is_final { frame } else { live(frame) };
        Ok(page(StatusCode::OK, &RecordPage::new(frame, &Known { whole, approval, place, steps }, app.now_ms())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

/// Finds the records of an approval request. It has a bounded lifetime, so only that time and that tool are searched.
async fn steps(
    app: &AppState,
    record: &Record,
    id: &ApprovalId,
    approval: Option<&StoredApproval>,
) -> Result<Vec<Record>, StoreError> {
    let (from_ms, to_ms) = match approval {
        Some(approval) => {
            let end_ms = approval.consumed_ms.or(approval.decided_ms).unwrap_or(approval.expires_ms);
            (approval.created_ms - STEPS_SLACK_MS, end_ms + STEPS_SLACK_MS)
        }
        None => (record.time_ms() - REQUEST_MAX_MS, record.time_ms() + REQUEST_MAX_MS),
    };
    let text = |text: &Option<Untrusted>| text.as_ref().map(|text| text.for_json().to_owned());
    let filter = Filter {
        server: text(&record.server),
        tool: text(&record.tool),
        since_ms: Some(from_ms),
        until_ms: Some(to_ms.max(record.time_ms())),
        text: Some(id.to_string()),
        ..Filter::default()
    };
    Ok(app.web.store.list(&filter, None, STEPS_MAX).await?.records)
}

async fn session(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    id: Result<Path<String>, PathRejection>,
) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let Some(whole) = whole(&app, id).await? else { return Ok(not_found()) };
        let here = whole.record;
        let Some(agent) = here.agent.clone() else { return Ok(no_agent(&here)) };
        let filter = Filter { agent: Some(agent), ..Filter::default() };
        let cursor = Cursor::after(&here);
        let earlier = app.web.store.list(&filter, Some(cursor), SIDE_MAX).await?.records;
        let later = app.web.store.list_newer(&filter, cursor, SIDE_MAX).await?;
        let frame = frame::around(&app, &signed, "activity", "Session").await?;
        Ok(page(StatusCode::OK, &SessionPage::new(frame, &Around::of(here, earlier, later), app.now_ms())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

/// Finds a record. A prefix that several records share finds none.
async fn whole(app: &AppState, id: Result<Path<String>, PathRejection>) -> Result<Option<WholeRecord>, StoreError> {
    let Ok(Path(id)) = id else { return Ok(None) };
    match app.web.store.find(&id).await {
        Err(StoreError::AmbiguousId { .. }) => Ok(None),
        found => found,
    }
}

async fn around(app: &AppState, signed: &SignedInUser, record: &Record) -> Result<Frame, StoreError> {
    let tool = words::tool_name(record).unwrap_or_else(|| words::kind_word(record.kind).to_owned());
    let title: String = crate::visible::plain(&tool).chars().take(words::NAME_CHARS).collect();
    frame::around(app, signed, "activity", &format!("{title} · Activity")).await
}

fn not_found() -> Response {
    let text = "No record has this id. Copy the whole id: the beginning is enough only if no other record shares it. Old records are removed when their retention period ends.";
    notice(StatusCode::NOT_FOUND, "Record not found", text, ("/ui/activity", "All activity"))
}

fn no_agent(record: &Record) -> Response {
    let text = "This record belongs to no agent, so there is no session to show.";
    let link = format!("/ui/activity/{}", record.id);
    notice(StatusCode::NOT_FOUND, "No session", text, (&link, "Back to the record"))
}
