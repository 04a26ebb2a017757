//! The filter of lists, feeds and exports.

use std::borrow::Cow;

use mcpproxy_core::{RiskLevel, Sensitivity, Untrusted, Variant};

use crate::record::id::{Key, RecordId};
use crate::record::mark::{CallMark, category_member, sensitivity_member};
use crate::{Kind, Record, Status};

/// The most records that one page searches, however few match. So the cost of a page does not grow with the log.
pub const SCAN_MAX: usize = 10_000;

/// Selects records. `None` matches every value.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Filter {
    pub intent_type: Option<Variant>,
    pub kind: Option<Kind>,
    pub status: Option<Status>,
    pub server: Option<String>,
    pub tool: Option<String>,
    pub agent: Option<String>,
    pub risk: Option<RiskLevel>,
    /// The sensitivity that the agent declared.
    pub sensitivity: Option<Sensitivity>,
    /// The category of the tool's contract.
    pub category: Option<String>,
    /// The code of an error, a refusal or another event.
    pub code: Option<String>,
    /// `true` for dry runs only, `false` to leave them out.
    pub dry_run: Option<bool>,
    /// `true` for answers that were given again, `false` to leave them out.
    pub replayed: Option<bool>,
    /// Both times are inclusive.
    pub since_ms: Option<i64>,
    pub until_ms: Option<i64>,
    /// Matches a part of the tool, server, `server:tool`, agent, client, code, message or metadata, ignoring ASCII
    /// case. The full id of a record matches that record. Ids of approvals and standing approvals are in the metadata.
    pub text: Option<String>,
}

/// A range of keys, without `before`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Keys {
    pub(crate) from: i64,
    pub(crate) before: i64,
}

impl Filter {
    /// Returns the text as a record id, if it has that form.
    pub(crate) fn named(&self) -> Option<RecordId> {
        self.text.as_deref().and_then(|text| RecordId::parse(&text.trim().to_ascii_uppercase()))
    }

    /// The text to search for, in lower case.
    pub(crate) fn part(&self) -> Option<String> {
        let text = self.text.as_deref().filter(|text| !text.is_empty())?;
        // Spaces around an id are never part of the search.
        let text = if self.named().is_some() { text.trim() } else { text };
        Some(text.to_ascii_lowercase())
    }

    /// Texts that the metadata must contain (`true`), or must not.
    pub(crate) fn members(&self) -> Vec<(Cow<'static, str>, bool)> {
        let sensitivity = self.sensitivity.map(|sensitivity| (sensitivity_member(sensitivity).into(), true));
        let category = self.category.as_deref().map(|category| (category_member(category).into(), true));
        let marks = [(CallMark::DryRun, self.dry_run), (CallMark::Replayed, self.replayed)];
        let marks = marks.into_iter().filter_map(|(mark, wanted)| Some((mark.member()?.into(), wanted?)));
        sensitivity.into_iter().chain(category).chain(marks).collect()
    }

    pub(crate) fn keys(&self, before: Option<Key>) -> Keys {
        let mut keys = Keys { from: 0, before: before.map_or(i64::MAX, |before| before.0) };
        if let Some(since_ms) = self.since_ms {
            keys.from = keys.from.max(Key::at(since_ms).0);
        }
        if let Some(until_ms) = self.until_ms {
            keys.before = keys.before.min(Key::at(until_ms.saturating_add(1)).0);
        }
        keys
    }

    /// Matches a record in memory exactly as the SQL of the list does.
    pub(crate) fn fits(&self, record: &Record) -> bool {
        fn is<T: PartialEq + ?Sized>(wanted: Option<&T>, found: Option<&T>) -> bool {
            wanted.is_none() || wanted == found
        }
        let keys = self.keys(None);
        (keys.from..keys.before).contains(&record.id.key().0)
            && is(self.intent_type.as_ref(), record.intent_type.as_ref())
            && is(self.kind.as_ref(), Some(&record.kind))
            && is(self.status.as_ref(), Some(&record.status))
            && is(self.server.as_deref(), record.server.as_ref().map(Untrusted::for_json))
            && is(self.tool.as_deref(), record.tool.as_ref().map(Untrusted::for_json))
            && is(self.agent.as_deref(), record.agent.as_deref())
            && is(self.risk.as_ref(), record.risk.as_ref())
            && is(self.code.as_deref(), record.code.as_ref().map(Untrusted::for_json))
            && self.members().iter().all(|(text, wanted)| record.metadata.for_json().contains(&**text) == *wanted)
            && self.part().is_none_or(|part| self.named() == Some(record.id) || mentions(record, &part))
    }
}

/// `part` is in lower case.
fn mentions(record: &Record, part: &str) -> bool {
    let word = |word: &Option<Untrusted>| word.as_ref().map(|word| word.for_json().to_owned());
    let (server, tool) = (word(&record.server), word(&record.tool));
    let both = server.as_ref().zip(tool.as_ref()).map(|(server, tool)| format!("{server}:{tool}"));
    let words = [server, tool, both, record.agent.clone(), word(&record.client), word(&record.code)];
    let long = [word(&record.message), Some(record.metadata.for_json().to_owned()), word(&record.end_metadata)];
    words.into_iter().chain(long).flatten().any(|text| text.to_ascii_lowercase().contains(part))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_ranges_of_keys() {
        let check = |since_ms: Option<i64>, until_ms: Option<i64>, from: i64, before: i64| {
            let filter = Filter { since_ms, until_ms, ..Filter::default() };
            assert_eq!(filter.keys(None), Keys { from, before }, "{filter:?}");
        };
        check(None, None, 0, i64::MAX);
        check(Some(-5), Some(i64::MAX), 0, Key::at(i64::MAX).0);
        check(Some(7), Some(7), Key::at(7).0, Key::at(8).0);
        check(None, Some(-1), 0, 0);
    }
}
