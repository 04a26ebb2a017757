//! What the document says about each route, in words.

mod people;

use http::StatusCode;
use serde_json::{Value, json};
use utoipa::PartialSchema as _;
use utoipa::openapi::RefOr;
use utoipa::openapi::schema::{Object, Schema, Type};

use super::reference;
use crate::rest::endpoint::Endpoint;
use crate::wire;

pub(super) struct About {
    /// The name of the operation, for programs that are made from the document.
    pub(super) name: &'static str,
    pub(super) group: &'static str,
    pub(super) summary: &'static str,
    pub(super) description: &'static str,
    pub(super) answers: Vec<(StatusCode, &'static str, Body)>,
}

/// What an answer consists of.
pub(super) enum Body {
    Json(fn() -> RefOr<Schema>),
    /// One of these types.
    Text(&'static [&'static str]),
}

const HEALTH: &str = "Health";
const SERVERS: &str = "Servers and tools";
const CONTRACTS: &str = "Contracts";
const ACTIVITY: &str = "Activity log";
const INTERFACE: &str = "This interface";

pub(super) fn about(endpoint: Endpoint) -> About {
    match endpoint {
        Endpoint::Health | Endpoint::Ready | Endpoint::Status => about_health(endpoint),
        Endpoint::Servers
        | Endpoint::ServerLog
        | Endpoint::RestartServer
        | Endpoint::Tools
        | Endpoint::SearchTools
        | Endpoint::Tool
        | Endpoint::ExplainCall => about_servers(endpoint),
        Endpoint::Contracts | Endpoint::Contract | Endpoint::LintContracts | Endpoint::DraftContracts => {
            about_contracts(endpoint)
        }
        Endpoint::Activity
        | Endpoint::ActivityRecord
        | Endpoint::ActivitySummary
        | Endpoint::ExportActivity
        | Endpoint::Events => about_activity(endpoint),
        Endpoint::Approvals
        | Endpoint::Approval
        | Endpoint::WholeApproval
        | Endpoint::ApprovalStatus
        | Endpoint::Approve
        | Endpoint::Deny
        | Endpoint::Grants
        | Endpoint::MakeGrant
        | Endpoint::RevokeGrant
        | Endpoint::LogIn
        | Endpoint::LogOut => people::about(endpoint),
        Endpoint::OpenApi | Endpoint::Docs => about_interface(endpoint),
    }
}

/// What the route is sent, with an example.
pub(super) fn body(endpoint: Endpoint) -> Option<(RefOr<Schema>, Value)> {
    match endpoint {
        Endpoint::ExplainCall => Some((
            reference::<wire::ExplainCall>(),
            json!({"variant": "destructive", "parameters": {"name": "demo:delete_user", "args": {"id": "1"}}}),
        )),
        _ => people::body(endpoint),
    }
}

fn ok(description: &'static str, body: Body) -> Vec<(StatusCode, &'static str, Body)> {
    vec![(StatusCode::OK, description, body)]
}

fn about_health(endpoint: Endpoint) -> About {
    let (name, summary, description, answers) = match endpoint {
        Endpoint::Ready => (
            "ready",
            "Whether calls are taken",
            "Ready is a gateway whose servers have all connected or failed once, and whose log takes records. While the \
             log cannot be written, no call is sent.",
            vec![
                (StatusCode::OK, "Ready.", Body::Json(reference::<wire::Readiness>)),
                (StatusCode::SERVICE_UNAVAILABLE, "Not ready, and why.", Body::Json(reference::<wire::Readiness>)),
            ],
        ),
        Endpoint::Status => (
            "status",
            "The gateway and how it is",
            "Version, address, counts of servers and tools, what is wrong with the settings, and whether the log works.",
            ok("How it is.", Body::Json(reference::<wire::Status>)),
        ),
        _ => (
            "health",
            "Whether the gateway runs",
            "Always the same, as long as there is an answer.",
            ok("It runs.", Body::Json(reference::<wire::Health>)),
        ),
    };
    About { name, group: HEALTH, summary, description, answers }
}

