//! One line on standard error that changes while a command waits, and is removed at the end.

use std::io::{self, IsTerminal as _, Write as _};

use crate::terminal::size::message_columns;
use crate::terminal::wrap::cut;

const CLEAR: &str = "\r\x1b[K";

/// The line. Without a terminal, and on a terminal that cannot clear a line, it shows nothing.
pub(crate) struct LiveLine {
    is_on: bool,
    is_shown: bool,
}

impl LiveLine {
    pub(crate) fn new() -> Self {
        let is_dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        Self { is_on: io::stderr().is_terminal() && !is_dumb, is_shown: false }
    }

    /// Replaces the line. Untrusted text must already be escaped.
    pub(crate) fn show(&mut self, text: &str) {
        if self.is_on {
            self.is_shown = true;
            // A line that is as wide as the terminal would wrap.
            let text = message_columns().map_or_else(|| text.to_owned(), |columns| cut(text, columns - 1));
            self.write(&format!("{CLEAR}{text}"));
        }
    }

    pub(crate) fn clear(&mut self) {
        if std::mem::take(&mut self.is_shown) {
            self.write(CLEAR);
        }
    }

    fn write(&self, text: &str) {
        let mut out = io::stderr().lock();
        let _stderr_is_closed = out.write_all(text.as_bytes()).and_then(|()| out.flush());
    }
}

impl Drop for LiveLine {
    fn drop(&mut self) {
        self.clear();
    }
}
