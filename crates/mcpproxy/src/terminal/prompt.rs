//! The terminal a person sits at. Secrets come from there and from nowhere else.

use std::fs::{File, OpenOptions};
use std::io::{IsTerminal as _, Read as _, Write as _};
use std::os::fd::AsFd as _;

use anyhow::Context as _;
use rustix::process::getpgrp;
use rustix::termios::{LocalModes, OptionalActions, SpecialCodeIndex, Termios, tcgetattr, tcgetpgrp, tcsetattr};

/// Longer than any name, password or code.
const ANSWER_MAX_BYTES: usize = 1024;
/// The control character that stands for none.
const DISABLED: u8 = 0;

pub(crate) struct Terminal {
    file: File,
}

/// Whether what is typed can be seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Echo {
    Shown,
    Hidden,
}

impl Terminal {
    /// The terminal that controls this process, if somebody can be sitting at it: standard input and output are
    /// terminals too, and it is our turn to use it.
    pub(crate) fn of_a_person() -> Option<Self> {
        if !std::io::stdin().is_terminal() || !std::io::stdout().is_terminal() {
            return None;
        }
        let file = OpenOptions::new().read(true).write(true).open("/dev/tty").ok()?;
        let is_our_turn = tcgetpgrp(&file).is_ok_and(|group| group == getpgrp());
        is_our_turn.then_some(Self { file })
    }

    /// Writes to the person, wherever standard output leads. Words of others must have been escaped.
    pub(crate) fn say(&self, text: &str) -> anyhow::Result<()> {
        let mut file = &self.file;
        file.write_all(text.as_bytes()).and_then(|()| file.flush()).context("could not write to the terminal")
    }

    /// One line that somebody types; `None` when they end the input instead.
    ///
    /// What was typed ahead does not count: nobody can have answered a question before it was there.
    pub(crate) async fn ask(&self, question: &str, echo: Echo) -> anyhow::Result<Option<String>> {
        // Dropped on every way out of here, also when whoever waits for us stops waiting.
        let _mode = Mode::set(&self.file, echo)?;
        self.say(question)?;
        let file = self.file.try_clone().context("could not read from the terminal")?;
        let answer = tokio::task::spawn_blocking(move || read_line(&file)).await.context("the terminal is gone")??;
        if echo == Echo::Hidden || answer.is_none() {
            self.say("\n")?;
        }
        Ok(answer)
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
        anyhow::ensure!(line.len() <= ANSWER_MAX_BYTES, "that is longer than {ANSWER_MAX_BYTES} bytes");
    }
    String::from_utf8(line).map(Some).context("what was typed is not UTF-8")
}

/// How the terminal behaves while somebody types. Gives back what was there before when it is dropped.
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
                // Whoever would go back to the shell in between would find it without echo.
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
