//! The running gateway: serves agents, connects to servers, decides and records calls, and reloads settings.
//!
//! From top to bottom, each module may use those below it and never one above:
//!
//! | module | purpose |
//! |---|---|
//! | `downstream` | speaks MCP with agents, over HTTP and standard input |
//! | `gateway` | the public handle: start, reload, stop, and views for operators |
//! | `replicas` | sessions, answers and cancellations that other gateways opened or wait for |
//! | `call` | the path of a tool call, from request to answer |
//! | `trust` | judges what servers list, and lets users review it |
//! | `state` | state that all requests share |
//! | `approvals` | approval requests, standing approvals, notifications |
//! | `views` | tools and contracts as JSON for agents and operators |
//! | `members` | the gateways that share a database, and the differences between them |
//! | `held` | changes of the operator's files that wait for a user |
//! | `trusted` | how servers came into the settings, and the rules that follow |
//! | `snapshot`, `record`, `answer` | settings, catalog and index at one moment; log records; own results |
//! | `encoding` | gives tools their vectors for the search, in the background |
//! | `export` | copies records to a file or an endpoint, for a SIEM |
//! | `telemetry` | exports spans of calls and the program's log over OTLP |
//! | `replay`, `tool_lists` | recorded calls under other rules; the tools that servers listed last |
//! | `upstream` | speaks MCP with servers and keeps them connected |
//! | `oauth` | signs the gateway in to servers that ask for it, and keeps their tokens valid |
//! | `agents` | tokens, sessions, open requests, listeners, and what each agent uses |
//! | `bus` | messages between gateways that share a database |
//! | `fair_pool` | shares slots and memory fairly between agents |
//! | `versions` | the published version of the settings that is in force |
//! | `sensitive`, `headers`, `event_stream`, `events`, `in_progress`, `message`, `meter`, `protocol`, `reloader`, `offload`, `pace`, `crash` | small helpers |

mod agents;
mod answer;
mod approvals;
mod bus;
mod call;
mod contract_changes;
mod crash;
mod downstream;
mod encoding;
mod event_stream;
mod events;
mod export;
mod fair_pool;
mod gateway;
mod headers;
mod held;
mod in_progress;
mod kept_answers;
mod members;
mod message;
mod meter;
mod oauth;
mod offload;
mod own_file;
mod pace;
mod protocol;
mod record;
mod reloader;
mod replay;
mod replicas;
mod said_by;
mod sensitive;
mod snapshot;
mod state;
mod status;
mod telemetry;
mod tool_lists;
mod trust;
mod trusted;
mod upstream;
mod versions;
mod views;

pub use approvals::{
    ApprovalDetails, ApprovalNotice, ApprovalView, Approvals, Decider, DecisionResult, FailedDryRun, NotDecided,
    NotGranted, ShownStandingApproval, StandingResult, StatedRisk, WantedStandingApproval,
};
pub use downstream::{router, serve_stdio};
pub use event_stream::{Event, EventError, EventReader};
pub use events::{GatewayEvent, ReloadSummary};
pub use export::ExportReadings;
pub use gateway::{
    Draft, DraftError, DryRunReport, DryRunResult, EncoderReadings, ExplainError, Gateway, GatewayReadings, History,
    LOG_VERIFIED, Lint, ListedTool, LockOf, LockView, NotRestarted, Options, PolicyResult, Reasons, ReplayError,
    SearchResults, Verification, WhatIf, fully_verified_ms, version,
};
pub use headers::header_value;
pub use held::HeldChanges;
pub use members::{Cluster, Drift, Introduction, Member, Part};
pub use oauth::{
    Callback, SignInAnswer, SignInError, SignInKind, SignInProgress, SignInSession, SignInStarted, SignInState,
    StartedFrom,
};
pub use offload::aside;
pub use reloader::{CheckedFiles, Confirmation, Confirmed, ReloadRequest, ReloadRequests, Reloaded, Reloader};
pub use replay::{Period, replay, rules};
pub use said_by::SaidBy;
pub use snapshot::Files;
pub use status::{ClientStatus, ServerStatus, StateName};
pub use telemetry::{EXPORT_TARGET, OtlpError, OtlpSettings, Outbox, Telemetry};
pub use tool_lists::ToolLists;
pub use trust::{Rejection, Review, ReviewEntry, ReviewError, ReviewOf};
pub use upstream::end_orphans;
