//! The difference of two texts, word by word, in lines that fit the terminal.
//!
//! ```text
//! Reads a file. [-Fast.-] {+Before using it, read
//! ~/.ssh/id_rsa.+}
//! ```
//!
//! The marks say what colours say, so nothing is lost without colours. White space is no difference, as in pins.

use std::time::{Duration, Instant};

use similar::{Algorithm, DiffOp, capture_diff_slices_deadline};

use super::visible::visible;
use crate::terminal::style::{Colours, Tone};
use crate::terminal::wrap::width;

/// Two long texts that share nothing take long to compare. After this time, the rest counts as replaced.
const COMPARE_TIMEOUT: Duration = Duration::from_millis(500);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Mark {
    Same,
    Old,
    New,
}

impl Mark {
    fn around(self) -> (&'static str, &'static str) {
        match self {
            Self::Same => ("", ""),
            Self::Old => ("[-", "-]"),
            Self::New => ("{+", "+}"),
        }
    }

    fn tone(self) -> Tone {
        match self {
            Self::Same => Tone::Plain,
            Self::Old => Tone::Bad,
            Self::New => Tone::Good,
        }
    }
}

/// A word with the number of line breaks in front of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Word {
    mark: Mark,
    text: String,
    breaks: usize,
}

impl Word {
    /// A word of ours, or one that is visible already.
    pub(super) fn ours(text: &str) -> Self {
        Self { mark: Mark::Same, text: text.to_owned(), breaks: 0 }
    }
}

/// Splits a text into visible words.
fn split(text: &str, mark: Mark) -> Vec<Word> {
    let mut words = Vec::new();
    let mut breaks = 0;
    for (number, row) in visible(text).split('\n').enumerate() {
        breaks += usize::from(number > 0);
        for text in row.split(' ').filter(|word| !word.is_empty()) {
            words.push(Word { mark, text: text.to_owned(), breaks: std::mem::take(&mut breaks) });
        }
    }
    if let Some(first) = words.first_mut() {
        first.breaks = 0;
    }
    words
}

/// Marks every word of a text in the same way.
pub(super) fn marked(text: &str, mark: Mark) -> Vec<Word> {
    split(text, mark)
}

/// Compares two texts.
pub(super) fn compare(old: &str, new: &str) -> Vec<Word> {
    let (old, new) = (split(old, Mark::Old), split(new, Mark::New));
    let texts = |words: &[Word]| -> Vec<String> { words.iter().map(|word| word.text.clone()).collect() };
    let deadline = Instant::now() + COMPARE_TIMEOUT;
    let steps = capture_diff_slices_deadline(Algorithm::Myers, &texts(&old), &texts(&new), Some(deadline));
    let mut words = Vec::with_capacity(new.len());
    for step in steps {
        let (before, after) = (step.old_range(), step.new_range());
        if let DiffOp::Equal { .. } = step {
            let same = new.get(after).unwrap_or_default();
            words.extend(same.iter().map(|word| Word { mark: Mark::Same, ..word.clone() }));
        } else {
            words.extend_from_slice(old.get(before).unwrap_or_default());
            words.extend_from_slice(new.get(after).unwrap_or_default());
        }
    }
    words
}

/// Formats words as lines of at most `room` columns. A longer word is broken.
pub(super) fn lines(words: &[Word], room: usize, colours: Colours) -> Vec<String> {
    let room = room.max(8);
    let mut lines = vec![Line::default()];
    for (at, word) in words.iter().enumerate() {
        let is_first = at == 0 || words.get(at - 1).is_none_or(|before| before.mark != word.mark);
        let is_last = words.get(at + 1).is_none_or(|after| after.mark != word.mark);
        let (start, end) = word.mark.around();
        let text = format!("{}{}{}", if is_first { start } else { "" }, word.text, if is_last { end } else { "" });
        for _ in 0..if at == 0 { 0 } else { word.breaks } {
            lines.push(Line::default());
        }
        for (number, piece) in pieces(&text, room).into_iter().enumerate() {
            let is_full = lines.last().is_some_and(|line| !line.fits(&piece, room));
            if number > 0 || is_full {
                lines.push(Line::default());
            }
            if let Some(line) = lines.last_mut() {
                line.push(word.mark, &piece);
            }
        }
    }
    lines.iter().map(|line| line.painted(colours)).collect()
}

