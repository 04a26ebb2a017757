//! Asks the user at the terminal for names, passwords and codes.
//!
//! Secrets are read from `/dev/tty` only, never from arguments, environment variables, standard input or files. An
//! agent often runs commands as the same user. If `mcpproxy approvals approve` read a password from a pipe, the agent
//! could approve its own call with a password that it found. It cannot type on a terminal that it does not control.
//!
//! [`Terminal::of_user`] therefore needs three things: a controlling terminal, standard input and output that are
//! terminals, and a process in the foreground. Before each prompt it discards pending input, because text that was
//! typed before the prompt cannot be an answer to it. While a password is typed, echo is off and suspending is
//! disabled, so that the shell never gets a terminal without echo. `Mode` restores the previous state on every exit
//! path, also when the future is dropped.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Limit for one line of input.
const ANSWER_MAX_BYTES: usize = 1024;
/// Disables a control character.
const DISABLED: u8 = 0;

/// The controlling terminal of this process.
pub(crate) struct Terminal {
    file: File,
}

/// Visibility of typed text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

impl Terminal {
    /// Opens the controlling terminal, if a user can be at it: standard input and output are terminals, and the process
    /// is in the foreground.
    pub(crate) fn of_user() -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let is_our_turn = tcgetpgrp(&file).is_ok_and(|group| group == getpgrp());
        is_our_turn.then_some(Self { file })
    }

    /// Writes to the terminal, wherever standard output goes. Untrusted text must already be escaped.
    pub(crate) fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut file = &self.file;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).context("could not write to the terminal")
    }

    /// Asks for one line. Returns `None` if the user ends the input. Discards text that was typed before the prompt.
    pub(crate) async fn ask(&self, question: &str, echo: Echo) -> anyhow::Result<Option<String>> {
        // Restores the terminal on every exit path, also when this future is dropped.
        let _mode = Mode::set(&self.file, echo)?;
        self.say(question)?;
        let file = self.file.try_clone().context("could not read from the terminal")?;
        let answer =
            tokio::task::spawn_blocking(move || read_line(&file)).await.context("the terminal was closed")??;
        if echo == Echo::Hidden || answer.is_none() {
            self.say("\n")?;
        }
        Ok(answer)
    }

    /// Asks a question that ends in `[y/N]`. Everything but a yes is a no, also the end of the input.
    pub(crate) async fn confirm(&self, question: &str) -> anyhow::Result<bool> {
        let answer = self.ask(question, Echo::Shown).await?.unwrap_or_default();
        Ok(matches!(answer.trim().to_ascii_lowercase().as_str(), "y" | "yes"))
    }
}

fn read_line(mut file: &File) -> anyhow::Result<Option<String>> {
    let mut line = Vec::new();
    let mut byte = [0];
    loop {
        match file.read(&mut byte).context("could not read from the terminal")? {
            0 => return Ok(None),
            _ if byte == *b"\n" => break,
            _ => line.extend_from_slice(&byte),
        }
        anyhow::ensure!(line.len() <= ANSWER_MAX_BYTES, "the line is longer than {ANSWER_MAX_BYTES} bytes");
    }
    String::from_utf8(line).map(Some).context("the input is not UTF-8")
}

/// The mode of the terminal during a prompt. Restores the previous mode when dropped.
struct Mode {
    file: File,
    before: Termios,
}

impl Mode {
    fn set(file: &File, echo: Echo) -> anyhow::Result<Self> {
        let doing = "could not set up the terminal";
        let file = file.try_clone().context(doing)?;
        let before = tcgetattr(&file).context(doing)?;
        let mut during = before.clone();
        during.local_modes |= LocalModes::ICANON | LocalModes::ISIG;
        match echo {
            Echo::Shown => during.local_modes |= LocalModes::ECHO,
            Echo::Hidden => {
                during.local_modes &= !(LocalModes::ECHO | LocalModes::ECHONL);
                // Ctrl-Z would return to a shell without echo.
                during.special_codes[SpecialCodeIndex::VSUSP] = DISABLED;
            }
        }
        tcsetattr(file.as_fd(), OptionalActions::Flush, &during).context(doing)?;
        Ok(Self { file, before })
    }
}

impl Drop for Mode {
    fn drop(&mut self) {
        let _terminal_is_gone = tcsetattr(self.file.as_fd(), OptionalActions::Now, &self.before);
    }
}
