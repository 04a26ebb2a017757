//! Compares the annotations of a tool.

use std::cmp::Ordering;

use super::values::{name_of, sentence};
use super::{Differences, Gravity, members, text};
use crate::json::{canonical, member};
use crate::{Hints, Variant};

/// The values of one hint. Clients and the gateway trust a tool more the lower the value is: the trusting value, then no
/// value, then the opposite.
struct HintRow {
    key: &'static str,
    trusting: bool,
    laxer: &'static str,
    stricter: &'static str,
}

const HINTS: [HintRow; 4] = [
    HintRow {
        key: "readOnlyHint",
        trusting: true,
        laxer: "The tool now claims that it only reads",
        stricter: "The tool no longer claims that it only reads",
    },
    HintRow {
        key: "destructiveHint",
        trusting: false,
        laxer: "The tool no longer counts as destructive",
        stricter: "The tool now counts as destructive",
    },
    HintRow {
        key: "idempotentHint",
        trusting: true,
        laxer: "Agents may now repeat calls",
        stricter: "Agents may no longer repeat calls",
    },
    HintRow {
        key: "openWorldHint",
        trusting: false,
        laxer: "Its results no longer count as coming from outside",
        stricter: "Its results now count as coming from outside",
    },
];

pub(super) fn compare(found: &mut Differences, old: Option<&str>, new: Option<&str>) {
    let object = |json: Option<&'_ str>| json.filter(|json| *json != "null").unwrap_or("{}").to_owned();
    let (was, is) = (object(old), object(new));
    let Some(pairs) = members::differing(&was, &is, |_, value| canonical(value)) else {
        found.add(Gravity::Severe, "hints", "The annotations have another form.");
        return;
    };
    for members::Pair { key, old, new } in pairs {
        match HINTS.iter().find(|row| row.key == key) {
            Some(row) => row.compare(found, (&was, &is), (old, new)),
            None if key == "title" => text::compare(found, "title", "The title in the annotations", old, new),
            None => {
                let what = name_of("Annotation", &key);
                found.add(Gravity::Other, "hints", sentence(&what, old, new));
            }
        }
    }
}

impl HintRow {
    fn compare(&self, found: &mut Differences, (was, is): (&str, &str), (old, new): (Option<&str>, Option<&str>)) {
        let (Some(before), Some(after)) = (self.rank(old), self.rank(new)) else {
            found.add(Gravity::Severe, "hints", sentence(self.key, old, new));
            return;
        };
        let word = |json: Option<&str>| match json {
            None | Some("null") => "not given",
            Some("true") => "true",
            Some(_) => "false",
        };
        let fact = format!("{} was {} and is {}", self.key, word(old), word(new));
        let (gravity, meaning) = match after.cmp(&before) {
            Ordering::Less if self.key == "readOnlyHint" && becomes_read(was, is) => {
                (Gravity::Severe, "It can now be called by auto-approved reads")
            }
            Ordering::Less => (Gravity::Severe, self.laxer),
            Ordering::Greater => (Gravity::Stricter, self.stricter),
            Ordering::Equal => (Gravity::Other, "The annotations are written in another way"),
        };
        found.add(gravity, "hints", format!("{meaning}: {fact}."));
    }

    /// Returns how little the value makes others trust the tool.
    fn rank(&self, json: Option<&str>) -> Option<u8> {
        match json {
            None | Some("null") => Some(1),
            Some("true") => Some(if self.trusting { 0 } else { 2 }),
            Some("false") => Some(if self.trusting { 2 } else { 0 }),
            Some(_) => None,
        }
    }
}

/// Returns true if the gateway takes the tool for a read after the change, and did not before.
fn becomes_read(was: &str, is: &str) -> bool {
    let operation = |annotations: &str| Hints::of(Some(annotations)).ok().and_then(Hints::operation);
    let is_read = |annotations: &str| operation(annotations) == Some(Variant::Read);
    is_read(is) && !is_read(was) && member(is, "readOnlyHint").is_some()
}
