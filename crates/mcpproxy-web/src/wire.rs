//! The JSON types of the REST interface.
//!
//! Only types in this folder implement `Serialize` or `Deserialize`. Each answer has its own type, converted from the
//! types of the core, the gateway and the store. That keeps the JSON stable. Renaming a field of a domain type cannot
//! change what clients receive. A new secret field in the store does not appear in an answer by accident.
//!
//! The types also derive `ToSchema`. Their doc comments become the descriptions in the OpenAPI document, so write them
//! for the person who calls the interface. A name of a type is a name in the document: renaming it changes generated
//! clients.
//!
//! Answers contain every member, with `null` where there is no value. Request bodies reject unknown members.
//!
//! This folder imports no page and no handler. Texts that agents or servers wrote are passed on unchanged
//! (`Untrusted::for_json`), because escaping is the job of the program that displays them.

mod activity;
mod approval;
mod client;
mod cluster;
mod config;
mod contract;
pub(crate) mod csv;
mod explain;
mod history;
mod replay;
mod review;
mod search;
mod server;
mod sign_in;
mod summary;
mod token;
mod versions;

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mcpproxy_core::{RiskLevel, Variant};
use mcpproxy_gateway::{ExportReadings, StateName};
use mcpproxy_store::{Health as LogHealth, Kind, Status as RecordStatus};
use serde::Serialize;
use serde_json::Value;
use utoipa::ToSchema;
use utoipa::openapi::schema::{Object, ObjectBuilder, SchemaType, Type};

use crate::time;
use crate::tls::Certificates;

pub use activity::{Activities, Activity, WholeActivity};
pub(crate) use approval::{
    Approval, ApprovalEvent, ApprovalStatus, Approvals, Approve, Deny, Grant, Grants, LogIn, LoggedIn, MakeGrant,
    Signed, WholeApproval, state_now,
};
pub(crate) use client::Clients;
pub(crate) use cluster::{Cluster, ClusterState};
pub(crate) use config::{AppliedConfig, ApplyConfig, HeldChanges};
pub(crate) use contract::{Contract, ContractDocs, Contracts, Draft, Lint};
pub(crate) use explain::{ExplainCall, Explanation};
pub(crate) use history::{DefinitionHistory, kinds as definition_kinds};
pub(crate) use replay::{ReplayCalls, TriedFile};
pub use replay::{Replayed, ReplayedWith};
pub(crate) use review::{AnnounceServer, DecideReview, Definitions, LockFile, Review, ReviewResults};
pub(crate) use search::FoundTools;
pub(crate) use server::Server;
pub(crate) use sign_in::{BeginSignIn, SignInProgress, SignInStarted, SignedOut};
pub use summary::Summary;
pub(crate) use token::{ChangeToken, TokenScope};
pub(crate) use versions::{
    CheckConfig, CheckedConfig, ConfigFile, ConfigVersion, ConfigVersions, PublishConfig, PublishedConfig,
};

