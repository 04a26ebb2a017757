//! Scans one text with all checks, and turns what they find into findings.

use std::collections::HashSet;

use super::encoded::{decode, rot13};
use super::fold::Folded;
use super::neighbours::Neighbours;
use super::quote::{passage, visible};
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
            self.add(one.rule, severity, place, format!("The text {}: `{}`.", one.reason, passage(text, start, end)));
        }
    }

    fn encoded(&mut self, text: &str, plain: &Passage, place: &str, names: Names<'_>) {
        for part in decode(text) {
            let found = strongest(&Folded::of(&part.text), names);
            self.disguised(part.form, &part.text, &found, plain, part.is_opaque, place);
        }
        if plain.rot13 >= DISGUISED_MIN {
            let turned = rot13(text);
            let found = strongest(&Folded::of(&turned), names);
            self.disguised("ROT13", &turned, &found, plain, false, place);
        }
        if plain.backwards >= DISGUISED_MIN {
            let turned: String = text.chars().rev().collect();
            let found = strongest(&Folded::of(&turned), names);
            self.disguised("written backwards", &turned, &found, plain, false, place);
        }
    }

    fn disguised(&mut self, form: &str, decoded: &str, found: &Passage, plain: &Passage, is_opaque: bool, place: &str) {
        let severity = match found.score > plain.score && found.score >= MEDIUM {
            true => Severity::High,
            false if is_opaque => Severity::Medium,
            false => return,
        };
        let at = found.matches.first().map_or((0, decoded.len()), |found| (found.start, found.end));
        let quoted = if decoded.is_ascii() { passage(decoded, at.0, at.1) } else { visible(decoded) };
        self.add("encoded-text", severity, place, format!("A part is {form} and reads: `{quoted}`."));
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
