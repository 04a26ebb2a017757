//! Decides which definitions of a server agents may see, and lets users review the others.
//!
//! ```text
//! list ─▶ Server::offers ─▶ admit: judge, store, record ─▶ Server::admission ─▶ snapshot ─▶ agents
//!                             └─▶ waiting rows ─▶ review ─▶ decide ─▶ admit again
//! ```
//!
//! Invariants:
//!
//! - **Nothing enters a snapshot unjudged.** A snapshot is built from admissions, and [`admit`] is the only place that
//!   makes one.
//! - **An acceptance is stored and recorded before an agent sees its effect.** If the store or the log fails, the
//!   definition is held.
//! - **A server cannot flood the log or the reviewer.** Its changes are held at once. Storing and recording them waits
//!   for the server's own [`Pace`](crate::pace::Pace).
//! - **Only a user accepts what is held**, and only the version that was shown ([`review`]).

mod admission;
mod notes;
mod rejected;
mod review;

pub(crate) use admission::{admit, definitions};
pub use review::{Rejection, Review, ReviewEntry, ReviewError, ReviewOf};
pub(crate) use review::{decide, review};