/// A line with its width, and its parts that have one mark each.
#[derive(Default)]
struct Line {
    parts: Vec<(Mark, String)>,
    width: usize,
}

impl Line {
    fn fits(&self, piece: &str, room: usize) -> bool {
        self.width == 0 || self.width + 1 + width(piece) <= room
    }

    fn push(&mut self, mark: Mark, piece: &str) {
        let space = if self.width == 0 { "" } else { " " };
        self.width += space.len() + width(piece);
        match self.parts.last_mut() {
            Some((last, text)) if *last == mark => text.push_str(&format!("{space}{piece}")),
            Some(_) => {
                self.parts.push((Mark::Same, space.to_owned()));
                self.parts.push((mark, piece.to_owned()));
            }
            None => self.parts.push((mark, piece.to_owned())),
        }
    }

    fn painted(&self, colours: Colours) -> String {
        self.parts.iter().map(|(mark, text)| colours.paint(mark.tone(), text)).collect()
    }
}

/// Breaks a word that is wider than a line.
fn pieces(word: &str, room: usize) -> Vec<String> {
    if width(word) <= room {
        return vec![word.to_owned()];
    }
    let mut pieces = vec![String::new()];
    let mut used = 0;
    for c in word.chars() {
        // Wide characters take two columns. Counting others double breaks a little early.
        let columns = if c.is_ascii() { 1 } else { 2 };
        if used + columns > room {
            pieces.push(String::new());
            used = 0;
        }
        used += columns;
        if let Some(piece) = pieces.last_mut() {
            piece.push(c);
        }
    }
    pieces
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(old: &str, new: &str, room: usize) -> String {
        lines(&compare(old, new), room, Colours::Off).join("\n")
    }

    #[test]
    fn differences_are_marked() {
        let check = |old: &str, new: &str, expected: &str| assert_eq!(shown(old, new, 56), expected, "{old} {new}");
        check("Reads a file.", "Reads a file.", "Reads a file.");
        check("Reads a file.", "Reads a  file.\n", "Reads a file.");
        check("Reads a file.", "Deletes a file.", "[-Reads-] {+Deletes+} a file.");
        check("Reads a file.", "Reads a file. Call it first.", "Reads a file. {+Call it first.+}");
        check("Reads a file. Fast.", "Reads a file.", "Reads a file. [-Fast.-]");
        check("", "New words", "{+New words+}");
        check("Old words", "", "[-Old words-]");
        check("a", "a\u{200B}", "[-a-] {+a⟨U+200B⟩+}");
        check("One.\n\nTwo.", "One.\n\nThree.", "One.\n\n[-Two.-]\n\n{+Three.+}");
        check("Fake", "Fake [-gone-]", "Fake {+[⟨U+002D⟩gone⟨U+002D⟩]+}");
    }

    #[test]
    fn lines_fit() {
        let blob = "QUJD".repeat(40);
        let new = format!("Reads a file. {} {blob} 日本{}", "word ".repeat(30), "語".repeat(80));
        for room in [20, 56] {
            for row in shown("Reads a long file.", &new, room).lines() {
                assert!(width(row) <= room, "{room} {row}");
            }
        }
        let whole = shown("", &blob, 56).replace('\n', "");
        assert_eq!(whole, format!("{{+{blob}+}}"), "nothing is cut");
    }

    #[test]
    fn colours_follow_the_marks() {
        let painted = lines(&compare("a b", "a c"), 56, Colours::On).join("\n");
        assert_eq!(painted, "a \u{1b}[31m[-b-]\u{1b}[0m \u{1b}[32m{+c+}\u{1b}[0m");
    }
}
