//! The table of arguments, compared with the last approved call.

use mcpproxy_core::json;
use mcpproxy_gateway::ApprovalView;

use crate::diff::{Audience, Change, MAX_ROWS, Row, arguments};
use crate::ui::pages::labels::Time;
use crate::visible::Visible;

/// Longer values are collapsed.
const SHORT_CHARS: usize = 240;
/// Longer values are cut.
const MAX_CHARS: usize = 20_000;

pub(crate) struct Arguments {
    pub(crate) rows: Vec<ArgumentRow>,
    /// True if any argument changed, shown or not.
    pub(crate) is_changed: bool,
    pub(crate) summary: String,
    pub(crate) left_out: usize,
    /// The time of the call used for comparison.
    pub(crate) compared_to: Option<Time>,
}

pub(crate) struct ArgumentRow {
    pub(crate) pointer: Visible,
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) before: Option<ShownValue>,
    pub(crate) after: Option<ShownValue>,
}

/// A value, collapsed if it is long.
pub(crate) struct ShownValue {
    pub(crate) is_text: bool,
    pub(crate) short: Visible,
    pub(crate) whole: Option<Visible>,
    pub(crate) chars: usize,
    /// The number of characters that are cut.
    pub(crate) cut_chars: usize,
}

impl Arguments {
    pub(crate) fn new(view: &ApprovalView, now_ms: i64) -> Self {
        let (approval, previous) = (&view.approval, view.previous.as_ref());
        let diff = arguments(view, Audience::Approver, MAX_ROWS);
        let is_same = previous.is_some_and(|previous| previous.args_digest == approval.args_digest);
        let summary = match (previous, diff.changes()) {
            (None, _) => "first time".to_owned(),
            (Some(_), 0) if is_same => "same as last time".to_owned(),
            (Some(_), 0) if diff.left_out > 0 => "changed, but not shown here".to_owned(),
            (Some(_), 0) => "changed in a masked value".to_owned(),
            (Some(_), some) if diff.left_out > 0 => format!("at least {some} changes since last time"),
            (Some(_), 1) => "1 change since last time".to_owned(),
            (Some(_), more) => format!("{more} changes since last time"),
        };
        let is_empty =
            |row: &Row| row.pointer.is_empty() && matches!(&row.change, Change::Unchanged(value) if value == "{}");
        let is_first = previous.is_none();
        let rows = diff.rows.into_iter().filter(|row| !is_empty(row)).map(|row| ArgumentRow::new(row, is_first));
        Self {
            rows: rows.collect(),
            is_changed: previous.is_some() && !is_same,
            summary,
            left_out: diff.left_out,
            compared_to: previous.map(|previous| Time::new(previous.created_ms, now_ms)),
        }
    }

    /// Counts the values that are cut.
    pub(crate) fn cut_values(&self) -> usize {
        let values = self.rows.iter().flat_map(|row| [&row.before, &row.after]).flatten();
        values.filter(|value| value.cut_chars > 0).count()
    }
}

impl ArgumentRow {
    fn new(row: Row, is_first: bool) -> Self {
        let (class, word, before, after) = match row.change {
            Change::Unchanged(value) if is_first => ("first", "", None, Some(value)),
            Change::Unchanged(value) => ("same", "", None, Some(value)),
            Change::Unknown(value) => ("same", "may have changed", None, Some(value)),
            Change::Differs(value) => ("changed", "changed; the previous value was not stored", None, Some(value)),
            Change::Added(value) => ("added", "new", None, Some(value)),
            Change::Removed(value) => ("removed", "removed", Some(value), None),
            Change::Changed { before, after } => ("changed", "changed", Some(before), Some(after)),
        };
        let shown = |value: Option<String>| value.map(|value| ShownValue::json(&value));
        Self { pointer: name(&row.pointer), class, word, before: shown(before), after: shown(after) }
    }
}

fn name(pointer: &str) -> Visible {
    Visible::of(if pointer.is_empty() { "(all)" } else { pointer })
}

impl ShownValue {
    /// Shows a string without quotes and escapes, and any other JSON unchanged.
    pub(crate) fn json(value: &str) -> Self {
        match json::string_value(value) {
            Some(text) => Self::new(&text, true),
            None => Self::new(value, false),
        }
    }

    /// Shows words that are no single JSON value.
    pub(crate) fn plain(text: &str) -> Self {
        Self::new(text, false)
    }

    pub(crate) fn lines(text: &str) -> Self {
        let (chars, cut_chars) = cut(text);
        let mut begin: String = text.chars().take(MAX_CHARS).collect();
        if cut_chars > 0 {
            begin.push_str(&cut_here(cut_chars));
        }
        // Line breaks of a preview are normal and need no marks.
        Self { is_text: false, short: Visible::lines(&begin), whole: None, chars, cut_chars }
    }

    fn new(text: &str, is_text: bool) -> Self {
        let (chars, cut_chars) = cut(text);
        if chars <= SHORT_CHARS {
            return Self { is_text, short: Visible::of(text), whole: None, chars, cut_chars };
        }
        let mut short: String = text.chars().take(SHORT_CHARS).collect();
        short.push('…');
        let mut whole: String = text.chars().take(MAX_CHARS).collect();
        if cut_chars > 0 {
            whole.push_str(&cut_here(cut_chars));
        }
        Self { is_text, short: Visible::of(&short), whole: Some(Visible::of(&whole)), chars, cut_chars }
    }
}

/// Returns the number of characters, and the number of those that are cut.
fn cut(text: &str) -> (usize, usize) {
    let chars = text.chars().count();
    (chars, chars.saturating_sub(MAX_CHARS))
}

fn cut_here(chars: usize) -> String {
    format!("… ({chars} more characters not shown)")
}
