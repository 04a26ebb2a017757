//! Warnings about settings that are valid, but perhaps not what the operator expects.

use std::fmt;

use crate::file::{SourcePosition, shown};

/// Servers that one warning names. More would not fit into a line.
const SERVERS_SHOWN: usize = 5;
/// Maximum number of warnings. A hostile file must not fill the log.
const WARNINGS_MAX: usize = 100;

/// One warning, with its position in the settings file if it has one. Lines and columns count from 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    pub at: Option<(usize, usize)>,
    pub message: String,
}

impl Warning {
    /// A warning about the file as a whole.
    pub fn about_file(message: impl Into<String>) -> Self {
        Self { at: None, message: message.into() }
    }
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some((line, column)) => write!(f, "line {line}, column {column}: {}", self.message),
            None => f.write_str(&self.message),
        }
    }
}

/// Collects warnings. A key that several servers have gets one warning, which names them.
#[derive(Debug, Default)]
pub(super) struct Warnings {
    found: Vec<(SourcePosition, String)>,
    by_key: Vec<KeyWarning>,
}

#[derive(Debug)]
struct KeyWarning {
    position: SourcePosition,
    key: String,
    servers: Vec<String>,
    message: &'static str,
}

impl Warnings {
    pub(super) fn add(&mut self, position: SourcePosition, message: String) {
        if self.found.len() < WARNINGS_MAX {
            self.found.push((position, message));
        }
    }

    /// Adds a warning about a key of a server. `message` continues "`key` (server) …".
    pub(super) fn add_key(&mut self, position: SourcePosition, key: &str, server: &str, message: &'static str) {
        match self.by_key.iter_mut().find(|warning| warning.key == key && warning.message == message) {
            Some(warning) => warning.servers.push(server.to_owned()),
            None => {
                let (key, servers) = (key.to_owned(), vec![server.to_owned()]);
                self.by_key.push(KeyWarning { position, key, servers, message });
            }
        }
    }

    /// Returns the warnings in the order of the file.
    pub(super) fn in_order(self) -> Vec<Warning> {
        let keys = self.by_key.into_iter().map(|warning| (warning.position, warning.text()));
        let mut all: Vec<(SourcePosition, String)> = self.found.into_iter().chain(keys).collect();
        all.sort_by_key(|(position, _)| *position);
        all.truncate(WARNINGS_MAX);
        let placed = |(SourcePosition { line, column }, message)| Warning { at: Some((line, column)), message };
        all.into_iter().map(placed).collect()
    }

    /// Returns the warnings for a text that has no positions.
    pub(super) fn without_positions(self) -> Vec<Warning> {
        self.in_order().into_iter().map(|warning| Warning { at: None, ..warning }).collect()
    }
}

impl KeyWarning {
    fn text(&self) -> String {
        let shown_servers: Vec<String> = self.servers.iter().take(SERVERS_SHOWN).map(|server| shown(server)).collect();
        let more = match self.servers.len().saturating_sub(SERVERS_SHOWN) {
            0 => String::new(),
            more => format!(" and {more} more"),
        };
        format!("`{}` ({}{more}) {}", self.key, shown_servers.join(", "), self.message)
    }
}
