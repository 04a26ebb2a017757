//! How the command ends: every exit code, and the failures that carry one.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// What the shell learns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    Done,
    Failed,
    /// The arguments make no sense.
    Usage,
    /// The gateway said no to a call, or a user did.
    Refused,
    /// A user must approve first, and has not yet.
    Waiting,
    /// The gateway said yes and the server said no, or nothing.
    ServerFailed,
    BadSettings,
    NoGateway,
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        Self::from(match exit {
            Exit::Done => 0,
            Exit::Failed => 1,
            Exit::Usage => 2,
            Exit::Refused => 3,
            Exit::Waiting => 4,
            Exit::ServerFailed => 5,
            Exit::BadSettings => 6,
            Exit::NoGateway => 7,
        })
    }
}

/// A failure with a sentence, an exit code and, where there is one, the next step.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        Self { exit, message: message.into(), hint: None }
    }

    /// Several as one, with the exit code and the first hint there is.
    pub(crate) fn all(failures: impl IntoIterator<Item = Self>) -> Self {
        let mut failures = failures.into_iter();
        let mut all = failures.next().unwrap_or_else(|| Self::new(Exit::Failed, "something is wrong"));
        for failure in failures {
            all.message.push('\n');
            all.message.push_str(&failure.message);
            all.hint = all.hint.or(failure.hint);
        }
        all
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// The exit code of an outcome, and what to print about it on standard error.
pub(crate) fn report(outcome: &anyhow::Result<Exit>) -> (Exit, Option<String>) {
    let error = match outcome {
        Ok(exit) => return (*exit, None),
        Err(error) => error,
    };
    // Whoever reads our output has seen enough; that is how `| head` works.
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
    {
        return (Exit::Done, None);
    }
    let failure = error.downcast_ref::<Failure>();
    let exit = failure.map_or(Exit::Failed, |failure| failure.exit);
    // Each mistake in the settings has a line of its own that begins with its place, as editors like it.
    let mut text = if exit == Exit::BadSettings { format!("bad settings\n{error:#}") } else { format!("{error:#}") };
    if let Some(hint) = failure.and_then(|failure| failure.hint.as_ref()) {
        text.push_str(&format!("\nhint: {hint}"));
    }
    (exit, Some(text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use anyhow::Context as _;

    #[test]
    fn outcomes() {
        let check = |outcome: anyhow::Result<Exit>, exit: Exit, text: Option<&str>| {
            assert_eq!(report(&outcome), (exit, text.map(str::to_owned)));
        };
        check(Ok(Exit::Refused), Exit::Refused, None);
        check(Err(anyhow::anyhow!("broken").context("could not start")), Exit::Failed, Some("could not start: broken"));
        check(Err(Failure::new(Exit::NoGateway, "none").into()), Exit::NoGateway, Some("none"));
        check(
            Err(anyhow::Error::from(Failure::new(Exit::BadSettings, "bad").hint("fix it")).context("no start")),
            Exit::BadSettings,
            Some("bad settings\nno start: bad\nhint: fix it"),
        );
        let pipe: anyhow::Result<Exit> = Err(io::Error::from(io::ErrorKind::BrokenPipe)).context("could not print");
        check(pipe, Exit::Done, None);
    }
}
