//! Compares the arguments of a call with those of the last approved call, value by value.
//!
//! Values are compared before masking, so a change inside a masked value is reported without revealing the value.

mod align;

use std::collections::HashMap;

use mcpproxy_core::json::{Members, string_value};
use mcpproxy_core::{Hidden, Parts, below};
use mcpproxy_gateway::{ApprovalDetails, ApprovalView};

/// The maximum number of rows on a page.
pub(crate) const MAX_ROWS: usize = 400;
/// The maximum number of rows in the full text.
pub(crate) const WHOLE_ROWS: usize = 100_000;

/// A value and its change. The texts are JSON exactly as written.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// A JSON pointer without the leading slash. Empty for the whole value.
    pub(crate) pointer: String,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Unchanged(String),
    Added(String),
    Removed(String),
    Changed {
        before: String,
        after: String,
    },
    /// The value changed. The previous value is not stored.
    Differs(String),
    /// Both values are masked, and the real ones are no longer stored.
    Unknown(String),
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) rows: Vec<Row>,
    /// The number of values that are not listed.
    pub(crate) left_out: usize,
}

/// The reader of the arguments.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Audience {
    /// Sensitive values are masked.
    Observer,
    /// Nothing is masked while the request is pending.
    Approver,
}

/// Compares the arguments of an approval request with the previous ones. Uses the real values, even where masks are
/// shown.
pub(crate) fn arguments(view: &ApprovalView, audience: Audience, most: usize) -> Diff {
    let (approval, previous) = (&view.approval, view.previous.as_ref());
    let shown = approval.shown_args.for_json();
    let after = match (audience, &approval.args) {
        (Audience::Approver, Some(args)) => After { text: args, whole: HashMap::new(), is_known: true },
        (Audience::Observer, Some(args)) => After { text: shown, whole: whole(shown, args), is_known: true },
        // Masked values always look the same, so the digests decide.
        (_, None) if previous.is_some_and(|previous| previous.args_digest == approval.args_digest) => {
            return diff(Some(&Before { text: shown, about: None }), &After::plain(shown), most);
        }
        (_, None) => After { text: shown, whole: HashMap::new(), is_known: false },
    };
    let before = previous.map(|previous| Before {
        text: previous.shown_args.for_json(),
        about: Some((ApprovalDetails::of(previous), previous.id.clone())),
    });
    diff(before.as_ref(), &after, most)
}

fn whole(shown: &str, args: &str) -> HashMap<String, String> {
    Hidden::all(shown, args).into_iter().map(|one| (one.pointer, one.whole)).collect()
}

/// The previous arguments as stored: masked, with keyed hashes of the masked values.
pub(crate) struct Before<'a> {
    text: &'a str,
    about: Option<(ApprovalDetails, mcpproxy_core::ApprovalId)>,
}

/// The current arguments as shown.
pub(crate) struct After<'a> {
    text: &'a str,
    /// The real values of masked ones, by pointer.
    whole: HashMap<String, String>,
    /// True if the real values are still known.
    is_known: bool,
}

impl<'a> After<'a> {
    fn plain(text: &'a str) -> Self {
        Self { text, whole: HashMap::new(), is_known: true }
    }
}

/// Compares all values. Without a previous call, every value is `Unchanged`.
fn diff(before: Option<&Before<'_>>, after: &After<'_>, most: usize) -> Diff {
    let mut comparing = Comparing { before, after, most, diff: Diff::default() };
    match before {
        Some(before) => comparing.compare(&PointerPair::default(), before.text.trim(), after.text.trim(), 0),
        None => comparing.list("", after.text.trim(), 0, &Change::Unchanged),
    }
    comparing.diff
}

impl Diff {
    /// Counts the changed values.
    pub(crate) fn changes(&self) -> usize {
        let is_same = |row: &&Row| matches!(row.change, Change::Unchanged(_) | Change::Unknown(_));
        self.rows.len() - self.rows.iter().filter(is_same).count()
    }
}

struct Comparing<'a> {
    before: Option<&'a Before<'a>>,
    after: &'a After<'a>,
    most: usize,
    diff: Diff,
}

/// The pointers of a value in the previous and the current arguments. They differ because list elements move.
#[derive(Clone, Default)]
struct PointerPair {
    old: String,
    new: String,
}

impl PointerPair {
    fn below(&self, old: &str, new: &str) -> Self {
        Self { old: below(&self.old, old), new: below(&self.new, new) }
    }
}

