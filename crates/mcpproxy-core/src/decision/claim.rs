//! Idempotency: recognizes that two calls are the same, by the agent's key or by the arguments that identify the result.
//!
//! A [`Claim`] also says which answers a repeat gets again ([`Claim::replay`]). The rule differs because the promise does:
//!
//! | answer to the first call | `natural` | with the agent's key |
//! |---|---|---|
//! | success | again, until `ttl` or `validUntil` | again, until `ttl` |
//! | an error that proves that nothing ran | runs again | again |
//! | any other error | runs again | refused: the first call may have had an effect |
//!
//! A `natural` tool may run twice without harm, so an error of a server that was down for a moment must not be repeated
//! for a day. An agent's key promises that a call runs at most once, so an error that may have come after the effect
//! must not lead to a second one. For the same reason, a result that is no longer valid does not free an agent's key.

use std::sync::Arc;
use std::time::Duration;

use serde_json::Value;

use crate::catalog::Tool;
use crate::contract::Idempotency;
use crate::denial::Denial;
use crate::file::amount::DAY;
use crate::intent::{Arguments, Declared, Intent, Mode, is_idempotency_key};
use crate::json::{canonical, members, quote};
use crate::outcome::structured;
use crate::time::instant_ms;
use crate::{Attached, Digest};

/// The reservation of an idempotency key for one call. A later call with the same key gets the first result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `key:` and the agent's key, or `natural:` and the digest of the arguments that identify the result.
    pub key: String,
    /// Digest of all arguments and everything else that is sent. The same key with another digest is a conflict.
    pub arguments: Digest,
    pub ttl: Duration,
    pub is_natural: bool,
    pub valid_until: Option<ValidUntil>,
}

/// The time at which a result stops being valid: `validUntil` of a contract.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ValidUntil {
    pointer: String,
    /// The time in the arguments, for results without one.
    requested_ms: Option<i64>,
}

/// The part of an answer that decides if a repeat gets it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answered {
    Success,
    /// The server rejected the call before it ran anything.
    Rejected,
    /// The call failed. It may have had an effect.
    Failed,
}

/// The answer to a repeat.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Replay {
    /// The first answer again.
    Answer,
    /// Nothing stored: the call runs again.
    RunAgain,
    /// A refusal, because the first call may have had an effect.
    Refuse,
}

impl Claim {
    /// Chooses the answer to a repeat. Calls that waited for the first one always share its answer.
    pub fn replay(&self, answered: Answered) -> Replay {
        match (answered, self.is_natural) {
            (Answered::Success, _) | (Answered::Rejected, false) => Replay::Answer,
            (Answered::Rejected | Answered::Failed, true) => Replay::RunAgain,
            (Answered::Failed, false) => Replay::Refuse,
        }
    }
}

impl Answered {
    /// Classifies a JSON-RPC error. By definition of these codes, the server did not run the call: it could not read
    /// the request, or has no such method, or does not accept the parameters.
    pub fn of_error(code: i64) -> Self {
        match code {
            -32700 | -32600 | -32601 | -32602 => Self::Rejected,
            _ => Self::Failed,
        }
    }
}

impl ValidUntil {
    fn new(pointer: &str, arguments: &str) -> Self {
        let arguments: Option<Value> = serde_json::from_str(arguments).ok();
        let requested_ms = arguments.and_then(|arguments| end_ms(arguments.pointer(pointer)?));
        Self { pointer: pointer.to_owned(), requested_ms }
    }

    /// Returns the time in the structured result, or else in the arguments. `None` if neither has one.
    pub fn of_result(&self, result: &str) -> Option<i64> {
        let granted = structured(result).and_then(|result| end_ms(result.value().pointer(&self.pointer)?));
        granted.or(self.requested_ms)
    }
}

/// Reads the time at which a result ends. `None` if there is none. A time that cannot be read has passed: a call that
/// runs again does no harm, but a link that has expired does.
fn end_ms(value: &Value) -> Option<i64> {
    (!value.is_null()).then(|| instant_ms(value).unwrap_or(0))
}

/// A call that was made before. It is answered from the store. If the first call left no answer, it is decided again.
#[derive(Debug)]
pub struct Repeat {
    pub tool: Arc<Tool>,
    pub intent: Intent,
    pub arguments: Arguments,
    pub attached: Attached,
    pub claim: Claim,
}

