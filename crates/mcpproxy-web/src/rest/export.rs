//! Streams all matching records in one answer. Memory use does not grow with the number of records.

use std::collections::HashMap;
use std::sync::Arc;

use axum::Extension;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::response::Response;
use axum::routing::on;
use http::header::{self, HeaderName, HeaderValue};
use mcpproxy_core::Untrusted;
use mcpproxy_store::{Cursor, Filter, LIMIT_MAX, Record, RecordId, StoreError, WholeRecord};
use serde::Serialize;

use super::endpoint::{Answer, Endpoint, Group, LOG_UNREADABLE};
use super::filters::with_filters;
use super::parameters::{FROM, Parameter, QueryValues, SINCE, TO, UNTIL, ValueType, optional};
use crate::auth::access::Access;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire::csv;
use crate::{Web, wire};

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "export_activity",
    method: Verb::Get,
    path: "/api/v1/activity/export",
    access: Access::Operator,
    decides: false,
    parameters: with_filters!([FORMAT, PAYLOADS], [Parameter { example: Some("7d"), ..SINCE }, UNTIL, FROM, TO]),
    body: None,
    group: Group::Activity,
    summary: "Export records",
    description: "The same records as the list, newest first, in one streamed answer of any length. If the connection breaks, the export is incomplete.",
    answers: &[Answer::text("The records.", &["application/x-ndjson", "text/csv"])],
    errors: &[LOG_UNREADABLE],
    handler: |method| on(method, export),
}];

const FORMAT: Parameter = Parameter {
    example: Some("jsonl"),
    ..optional(
        "format",
        "`jsonl` for one JSON object per line, `csv` for a table. The default is `jsonl`.",
        ValueType::Choice(|| vec!["jsonl", "csv"]),
    )
};
const PAYLOADS: Parameter =
    optional("payloads", "`true` adds arguments and results while they are kept.", ValueType::Switch);

/// Arguments and result can be 64 KiB each, so pages are smaller.
const PAGE_WITH_PAYLOADS: usize = 32;

async fn export(State(web): State<Arc<Web>>, Extension(query): Extension<QueryValues>) -> Result<Response, Problem> {
    let format = match query.text("format") {
        Some("csv") => Format::Csv,
        _ => Format::JsonLines,
    };
    let payloads = if query.is_on("payloads") { Payloads::Included } else { Payloads::LeftOut };
    let mut export = Export { web, filter: query.filter()?, format, payloads, next: Next::First };
    // The first page is read before the status is sent, so that an error can still change it.
    let first = export.page().await?.unwrap_or_default();
    let head = Bytes::from(export.head());
    let pages = futures::stream::unfold(Some(export), |export| async move {
        let mut export = export?;
        let stopping = export.web.stopping.clone();
        let page = tokio::select! {
            biased;
            () = stopping.cancelled() => Err(StoreError::Closed),
            page = export.page() => page,
        };
        match page {
            Ok(page) => page.map(|page| (Ok(page), Some(export))),
            // Breaks the connection, so that the client notices that the export is incomplete.
            Err(error) => {
                let reason: &dyn std::error::Error = &error;
                tracing::warn!(error = reason, "an export ended early");
                Some((Err(error), None))
            }
        }
    });
    let beginning = futures::stream::iter([Ok(head), Ok(first)]);
    let mut response = Response::new(Body::from_stream(futures::StreamExt::chain(beginning, pages)));
    response.headers_mut().extend(format.headers());
    Ok(response)
}

#[derive(Clone, Copy)]
enum Format {
    JsonLines,
    Csv,
}

#[derive(Clone, Copy)]
enum Payloads {
    Included,
    LeftOut,
}

/// A running export.
struct Export {
    web: Arc<Web>,
    filter: Filter,
    format: Format,
    payloads: Payloads,
    next: Next,
}

enum Next {
    First,
    Page(Cursor),
    Nothing,
}

impl Export {
    /// Returns the lines of the next page, or `None` at the end.
    async fn page(&mut self) -> Result<Option<Bytes>, StoreError> {
        let cursor = match self.next {
            Next::First => None,
            Next::Page(cursor) => Some(cursor),
            Next::Nothing => return Ok(None),
        };
        let limit = match self.payloads {
            Payloads::Included => PAGE_WITH_PAYLOADS,
            Payloads::LeftOut => LIMIT_MAX,
        };
        let page = self.web.store.list_without_index(&self.filter, cursor, limit).await?;
        self.next = page.next.map_or(Next::Nothing, Next::Page);
        let lines: Vec<String> = match self.payloads {
            Payloads::LeftOut => page.records.into_iter().map(|record| self.line(record)).collect(),
            Payloads::Included => {
                let records = self.with_payloads(page.records).await?;
                records.into_iter().map(|record| self.whole_line(record)).collect()
            }
        };
        Ok(Some(lines.concat().into()))
    }

    async fn with_payloads(&self, records: Vec<Record>) -> Result<Vec<WholeRecord>, StoreError> {
        type Kept = (Option<Untrusted>, Option<Untrusted>);
        let ids: Vec<RecordId> = records.iter().map(|record| record.id).collect();
        let kept = self.web.store.payloads(&ids).await?.into_iter();
        let mut kept: HashMap<RecordId, Kept> = kept.map(|(id, args, result)| (id, (args, result))).collect();
        let whole = records.into_iter().map(|record| {
            let (args, result) = kept.remove(&record.id).unwrap_or_default();
            WholeRecord { record, args, result }
        });
        Ok(whole.collect())
    }

    fn head(&self) -> String {
        match (self.format, self.payloads) {
            (Format::JsonLines, _) => String::new(),
            (Format::Csv, Payloads::LeftOut) => csv::head(),
            (Format::Csv, Payloads::Included) => csv::head_with_payloads(),
        }
    }

    fn line(&self, record: Record) -> String {
        let activity = wire::Activity::from(record);
        match self.format {
            Format::JsonLines => json_line(&activity),
            Format::Csv => csv::row(&activity),
        }
    }

    fn whole_line(&self, record: WholeRecord) -> String {
        let activity = wire::WholeActivity::from(record);
        match self.format {
            Format::JsonLines => json_line(&activity),
            Format::Csv => csv::row_with_payloads(&activity),
        }
    }
}

impl Format {
    fn headers(self) -> [(HeaderName, HeaderValue); 2] {
        let (content_type, disposition) = match self {
            Self::JsonLines => ("application/x-ndjson", "attachment; filename=\"activity.jsonl\""),
            Self::Csv => ("text/csv; charset=utf-8", "attachment; filename=\"activity.csv\""),
        };
        [
            (header::CONTENT_TYPE, HeaderValue::from_static(content_type)),
            (header::CONTENT_DISPOSITION, HeaderValue::from_static(disposition)),
        ]
    }
}

fn json_line(activity: &impl Serialize) -> String {
    one_line(activity) + "\n"
}

/// Formats JSON on one line. Stored arguments keep their original whitespace, which may contain line breaks.
pub(crate) fn one_line(activity: &impl Serialize) -> String {
    serde_json::to_string(activity).unwrap_or_default().replace(['\n', '\r'], " ")
}
