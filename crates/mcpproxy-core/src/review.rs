//! Helps operators to write and maintain contracts: first drafts, lint findings and coverage.
//!
//! This module reads contracts and the catalog, and decides nothing. It lies above both, so that neither
//! has to know it.

pub mod coverage;
pub mod draft;
pub mod lint;
mod names;
mod wild;
mod writer;
