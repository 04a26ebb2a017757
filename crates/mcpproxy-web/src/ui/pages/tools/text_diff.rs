//! The difference between two texts or sets of files, line by line, with a few lines around each change.

use std::collections::{BTreeMap, BTreeSet};

use crate::diff::align_lines;
use crate::ui::pages::amount::{counted, items};
use crate::visible::Visible;

/// Unchanged lines around a change.
const CONTEXT: usize = 3;
/// Lines of a whole difference.
const LINES_MAX: usize = 400;
const LINE_MAX_CHARS: usize = 400;
/// Lines of the differences of all files. More files are named without their lines.
const FILES_LINES_MAX: usize = 2_000;
const FILES_MAX: usize = 200;

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
    /// Stands for the rest of a long difference.
    Cut,
}

impl DiffLine {
    pub(crate) fn is_old(&self) -> bool {
        self.kind == LineKind::Old
    }

    pub(crate) fn is_new(&self) -> bool {
        self.kind == LineKind::New
    }

    pub(crate) fn is_gap(&self) -> bool {
        matches!(self.kind, LineKind::Gap | LineKind::Cut)
    }
}

/// The differences between two sets of files.
#[derive(Debug, Default)]
pub(crate) struct FileDiffs {
    pub(crate) files: Vec<FileDiff>,
    /// True if lines or files are left out.
    pub(crate) is_cut: bool,
}

/// A file that differs.
#[derive(Debug)]
pub(crate) struct FileDiff {
    pub(crate) name: Visible,
    /// Empty for a file that both sets have.
    pub(crate) tag: &'static str,
    /// Empty if the file is empty, or if the lines are left out.
    pub(crate) lines: Vec<DiffLine>,
    pub(crate) is_left_out: bool,
}

impl FileDiffs {
    /// Compares names and texts.
    pub(crate) fn between(before: &[(String, String)], after: &[(String, String)]) -> Self {
        let [before, after] = [before, after].map(by_name);
        let names: BTreeSet<&str> = before.keys().chain(after.keys()).copied().collect();
        let mut all = Self::default();
        let mut shown = 0;
        for name in names {
            let (old, new) = (before.get(name).copied(), after.get(name).copied());
            if old == new {
                continue;
            }
            if all.files.len() >= FILES_MAX {
                all.is_cut = true;
                break;
            }
            let tag = match (&old, &new) {
                (None, _) => "new file",
                (_, None) => "removed",
                (Some(_), Some(_)) => "",
            };
            let is_left_out = shown >= FILES_LINES_MAX;
            let lines = match is_left_out {
                true => Vec::new(),
                false => text_diff(old.unwrap_or_default(), new.unwrap_or_default()),
            };
            shown += lines.len();
            all.is_cut |= is_left_out || lines.iter().any(|line| line.kind == LineKind::Cut);
            all.files.push(FileDiff { name: Visible::of(name), tag, lines, is_left_out });
        }
        all
    }
}

fn by_name(files: &[(String, String)]) -> BTreeMap<&str, &str> {
    files.iter().map(|(name, text)| (name.as_str(), text.as_str())).collect()
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
            let rest = changes.len().saturating_sub(next);
            let text = format!("… {}", counted(items(rest), "more changed line"));
            lines.extend((rest > 0).then(|| DiffLine { kind: LineKind::Cut, text: Visible::of(&text) }));
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
                LineKind::Gap | LineKind::Cut => "",
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

    #[test]
    fn a_long_difference_says_what_is_left_out() {
        let text: String = (0..500).map(|line| format!("{line}\n")).collect();
        let lines = text_diff("", &text);
        assert_eq!(lines.len(), LINES_MAX + 1);
        assert_eq!(lines[LINES_MAX].text.to_string(), "… 100 more changed lines");
        assert!(FileDiffs::between(&[], &[("a".to_owned(), text)]).is_cut);
    }

    #[test]
    fn files_that_differ() {
        let files = |all: &[(&str, &str)]| -> Vec<(String, String)> {
            all.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let before = files(&[("a", "1\n"), ("b", "1\n"), ("d", "")]);
        let after = files(&[("a", "1\n"), ("b", "2\n"), ("c", "<b>\n")]);
        let diffs = FileDiffs::between(&before, &after);
        let told: Vec<(String, &str, usize)> =
            diffs.files.iter().map(|file| (file.name.to_string(), file.tag, file.lines.len())).collect();
        let expected = [("b", "", 2), ("c", "new file", 1), ("d", "removed", 0)];
        assert_eq!(told, expected.map(|(name, tag, lines)| (name.to_owned(), tag, lines)));
        assert!(!diffs.is_cut);
    }
}
