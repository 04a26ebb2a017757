//! Exit codes, and the failures that carry one.

use std::fmt;
use std::io;
use std::process::ExitCode;

/// The exit code of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// The command succeeded.
    Done,
    /// The command failed for any other reason.
    Failed,
    /// The arguments are wrong.
    Usage,
    /// The gateway or a user refused the call.
    Refused,
    /// The call waits for an approval.
    Waiting,
    /// The server returned an error or no answer.
    ServerFailed,
    /// The settings, contracts or policies are invalid.
    BadSettings,
    /// No gateway is running on the data folder.
    NoGateway,
    /// The user pressed Ctrl-C. Shells use the same code for a program that the signal ends.
    Interrupted,
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
            Exit::Interrupted => 130,
        })
    }
}

/// A failure with an exit code, a message and, where one helps, a hint that names the next command.
#[derive(Debug)]
pub(crate) struct Failure {
    exit: Exit,
    message: String,
    hint: Option<String>,
    /// First line for a failure of [`Exit::BadSettings`], whose message has one line for each error.
    title: String,
    /// True if the files of the gateway's own certificate are among the causes.
    is_about_certificate: bool,
}

impl Failure {
    pub(crate) fn new(exit: Exit, message: impl Into<String>) -> Self {
        let title = "invalid settings".to_owned();
        Self { exit, message: message.into(), hint: None, title, is_about_certificate: false }
    }

    /// Joins several failures. The first one sets the exit code, and the first hint is kept.
    pub(crate) fn all(failures: impl IntoIterator<Item = Self>) -> Self {
        let mut failures = failures.into_iter();
        let mut all = failures.next().unwrap_or_else(|| Self::new(Exit::Failed, "unknown error"));
        for failure in failures {
            all.message.push('\n');
            all.message.push_str(&failure.message);
            all.hint = all.hint.or(failure.hint);
            all.is_about_certificate |= failure.is_about_certificate;
        }
        all
    }

    /// Replaces the first line of a failure with several errors.
    pub(crate) fn title(mut self, title: impl Into<String>) -> Self {
        self.title = title.into();
        self
    }

    /// Marks a failure to read the gateway's own certificate.
    pub(crate) fn about_certificate(mut self) -> Self {
        self.is_about_certificate = true;
        self
    }

    pub(crate) fn is_about_certificate(&self) -> bool {
        self.is_about_certificate
    }

    pub(crate) fn exit(&self) -> Exit {
        self.exit
    }

    pub(crate) fn hint(mut self, hint: impl Into<String>) -> Self {
        self.hint = Some(hint.into());
        self
    }

    /// Adds the code for programs, in parentheses.
    pub(crate) fn with_code(self, code: &str) -> Self {
        Self { message: format!("{} ({code})", self.message), ..self }
    }

    pub(crate) fn hint_text(&self) -> Option<&str> {
        self.hint.as_deref()
    }

    /// Replaces the hint, if there is one.
    pub(crate) fn change_hint(&mut self, change: impl FnOnce(&str) -> String) {
        self.hint = self.hint.take().map(|hint| change(&hint));
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl std::error::Error for Failure {}

/// Returns the exit code of an outcome, and the text for standard error.
pub(crate) fn report(outcome: &anyhow::Result<Exit>) -> (Exit, Option<String>) {
    let error = match outcome {
        Ok(exit) => return (*exit, None),
        Err(error) => error,
    };
    // The reader of standard output has closed it, as `| head` does. That is not a failure.
    if error
        .chain()
        .filter_map(|cause| cause.downcast_ref::<io::Error>())
        .any(|e| e.kind() == io::ErrorKind::BrokenPipe)
    {
        return (Exit::Done, None);
    }
    let failure = error.downcast_ref::<Failure>();
    let exit = failure.map_or(Exit::Failed, |failure| failure.exit);
    // Each error in the settings has its own line, which starts with `file:line:column` for editors.
    let title = failure.filter(|_| exit == Exit::BadSettings).map(|failure| format!("{}\n", failure.title));
    let mut text = format!("{}{error:#}", title.unwrap_or_default());
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
            Some("invalid settings\nno start: bad\nhint: fix it"),
        );
        let pipe: anyhow::Result<Exit> = Err(io::Error::from(io::ErrorKind::BrokenPipe)).context("could not print");
        check(pipe, Exit::Done, None);
    }
}
