//! The arguments of a call beside those of the last one that was approved, value by value.

mod align;

use mcpproxy_core::json;
use serde_json::value::RawValue;

/// More than anybody reads; what is left out is said.
pub(crate) const MAX_ROWS: usize = 400;
/// Deeper values are shown as the JSON they are.
const MAX_DEPTH: usize = 8;

/// A value and what became of it. The texts are JSON as it was written, digit for digit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Row {
    /// A JSON pointer without its first slash; empty for the value as a whole.
    pub(crate) pointer: String,
    pub(crate) change: Change,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    Unchanged(String),
    Added(String),
    Removed(String),
    Changed { before: String, after: String },
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Diff {
    pub(crate) rows: Vec<Row>,
    /// Values that did not fit.
    pub(crate) left_out: usize,
}

/// `before` is none when there was no such call yet; then every value is `Unchanged`: nothing is new about it.
pub(crate) fn diff(before: Option<&str>, after: &str) -> Diff {
    let mut diff = Diff::default();
    match before {
        Some(before) => diff.compare("", before.trim(), after.trim(), 0),
        None => diff.list("", after.trim(), 0, &Change::Unchanged),
    }
    diff
}

impl Diff {
    /// How many values differ from before.
    pub(crate) fn changes(&self) -> usize {
        self.rows.iter().filter(|row| !matches!(row.change, Change::Unchanged(_))).count()
    }

    fn compare(&mut self, pointer: &str, before: &str, after: &str, depth: usize) {
        match (Parts::of(before, depth), Parts::of(after, depth)) {
            (Parts::Members(before), Parts::Members(after)) => self.compare_members(pointer, &before, &after, depth),
            (Parts::Elements(before), Parts::Elements(after)) => {
                self.compare_elements(pointer, &before, &after, depth);
            }
            (Parts::Whole, Parts::Whole) => {
                let same = json_equal(before, after);
                self.push(pointer, if same { Change::Unchanged(after.to_owned()) } else { changed(before, after) });
            }
            _ => self.push(pointer, changed(before, after)),
        }
    }

    fn compare_members(&mut self, pointer: &str, before: &Members<'_>, after: &Members<'_>, depth: usize) {
        for (key, value) in after {
            let pointer = below(pointer, key);
            match before.iter().find(|(known, _)| known == key) {
                Some((_, old)) => self.compare(&pointer, old, value, depth + 1),
                None => self.list(&pointer, value, depth + 1, &Change::Added),
            }
        }
        for (key, value) in before.iter().filter(|(key, _)| !after.iter().any(|(known, _)| known == key)) {
            self.list(&below(pointer, key), value, depth + 1, &Change::Removed);
        }
    }

    /// Somebody who was added to the front of a list has not changed everybody behind.
    fn compare_elements(&mut self, pointer: &str, before: &[&str], after: &[&str], depth: usize) {
        for step in align::align(before, after, json_equal) {
            let at = |index: usize| below(pointer, &index.to_string());
            let of = |values: &[&str], index: usize| values.get(index).copied().unwrap_or_default().to_owned();
            match step {
                align::Step::Both(old, new) => {
                    self.compare(&at(new), &of(before, old), &of(after, new), depth + 1);
                }
                align::Step::New(new) => self.list(&at(new), &of(after, new), depth + 1, &Change::Added),
                align::Step::Old(old) => self.list(&at(old), &of(before, old), depth + 1, &Change::Removed),
            }
        }
    }

    /// Every value in it, all with the same mark.
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
        if self.rows.len() < MAX_ROWS {
            self.rows.push(Row { pointer: pointer.to_owned(), change });
        } else {
            self.left_out += 1;
        }
    }
}

type Members<'a> = json::Members<'a>;

enum Parts<'a> {
    Members(Members<'a>),
    Elements(Vec<&'a str>),
    /// A value that has no parts, or none that are shown one by one.
    Whole,
}

impl<'a> Parts<'a> {
    fn of(value: &'a str, depth: usize) -> Self {
        if depth >= MAX_DEPTH {
            return Self::Whole;
        }
        let members = || json::members(value).filter(|members| !members.is_empty()).map(Self::Members);
        let elements = || {
            let elements: Vec<&RawValue> = serde_json::from_str(value).ok()?;
            (!elements.is_empty()).then(|| Self::Elements(elements.into_iter().map(RawValue::get).collect()))
        };
        match value.bytes().next() {
            Some(b'{') => members().unwrap_or(Self::Whole),
            Some(b'[') => elements().unwrap_or(Self::Whole),
            _ => Self::Whole,
        }
    }
}

fn changed(before: &str, after: &str) -> Change {
    Change::Changed { before: before.to_owned(), after: after.to_owned() }
}

/// Strings are the same whatever their spelling; numbers only if their digits are. Values in values must be spelt alike.
fn json_equal(left: &str, right: &str) -> bool {
    let is_text = |text: &str| text.starts_with('"');
    left == right || (is_text(left) && is_text(right) && json::string_value(left) == json::string_value(right))
}

fn below(pointer: &str, key: &str) -> String {
    let key = key.replace('~', "~0").replace('/', "~1");
    if pointer.is_empty() { key } else { format!("{pointer}/{key}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: Option<&str>, after: &str, expected: &[&str]) {
        let rows = diff(before, after).rows.into_iter().map(|Row { pointer, change }| match change {
            Change::Unchanged(value) => format!("  {pointer} {value}"),
            Change::Added(value) => format!("+ {pointer} {value}"),
            Change::Removed(value) => format!("- {pointer} {value}"),
            Change::Changed { before, after } => format!("~ {pointer} {before} -> {after}"),
        });
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
        let long = diff(None, &format!("[{}]", numbers.join(",")));
        assert_eq!((long.rows.len(), long.left_out), (MAX_ROWS, 600));
        let deep = "[".repeat(60) + &"]".repeat(60);
        check(None, &deep, &[&format!("  0/0/0/0/0/0/0/0 {}{}", "[".repeat(52), "]".repeat(52))]);
        check(None, "not json", &["   not json"]);
    }
}
