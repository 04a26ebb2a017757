//! Validates a signed token (JWT).
//!
//! The order matters. The key decides which algorithms are possible, never the token: a key set with an RSA key accepts
//! RSA signatures only. So `alg: none` and a shared-secret signature made with the public key both fail.

use jsonwebtoken::errors::ErrorKind;
use jsonwebtoken::{Algorithm, DecodingKey, Validation};
use serde_json::{Map, Value};

use crate::claims::Claims;
use crate::error::ProviderError;

/// Size of a token. Headers of requests have their own limit; this one bounds the work for each token.
pub(crate) const TOKEN_MAX: usize = 16 * 1024;
/// Tolerated difference between the provider's clock and ours, in seconds. A token counts this much longer.
pub const CLOCK_SKEW_S: i64 = 60;

/// A reason to refuse a token. No variant contains any part of it.
#[derive(Debug, thiserror::Error)]
pub enum TokenError {
    #[error("the token is not a valid JWT")]
    Malformed,
    #[error("the token is signed with an algorithm that is not accepted")]
    Algorithm,
    #[error("the token is signed with a key that the issuer does not publish")]
    UnknownKey,
    #[error("the signature of the token is not valid")]
    Signature,
    #[error("the token has expired")]
    Expired,
    #[error("the token is not valid yet")]
    NotYetValid,
    #[error("the token has another issuer")]
    Issuer,
    #[error("the token is for another audience")]
    Audience,
    #[error("the token lacks a required claim")]
    MissingClaim,
    #[error("the keys of the issuer could not be read: {0}")]
    Provider(#[from] ProviderError),
}

/// The parts of a token's header that choose its key.
pub(crate) struct TokenHeader {
    pub(crate) algorithm: Algorithm,
    pub(crate) key_id: Option<String>,
}

/// Reads the header of a token. Nothing in it is trusted.
pub(crate) fn read_header(token: &str) -> Result<TokenHeader, TokenError> {
    if token.len() > TOKEN_MAX {
        return Err(TokenError::Malformed);
    }
    // An algorithm that the library does not know, such as `none`, is an error here.
    let header = jsonwebtoken::decode_header(token).map_err(|error| match error.kind() {
        ErrorKind::Json(_) => TokenError::Algorithm,
        _ => TokenError::Malformed,
    })?;
    // `crit` lists extensions that a reader must understand. There are none that this one does.
    if header.crit.is_some() {
        return Err(TokenError::Malformed);
    }
    Ok(TokenHeader { algorithm: header.alg, key_id: header.kid })
}

/// Checks the signature and the registered claims of a token.
pub(crate) fn validate(
    token: &str,
    key: &DecodingKey,
    algorithm: Algorithm,
    issuer: &str,
    audience: &str,
) -> Result<Claims, TokenError> {
    let mut rules = Validation::new(algorithm);
    rules.leeway = CLOCK_SKEW_S.unsigned_abs();
    rules.validate_nbf = true;
    rules.set_issuer(&[issuer]);
    rules.set_audience(&[audience]);
    rules.set_required_spec_claims(&["exp", "iss", "aud"]);
    let decoded =
        jsonwebtoken::decode::<Map<String, Value>>(token, key, &rules).map_err(|error| refusal(error.kind()))?;
    Ok(Claims(decoded.claims))
}

fn refusal(kind: &ErrorKind) -> TokenError {
    match kind {
        ErrorKind::InvalidSignature => TokenError::Signature,
        ErrorKind::ExpiredSignature => TokenError::Expired,
        ErrorKind::ImmatureSignature => TokenError::NotYetValid,
        ErrorKind::InvalidIssuer => TokenError::Issuer,
        ErrorKind::InvalidAudience => TokenError::Audience,
        ErrorKind::MissingRequiredClaim(_) => TokenError::MissingClaim,
        ErrorKind::InvalidAlgorithm | ErrorKind::UnsupportedAlgorithm => TokenError::Algorithm,
        _ => TokenError::Malformed,
    }
}
