//! What a tool's contract makes of its server's answer, once it is there.

use std::time::Duration;

use mcpproxy_core::json::members;
use mcpproxy_core::{Failure, Mismatch, Tool, Warning, check_result};
use mcpproxy_store::{Outcome, Status};
use serde_json::{Value, json};

use crate::call::error_result;
use crate::heavy::heavy;
use crate::message::{RpcError, field, member};
use crate::repeats::Kept;
use crate::sensitive::Sensitive;
use crate::upstream::{Reply, UpstreamError};

/// Under this key an answer says what its failure is under the contract.
pub(crate) const FAILURE_KEY: &str = "mcpproxy/failure";
/// The code of a result that is not what was promised.
const OUTPUT_MISMATCH: &str = "output_mismatch";

/// A server's answer, held against the contract.
pub(crate) struct Judged {
    answer: Result<Reply, UpstreamError>,
    failure: Option<Failure>,
    mismatch: Option<Mismatch>,
}

impl Judged {
    pub(crate) fn new(tool: &Tool, answer: Result<Reply, UpstreamError>) -> Self {
        let (failure, mismatch) = match &answer {
            Ok(Ok(result)) if is_error(result) => (Failure::of_result(tool, result), None),
            // A server that asks back has not answered yet.
            Ok(Ok(result)) if asks_back(result) => (None, None),
            Ok(Ok(result)) => (None, heavy(result.len(), || check_result(tool, result)).err()),
            Err(_) => (None, None),
            Ok(Err(error)) => (Failure::of_error(tool, error.code, error.data.as_deref()), None),
        };
        Self { answer, failure, mismatch }
    }

    /// How the call ended, for its record.
    pub(crate) fn outcome(&self, tool: &Tool, sensitive: &Sensitive, took: Duration) -> Outcome {
        let (status, code, message, result) = match &self.answer {
            Ok(Ok(result)) if is_error(result) => (Status::Error, None, None, Some(sensitive.result(result))),
            Ok(Ok(result)) => (Status::Success, None, None, Some(sensitive.result(result))),
            Ok(Err(error)) => {
                (Status::Error, Some(error.code.to_string()), Some(error.message.clone()), Some(sensitive.error(error)))
            }
            Err(error @ UpstreamError::Cancelled) => {
                (Status::Cancelled, Some(error.code().to_owned()), Some(error.to_string()), None)
            }
            Err(error) => {
                let unknown = if error.outcome_is_unknown() { "; the server may have run it" } else { "" };
                (Status::Error, Some(error.code().to_owned()), Some(format!("{error}{unknown}")), None)
            }
        };
        let status = if self.withheld().is_some() { Status::Error } else { status };
        let own = self.failure.as_ref().map(|failure| failure.code().to_owned());
        let own = own.or_else(|| self.mismatch.as_ref().map(|_| OUTPUT_MISMATCH.to_owned()));
        let message = message.or_else(|| self.mismatch.as_ref().map(|mismatch| mismatch_words(mismatch, tool)));
        let message = message.map(|message| sensitive.sentence(message));
        let duration_us = Some(u64::try_from(took.as_micros()).unwrap_or(u64::MAX));
        let metadata = self.failure.as_ref().map(|failure| json!({"failure": failure_json(failure)}).to_string());
        Outcome { status, code: own.or(code), message, duration_us, result, metadata }
    }

    /// What a repeat of the call would get: what the first one gets.
    pub(crate) fn kept(&self, tool: &Tool) -> Kept<'_> {
        let failure = || self.failure.as_ref().map(|failure| failure_json(failure).to_string());
        match &self.answer {
            // A question of the server's is no answer yet: the call comes back with the agent's, under the same name.
            Ok(Ok(result)) if asks_back(result) => Kept::Asks(result),
            Ok(Ok(result)) => match self.withheld() {
                Some(mismatch) => Kept::Withheld(error_result(
                    OUTPUT_MISMATCH,
                    &withheld_words(mismatch, tool),
                    &withheld_details(mismatch, tool),
                    None,
                )),
                None => Kept::Result { result, is_error: is_error(result), failure: failure() },
            },
            Ok(Err(error)) => Kept::Error(Box::new(with_failure(error.clone(), failure()))),
            Err(error) if error.outcome_is_unknown() => Kept::Unknown,
            Err(_) => Kept::NotYet,
        }
    }

    fn withheld(&self) -> Option<&Mismatch> {
        self.mismatch.as_ref().filter(|mismatch| mismatch.is_strict)
    }

    /// What is worth a word beside the server's result.
    pub(crate) fn warnings(&self, tool: &Tool) -> Option<Warning> {
        let mismatch = self.mismatch.as_ref().filter(|mismatch| !mismatch.is_strict)?;
        Some(Warning { code: OUTPUT_MISMATCH, message: mismatch_words(mismatch, tool) })
    }

    /// The server's answer for the agent, or what stands in its place.
    pub(crate) fn answer(self, tool: &Tool) -> Result<Result<Answer, RpcError>, UpstreamError> {
        let failure = self.failure.as_ref().map(|failure| failure_json(failure).to_string());
        Ok(match self.answer? {
            Ok(result) => Ok(match self.mismatch.filter(|mismatch| mismatch.is_strict) {
                Some(mismatch) => Answer::Withheld {
                    code: OUTPUT_MISMATCH,
                    message: withheld_words(&mismatch, tool),
                    details: withheld_details(&mismatch, tool),
                },
                None => Answer::Result { result, failure },
            }),
            Err(error) => Err(with_failure(error, failure)),
        })
    }
}

/// What an agent gets.
pub(crate) enum Answer {
    Result {
        result: String,
        failure: Option<String>,
    },
    /// The contract wants nothing passed on that is not as promised.
    Withheld {
        code: &'static str,
        message: String,
        details: Value,
    },
}

fn mismatch_words(mismatch: &Mismatch, tool: &Tool) -> String {
    let first = mismatch.problems.first().map(|problem| format!(": {problem}")).unwrap_or_default();
    let more = match mismatch.problems.len() {
        0 | 1 => String::new(),
        count => format!(", and {} more", count - 1),
    };
    format!("The result of '{}' is not what its output schema promises{first}{more}", tool.name)
}

fn withheld_words(mismatch: &Mismatch, tool: &Tool) -> String {
    format!("{}; the call was made, so do not repeat it", mismatch_words(mismatch, tool))
}

fn withheld_details(mismatch: &Mismatch, tool: &Tool) -> Value {
    json!({"tool": tool.name.to_string(), "problems": problems(mismatch)})
}

fn problems(mismatch: &Mismatch) -> Vec<Value> {
    let problem = |one: &mcpproxy_core::schema::Problem| json!({"pointer": one.pointer, "expected": one.expected, "found": one.found});
    mismatch.problems.iter().map(problem).collect()
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
        Some(failure) => error.with_word(FAILURE_KEY, &failure),
        None => error,
    }
}

fn is_error(result: &str) -> bool {
    member(result, "isError") == Some("true")
}

/// Only what brings nothing but a question counts as one: else a word would do to pass anything on unchecked.
fn asks_back(result: &str) -> bool {
    members(result).is_some_and(|fields| {
        field(&fields, "resultType") == Some("\"input_required\"")
            && field(&fields, "content").is_none()
            && field(&fields, "structuredContent").is_none()
    })
}
