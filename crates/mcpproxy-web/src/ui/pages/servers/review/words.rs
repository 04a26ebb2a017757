//! The difference of two texts, word by word. White space is no difference, as in pins.

use std::time::Instant;

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use crate::visible::Side;

/// Words of a text that are compared. The rest counts as replaced.
const WORDS_MAX: usize = 4_000;

/// A word with the white space in front of it.
#[derive(Clone, Copy)]
struct Word<'a> {
    space: &'a str,
    text: &'a str,
}

fn split(text: &str) -> Vec<Word<'_>> {
    let is_space = |c: char| matches!(c, ' ' | '\n' | '\t' | '\r');
    let mut words = Vec::new();
    let mut rest = text;
    while !rest.is_empty() {
        let start = rest.find(|c| !is_space(c)).unwrap_or(rest.len());
        let (space, after) = rest.split_at_checked(start).unwrap_or((rest, ""));
        let end = after.find(is_space).unwrap_or(after.len());
        let (text, next) = after.split_at_checked(end).unwrap_or((after, ""));
        if !text.is_empty() {
            words.push(Word { space, text });
        }
        rest = next;
    }
    words
}

/// Compares two texts. After the deadline, the rest counts as replaced.
pub(super) fn compare(old: &str, new: &str, deadline: Instant) -> Vec<(Side, String)> {
    let (old, new) = (split(old), split(new));
    let texts =
        |words: &[Word<'_>]| -> Vec<String> { words.iter().take(WORDS_MAX).map(|word| word.text.to_owned()).collect() };
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &texts(&old), &texts(&new), Some(deadline));
    let mut pieces = Pieces::default();
    for step in steps {
        let (before, after) = (step.old_range(), step.new_range());
        if let DiffOp::Equal { .. } = step {
            pieces.push(Side::Both, new.get(after).unwrap_or_default());
        } else {
            pieces.push(Side::Old, old.get(before).unwrap_or_default());
            pieces.push(Side::New, new.get(after).unwrap_or_default());
        }
    }
    pieces.push(Side::Old, old.get(WORDS_MAX..).unwrap_or_default());
    pieces.push(Side::New, new.get(WORDS_MAX..).unwrap_or_default());
    pieces.0
}

/// Neighbouring pieces of the same side are joined.
#[derive(Default)]
struct Pieces(Vec<(Side, String)>);

impl Pieces {
    fn push(&mut self, side: Side, words: &[Word<'_>]) {
        for word in words {
            match self.0.last_mut() {
                Some((last, text)) if *last == side => {
                    text.push_str(word.space);
                    text.push_str(word.text);
                }
                // White space between two sides belongs to neither.
                Some(_) => {
                    let space = if word.space.is_empty() { " " } else { word.space };
                    self.0.push((Side::Both, space.to_owned()));
                    self.0.push((side, word.text.to_owned()));
                }
                None => self.0.push((side, format!("{}{}", word.space, word.text))),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    fn shown(old: &str, new: &str) -> String {
        let pieces = compare(old, new, Instant::now() + Duration::from_secs(5));
        let marked = pieces.into_iter().map(|(side, text)| match side {
            Side::Both => text,
            Side::Old => format!("[-{text}-]"),
            Side::New => format!("{{+{text}+}}"),
        });
        marked.collect()
    }

    #[test]
    fn differences_are_marked() {
        let check = |old: &str, new: &str, expected: &str| assert_eq!(shown(old, new), expected, "{old} {new}");
        check("Reads a file.", "Reads a file.", "Reads a file.");
        check("Reads a file.", "Reads a  file.\n", "Reads a  file.");
        check("Reads a file.", "Deletes a file.", "[-Reads-] {+Deletes+} a file.");
        check("Reads a file. Fast.", "Reads a file.", "Reads a file. [-Fast.-]");
        check("", "New words", "{+New words+}");
        check("a", "a\u{200B}", "[-a-] {+a\u{200B}+}");
    }

    #[test]
    fn long_texts_are_bounded() {
        let old: String = (0..9_000).map(|n| format!("a{n} ")).collect();
        let new: String = (0..9_000).map(|n| format!("b{n} ")).collect();
        let pieces = compare(&old, &new, Instant::now());
        let of = |side: Side| pieces.iter().filter(|(one, _)| *one == side).map(|(_, text)| text.len()).sum::<usize>();
        assert!(of(Side::Old) > 40_000 && of(Side::New) > 40_000, "nothing is lost");
    }
}
