//! Identity providers: requests to them, their metadata and keys, and validation of the tokens that they sign.
//!
//! ```text
//!  address.rs ─▶ fetch.rs ─▶ provider.rs ─▶ token.rs
//!  allowed URLs   bounded     metadata       signature, issuer, audience, time
//!  and networks   requests    and keys.rs    ─▶ Claims
//! ```
//!
//! Two parts of the product use this crate. The gateway validates access tokens of agents and signs in to servers. The
//! web crate signs users in. Neither parses a token or opens a connection to a provider itself.
//!
//! Invariants:
//!
//! - Every request goes to `https`, or to `http` on loopback. The address is checked after name resolution, and the
//!   connection goes to the address that was checked, so a name cannot change its meaning in between.
//! - Every answer is bounded in size and time. No redirect is followed unless the caller does so request by request.
//! - Only [`Provider::verify`] makes [`Claims`]. No error text contains any part of a token.

mod address;
mod claims;
mod error;
mod fetch;
mod keys;
mod metadata;
mod provider;
mod token;

pub use address::{AddressError, Reach, check_url};
pub use claims::Claims;
pub use error::ProviderError;
pub use fetch::{Fetch, FetchError, tls_config};
pub use metadata::Metadata;
pub use provider::Provider;
pub use token::{CLOCK_SKEW_S, TokenError};

#[cfg(test)]
mod tests;
