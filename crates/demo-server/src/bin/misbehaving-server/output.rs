//! Writes messages to stdout, broken as the options say.

use std::io::{self, Write};
use std::sync::{Arc, Mutex, PoisonError};

use crate::options::Options;

/// Size of a piece. It cuts every message, and multi-byte characters, in the middle.
const PIECE_BYTES: usize = 7;
const FLOOD_LINES: usize = 64;
const FLOOD_LINE_BYTES: usize = 1024;

/// The shared standard output.
#[derive(Clone)]
pub(crate) struct Output {
    noise: bool,
    half_lines: bool,
    turn: Arc<Mutex<()>>,
}

impl Output {
    pub(crate) fn new(options: &Options) -> Self {
        Self { noise: options.noise, half_lines: options.half_lines, turn: Arc::default() }
    }

    /// Writes one message and its line end.
    pub(crate) fn send(&self, message: &str) -> io::Result<()> {
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        if self.noise {
            stdout.write_all(b"Loading model...\n\n\r[##        ] 20%\r[########  ] 80%\r[##########] 100%\n")?;
            stdout.write_all(b"{\"level\":\"info\",\"msg\":\"a log line, not a message\"}\n{not json\n")?;
        }
        let line = format!("{message}\n");
        if self.half_lines {
            for piece in line.as_bytes().chunks(PIECE_BYTES) {
                stdout.write_all(piece)?;
                stdout.flush()?;
            }
        } else {
            stdout.write_all(line.as_bytes())?;
        }
        if self.noise {
            stdout.write_all(b"\x1b[32mdone\x1b[0m \xff\xfe\n")?;
            flood()?;
        }
        stdout.flush()
    }

    /// Writes an incomplete message before the process ends.
    pub(crate) fn leave(&self) -> io::Result<()> {
        if !self.half_lines {
            return Ok(());
        }
        let _turn = self.turn.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stdout = io::stdout().lock();
        stdout.write_all(br#"{"jsonrpc":"2.0","id":1,"resu"#)?;
        stdout.flush()
    }
}

fn flood() -> io::Result<()> {
    let line = format!("{}\n", "noise ".repeat(FLOOD_LINE_BYTES / 6));
    let mut stderr = io::stderr().lock();
    for _line in 0..FLOOD_LINES {
        stderr.write_all(line.as_bytes())?;
    }
    Ok(())
}
