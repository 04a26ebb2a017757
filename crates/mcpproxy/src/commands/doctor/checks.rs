//! The checks: one row each, in the order in which a person would look.
//!
//! Each file in `checks/` has the checks of one subject. A code never changes its meaning, because scripts match it. A check returns at least one finding: `ok` if nothing is
//! wrong, and `skipped` if it could not look.

mod approvals;
mod clients;
mod files;
mod gateway;
mod servers;

use serde::Serialize;
use serde_json::Value;

use self::approvals::{approvals, elicitation, users};
use self::clients::{clients, installed, local_token, tokens};
use self::files::{file_modes, held, missing, refused, settings};
use self::gateway::{certificate, chain, drift, gateway, log, port, storage};
use self::servers::{down, hidden_tools, misconfigured, sign_ins, to_review, unasked};
use super::facts::{Facts, GatewayFacts, StorageFacts, StorageState};
use crate::terminal::output::line;
use crate::terminal::style::Tone;

/// Said by a check that cannot look before the settings are valid.
const NEEDS_SETTINGS: &str = "needs valid settings";

/// A check with its stable code.
pub(crate) struct Check {
    pub(crate) code: &'static str,
    pub(crate) title: &'static str,
    pub(crate) run: fn(&Facts) -> Vec<Finding>,
    /// `status` shows the findings too.
    pub(crate) is_in_status: bool,
}

/// The result of a check, or one problem that it found.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Finding {
    pub(crate) result: Outcome,
    /// The server, agent or file that the finding is about.
    pub(crate) subject: Option<String>,
    /// The meaning, for a person.
    pub(crate) message: String,
    /// The next step.
    pub(crate) next: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize)]
pub(crate) enum Outcome {
    #[serde(rename = "ok")]
    Ok,
    #[serde(rename = "skipped")]
    Skipped,
    #[serde(rename = "warn")]
    Warning,
    #[serde(rename = "error")]
    Error,
}

impl Outcome {
    /// Returns a mark and a word.
    pub(crate) fn words(self) -> &'static str {
        match self {
            Self::Ok => "✓ ok",
            Self::Skipped => "- skip",
            Self::Warning => "! warn",
            Self::Error => "✗ error",
        }
    }

    pub(crate) fn tone(self) -> Tone {
        match self {
            Self::Ok => Tone::Good,
            Self::Skipped => Tone::Dim,
            Self::Warning => Tone::Warning,
            Self::Error => Tone::Bad,
        }
    }
}

pub(crate) const CHECKS: &[Check] = &[
    Check { code: "settings_invalid", title: "Settings, contracts and policies", run: settings, is_in_status: true },
    Check { code: "settings_refused", title: "Settings of the running gateway", run: refused, is_in_status: true },
    Check { code: "files_missing", title: "Files of the last run", run: missing, is_in_status: true },
    Check { code: "weakening_held", title: "Changes that wait for a user", run: held, is_in_status: true },
    Check { code: "file_mode", title: "Permissions of files", run: file_modes, is_in_status: false },
    Check { code: "gateway_stopped", title: "Running gateway", run: gateway, is_in_status: false },
    Check { code: "port_in_use", title: "Port", run: port, is_in_status: true },
    Check { code: "certificate_expired", title: "Certificate", run: certificate, is_in_status: true },
    Check { code: "storage_unreachable", title: "Database", run: storage, is_in_status: true },
    Check { code: "log_unavailable", title: "Activity log", run: log, is_in_status: true },
    Check { code: "gateways_differ", title: "Gateways of this database", run: drift, is_in_status: true },
    Check { code: "chain_damaged", title: "Chain of the activity log", run: chain, is_in_status: false },
    Check { code: "server_misconfigured", title: "Settings of servers", run: misconfigured, is_in_status: true },
    Check { code: "server_needs_sign_in", title: "Sign-ins at servers", run: sign_ins, is_in_status: true },
    Check { code: "server_down", title: "Connections to servers", run: down, is_in_status: true },
    Check { code: "tool_hidden", title: "Offered tools", run: hidden_tools, is_in_status: true },
    Check { code: "no_approver", title: "User accounts", run: users, is_in_status: true },
    Check { code: "review_waiting", title: "Definitions to review", run: to_review, is_in_status: true },
    Check { code: "destructive_unasked", title: "Destructive tools", run: unasked, is_in_status: true },
    Check { code: "approval_waiting", title: "Approval requests", run: approvals, is_in_status: false },
    Check { code: "elicitation_declined", title: "Prompts in clients", run: elicitation, is_in_status: false },
    Check { code: "client_revision", title: "Connected clients", run: clients, is_in_status: false },
    Check { code: "client_not_connected", title: "Installed clients", run: installed, is_in_status: false },
    Check { code: "token_revoked", title: "Token of the local agent", run: local_token, is_in_status: true },
    Check { code: "token_unused", title: "Agent tokens", run: tokens, is_in_status: false },
];

fn ok(message: impl Into<String>) -> Vec<Finding> {
    vec![Finding { result: Outcome::Ok, subject: None, message: message.into(), next: None }]
}

fn skipped(message: impl Into<String>) -> Vec<Finding> {
    vec![Finding { result: Outcome::Skipped, subject: None, message: message.into(), next: None }]
}

fn found(result: Outcome, message: impl Into<String>, next: impl Into<String>) -> Finding {
    Finding { result, subject: None, message: message.into(), next: Some(next.into()) }
}

fn about(subject: &str, finding: Finding) -> Finding {
    Finding { subject: Some(line(subject)), ..finding }
}

/// Returns the findings, or `ok` if there are none.
fn or_ok(findings: Vec<Finding>, message: impl Into<String>) -> Vec<Finding> {
    if findings.is_empty() { ok(message) } else { findings }
}

/// Runs a check that needs the running gateway.
fn with_gateway(facts: &Facts, run: impl Fn(&GatewayFacts) -> Vec<Finding>) -> Vec<Finding> {
    match &facts.gateway {
        Ok(Some(gateway)) => run(gateway),
        Ok(None) => skipped("needs a running gateway"),
        Err(_) => skipped("needs a gateway that answers"),
    }
}

fn text<'v>(value: &'v Value, name: &str) -> Option<&'v str> {
    value.get(name).and_then(Value::as_str)
}

/// Runs a check that needs the database.
fn with_storage(facts: &Facts, run: impl Fn(&StorageFacts) -> Vec<Finding>) -> Vec<Finding> {
    match &facts.storage {
        StorageState::Open(storage) => run(storage),
        StorageState::NeedsSettings => skipped(NEEDS_SETTINGS),
        StorageState::Missing | StorageState::Unreachable(_) => skipped("needs the database"),
    }
}
