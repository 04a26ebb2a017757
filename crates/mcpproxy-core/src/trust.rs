//! Trust in what servers say: whether a user has accepted a definition, and what a changed one means.
//!
//! A server describes its tools, prompts and resource templates, and models believe these texts. A server can be
//! honest on the first day and change its story later. So the gateway keeps each accepted [`Definition`] with its
//! [`Pin`], compares every list with it ([`judge`]), and holds what is new or different until a user has looked.
//!
//! ```text
//! list of a server ─▶ Definition ─▶ judge ─▶ Verdict::Same       shown to agents
//!                       Known ───────┤      Verdict::Admitted   shown, and recorded
//!              Rules, Neighbours ────┘      Verdict::Held       quarantined until a user reviews it
//! ```
//!
//! - `definition` is one thing that a server says about itself, and `pin` is its hash.
//! - `judge` compares a list with what is known.
//! - `change` says what a difference means, and whether it only makes things stricter.
//! - `parts` cuts a definition into texts with readable places, for a review.
//! - `scan` looks for texts and characters that poisoned tools use.
//!
//! This module decides and stores nothing. The gateway stores verdicts before it acts on them.

pub mod change;
mod definition;
mod judge;
pub mod parts;
mod pin;
pub mod scan;

pub use definition::{Definition, DefinitionKey, DefinitionKind};
pub use judge::{
    Accepted, Admitted, Held, Judgement, Known, OnChange, Pinned, Rules, Verdict, Welcome, is_open, judge,
};
pub use pin::{FORMULA, Pin};