impl Comparing<'_> {
    /// Returns true if a masked value is unchanged, and `None` if neither value is masked.
    fn hidden(&self, at: &PointerPair, before: &str, after: &str) -> Option<bool> {
        let really = self.after.whole.get(&at.new);
        let (about, id) = self.before?.about.as_ref()?;
        let was_hidden = about.hid(id, &at.old, really.map_or(after, String::as_str));
        was_hidden.or_else(|| really.map(|really| json_equal(before, really)))
    }

    /// Returns true if any value is masked.
    fn hides(&self) -> bool {
        let was = self.before.and_then(|before| before.about.as_ref()).is_some_and(|(about, _)| about.hides());
        was || !self.after.whole.is_empty()
    }

    fn compare(&mut self, at: &PointerPair, before: &str, after: &str, depth: usize) {
        match self.hidden(at, before, after) {
            Some(true) => return self.list(&at.new, after, depth, &Change::Unchanged),
            Some(false) if self.after.is_known => return self.list(&at.new, after, depth, &Change::Differs),
            Some(false) if json_equal(before, after) => {
                return self.push(&at.new, Change::Unknown(after.to_owned()));
            }
            Some(false) | None => {}
        }
        match (Parts::of(before, depth), Parts::of(after, depth)) {
            (Parts::Members(before), Parts::Members(after)) => self.compare_members(at, &before, &after, depth),
            (Parts::Elements(before), Parts::Elements(after)) => {
                self.compare_elements(at, &before, &after, depth);
            }
            (Parts::Whole, Parts::Whole) => {
                let same = json_equal(before, after);
                self.push(&at.new, if same { Change::Unchanged(after.to_owned()) } else { changed(before, after) });
            }
            _ => self.push(&at.new, changed(before, after)),
        }
    }

    fn compare_members(&mut self, at: &PointerPair, before: &Members<'_>, after: &Members<'_>, depth: usize) {
        let old: HashMap<&str, &str> = before.iter().map(|(key, value)| (key.as_ref(), *value)).collect();
        let new: HashMap<&str, &str> = after.iter().map(|(key, value)| (key.as_ref(), *value)).collect();
        for (key, value) in after {
            match old.get(key.as_ref()) {
                Some(old) => self.compare(&at.below(key, key), old, value, depth + 1),
                None => self.list(&below(&at.new, key), value, depth + 1, &Change::Added),
            }
        }
        for (key, value) in before.iter().filter(|(key, _)| !new.contains_key(key.as_ref())) {
            self.list(&below(&at.old, key), value, depth + 1, &Change::Removed);
        }
    }

    /// Aligns the lists first, so that an element inserted at the front does not mark all others as changed.
    fn compare_elements(&mut self, at: &PointerPair, before: &[&str], after: &[&str], depth: usize) {
        let of = |values: &[&str], index: usize| values.get(index).copied().unwrap_or_default().to_owned();
        let pair = |old: usize, new: usize| at.below(&old.to_string(), &new.to_string());
        let is_hidden = self.hides();
        let equal = |old: usize, new: usize| {
            let (Some(before), Some(after)) = (before.get(old), after.get(new)) else { return false };
            let hidden = is_hidden.then(|| self.hidden(&pair(old, new), before, after)).flatten();
            hidden.unwrap_or_else(|| json_equal(before, after))
        };
        for step in align::align(before.len(), after.len(), &equal) {
            match step {
                align::Step::Both(old, new) => {
                    self.compare(&pair(old, new), &of(before, old), &of(after, new), depth + 1);
                }
                align::Step::New(new) => {
                    self.list(&below(&at.new, &new.to_string()), &of(after, new), depth + 1, &Change::Added);
                }
                align::Step::Old(old) => {
                    self.list(&below(&at.old, &old.to_string()), &of(before, old), depth + 1, &Change::Removed);
                }
            }
        }
    }

    /// Adds every value below a pointer with the same kind of change.
    fn list(&mut self, pointer: &str, value: &str, depth: usize, mark: &dyn Fn(String) -> Change) {
        match Parts::of(value, depth) {
            Parts::Members(members) => {
                for (key, value) in members {
                    self.list(&below(pointer, &key), value, depth + 1, mark);
                }
            }
            Parts::Elements(elements) => {
                for (index, value) in elements.into_iter().enumerate() {
                    self.list(&below(pointer, &index.to_string()), value, depth + 1, mark);
                }
            }
            Parts::Whole => self.push(pointer, mark(value.to_owned())),
        }
    }

    fn push(&mut self, pointer: &str, change: Change) {
        if self.diff.rows.len() < self.most {
            self.diff.rows.push(Row { pointer: pointer.to_owned(), change });
        } else {
            self.diff.left_out += 1;
        }
    }
}

fn changed(before: &str, after: &str) -> Change {
    Change::Changed { before: before.to_owned(), after: after.to_owned() }
}

/// Compares strings by value, and everything else by its text.
fn json_equal(left: &str, right: &str) -> bool {
    let is_text = |text: &str| text.starts_with('"');
    left == right || (is_text(left) && is_text(right) && string_value(left) == string_value(right))
}

