//! The echo server over standard input and output: one message per line.

use std::io::{BufRead as _, BufReader, Write as _};

use anyhow::Result;

use super::{Answer, Echo};
use crate::case::Server;

const BUFFER_BYTES: usize = 64 * 1024;

/// Serves until standard input ends.
pub(crate) fn serve_stdio(extra_tools: usize) -> Result<()> {
    let echo = Echo::new(Server::Stdio, extra_tools);
    let mut input = BufReader::with_capacity(BUFFER_BYTES, std::io::stdin().lock());
    let mut output = std::io::stdout().lock();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        match echo.answer(&line, true) {
            Answer::Result(text) | Answer::Session(text) | Answer::Error(text) | Answer::Refused(text) => {
                output.write_all((text + "\n").as_bytes())?;
                output.flush()?;
            }
            Answer::None => {}
        }
        line.clear();
    }
    Ok(())
}
