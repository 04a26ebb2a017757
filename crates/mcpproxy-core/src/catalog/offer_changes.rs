//! Compares two lists of a server's tools, for the record of a change.

use std::collections::HashMap;
use std::fmt;

use super::{Offer, Offered};
use crate::json::{canonical, members};
use crate::{Hints, Untrusted};

/// Names in the sentence about a change, at most, for each kind of change.
const NAMES_MAX: usize = 5;

/// The differences between two lists of one server's tools.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct OfferChanges {
    pub added: Vec<String>,
    pub removed: Vec<String>,
    pub changed: Vec<ToolChange>,
}

/// A tool that its server describes differently.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ToolChange {
    pub tool: String,
    /// The members that differ, such as `description`. A hint is named with both values: `readOnlyHint true → false`.
    pub fields: Vec<String>,
}

impl Offer {
    /// Returns what is different since an earlier list. The order of tools does not matter.
    pub fn changes_since(&self, before: &Self) -> OfferChanges {
        let by_name = |offer: &Self| -> HashMap<String, _> {
            offer.tools().map(|tool| (tool.name.tool().to_owned(), tool.clone())).collect()
        };
        let (old, new) = (by_name(before), by_name(self));
        let mut changes = OfferChanges::default();
        for tool in self.tools() {
            match old.get(tool.name.tool()) {
                None => changes.added.push(tool.name.tool().to_owned()),
                Some(old) if old.json == tool.json => {}
                Some(old) => {
                    let fields = changed_fields(old, tool);
                    if !fields.is_empty() {
                        changes.changed.push(ToolChange { tool: tool.name.tool().to_owned(), fields });
                    }
                }
            }
        }
        let gone = before.tools().map(|tool| tool.name.tool()).filter(|name| !new.contains_key(*name));
        changes.removed = gone.map(str::to_owned).collect();
        changes
    }
}

impl OfferChanges {
    pub fn is_empty(&self) -> bool {
        let Self { added, removed, changed } = self;
        added.is_empty() && removed.is_empty() && changed.is_empty()
    }
}

/// Says what changed: `tools changed: added a, b; removed c; changed d (description)`.
impl fmt::Display for OfferChanges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let changed: Vec<String> =
            self.changed.iter().map(|one| format!("{} ({})", one.tool, one.fields.join(", "))).collect();
        let mut parts = Vec::new();
        for (word, names) in [("added", &self.added), ("removed", &self.removed), ("changed", &changed)] {
            let more = names.len().saturating_sub(NAMES_MAX);
            let mut shown: Vec<String> = names.iter().take(NAMES_MAX).cloned().collect();
            if more > 0 {
                shown.push(format!("{more} more"));
            }
            if !shown.is_empty() {
                parts.push(format!("{word} {}", shown.join(", ")));
            }
        }
        write!(f, "tools changed: {}", parts.join("; "))
    }
}

/// Names the members that differ in meaning. Two texts of the same JSON are the same.
fn changed_fields(old: &Offered, new: &Offered) -> Vec<String> {
    let (before, after) = (members(&old.json).unwrap_or_default(), members(&new.json).unwrap_or_default());
    let value = |fields: &[(std::borrow::Cow<'_, str>, &str)], key: &str| {
        fields.iter().find(|(name, _)| name == key).map(|(_, value)| canonical(value))
    };
    let mut keys: Vec<&str> = before.iter().chain(&after).map(|(key, _)| key.as_ref()).collect();
    keys.sort_unstable();
    keys.dedup();
    let mut changed = Vec::new();
    for key in keys {
        if value(&before, key) == value(&after, key) {
            continue;
        }
        let hints = hints(old.hints, new.hints);
        match key {
            "annotations" if !hints.is_empty() => changed.extend(hints),
            // A server may use any text as a key.
            key => changed.push(Untrusted::shortened(key, 64).for_terminal().into_owned()),
        }
    }
    changed
}

fn hints(old: Hints, new: Hints) -> Vec<String> {
    let word = |value: Option<bool>| value.map_or("none", |value| if value { "true" } else { "false" });
    let pairs = [("readOnlyHint", old.read_only, new.read_only), ("destructiveHint", old.destructive, new.destructive)];
    let differ = pairs.into_iter().filter(|(_, old, new)| old != new);
    differ.map(|(name, old, new)| format!("{name} {} → {}", word(old), word(new))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerName;

    fn offer(tools: &[&str]) -> Offer {
        let server = ServerName::parse("fx").unwrap();
        Offer::new(tools.iter().map(|tool| Offered::parse(&server, tool))).0
    }

    fn check(before: &[&str], after: &[&str], expected: &str) {
        let changes = offer(after).changes_since(&offer(before));
        assert_eq!(if changes.is_empty() { String::new() } else { changes.to_string() }, expected);
    }

    #[test]
    fn changes_are_named() {
        let a = r#"{"name":"a","inputSchema":{}}"#;
        let b = r#"{"name":"b","inputSchema":{},"annotations":{"readOnlyHint":true}}"#;
        check(&[a, b], &[b, a], "");
        check(&[a], &[r#"{"inputSchema": {},"name":"a"}"#], "");
        check(&[a], &[b], "tools changed: added b; removed a");
        let worse = r#"{"name":"b","inputSchema":{"x":1},"annotations":{"readOnlyHint":false,"destructiveHint":true}}"#;
        check(
            &[b],
            &[worse],
            "tools changed: changed b (readOnlyHint true → false, destructiveHint none → true, inputSchema)",
        );
        let many: Vec<String> = (0..8).map(|n| format!(r#"{{"name":"t{n}","inputSchema":{{}}}}"#)).collect();
        let many: Vec<&str> = many.iter().map(String::as_str).collect();
        check(&[], &many, "tools changed: added t0, t1, t2, t3, t4, 3 more");
    }
}
