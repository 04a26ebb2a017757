//! Everything that reads from or writes to the terminal.
//!
//! Standard output carries data only: a table for a person, JSON or YAML with `-o`. Messages, warnings and errors go to
//! standard error, so that `mcpproxy tools list -o json | jq` always works.
//!
//! Text from agents, servers and log records is untrusted: it can contain escape sequences that clear the screen or
//! forge a prompt. Every function here that prints such text escapes it first ([`output::line`], [`output::lines`],
//! [`visible::json`]).
//!
//! [`size`] decides on the width of the output, [`style`] on colours and [`listing`] on the layout of lists.

pub(crate) mod listing;
pub(crate) mod live_line;
pub(crate) mod output;
pub(crate) mod progress;
pub(crate) mod prompt;
pub(crate) mod shell;
pub(crate) mod size;
pub(crate) mod style;
pub(crate) mod time;
pub(crate) mod visible;
pub(crate) mod wrap;
