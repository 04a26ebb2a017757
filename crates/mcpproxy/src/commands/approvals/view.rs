//! An approval request as the gateway returned it.

use serde_json::Value;
use serde_json::value::RawValue;

use super::raw::Exact;
use crate::client::Reply;
use crate::terminal::output::{self, Format};
use crate::terminal::visible;

pub(super) struct View {
    pub(super) value: Value,
    /// The JSON text, with the original digits of every number.
    pub(super) text: String,
}

impl View {
    /// Reads the answer of the gateway.
    pub(super) fn of(reply: Reply) -> anyhow::Result<Self> {
        let text = reply.text()?.to_owned();
        Ok(Self { value: reply.answer, text })
    }

    pub(super) fn exact(&self) -> Exact {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    /// Prints the request. JSON output is the original text, because a user decides on it.
    pub(super) fn print(&self, format: Format, text: impl FnOnce() -> String) -> anyhow::Result<()> {
        match format {
            Format::Table | Format::Yaml => format.print(&self.value, text),
            Format::Json => {
                let raw: &RawValue = serde_json::from_str(&self.text)?;
                output::print(&visible::json(raw)?)
            }
        }
    }
}
