//! Reloads of the operator's files: the mistakes of the last one, and the history from the activity log.

use mcpproxy_core::Untrusted;
use mcpproxy_gateway::LOG_VERIFIED;
use mcpproxy_store::{Record, Status};

use crate::publishing::VERSION_PUBLISHED;
use crate::ui::pages::amount::one_line;
use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// Mistakes and reloads on the page.
const MISTAKES_MAX: usize = 100;
const ROWS_MAX: usize = 20;
const MESSAGE_CHARS: usize = 600;

#[derive(Debug)]
pub(crate) struct Reloads {
    pub(crate) path: Visible,
    /// False if there is no settings file, so that the gateway runs with the default settings.
    pub(crate) has_file: bool,
    /// One line for each mistake: `file:line:column: message`. Empty if the files in force are the files on disk.
    pub(crate) mistakes: Vec<Visible>,
    pub(crate) warnings: Vec<Visible>,
    pub(crate) rows: Vec<ReloadRow>,
}

#[derive(Debug)]
pub(crate) struct ReloadRow {
    pub(crate) id: String,
    pub(crate) time: Time,
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) word: &'static str,
    pub(crate) message: Visible,
}

impl Reloads {
    pub(crate) fn new(
        (path, has_file): (&str, bool),
        error: Option<&str>,
        warnings: &[String],
        records: &[Record],
        now_ms: i64,
    ) -> Self {
        // Every gateway records by itself when it takes a published version over.
        let others = [LOG_VERIFIED, VERSION_PUBLISHED];
        let is_reload = |record: &&Record| record.code.as_ref().is_none_or(|code| !others.contains(&code.for_json()));
        let lines = error.unwrap_or_default().lines().take(MISTAKES_MAX);
        Self {
            path: Visible::of(path),
            has_file,
            mistakes: lines.map(|line| Visible::of(&one_line(line, MESSAGE_CHARS))).collect(),
            warnings: warnings
                .iter()
                .take(MISTAKES_MAX)
                .map(|text| Visible::of(&one_line(text, MESSAGE_CHARS)))
                .collect(),
            rows: records
                .iter()
                .filter(is_reload)
                .take(ROWS_MAX)
                .map(|record| ReloadRow::new(record, now_ms))
                .collect(),
        }
    }
}

impl ReloadRow {
    fn new(record: &Record, now_ms: i64) -> Self {
        let code = record.code.as_ref().map(Untrusted::for_json);
        let (class, icon, word) = match (record.status, code) {
            (_, Some("weakening_held")) => ("held", "clock", "Held"),
            (Status::Success, _) => ("ok", "check", "Applied"),
            (Status::Error, _) => ("error", "x", "Not loaded"),
            (Status::Refused, _) => ("refused", "ban", "Refused"),
            (Status::Started | Status::Cancelled | Status::Interrupted, _) => ("waiting", "clock", "Not finished"),
        };
        let message = record.message.as_ref().map(Untrusted::for_json).filter(|message| !message.is_empty());
        let message = message.unwrap_or("nothing changed");
        Self {
            id: record.id.to_string(),
            time: Time::new(record.time_ms(), now_ms),
            class,
            icon,
            word,
            message: Visible::of(&one_line(message.strip_prefix("reloaded: ").unwrap_or(message), MESSAGE_CHARS)),
        }
    }
}
