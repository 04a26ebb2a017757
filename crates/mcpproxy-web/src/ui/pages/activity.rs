//! The content of the pages about the activity log.
//!
//! - [`list`]: records, newest first, with [`form`] for the filters and [`links`] for their addresses.
//! - [`record`]: one record. [`story`] says in plain words what happened, and [`payload`] shows arguments and result.
//! - [`steps`]: the records of one approved call, in order.
//! - [`session`]: the calls of one agent around a record, in order.
//! - [`advice`]: sentences for users about codes whose messages speak to agents.
//! - [`words`] and `events`: the words for a record, about a call or about anything else.
//!
//! Everything in a record can come from an agent or a server. [`bounded`] limits its length and shows invisible
//! characters.

pub(crate) mod advice;
pub(crate) mod bounded;
mod events;
pub(crate) mod form;
pub(crate) mod links;
pub(crate) mod list;
pub(crate) mod payload;
pub(crate) mod record;
pub(crate) mod session;
pub(crate) mod steps;
pub(crate) mod story;
#[cfg(test)]
mod tests;
pub(crate) mod words;