fn about_servers(endpoint: Endpoint) -> About {
    let tools = || Body::Json(reference::<wire::Tools>);
    let (name, summary, description, answers) = match endpoint {
        Endpoint::ServerLog => (
            "server_log",
            "What a server wrote to standard error",
            "The newest lines, oldest first.",
            ok("The lines.", Body::Json(reference::<wire::Log>)),
        ),
        Endpoint::RestartServer => (
            "restart_server",
            "Restart a server",
            "The answer does not wait for the server; its state is in the list of servers.",
            vec![(StatusCode::ACCEPTED, "It is being restarted.", Body::Json(reference::<wire::Restart>))],
        ),
        Endpoint::Tools => {
            ("tools", "Tools with their schemas", "Of all servers, or of one.", ok("The tools.", tools()))
        }
        Endpoint::SearchTools => (
            "search_tools",
            "Find tools by words",
            "The best first, in brief: what an agent that may see everything finds. When no tool fits, `note` says why.",
            ok("The tools.", Body::Json(reference::<wire::FoundTools>)),
        ),
        Endpoint::Tool => (
            "tool",
            "One tool",
            "With the server's own words in full.",
            ok("The tool.", Body::Json(|| RefOr::T(Schema::Object(Object::with_type(Type::Object))))),
        ),
        Endpoint::ExplainCall => (
            "explain_call",
            "What would become of a call",
            "Every check a call would pass, in order, and how each would end. Nothing is sent.",
            ok("The checks.", Body::Json(reference::<wire::Explanation>)),
        ),
        _ => (
            "servers",
            "Servers and their state",
            "Each with the reason if it is not ready.",
            ok("The servers.", Body::Json(reference::<wire::Servers>)),
        ),
    };
    About { name, group: SERVERS, summary, description, answers }
}

fn about_contracts(endpoint: Endpoint) -> About {
    let (name, summary, description, answers) = match endpoint {
        Endpoint::Contract => (
            "contract",
            "The contract of a tool",
            "What is enforced for it, and for each field who said so. Forbidden tools are shown too, and marked: agents \
             cannot tell them from tools that do not exist.",
            ok("The contract.", Body::Json(reference::<wire::Contract>)),
        ),
        Endpoint::LintContracts => (
            "lint_contracts",
            "What is doubtful about contracts",
            "The operator's contracts and the servers' own, held against the tools they are for.",
            ok("The findings.", Body::Json(reference::<wire::Lint>)),
        ),
        Endpoint::DraftContracts => (
            "draft_contracts",
            "A first contract file for a server",
            "Made from the schemas, annotations and names of its tools. Nothing of it counts before somebody puts it \
             into `contracts/`.",
            ok("The draft.", Body::Json(reference::<wire::Draft>)),
        ),
        _ => (
            "contracts",
            "Which tools have a contract",
            "Every tool with its risk level and who gave it, the forbidden ones too.",
            ok("The tools, and how many of each server.", Body::Json(reference::<wire::Contracts>)),
        ),
    };
    About { name, group: CONTRACTS, summary, description, answers }
}

fn about_activity(endpoint: Endpoint) -> About {
    let (name, summary, description, answers) = match endpoint {
        Endpoint::ActivityRecord => (
            "activity_record",
            "One record",
            "With its arguments and result, as far as they are kept. Answers to agents name their record in \
             `_meta[\"mcpproxy/record\"]`.",
            ok("The record.", Body::Json(reference::<wire::WholeActivity>)),
        ),
        Endpoint::ActivitySummary => (
            "activity_summary",
            "How many of what, and how long they took",
            "Counts by type, status, intent, risk, server and tool, and how long half of the calls and 95 of 100 took. It \
             is about whole hours: those that `since` and `until` lie in.",
            ok("The counts.", Body::Json(reference::<wire::Summary>)),
        ),
        Endpoint::ExportActivity => (
            "export_activity",
            "All records at once",
            "The same records as the list, newest first, in one answer of any length. An answer that breaks off is not \
             whole.",
            ok("The records.", Body::Text(&["application/x-ndjson", "text/csv"])),
        ),
        Endpoint::Events => (
            "events",
            "Records as they are written",
            "Server-Sent Events named `activity`. Each holds a record as the list shows it: a call when it began and again \
             when it ended, or once if both happened at once. The `id` of an event is the place to go on from.",
            ok("The events, until one side ends.", Body::Text(&["text/event-stream"])),
        ),
        _ => (
            "activity",
            "Records, newest first",
            "All filters that are given must fit. `next` is the cursor of the next page; there is one as long as it is not \
             null, also behind a page that is short or empty.",
            ok("A page.", Body::Json(reference::<wire::Activities>)),
        ),
    };
    About { name, group: ACTIVITY, summary, description, answers }
}

