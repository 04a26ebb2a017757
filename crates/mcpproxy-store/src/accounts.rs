//! Agents with their tokens, users with their factors and sessions.

mod scope;
mod secret;
pub(crate) mod session;
mod sql;
pub(crate) mod token;
pub(crate) mod user;
