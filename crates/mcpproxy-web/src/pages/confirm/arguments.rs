//! Arguments as a table: each value, and what it was in the last call that was approved.

use mcpproxy_core::json;
use mcpproxy_gateway::ApprovalView;

use crate::diff::{Change, Row, diff};
use crate::pages::words::Time;
use crate::visible::Visible;

/// Longer values show their beginning first.
const SHORT_CHARS: usize = 240;
/// What stands in place of a secret.
const MASKED: &str = "***";
/// And no more than that at all.
const MAX_CHARS: usize = 20_000;

pub(crate) struct Arguments {
    pub(crate) rows: Vec<ArgumentRow>,
    /// Whether they differ from the last ones in anything, shown or not.
    pub(crate) is_changed: bool,
    pub(crate) summary: String,
    pub(crate) left_out: usize,
    /// When the call was made that these are compared with.
    pub(crate) compared_to: Option<String>,
}

pub(crate) struct ArgumentRow {
    /// The JSON pointer, and the same as it is shown.
    place: String,
    pub(crate) pointer: Visible,
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) before: Option<Shown>,
    pub(crate) after: Option<Shown>,
}

/// A value with its beginning first if it is long.
pub(crate) struct Shown {
    pub(crate) is_text: bool,
    pub(crate) short: Visible,
    pub(crate) whole: Option<Visible>,
    pub(crate) chars: usize,
    is_masked: bool,
}

impl Arguments {
    /// What changed is found between what was kept of both calls, in which secrets are masked; what is shown is for the
    /// eyes of whoever decides.
    pub(crate) fn new(view: &ApprovalView, now_ms: i64) -> Self {
        let (approval, previous) = (&view.approval, view.previous.as_ref());
        let before = previous.map(|previous| previous.shown_args.for_json());
        let diff = diff(before, approval.shown_args.for_json());
        // What is masked looks the same whatever it is; the digests know better.
        let is_same = previous.is_some_and(|previous| previous.args_digest == approval.args_digest);
        let summary = match (previous, diff.changes()) {
            (None, _) => "first time".to_owned(),
            (Some(_), 0) if is_same => "same as last time".to_owned(),
            (Some(_), 0) => "changed where it is masked".to_owned(),
            (Some(_), 1) => "1 change since last time".to_owned(),
            (Some(_), more) => format!("{more} changes since last time"),
        };
        let against = match previous {
            None => Against::Nothing,
            Some(_) if is_same => Against::Same,
            Some(_) => Against::Other,
        };
        let is_empty =
            |row: &Row| row.pointer.is_empty() && matches!(&row.change, Change::Unchanged(value) if value == "{}");
        let rows = diff.rows.into_iter().filter(|row| !is_empty(row)).map(|row| ArgumentRow::new(row, against));
        let whole = self::diff(None, view.args_for_human.for_json()).rows;
        Self {
            rows: rows.flat_map(|row| row.unmasked(&whole)).collect(),
            is_changed: against == Against::Other,
            summary,
            left_out: diff.left_out,
            compared_to: previous.map(|previous| Time::new(previous.created_ms, now_ms).words),
        }
    }
}

/// What the arguments are held against.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Against {
    Nothing,
    Same,
    Other,
}

impl ArgumentRow {
    fn new(row: Row, against: Against) -> Self {
        let (class, word, before, after) = match row.change {
            Change::Unchanged(value) if against == Against::Nothing => ("first", "", None, Some(value)),
            Change::Unchanged(value) if against == Against::Other && value.contains(MASKED) => {
                ("same", "may have changed", None, Some(value))
            }
            Change::Unchanged(value) => ("same", "", None, Some(value)),
            Change::Added(value) => ("added", "new", None, Some(value)),
            Change::Removed(value) => ("removed", "gone", Some(value), None),
            Change::Changed { before, after } => ("changed", "changed", Some(before), Some(after)),
        };
        let shown = |value: Option<String>| value.map(|value| Shown::json(&value));
        Self {
            pointer: name(&row.pointer),
            place: row.pointer,
            class,
            word,
            before: shown(before),
            after: shown(after),
        }
    }

    /// With the value itself in place of the stars, or with the values in it.
    fn unmasked(self, whole: &[Row]) -> Vec<Self> {
        if !self.after.as_ref().is_some_and(|after| after.is_masked) {
            return vec![self];
        }
        let is_in = |row: &&Row| {
            let rest = row.pointer.strip_prefix(&self.place);
            rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || self.place.is_empty())
        };
        let rows: Vec<Self> = whole.iter().filter(is_in).map(|row| self.with(row)).collect();
        if rows.is_empty() { vec![self] } else { rows }
    }

    fn with(&self, row: &Row) -> Self {
        let value = match &row.change {
            Change::Unchanged(value) | Change::Added(value) | Change::Removed(value) => value,
            Change::Changed { after, .. } => after,
        };
        let after = Some(Shown::json(value));
        Self { pointer: name(&row.pointer), place: row.pointer.clone(), before: None, after, ..*self }
    }
}

fn name(pointer: &str) -> Visible {
    Visible::of(if pointer.is_empty() { "(all)" } else { pointer })
}

impl Shown {
    /// A text without its quotes and escapes, everything else as it is written.
    pub(crate) fn json(value: &str) -> Self {
        match json::string_value(value) {
            Some(text) => Self::new(&text, true),
            None => Self::new(value, false),
        }
    }

    pub(crate) fn lines(text: &str) -> Self {
        // These line breaks are ours; marking each would hide those that are not.
        Self { short: Visible::lines(&text.chars().take(MAX_CHARS).collect::<String>()), ..Self::new("", false) }
    }

    fn new(text: &str, is_text: bool) -> Self {
        let (chars, is_masked) = (text.chars().count(), text.contains(MASKED));
        let begin = |most: usize| Visible::of(&text.chars().take(most).collect::<String>());
        if chars <= SHORT_CHARS {
            return Self { is_text, short: Visible::of(text), whole: None, chars, is_masked };
        }
        let mut short: String = text.chars().take(SHORT_CHARS).collect();
        short.push('…');
        let whole = match chars {
            ..=MAX_CHARS => begin(MAX_CHARS),
            _ => Visible::of(&format!(
                "{}… (the rest is too long to show)",
                text.chars().take(MAX_CHARS).collect::<String>()
            )),
        };
        Self { is_text, short: Visible::of(&short), whole: Some(whole), chars, is_masked }
    }
}
