//! Floods the client with messages that it did not ask for, until it closes the pipe. Nothing is read meanwhile.

use std::io::{self, Write};

/// Size of the data in a large message.
const LARGE_BYTES: usize = 256 * 1024;

/// The messages that the tool `flood` sends, by its argument `kind`.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Flood {
    /// Requests whose answers are never read.
    Requests,
    /// Small notifications.
    Messages,
    /// Large notifications.
    Bytes,
    /// Changes of the list of tools.
    Lists,
    /// An answer without end.
    Line,
}

impl Flood {
    pub(crate) fn parse(kind: &str) -> Option<Self> {
        match kind {
            "requests" => Some(Self::Requests),
            "messages" => Some(Self::Messages),
            "bytes" => Some(Self::Bytes),
            "lists" => Some(Self::Lists),
            "line" => Some(Self::Line),
            _ => None,
        }
    }

    /// Writes until the pipe is closed. `id` is that of the call.
    pub(crate) fn run(self, id: &str) -> io::Result<()> {
        let mut out = io::stdout().lock();
        let log = |data: &str| {
            format!(
                "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"info\",\"data\":\"{data}\"}}}}\n"
            )
        };
        if let Self::Line = self {
            let start =
                format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{{\"content\":[{{\"type\":\"text\",\"text\":\"");
            out.write_all(start.as_bytes())?;
        }
        let same = match self {
            Self::Requests => String::new(),
            Self::Messages => log("x"),
            Self::Bytes => log(&"x".repeat(LARGE_BYTES)),
            Self::Lists => "{\"jsonrpc\":\"2.0\",\"method\":\"notifications/tools/list_changed\"}\n".to_owned(),
            Self::Line => "x".repeat(LARGE_BYTES),
        };
        for number in 0_u64.. {
            match self {
                Self::Requests => writeln!(out, "{{\"jsonrpc\":\"2.0\",\"id\":\"f{number}\",\"method\":\"ping\"}}")?,
                Self::Messages | Self::Bytes | Self::Lists | Self::Line => out.write_all(same.as_bytes())?,
            }
        }
        Ok(())
    }
}