/// Aligns two texts by their lines. Each line of the result says if the old and the new text have it. Lines that differ
/// come in blocks, the old ones first.
pub(crate) fn align_lines(before: &[String], after: &[String]) -> Vec<(bool, bool, String)> {
    let line = |lines: &[String], at: usize| lines.get(at).cloned().unwrap_or_default();
    let equal = |old: usize, new: usize| before.get(old) == after.get(new);
    let (mut lines, mut added) = (Vec::new(), Vec::new());
    for step in align::align(before.len(), after.len(), &equal) {
        match step {
            align::Step::Both(old, new) if equal(old, new) => {
                lines.append(&mut added);
                lines.push((true, true, line(before, old)));
            }
            align::Step::Both(old, new) => {
                lines.push((true, false, line(before, old)));
                added.push((false, true, line(after, new)));
            }
            align::Step::Old(old) => lines.push((true, false, line(before, old))),
            align::Step::New(new) => added.push((false, true, line(after, new))),
        }
    }
    lines.append(&mut added);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<&str>, after: &str, expected: &[&str]) {
        let before_text = before.map(|text| Before { text, about: None });
        let rows = diff(before_text.as_ref(), &After::plain(after), MAX_ROWS).rows.into_iter().map(
            |Row { pointer, change }| match change {
                Change::Unchanged(value) => format!("  {pointer} {value}"),
                Change::Added(value) => format!("+ {pointer} {value}"),
                Change::Removed(value) => format!("- {pointer} {value}"),
                Change::Changed { before, after } => format!("~ {pointer} {before} -> {after}"),
                Change::Differs(value) => format!("! {pointer} {value}"),
                Change::Unknown(value) => format!("? {pointer} {value}"),
            },
        );
        assert_eq!(rows.collect::<Vec<_>>(), expected, "{before:?} {after}");
    }

    #[test]
    fn values() {
        check(None, r#"{"to": ["a", "b"], "n": 1.0}"#, &["  to/0 \"a\"", "  to/1 \"b\"", "  n 1.0"]);
        check(Some(r#"{"a": 1}"#), r#"{"a": 1}"#, &["  a 1"]);
        check(Some(r#"{"a": 1}"#), r#"{"a": 1.0}"#, &["~ a 1 -> 1.0"]);
        check(Some(r#"{"a": 1}"#), r#"{"a": "1"}"#, &["~ a 1 -> \"1\""]);
        check(Some(r#"{"a": "\u0041"}"#), r#"{"a": "A"}"#, &["  a \"A\""]);
        check(Some(r#"{"a": 1, "b": 2}"#), r#"{"c": 3, "a": 1}"#, &["+ c 3", "  a 1", "- b 2"]);
        check(Some("{}"), "{}", &["   {}"]);
        check(Some("{}"), r#"{"a": {"b": null}}"#, &["~  {} -> {\"a\": {\"b\": null}}"]);
        check(None, "123456789012345678901234567890", &["   123456789012345678901234567890"]);
        check(None, r#"{"a/b": {"~": true}}"#, &["  a~1b/~0 true"]);
        check(Some(r#"{"a": {"b": 1}}"#), r#"{"a": [1]}"#, &["~ a {\"b\": 1} -> [1]"]);
        check(Some(r#"{"a": {"b": 1, "c": 2}}"#), r#"{"a": {"b": 2, "c": 2}}"#, &["~ a/b 1 -> 2", "  a/c 2"]);
        check(Some(r#"{"a": []}"#), r#"{"a": ["x"]}"#, &["~ a [] -> [\"x\"]"]);
    }

    #[test]
    fn lists_are_compared_by_what_is_in_them() {
        check(
            Some(r#"{"to": ["anna", "max"]}"#),
            r#"{"to": ["eve", "anna", "max"]}"#,
            &["+ to/0 \"eve\"", "  to/1 \"anna\"", "  to/2 \"max\""],
        );
        check(
            Some(r#"{"to": ["anna", "max", "zoe"]}"#),
            r#"{"to": ["anna", "zoe"]}"#,
            &["  to/0 \"anna\"", "- to/1 \"max\"", "  to/1 \"zoe\""],
        );
        check(Some(r#"["a", "b"]"#), r#"["a", "c"]"#, &["  0 \"a\"", "~ 1 \"b\" -> \"c\""]);
        check(
            Some(r#"[{"id": 1, "n": "x"}]"#),
            r#"[{"id": 1, "n": "y"}, {"id": 2, "n": "z"}]"#,
            &["  0/id 1", "~ 0/n \"x\" -> \"y\"", "+ 1/id 2", "+ 1/n \"z\""],
        );
    }

    #[test]
    fn long_ones_are_cut_and_deep_ones_are_whole() {
        let numbers: Vec<String> = (0..1_000).map(|number| number.to_string()).collect();
        let long = diff(None, &After::plain(&format!("[{}]", numbers.join(","))), MAX_ROWS);
        assert_eq!((long.rows.len(), long.left_out), (MAX_ROWS, 600));
        let deep = "[".repeat(60) + &"]".repeat(60);
        check(None, &deep, &[&format!("  0/0/0/0/0/0/0/0 {}{}", "[".repeat(52), "]".repeat(52))]);
        check(None, "not json", &["   not json"]);
    }
}