impl Declared {
    /// Returns the key to reserve. `None` for a dry run, and if neither the agent nor the contract gives a key.
    pub fn claim(&self, tool: &Tool) -> Result<Option<Claim>, Denial> {
        let idempotency = &tool.contract.idempotency.value;
        let ttl = match idempotency {
            Idempotency::None => DAY,
            Idempotency::Natural { ttl, .. } | Idempotency::Key { ttl } => *ttl,
        };
        if matches!(idempotency, Idempotency::None | Idempotency::Key { .. }) && self.idempotency_key.is_none()
            || self.mode_of(tool) == Mode::DryRun
        {
            return Ok(None);
        }
        let (key, is_natural) = match (&self.idempotency_key, idempotency) {
            (Some(key), _) if !is_idempotency_key(key) => return Err(Denial::InvalidIdempotencyKey),
            (Some(key), _) => (format!("key:{key}"), false),
            (None, Idempotency::Natural { key_from, .. }) => match named(self.arguments.as_str(), key_from) {
                Some(named) => (format!("natural:{}", Digest::of(named.as_bytes())), true),
                None => return Ok(None),
            },
            (None, Idempotency::None | Idempotency::Key { .. }) => return Ok(None),
        };
        let valid_until = match idempotency {
            Idempotency::Natural { valid_until: Some(pointer), .. } if is_natural => {
                Some(ValidUntil::new(pointer, self.arguments.as_str()))
            }
            Idempotency::Natural { .. } | Idempotency::None | Idempotency::Key { .. } => None,
        };
        Ok(Some(Claim { key, arguments: self.sent_digest(), ttl, is_natural, valid_until }))
    }

    fn sent_digest(&self) -> Digest {
        let arguments = self.arguments.digest();
        if !self.attached.is_bound() {
            return arguments;
        }
        Digest::of(&[*arguments.as_bytes(), *self.attached.digest().as_bytes()].concat())
    }
}

/// Returns the named arguments as an object. `None` if the call has none of them, because nothing identifies the result.
fn named(arguments: &str, names: &[String]) -> Option<String> {
    let given = members(arguments)?;
    let named = given.iter().filter(|(name, _)| names.iter().any(|wanted| wanted == name));
    let named: Vec<String> = named.map(|(name, value)| format!("{}:{value}", quote(name))).collect();
    (!named.is_empty()).then(|| canonical(&format!("{{{}}}", named.join(","))))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repeats() {
        let claim = |is_natural| Claim {
            key: String::new(),
            arguments: Digest::of(b""),
            ttl: DAY,
            is_natural,
            valid_until: None,
        };
        let check = |answered, natural, keyed| {
            assert_eq!((claim(true).replay(answered), claim(false).replay(answered)), (natural, keyed), "{answered:?}");
        };
        check(Answered::Success, Replay::Answer, Replay::Answer);
        check(Answered::Rejected, Replay::RunAgain, Replay::Answer);
        check(Answered::Failed, Replay::RunAgain, Replay::Refuse);
        for code in [-32700, -32600, -32601, -32602] {
            assert_eq!(Answered::of_error(code), Answered::Rejected, "{code}");
        }
        for code in [-32603, -32000, 0, 404] {
            assert_eq!(Answered::of_error(code), Answered::Failed, "{code}");
        }
    }

    #[test]
    fn the_end_of_a_result() {
        let check = |arguments: &str, result: &str, expected: Option<i64>| {
            assert_eq!(ValidUntil::new("/link/until", arguments).of_result(result), expected, "{arguments} {result}");
        };
        let granted = r#"{"content":[],"structuredContent":{"link":{"until":"1970-01-01T00:00:05Z"}}}"#;
        check("{}", granted, Some(5_000));
        check(r#"{"link":{"until":9}}"#, granted, Some(5_000));
        check(r#"{"link":{"until":9}}"#, r#"{"content":[]}"#, Some(9_000));
        let text = r#"{"content":[{"type":"text","text":"{\"link\":{\"until\":1700000000000}}"}]}"#;
        check("{}", text, Some(1_700_000_000_000));
        // Nothing limits the result if there is no time. A time that cannot be read has passed.
        check("{}", "{}", None);
        check(r#"{"link":{"until":null}}"#, r#"{"structuredContent":{"link":{"until":null}}}"#, None);
        check(r#"{"link":{"until":9}}"#, r#"{"structuredContent":{"link":{"until":null}}}"#, Some(9_000));
        check(r#"{"link":{"until":"tomorrow"}}"#, "{}", Some(0));
        check(r#"{"link":{"until":9}}"#, r#"{"structuredContent":{"link":{"until":"2099-01-01"}}}"#, Some(0));
        check("{}", r#"{"structuredContent":{"link":{"until":[5]}}}"#, Some(0));
    }
}
