//! The public keys of a provider.

use std::sync::Arc;
use std::time::Instant;

use jsonwebtoken::jwk::{AlgorithmParameters, EllipticCurve, Jwk, KeyAlgorithm, PublicKeyUse};
use jsonwebtoken::{Algorithm, DecodingKey};
use serde_json::Value;

use crate::error::ProviderError;

/// Number of keys in a set. Providers publish two to ten.
const KEYS_MAX: usize = 100;

/// The keys of one moment.
pub(crate) struct KeySet {
    keys: Vec<Arc<Key>>,
    /// The document they were read from. A refresh that finds the same document changes nothing.
    document: Value,
    pub(crate) read_at: Instant,
    /// Number of this set. Moves when the provider changes its keys.
    pub(crate) generation: u64,
}

/// A public key with the algorithms that it may check.
pub(crate) struct Key {
    id: Option<String>,
    pub(crate) key: DecodingKey,
    pub(crate) algorithms: Vec<Algorithm>,
}

impl KeySet {
    /// Reads a key set. Skips keys that this crate cannot use, such as keys for encryption.
    pub(crate) fn read(document: Value, previous: Option<&Self>) -> Result<Self, ProviderError> {
        let Some(entries) = document.get("keys").and_then(Value::as_array) else {
            return Err(ProviderError::Metadata("its key set has no `keys`"));
        };
        if entries.len() > KEYS_MAX {
            return Err(ProviderError::Metadata("its key set has more than 100 keys"));
        }
        let keys = entries.iter().filter_map(read_key).map(Arc::new).collect();
        let generation = match previous {
            Some(previous) if previous.document == document => previous.generation,
            Some(previous) => previous.generation.wrapping_add(1),
            None => 1,
        };
        Ok(Self { keys, document, read_at: Instant::now(), generation })
    }

    /// Finds the key for a token. A token without a key id matches only if a single key has its algorithm.
    pub(crate) fn find(&self, id: Option<&str>, algorithm: Algorithm) -> Option<Arc<Key>> {
        let mut fitting = self
            .keys
            .iter()
            .filter(|key| key.algorithms.contains(&algorithm) && (id.is_none() || key.id.as_deref() == id));
        let found = fitting.next()?;
        fitting.next().is_none().then(|| Arc::clone(found))
    }
}

fn read_key(entry: &Value) -> Option<Key> {
    let jwk: Jwk = serde_json::from_value(entry.clone()).ok()?;
    if !matches!(jwk.common.public_key_use, None | Some(PublicKeyUse::Signature)) {
        return None;
    }
    let mut algorithms = fitting_algorithms(&jwk)?;
    if let Some(declared) = jwk.common.key_algorithm {
        algorithms.retain(|algorithm| KeyAlgorithm::from(*algorithm) == declared);
    }
    let key = DecodingKey::from_jwk(&jwk).ok()?;
    (!algorithms.is_empty()).then_some(Key { id: jwk.common.key_id, key, algorithms })
}

/// Lists the algorithms of a type of key. Shared secrets (`oct`) have none: whoever can read the key set could sign.
fn fitting_algorithms(jwk: &Jwk) -> Option<Vec<Algorithm>> {
    use Algorithm::{ES256, ES384, EdDSA, PS256, PS384, PS512, RS256, RS384, RS512};
    match &jwk.algorithm {
        AlgorithmParameters::RSA(_) => Some(vec![RS256, RS384, RS512, PS256, PS384, PS512]),
        AlgorithmParameters::EllipticCurve(key) => match key.curve {
            EllipticCurve::P256 => Some(vec![ES256]),
            EllipticCurve::P384 => Some(vec![ES384]),
            _ => None,
        },
        AlgorithmParameters::OctetKeyPair(_) => Some(vec![EdDSA]),
        _ => None,
    }
}