fn about_interface(endpoint: Endpoint) -> About {
    let (name, summary, description, answers) = match endpoint {
        Endpoint::Docs => (
            "docs",
            "This document for people",
            "One page that needs nothing from elsewhere.",
            ok("The page.", Body::Text(&["text/html"])),
        ),
        _ => (
            "openapi",
            "This document for programs",
            "OpenAPI 3.1.",
            ok("The document.", Body::Json(serde_json::Value::schema)),
        ),
    };
    About { name, group: INTERFACE, summary, description, answers }
}

/// Errors that only this route has.
pub(super) fn own_refusals(endpoint: Endpoint) -> Vec<(StatusCode, &'static str)> {
    const UNREADABLE: (StatusCode, &str) = (StatusCode::SERVICE_UNAVAILABLE, "The log cannot be read at the moment.");
    const NO_SERVER: (StatusCode, &str) = (StatusCode::NOT_FOUND, "No such server.");
    match endpoint {
        Endpoint::Health
        | Endpoint::Ready
        | Endpoint::Status
        | Endpoint::Servers
        | Endpoint::Contracts
        | Endpoint::LintContracts
        | Endpoint::OpenApi
        | Endpoint::Docs => Vec::new(),
        Endpoint::ServerLog | Endpoint::RestartServer | Endpoint::Tools | Endpoint::SearchTools => vec![NO_SERVER],
        Endpoint::Tool | Endpoint::Contract => vec![(StatusCode::NOT_FOUND, "No such tool.")],
        Endpoint::DraftContracts => {
            vec![NO_SERVER, (StatusCode::SERVICE_UNAVAILABLE, "The server is not connected.")]
        }
        Endpoint::ExplainCall => vec![
            (StatusCode::NOT_FOUND, "No such agent."),
            (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large."),
            (StatusCode::SERVICE_UNAVAILABLE, "The server of the tool is not connected."),
        ],
        Endpoint::ActivityRecord => vec![
            (StatusCode::BAD_REQUEST, "More than one record begins like this."),
            (StatusCode::NOT_FOUND, "No such record."),
            UNREADABLE,
        ],
        Endpoint::Activity | Endpoint::ActivitySummary | Endpoint::ExportActivity | Endpoint::Events => {
            vec![UNREADABLE]
        }
        Endpoint::Approvals
        | Endpoint::Approval
        | Endpoint::WholeApproval
        | Endpoint::ApprovalStatus
        | Endpoint::Approve
        | Endpoint::Deny
        | Endpoint::Grants
        | Endpoint::MakeGrant
        | Endpoint::RevokeGrant
        | Endpoint::LogIn
        | Endpoint::LogOut => people::own_refusals(endpoint),
    }
}

/// What stands for this part of a path.
pub(super) fn placeholder(name: &str) -> &'static str {
    match name {
        "id" => "The id of a record, or as much of its beginning as no other has.",
        "tool" => "The name of a tool, without its server.",
        "approval" => "The id of an approval.",
        "grant" => "The id of a grant.",
        _ => "The name of a server.",
    }
}

pub(super) fn placeholder_example(name: &str) -> &'static str {
    match name {
        "id" => "01K9ZQ4B2R",
        "tool" => "delete_user",
        "approval" | "grant" => "01K9ZQ4B2R0000000000000000",
        _ => "demo",
    }
}
