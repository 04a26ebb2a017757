//! A server's reply, checked against the tool's contract.

use std::time::Duration;

use mcpproxy_core::json::{members, quote};
use mcpproxy_core::schema::Problem;
use mcpproxy_core::{Failure, Mismatch, Mode, Tool, Warning, check_result};
use mcpproxy_store::{Outcome, Status};
use serde_json::{Value, json};

use super::claims::StoredAnswer;
use crate::answer::error_result;
use crate::message::{Members, Reply, RpcError, field};
use crate::offload::offload;
use crate::sensitive::Sensitive;
use crate::upstream::UpstreamError;

/// Key in `_meta` for the failure that the contract makes of an error.
pub(super) const FAILURE_KEY: &str = "mcpproxy/failure";
/// Code of a result that violates the output schema.
const OUTPUT_MISMATCH: &str = "output_mismatch";

pub(super) struct CheckedReply {
    reply: ServerReply,
    /// The contract's name for the error, if the reply is one.
    failure: Option<Failure>,
    mismatch: Option<Mismatch>,
}

/// The kinds of replies that a call can get.
enum ServerReply {
    Result(String),
    /// A result with `isError: true`.
    ErrorResult(String),
    /// The server asks for more input before it makes the call.
    InputRequired(String),
    Error(RpcError),
    /// There is no reply.
    Failed(UpstreamError),
}

/// The reply as the agent gets it.
pub(super) enum FinalReply {
    Result {
        result: String,
        failure: Option<String>,
    },
    /// The result violates the output schema, and the contract is strict about it.
    Replaced {
        code: &'static str,
        message: String,
        details: Value,
    },
    Error(RpcError),
    Failed(UpstreamError),
}

impl ServerReply {
    fn of(result: String) -> Self {
        let fields = members(&result).unwrap_or_default();
        let (is_error, asks_only) = (field(&fields, "isError") == Some("true"), asks_only(&fields));
        match (is_error, asks_only) {
            (true, _) => Self::ErrorResult(result),
            (false, true) => Self::InputRequired(result),
            (false, false) => Self::Result(result),
        }
    }
}

impl CheckedReply {
    pub(super) fn new(tool: &Tool, reply: Result<Reply, UpstreamError>) -> Self {
        let reply = match reply {
            Ok(Ok(result)) => ServerReply::of(result),
            Ok(Err(error)) => ServerReply::Error(error),
            Err(error) => ServerReply::Failed(error),
        };
        let (failure, mismatch) = match &reply {
            ServerReply::Result(result) => (None, offload(result.len(), || check_result(tool, result)).err()),
            ServerReply::ErrorResult(result) => (Failure::of_result(tool, result), None),
            ServerReply::Error(error) => (Failure::of_error(tool, error.code, error.data.as_deref()), None),
            ServerReply::InputRequired(_) | ServerReply::Failed(_) => (None, None),
        };
        Self { reply, failure, mismatch }
    }