#[derive(Serialize, ToSchema)]
pub(crate) struct Health {
    /// `ok`.
    pub(crate) status: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Readiness {
    /// True if the gateway accepts calls.
    pub(crate) ready: bool,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Status {
    /// The version of the gateway.
    pub(crate) version: &'static str,
    /// The process id of the gateway.
    pub(crate) pid: u32,
    /// The address the gateway listens on.
    pub(crate) address: String,
    /// The gateway's own certificate. `null` if the gateway speaks plain HTTP.
    pub(crate) tls: Option<TlsState>,
    /// The time since the gateway started.
    pub(crate) uptime_ms: u64,
    /// The address of the pages for users.
    pub(crate) ui_url: String,
    /// The number of servers in each state.
    pub(crate) servers: ServerCounts,
    /// The servers that are enabled and not ready, with the reason.
    pub(crate) unready_servers: Vec<UnreadyServer>,
    /// The number of tools of all servers.
    pub(crate) tools: usize,
    /// The number of definitions that agents do not see, because nobody has accepted them.
    pub(crate) quarantined: usize,
    /// The number of quarantined definitions that wait for a user. Rejected ones do not.
    pub(crate) to_review: usize,
    /// The settings file, and `contracts/` and `policies/` next to it.
    pub(crate) settings: SettingsState,
    /// Approval requests, and users who can decide them.
    pub(crate) approvals: ApprovalsState,
    /// The gateways that share the database. `null` if the database cannot be read.
    pub(crate) cluster: Option<ClusterState>,
    /// The state of the activity log.
    pub(crate) log: LogState,
    /// The export of the activity log. `null` without one.
    pub(crate) export: Option<ExportState>,
    /// The encoder for tool search. `null` if `search.encoder` is `off`.
    pub(crate) encoder: Option<EncoderState>,
}

/// Tools that search compares with the encoder. It uses a table of word meanings for the others.
#[derive(Serialize, ToSchema)]
pub(crate) struct EncoderState {
    /// The number of tools that are encoded.
    pub(crate) encoded: usize,
    /// The number of tools that can be found.
    pub(crate) tools: usize,
}

/// The gateway's own certificate.
#[derive(Serialize, ToSchema)]
pub(crate) struct TlsState {
    /// The SHA-256 of the certificate, in hexadecimal digits.
    pub(crate) sha256: String,
    /// The time until which the certificate is valid.
    #[schema(format = DateTime)]
    pub(crate) expires: String,
    /// `valid`, `ends_soon`, `expired` or `not_yet`.
    #[schema(value_type = String)]
    pub(crate) validity: &'static str,
}

impl TlsState {
    pub(crate) fn of(certificates: &Certificates, now_ms: i64) -> Self {
        let pair = certificates.current();
        let (expires, validity) = (time::format(pair.expires_ms()), pair.validity(now_ms).as_str());
        Self { sha256: pair.sha256().to_owned(), expires, validity }
    }
}

/// A server that is enabled and not ready.
#[derive(Serialize, ToSchema)]
pub(crate) struct UnreadyServer {
    pub(crate) name: String,
    #[schema(schema_with = server_states)]
    pub(crate) state: &'static str,
    /// The reason why it is not ready. `null` while it connects for the first time.
    pub(crate) reason: Option<String>,
    /// A step that may help, such as a variable to set.
    pub(crate) hint: Option<String>,
}

/// Approval requests, and users who can decide them. `null` if the database cannot be read.
#[derive(Serialize, ToSchema)]
pub(crate) struct ApprovalsState {
    /// The number of pending approval requests, at most 100.
    pub(crate) waiting: Option<usize>,
    /// True if a user account exists. Without one, nobody can approve a call.
    pub(crate) has_users: Option<bool>,
}

/// The export of the activity log to a SIEM.
#[derive(Serialize, ToSchema)]
pub(crate) struct ExportState {
    /// The path of a file, or the scheme and host of a URL.
    pub(crate) destination: String,
    /// The number of records that were exported since the start.
    pub(crate) exported: u64,
    /// The number of lines of the log that are not exported yet.
    pub(crate) behind: u64,
    /// The number of lines that retention removed before they were exported.
    pub(crate) missed: u64,
    /// The time of the last batch that arrived.
    #[schema(format = DateTime)]
    last_at: Option<String>,
    /// The reason why the last batch did not arrive. `null` if it did.
    pub(crate) reason: Option<String>,
    /// The start of the failure.
    #[schema(format = DateTime)]
    failing_since: Option<String>,
}

impl From<ExportReadings> for ExportState {
    fn from(export: ExportReadings) -> Self {
        let (since, reason) = export.failing.unzip();
        Self {
            destination: export.destination,
            exported: export.exported,
            behind: export.behind,
            missed: export.missed,
            last_at: export.last_ms.map(time::format),
            reason,
            failing_since: since.map(time::format),
        }
    }
}

/// The state of the activity log. While it cannot be written, no call is sent.
#[derive(Serialize, ToSchema)]
pub(crate) struct LogState {
    #[schema(schema_with = log_states)]
    pub(crate) state: &'static str,
    /// Reason why it cannot be written.
    pub(crate) reason: Option<String>,
    /// The start of the outage.
    #[schema(format = DateTime)]
    since: Option<String>,
}

impl From<LogHealth> for LogState {
    fn from(health: LogHealth) -> Self {
        match health {
            LogHealth::Well => Self { state: LOG_STATES[0], reason: None, since: None },
            LogHealth::Failing { since_ms, reason } => {
                Self { state: LOG_STATES[1], reason: Some(reason), since: Some(time::format(since_ms)) }
            }
        }
    }
}

#[derive(Default, Serialize, ToSchema)]
pub(crate) struct ServerCounts {
    pub(crate) ready: usize,
    pub(crate) connecting: usize,
    pub(crate) failed: usize,
    pub(crate) disabled: usize,
    pub(crate) misconfigured: usize,
    pub(crate) needs_sign_in: usize,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct SettingsState {
    /// The path of the settings file, whether it exists or not.
    pub(crate) path: String,
    /// True if the settings file exists. Without one, the gateway runs the demo server.
    pub(crate) exists: bool,
    /// The published version in force, with `operator_files: "database"`. 0 if nothing is published yet. `null` if contracts,
    /// policies and settings come from the folder.
    pub(crate) version: Option<i64>,
    /// Errors in the newest settings, contracts or policies. The previous ones remain active.
    pub(crate) error: Option<String>,
    /// The same errors, one by one, with their positions.
    pub(crate) mistakes: Vec<FileMistake>,
    /// Settings that have no effect or need attention, such as keys of another client.
    pub(crate) warnings: Vec<String>,
    /// Changes that wait for a user, because they weaken contracts, policies or settings.
    pub(crate) held: Option<HeldChanges>,
}

/// An error in a file of the operator.
#[derive(Serialize, ToSchema)]
pub(crate) struct FileMistake {
    /// `null` for an error that concerns no single file.
    pub(crate) file: Option<String>,
    pub(crate) line: Option<usize>,
    pub(crate) column: Option<usize>,
    pub(crate) message: String,
}

impl FileMistake {
    /// Splits a line of the form `file:line:column: message`, in which errors are kept for editors.
    pub(crate) fn parse(text: &str) -> Self {
        let (place, message) = text.split_once(": ").unwrap_or(("", text));
        let mut parts = place.rsplitn(3, ':');
        let (column, line, file) = (parts.next(), parts.next(), parts.next());
        let number = |part: Option<&str>| part.and_then(|part| part.parse::<usize>().ok());
        match (file, number(line), number(column)) {
            (Some(file), Some(line), Some(column)) => Self {
                file: Some(file.to_owned()),
                line: Some(line),
                column: Some(column),
                message: message.to_owned(),
            },
            _ => Self { file: None, line: None, column: None, message: text.to_owned() },
        }
    }
}

/// The servers after a reload, and what the reload left out.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReloadedFiles {
    pub(crate) servers: Vec<Server>,
    /// Changes that wait for a user, because they weaken contracts, policies or settings.
    pub(crate) held: Option<HeldChanges>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Servers {
    pub(crate) servers: Vec<Server>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Log {
    pub(crate) lines: Vec<String>,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Restart {
    pub(crate) name: String,
    pub(crate) state: &'static str,
}

#[derive(Serialize, ToSchema)]
pub(crate) struct Tools {
    pub(crate) tools: Vec<Value>,
}

/// The shape of all errors: `{"error": {"code", "message", "hint"}}`.
#[derive(Serialize, ToSchema)]
pub(crate) struct Error {
    error: ErrorBody,
}

#[derive(Serialize, ToSchema)]
struct ErrorBody {
    /// A stable code for programs.
    code: &'static str,
    /// Description of the error.
    message: String,
    /// Advice for the next step.
    hint: String,
    /// More for programs. `step_up_required` has `factors` here.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[schema(value_type = Object)]
    details: Option<Value>,
}

impl Error {
    pub(crate) fn new(code: &'static str, message: String, hint: String) -> Self {
        Self { error: ErrorBody { code, message, hint, details: None } }
    }

    pub(crate) fn with_details(mut self, details: Option<Value>) -> Self {
        self.error.details = details;
        self
    }

    pub(crate) fn response(self, status: StatusCode) -> Response {
        (status, Json(self)).into_response()
    }
}

const LOG_STATES: [&str; 2] = ["ok", "unavailable"];

fn log_states() -> Object {
    words("`unavailable` while records cannot be written. The gateway refuses calls meanwhile.", LOG_STATES)
}

fn server_states() -> Object {
    words(
        "`waiting`: it failed, and the gateway tries again. `misconfigured`: its settings have a mistake. `needs_sign_in`: \
         it asks for OAuth, and a user has to sign in.",
        StateName::ALL.map(StateName::as_str),
    )
}

fn operations() -> Object {
    words("The `call_tool_*` variant.", Variant::ALL.map(Variant::operation))
}

fn operations_or_null() -> Object {
    words_or_null("The operation type that the agent declared.", Variant::ALL.map(Variant::operation))
}

fn risks_or_null() -> Object {
    words_or_null("The risk level of the tool.", RiskLevel::ALL.map(RiskLevel::as_str))
}

fn kinds() -> Object {
    words("The type of the record.", Kind::ALL.map(Kind::as_str))
}

fn statuses() -> Object {
    words("The status. `started` means that the call is still running.", RecordStatus::ALL.map(RecordStatus::as_str))
}

fn words<const N: usize>(about: &str, words: [&'static str; N]) -> Object {
    ObjectBuilder::new().schema_type(Type::String).description(Some(about)).enum_values(Some(words)).build()
}

fn words_or_null<const N: usize>(about: &str, words: [&'static str; N]) -> Object {
    let values = words.map(Value::from).into_iter().chain([Value::Null]);
    let types = SchemaType::from_iter([Type::String, Type::Null]);
    ObjectBuilder::new().schema_type(types).description(Some(about)).enum_values(Some(values)).build()
}

#[expect(clippy::cast_precision_loss, reason = "a duration of more than 142 years may lose its last microsecond")]
fn milliseconds(duration_us: u64) -> f64 {
    duration_us as f64 / 1000.0
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mistakes_have_a_position() {
        let check = |text: &str, place: Option<(&str, usize, usize)>, message: &str| {
            let found = FileMistake::parse(text);
            let expected = (place.map(|at| at.0.to_owned()), place.map(|at| at.1), place.map(|at| at.2));
            assert_eq!((found.file, found.line, found.column), expected, "{text}");
            assert_eq!(found.message, message);
        };
        check("/a b/x.json:3:14: bad: value", Some(("/a b/x.json", 3, 14)), "bad: value");
        check("/a:b/x.json:3:14: bad", Some(("/a:b/x.json", 3, 14)), "bad");
        check("contracts/ is gone. Its contracts remain", None, "contracts/ is gone. Its contracts remain");
        check("/x.json: permission denied", None, "/x.json: permission denied");
    }
}
