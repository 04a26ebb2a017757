//! Tests all decisions on intent, annotations, contracts, users, dry runs and permissions.
//!
//! [`generator`] enumerates every combination and asks the real decision. Three things are compared with that:
//!
//! - `decisions.txt`, the table that `mcpproxy policy table` prints ([`checked_in`], in the form of [`compact`]),
//! - second implementations of the same decisions ([`intent`], [`contract`], [`dry_run`]),
//! - the matrices of the specification ([`intent`]).
//!
//! `BLESS=1 cargo test -p mcpproxy-core --test decisions` writes `decisions.txt`.

#![expect(
    clippy::unwrap_used,
    clippy::indexing_slicing,
    clippy::panic,
    reason = "a test that cannot go on should stop there"
)]

mod checked_in;
mod compact;
mod contract;
mod dry_run;
mod generator;
mod intent;
