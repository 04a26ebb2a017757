//! Idempotency: recognizes that two calls are the same, by the agent's key or by the arguments that identify the result.

use std::sync::Arc;
use std::time::Duration;

use crate::Digest;
use crate::catalog::Tool;
use crate::contract::Idempotency;
use crate::denial::Denial;
use crate::file::amount::DAY;
use crate::intent::{Declared, Intent, Mode, is_idempotency_key};
use crate::json::{canonical, members, quote};

/// The reservation of an idempotency key for one call. A later call with the same key gets the first result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// `key:` and the agent's key, or `natural:` and the digest of the arguments that identify the result.
    pub key: String,
    /// Digest of all arguments and everything else that is sent. The same key with another digest is a conflict.
    pub arguments: Digest,
    pub ttl: Duration,
    pub is_natural: bool,
}

/// A call that was made before. It is answered from the store.
#[derive(Debug)]
pub struct Repeat {
    pub tool: Arc<Tool>,
    pub intent: Intent,
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
        Ok(Some(Claim { key, arguments: self.sent_digest(), ttl, is_natural }))
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
