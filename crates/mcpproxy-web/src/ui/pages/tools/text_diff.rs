//! The difference between two texts, line by line, with a few lines around each change.

use crate::diff::align_lines;
use crate::visible::Visible;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Lines of a whole difference.
const LINES_MAX: usize = 400;
const LINE_MAX_CHARS: usize = 400;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DiffLine {
    pub(crate) kind: LineKind,
    pub(crate) text: Visible,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum LineKind {
    Same,
    Old,
    New,
    /// Stands for unchanged lines.
    Gap,
}

impl DiffLine {
    pub(crate) fn is_old(&self) -> bool {
        self.kind == LineKind::Old
    }

    pub(crate) fn is_new(&self) -> bool {
        self.kind == LineKind::New
    }

    pub(crate) fn is_gap(&self) -> bool {
        self.kind == LineKind::Gap
    }
}

pub(crate) fn text_diff(before: &str, after: &str) -> Vec<DiffLine> {
    let (old, new): (Vec<&str>, Vec<&str>) = (before.lines().collect(), after.lines().collect());
    let head = old.iter().zip(&new).take_while(|(old, new)| old == new).count();
    let rest = old.len().min(new.len()) - head;
    let tail = old.iter().rev().zip(new.iter().rev()).take(rest).take_while(|(old, new)| old == new).count();
    let middle = |lines: &[&str]| -> Vec<String> {
        let end = lines.len() - tail;
        lines.get(head..end).unwrap_or_default().iter().map(|line| (*line).to_owned()).collect()
    };
    let mut all: Vec<(LineKind, String)> = Vec::new();
    let same = |lines: &[&str]| -> Vec<(LineKind, String)> {
        lines.iter().map(|line| (LineKind::Same, (*line).to_owned())).collect()
    };
    all.extend(same(old.get(..head).unwrap_or_default()));
    all.extend(align_lines(&middle(&old), &middle(&new)).into_iter().map(|(is_old, is_new, line)| {
        let kind = match (is_old, is_new) {
            (true, false) => LineKind::Old,
            (false, true) => LineKind::New,
            (true, true) | (false, false) => LineKind::Same,
        };
        (kind, line)
    }));
    all.extend(same(old.get(old.len() - tail..).unwrap_or_default()));
    folded(&all)
}

/// Replaces unchanged lines that are far from any change.
fn folded(all: &[(LineKind, String)]) -> Vec<DiffLine> {
    let changes: Vec<usize> =
        all.iter().enumerate().filter(|(_, (kind, _))| *kind != LineKind::Same).map(|(at, _)| at).collect();
    let mut lines: Vec<DiffLine> = Vec::new();
    for (at, (kind, text)) in all.iter().enumerate() {
        let next = changes.partition_point(|change| *change < at);
        let near = [next.checked_sub(1), Some(next)].into_iter().flatten();
        let is_near = near.filter_map(|index| changes.get(index)).any(|change| change.abs_diff(at) <= CONTEXT);
        if lines.len() >= LINES_MAX {
            break;
        }
        if is_near {
            let text: String = text.chars().take(LINE_MAX_CHARS).collect();
            lines.push(DiffLine { kind: *kind, text: Visible::of(&text) });
        } else if lines.last().is_none_or(|line| line.kind != LineKind::Gap) {
            lines.push(DiffLine { kind: LineKind::Gap, text: Visible::of("…") });
        }
    }
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(before: &str, after: &str, expected: &[&str]) {
        let lines = text_diff(before, after).into_iter().map(|line| {
            let sign = match line.kind {
                LineKind::Same => " ",
                LineKind::Old => "-",
                LineKind::New => "+",
                LineKind::Gap => "",
            };
            format!("{sign}{}", line.text)
        });
        assert_eq!(lines.collect::<Vec<_>>(), expected, "{before:?} {after:?}");
    }

    #[test]
    fn lines_with_context() {
        check("", "a\nb\n", &["+a", "+b"]);
        check("a\nb\nc\n", "a\nx\nc\n", &[" a", "-b", "+x", " c"]);
        check("a\nb\nc\nd\n", "a\nx\nc\ny\nd\n", &[" a", "-b", "+x", " c", "+y", " d"]);
        check("1\n2\n3\n4\n5\n6\n", "1\n2\n3\n4\n5\n6\n7\n", &["…", " 4", " 5", " 6", "+7"]);
        check("a\n", "a\n", &["…"]);
        check(
            "<b>\u{202E}\n",
            "",
            &["-&lt;b&gt;<span class=\"mark\" title=\"changes the direction of text\">U+202E</span>"],
        );
    }
}
