//! Takes over servers that are written for another client, for `mcpproxy import` and for the pages.
//!
//! Only the last of these steps writes:
//!
//! 1. [`source`] finds the servers in a file or in a pasted text.
//! 2. [`plan`] translates them, leaves out what must not be imported, and decides on names and files for secrets.
//! 3. [`write`] writes secrets and settings, and undoes everything if one step fails.
//!
//! [`editor`] does all three for a text that a user pastes on a page, and [`version_editor`] the first two.

pub(crate) mod editor;
mod own;
pub(crate) mod plan;
mod references;
pub(crate) mod source;
pub(crate) mod version_editor;
pub(crate) mod write;
