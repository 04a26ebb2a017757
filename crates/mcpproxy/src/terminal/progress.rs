//! Shows the progress of long work as one line on standard error, removed at the end.

use std::io::{self, IsTerminal as _, Write as _};
use std::time::{Duration, Instant};

use super::output::grouped;

/// Work that ends sooner shows no progress.
const MOMENT: Duration = Duration::from_millis(500);
const PAUSE: Duration = Duration::from_millis(100);

pub(crate) struct Progress {
    things: &'static str,
    next: Option<Instant>,
    was_shown: bool,
}

impl Progress {
    /// Shows nothing if standard error is no terminal, or if the data goes to the same terminal.
    pub(crate) fn new(things: &'static str, out: Output) -> Self {
        let is_alone = out == Output::Elsewhere || !io::stdout().is_terminal();
        let is_shown = io::stderr().is_terminal() && is_alone;
        Self { things, next: is_shown.then(|| Instant::now() + MOMENT), was_shown: false }
    }

    pub(crate) fn show(&mut self, done: u64, total: Option<u64>) {
        let now = Instant::now();
        if self.next.is_none_or(|next| now < next) {
            return;
        }
        self.next = Some(now + PAUSE);
        self.was_shown = true;
        let of = total.map(|total| format!(" of {}", grouped(total))).unwrap_or_default();
        let _nobody_listens = write!(io::stderr(), "\r{}{of} {}…\x1b[K", grouped(done), self.things);
    }
}

/// The target of the data.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Output {
    ToStandardOutput,
    Elsewhere,
}

impl Drop for Progress {
    fn drop(&mut self) {
        if self.was_shown {
            let _nobody_listens = write!(io::stderr(), "\r\x1b[K");
        }
    }
}
