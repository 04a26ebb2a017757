//! Agents with their tokens, and users with their factors, sessions and invitations. Each file holds a table's types,
//! methods and SQL.

pub(crate) mod account;
pub(crate) mod attempt;
pub(crate) mod invitation;
pub(crate) mod open_session;
pub(crate) mod operator_action;
pub(crate) mod provider;
mod recovery;
mod scope;
mod secret;
pub(crate) mod session;
pub(crate) mod sign_in;
pub(crate) mod token;
pub(crate) mod user;
