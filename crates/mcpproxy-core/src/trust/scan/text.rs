//! Scans one text with all checks, and turns what they find into findings.

use std::collections::HashSet;

use super::encoded::{Decoded, decode, rot13};
use super::fold::Folded;
use super::neighbours::Neighbours;
use super::quote::passage;
use super::rules::{HIGH, LOW, MEDIUM};
use super::wording::{Passage, strongest};
use super::words::Names;
use super::{Finding, Severity, characters, padding};

/// Text of one definition. The largest of 3,004 real tools has 90 KB of JSON.
const BYTES_MAX: usize = 192 * 1024;
/// Words in another encoding before a text is decoded.
const DISGUISED_MIN: usize = 3;
/// Bytes that are quoted before and after an invisible character.
const QUOTE_AROUND: usize = 24;
/// Findings about wording for one text.
const MATCHES_MAX: usize = 4;

/// Collects the findings of one definition.
pub(super) struct Scanner<'a> {
    own: &'a HashSet<String>,
    neighbours: &'a Neighbours,
    bytes_left: usize,
    /// Texts that were scanned. Generated schemas repeat the same descriptions many times.
    seen: HashSet<String>,
    pub(super) findings: Vec<Finding>,
}

impl<'a> Scanner<'a> {
    pub(super) fn new(own: &'a HashSet<String>, neighbours: &'a Neighbours) -> Self {
        Self { own, neighbours, bytes_left: BYTES_MAX, seen: HashSet::new(), findings: Vec::new() }
    }

    /// Checks the characters of a text that is no prose, such as a name.
    pub(super) fn characters(&mut self, text: &str, place: &str) {
        for found in characters::find(text) {
            let (from, to) = (floor(text, found.at.saturating_sub(QUOTE_AROUND)), floor(text, found.at + QUOTE_AROUND));
            let quote = passage(text, from, to);
            let times = if found.count > 1 { format!(", {} times", found.count) } else { String::new() };
            self.add(
                found.kind.rule(),
                Severity::High,
                place,
                format!("The text {}{times}: `{quote}`.", found.kind.reason()),
            );
        }
    }

    /// Checks a text that a model reads.
    pub(super) fn prose(&mut self, text: &str, place: &str) {
        self.weighed(text, place, 0);
    }

    /// Checks a value of a schema. No honest value gives instructions, so a weak sign counts more.
    pub(super) fn value(&mut self, text: &str, place: &str) {
        self.weighed(text, place, 3);
    }

    fn weighed(&mut self, text: &str, place: &str, extra: u16) {
        self.characters(text, place);
        // A single word says nothing. A path, an assignment or an encoded text does.
        let is_word = text.len() < 24 && !text.contains([' ', '/', '=', '~', '\\', '%', '&', '.']) && text.is_ascii();
        if is_word || !self.seen.insert(text.to_owned()) {
            return;
        }
        let Some(text) = self.bounded(text, place) else { return };
        let names = Names { own: self.own, neighbours: self.neighbours, is_value: extra > 0 };
        let folded = Folded::of(text);
        let plain = strongest(&folded, names);
        let padded = padding::find(text);
        let extra = if padded.is_some() { extra.max(2) } else { extra };
        let score = if plain.score > 0 { plain.score + extra } else { 0 };
        self.wording(text, &folded, &plain, score, place);
        self.encoded(text, &plain, place, names);
        if let Some(what) = padded {
            let severity = if score >= MEDIUM { Severity::High } else { Severity::Medium };
            self.add(
                "padding",
                severity,
                place,
                format!("The text is padded with {what}, so that a reader misses the rest."),
            );
        }
    }

    /// Returns the part of the text that is scanned. A finding says so if that is not all.
    fn bounded<'t>(&mut self, text: &'t str, place: &str) -> Option<&'t str> {
        if text.len() <= self.bytes_left {
            self.bytes_left -= text.len();
            return Some(text);
        }
        let end = floor(text, self.bytes_left);
        let was_said = std::mem::take(&mut self.bytes_left) == 0;
        if !was_said {
            let reason = format!("The definition has more than {BYTES_MAX} bytes of text. The rest was not checked.");
            self.add("too-long", Severity::Medium, place, reason);
        }
        text.get(..end).filter(|text| !text.is_empty())
    }

    fn wording(&mut self, text: &str, folded: &Folded, found: &Passage, score: u16, place: &str) {
        let Some(severity) = severity(score) else { return };
        for (index, one) in found.matches.iter().take(MATCHES_MAX).enumerate() {
            let severity =
                if index == 0 { severity } else { self::severity(one.weight).unwrap_or(Severity::Low).min(severity) };
            let (start, end) = folded.original(one.start, one.end);
            self.add(
                one.rule,
                severity,
                place,
                format!("The text {}, in `{}`.", one.reason, passage(text, start, end)),
            );
        }
    }

    fn encoded(&mut self, text: &str, plain: &Passage, place: &str, names: Names<'_>) {
        let mut parts = decode(text);
        if plain.rot13 >= DISGUISED_MIN {
            parts.push(Decoded { form: "in ROT13", text: rot13(text), is_opaque: false });
        }
        if plain.backwards >= DISGUISED_MIN {
            parts.push(Decoded { form: "written backwards", text: text.chars().rev().collect(), is_opaque: false });
        }
        for part in parts {
            self.disguised(&part, plain.score, place, names);
        }
    }

    /// An instruction that only shows when decoded was disguised on purpose.
    fn disguised(&mut self, part: &Decoded, plain_score: u16, place: &str, names: Names<'_>) {
        let folded = Folded::of(&part.text);
        let found = strongest(&folded, names);
        let severity = match found.score > plain_score && found.score >= MEDIUM {
            true => Severity::High,
            false if part.is_opaque => Severity::Medium,
            false => return,
        };
        let (start, end) = match found.matches.first() {
            Some(one) => folded.original(one.start, one.end),
            None => (0, part.text.len()),
        };
        let quote = passage(&part.text, start, end);
        self.add("encoded-text", severity, place, format!("A part is {} and reads: `{quote}`.", part.form));
    }

    fn add(&mut self, rule: &'static str, severity: Severity, place: &str, reason: String) {
        self.findings.push(Finding { rule, severity, place: place.to_owned(), reason });
    }
}

fn severity(score: u16) -> Option<Severity> {
    match score {
        HIGH.. => Some(Severity::High),
        MEDIUM.. => Some(Severity::Medium),
        LOW.. => Some(Severity::Low),
        _ => None,
    }
}

/// Returns the nearest start of a character at or before a position.
fn floor(text: &str, at: usize) -> usize {
    let at = at.min(text.len());
    (0..=at).rev().find(|at| text.is_char_boundary(*at)).unwrap_or_default()
}