    /// Describes how the call ended, for its record.
    pub(super) fn outcome(&self, tool: &Tool, mode: Mode, sensitive: &Sensitive, took: Duration) -> Outcome {
        let (status, code, message, result) = match &self.reply {
            ServerReply::Result(result) | ServerReply::InputRequired(result) => {
                let status = if self.replaced_for().is_some() { Status::Error } else { Status::Success };
                (status, None, None, Some(sensitive.result(result)))
            }
            ServerReply::ErrorResult(result) => (Status::Error, None, None, Some(sensitive.result(result))),
            ServerReply::Error(error) => {
                (Status::Error, Some(error.code.to_string()), Some(error.message.clone()), Some(sensitive.error(error)))
            }
            ServerReply::Failed(error @ UpstreamError::Cancelled) => {
                (Status::Cancelled, Some(error.code().to_owned()), Some(error.to_string()), None)
            }
            ServerReply::Failed(error) => {
                let unknown = if error.outcome_is_unknown() { "; the server may have run the call" } else { "" };
                (Status::Error, Some(error.code().to_owned()), Some(format!("{error}{unknown}")), None)
            }
        };
        let own = self.failure.as_ref().map(|failure| failure.code().to_owned());
        let own = own.or_else(|| self.mismatch.as_ref().map(|_| OUTPUT_MISMATCH.to_owned()));
        let message = message.or_else(|| self.mismatch.as_ref().map(|mismatch| mismatch_text(mismatch, tool)));
        let message = message.map(|message| sensitive.sentence(message));
        let duration_us = Some(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let failure = self.failure.as_ref().map(|failure| json!({"failure": failure_json(failure)}).to_string());
        let event = self.audit_event(tool, mode).map(|event| format!("{{\"audit_event\":{}}}", quote(event)));
        let metadata = failure.or(event);
        Outcome { status, code: own.or(code), message, duration_us, result, metadata }
    }

    /// Returns the contract's `auditEvent`, if it happened: the server made the call and not a dry run of it, and the
    /// agent got the result.
    fn audit_event<'t>(&self, tool: &'t Tool, mode: Mode) -> Option<&'t str> {
        let is_made = match (&self.reply, mode) {
            (ServerReply::Result(_), Mode::Real) => self.replaced_for().is_none(),
            (ServerReply::Result(_), Mode::DryRun) => false,
            (
                ServerReply::ErrorResult(_)
                | ServerReply::InputRequired(_)
                | ServerReply::Error(_)
                | ServerReply::Failed(_),
                _,
            ) => false,
        };
        tool.contract.audit_event.as_ref().filter(|_| is_made).map(|event| event.value.as_str())
    }

    /// Returns the answer to store for repeats of the call.
    pub(super) fn stored(&self, tool: &Tool) -> StoredAnswer<'_> {
        let failure = || self.failure.as_ref().map(|failure| failure_json(failure).to_string());
        match &self.reply {
            ServerReply::Result(result) => match self.replaced_for() {
                Some(mismatch) => StoredAnswer::Replaced(error_result(
                    OUTPUT_MISMATCH,
                    &replaced_text(mismatch, tool),
                    &replaced_details(mismatch, tool),
                    None,
                )),
                None => StoredAnswer::Result { result, is_error: false, failure: failure() },
            },
            // Not an answer yet: the call comes again with the agent's input, under the same key. That is also true of a
            // request for input that is marked as an error.
            ServerReply::InputRequired(result) => StoredAnswer::InputRequired(result),
            ServerReply::ErrorResult(result) if requires_input(result) => StoredAnswer::InputRequired(result),
            ServerReply::ErrorResult(result) => StoredAnswer::Result { result, is_error: true, failure: failure() },
            ServerReply::Error(error) => StoredAnswer::Error(Box::new(with_failure(error.clone(), failure()))),
            ServerReply::Failed(error) if error.outcome_is_unknown() => StoredAnswer::Unknown,
            ServerReply::Failed(_) => StoredAnswer::NotSent,
        }
    }

    /// Returns the warning for a result that violates the output schema, where the contract only warns.
    pub(super) fn warnings(&self, tool: &Tool) -> Option<Warning> {
        let mismatch = self.mismatch.as_ref().filter(|mismatch| !mismatch.is_strict)?;
        Some(Warning { code: OUTPUT_MISMATCH, message: mismatch_text(mismatch, tool) })
    }

    pub(super) fn into_final(self, tool: &Tool) -> FinalReply {
        let failure = self.failure.as_ref().map(|failure| failure_json(failure).to_string());
        match self.reply {
            ServerReply::Result(result) => match self.mismatch.filter(|mismatch| mismatch.is_strict) {
                Some(mismatch) => FinalReply::Replaced {
                    code: OUTPUT_MISMATCH,
                    message: replaced_text(&mismatch, tool),
                    details: replaced_details(&mismatch, tool),
                },
                None => FinalReply::Result { result, failure },
            },
            ServerReply::ErrorResult(result) | ServerReply::InputRequired(result) => {
                FinalReply::Result { result, failure }
            }
            ServerReply::Error(error) => FinalReply::Error(with_failure(error, failure)),
            ServerReply::Failed(error) => FinalReply::Failed(error),
        }
    }

    /// Returns the mismatch because of which the agent does not get the result.
    fn replaced_for(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref().filter(|mismatch| mismatch.is_strict)
    }
}

fn mismatch_text(mismatch: &Mismatch, tool: &Tool) -> String {
    let first = mismatch.problems.first().map(|problem| format!(": {problem}")).unwrap_or_default();
    let more = match mismatch.problems.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    format!("The result of '{}' does not match its output schema{first}{more}", tool.name)
}

fn replaced_text(mismatch: &Mismatch, tool: &Tool) -> String {
    format!("{}. The call was made, so do not repeat it.", mismatch_text(mismatch, tool))
}

fn replaced_details(mismatch: &Mismatch, tool: &Tool) -> Value {
    let problem = |one: &Problem| json!({"pointer": one.pointer, "expected": one.expected, "found": one.found});
    let problems: Vec<Value> = mismatch.problems.iter().map(problem).collect();
    json!({"tool": tool.name.to_string(), "problems": problems})
}

fn failure_json(failure: &Failure) -> Value {
    match failure {
        Failure::Declared(code) => json!({"code": code, "declared": true}),
        Failure::Undeclared { original } => {
            json!({"code": failure.code(), "declared": false, "original": original})
        }
    }
}

fn with_failure(error: RpcError, failure: Option<String>) -> RpcError {
    match failure {
        Some(failure) => error.with_key(FAILURE_KEY, &failure),
        None => error,
    }
}

/// Returns true if the reply contains a request for input and nothing else. Otherwise a single member in a result would
/// let the rest of it pass unchecked.
fn requires_input(result: &str) -> bool {
    members(result).is_some_and(|fields| asks_only(&fields))
}

fn asks_only(fields: &Members<'_>) -> bool {
    field(fields, "resultType") == Some("\"input_required\"")
        && field(fields, "content").is_none()
        && field(fields, "structuredContent").is_none()
}
