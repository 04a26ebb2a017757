//! Tests with a real HTTP server on loopback and real signatures.

mod addresses;
mod issuer;
mod provider;
mod tokens;
