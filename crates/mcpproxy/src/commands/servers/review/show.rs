//! Formats what waits for review: a summary, and each definition with its differences and findings.

use std::collections::BTreeMap;

use mcpproxy_core::trust::parts::{Part, changed, is_at, parts};

use super::entry::{Entry, Finding, Review};
use super::visible::visible;
use super::words::{Mark, Word, compare, lines, marked};
use crate::terminal::output::counted;
use crate::terminal::style::{Colours, Tone};
use crate::terminal::time::local;

const INDENT: usize = 2;
/// Stands before each line that a server wrote.
const BAR: &str = "│";
/// Longer values get their own line below their name.
const SHORT_MAX_CHARS: usize = 40;
/// The order of kinds in a review.
pub(super) const KINDS: [&str; 4] = ["instructions", "tool", "prompt", "template"];
const SEVERITIES: [&str; 3] = ["high", "medium", "low"];

/// The place to print to.
#[derive(Clone, Copy)]
pub(super) struct Paper {
    pub(super) columns: usize,
    pub(super) colours: Colours,
}

impl Paper {
    /// Prints words of the server, after an indent. The bar tells its lines from ours, so that no text of a server looks
    /// like a finding.
    fn print(self, out: &mut String, indent: usize, words: &[Word]) {
        let bar = self.colours.paint(Tone::Dim, BAR);
        for line in lines(words, self.columns.saturating_sub(indent + 2), self.colours) {
            out.push_str(format!("{:indent$}{bar} {line}", "").trim_end());
            out.push('\n');
        }
    }

    /// Prints a sentence of ours, in one tone.
    fn say(self, out: &mut String, indent: usize, tone: Tone, text: &str) {
        for line in lines(&marked_ours(text), self.columns.saturating_sub(indent), Colours::Off) {
            out.push_str(&format!("{:indent$}{}\n", "", self.colours.paint(tone, &line)));
        }
    }
}

/// Splits a sentence of ours, in which texts of servers are escaped already.
fn marked_ours(text: &str) -> Vec<Word> {
    text.split([' ', '\n']).filter(|word| !word.is_empty()).map(Word::ours).collect()
}

/// Summarizes a review: `fx is new: 12 tools, 2 prompts.` or `fx: 34 changed: 30 description, 4 input_schema; 2 new.`
pub(super) fn summary(review: &Review, paper: Paper) -> String {
    let entries = &review.entries;
    let server = visible(&review.server);
    let mut out = String::new();
    let text = match (review.waiting(), review.first_sight) {
        (0, _) => format!("{server}: {} rejected.", kinds(entries)),
        (_, true) => format!("{server} is new: {}.", kinds(entries)),
        (_, false) => format!("{server}: {}.", changes(entries)),
    };
    paper.say(&mut out, 0, Tone::Strong, &text);
    review.findings.iter().for_each(|finding| self::finding(&mut out, 0, finding, false, paper));
    for severity in SEVERITIES {
        let count = entries.iter().flat_map(|entry| &entry.findings).filter(|one| one.severity == severity).count();
        if count > 0 {
            let (mark, tone) = of_severity(severity);
            paper.say(&mut out, 0, tone, &format!("{mark} {} of severity {severity}", counted(count, "finding")));
        }
    }
    out
}

/// Counts definitions by kind: `12 tools, 2 prompts`.
fn kinds(entries: &[Entry]) -> String {
    let count = |kind: &str| entries.iter().filter(|entry| entry.kind == kind).count();
    let words = KINDS.iter().filter(|kind| count(kind) > 0).map(|kind| match *kind {
        "instructions" => "instructions".to_owned(),
        kind => counted(count(kind), kind),
    });
    words.collect::<Vec<_>>().join(", ")
}

/// Counts definitions by kind of change: `34 changed: 30 description, 4 input_schema; 2 new`.
fn changes(entries: &[Entry]) -> String {
    let (old, new): (Vec<&Entry>, Vec<&Entry>) = entries.iter().partition(|entry| entry.old.is_some());
    let mut by_kind: BTreeMap<&str, usize> = BTreeMap::new();
    for kind in old.iter().flat_map(|entry| &entry.kinds) {
        *by_kind.entry(kind).or_default() += 1;
    }
    let mut by_kind: Vec<(&str, usize)> = by_kind.into_iter().collect();
    by_kind.sort_by_key(|(kind, count)| (std::cmp::Reverse(*count), *kind));
    let by_kind: Vec<String> = by_kind.iter().map(|(kind, count)| format!("{count} {}", visible(kind))).collect();
    let mut all = Vec::new();
    match (old.len(), by_kind.is_empty()) {
        (0, _) => {}
        (count, true) => all.push(format!("{count} changed")),
        (count, false) => all.push(format!("{count} changed: {}", by_kind.join(", "))),
    }
    if !new.is_empty() {
        all.push(format!("{} new", new.len()));
    }
    all.join("; ")
}

/// Formats a definition with everything that helps to decide on it.
pub(super) fn entry(entry: &Entry, paper: Paper) -> String {
    let mut out = String::new();
    let title = visible(&entry.title());
    paper.say(&mut out, 0, Tone::Strong, &format!("{title}: {}", reason(entry)));
    for meaning in &entry.changes {
        paper.say(&mut out, INDENT, Tone::Warning, &format!("! {}", visible(meaning)));
    }
    if let Some(name) = &entry.resembles {
        let text = format!("! It resembles the accepted {} {}, and may replace it.", entry.kind, visible(name));
        paper.say(&mut out, INDENT, Tone::Warning, &text);
    }
    let since = local(entry.first_seen_ms, "%F %H:%M");
    let times = match entry.times {
        0 | 1 => String::new(),
        times => format!(" The server has shown {times} versions since the last decision. This is the newest."),
    };
    let since = match (&entry.rejected_by, entry.rejected_ms) {
        (Some(user), Some(rejected_ms)) => {
            format!("Rejected by {} on {}.", visible(user), local(rejected_ms, "%F %H:%M"))
        }
        (_, _) => format!("Waits since {since}.{times}"),
    };
    paper.say(&mut out, INDENT, Tone::Dim, &since);
    let new = parts(entry.new.get());
    let mut findings: Vec<&Finding> = entry.findings.iter().collect();
    findings.sort_by_key(|finding| SEVERITIES.iter().position(|severity| *severity == finding.severity));
    let body = match &entry.old {
        Some(old) => {
            let old = parts(old.get());
            difference(&old, &new, &mut findings, paper)
        }
        None => whole(&new, &mut findings, paper),
    };
    // The place of these is not printed, so they come first.
    findings.iter().for_each(|finding| self::finding(&mut out, INDENT, finding, true, paper));
    out + &body
}

/// Words the reason why a definition waits.
fn reason(entry: &Entry) -> String {
    let kinds: Vec<String> = entry.kinds.iter().map(|kind| visible(kind)).collect();
    let of_kinds = if kinds.is_empty() { String::new() } else { format!(" ({})", kinds.join(", ")) };
    let state = if entry.old.is_some() { format!("changed{of_kinds}") } else { "new".to_owned() };
    match entry.reason.as_str() {
        "suspicious" => format!("{state}, and suspicious"),
        // Accepted in the database, which does not count beside a lock file.
        "not_locked" if entry.old.is_some() && kinds.is_empty() => "not in the lock file".to_owned(),
        "not_locked" => format!("{state}, and not in the lock file"),
        "first_sight" => "not accepted yet".to_owned(),
        "rejected" => format!("{state}, and rejected"),
        "unreadable" => "cannot be compared".to_owned(),
        _ => state,
    }
}

/// Shows the values that differ.
fn difference(old: &[Part], new: &[Part], findings: &mut Vec<&Finding>, paper: Paper) -> String {
    let mut out = String::new();
    let changes = changed(old, new);
    for change in &changes {
        let words = match (&change.old, &change.new) {
            (Some(old), Some(new)) => compare(old, new),
            (Some(old), None) => marked(old, Mark::Old),
            (None, Some(new)) => marked(new, Mark::New),
            (None, None) => continue,
        };
        label(&mut out, &[&change.part.owner, &change.part.field], paper);
        paper.print(&mut out, 2 * INDENT, &words);
        beside(&mut out, change.part, findings, paper);
    }
    if changes.is_empty() {
        paper.say(&mut out, INDENT, Tone::Plain, "All values are the same. Only their form differs.");
    }
    out
}

/// Shows a whole definition: its texts, then each parameter with its short values on one line.
fn whole(new: &[Part], findings: &mut Vec<&Finding>, paper: Paper) -> String {
    let mut out = String::new();
    for group in new.chunk_by(|a, b| a.owner == b.owner && !a.owner.is_empty()) {
        let Some(first) = group.first() else { continue };
        if first.owner.is_empty() {
            // The heading has the name.
            if !matches!(first.field.as_str(), "name" | "uriTemplate") {
                label(&mut out, &["", &first.field], paper);
                paper.print(&mut out, 2 * INDENT, &marked(&first.text, Mark::Same));
            }
            beside(&mut out, first, findings, paper);
            continue;
        }
        let is_noise = |part: &Part| part.owner == "parameters" && part.field == "type" && part.text == "object";
        let (short, long): (Vec<&Part>, Vec<&Part>) =
            group.iter().filter(|part| !is_noise(part)).partition(|part| is_short(part));
        let facts = short.iter().map(|part| match part.field.as_str() {
            "type" => part.text.clone(),
            field => format!("{field}: {}", part.text),
        });
        let facts: Vec<String> = std::iter::once(first.owner.clone()).chain(facts).collect();
        if !(short.is_empty() && long.is_empty()) {
            label(&mut out, &[&facts.join(" · ")], paper);
        }
        for part in long {
            let text =
                if part.field == "description" { part.text.clone() } else { format!("{}: {}", part.field, part.text) };
            paper.print(&mut out, 2 * INDENT, &marked(&text, Mark::Same));
        }
        group.iter().for_each(|part| beside(&mut out, part, findings, paper));
    }
    out
}

fn is_short(part: &Part) -> bool {
    part.field != "description" && part.text.chars().count() <= SHORT_MAX_CHARS && !part.text.contains('\n')
}

fn label(out: &mut String, words: &[&str], paper: Paper) {
    let words: Vec<String> = words.iter().filter(|word| !word.is_empty()).map(|word| visible(word)).collect();
    paper.say(out, INDENT, Tone::Strong, &words.join(": "));
}

/// Prints the findings about a value below it, and removes them from the list.
fn beside(out: &mut String, part: &Part, findings: &mut Vec<&Finding>, paper: Paper) {
    findings.retain(|finding| {
        let is_here = is_at(&finding.place, &part.path);
        if is_here {
            self::finding(out, 2 * INDENT, finding, false, paper);
        }
        !is_here
    });
}

fn finding(out: &mut String, indent: usize, finding: &Finding, with_place: bool, paper: Paper) {
    let (mark, tone) = of_severity(&finding.severity);
    let place = if with_place { format!(", at {}", visible(&finding.place)) } else { String::new() };
    let (severity, reason) = (visible(&finding.severity), visible(&finding.reason));
    let text = format!("{mark} {severity}: {reason} ({}{place})", visible(&finding.rule));
    paper.say(out, indent, tone, &text);
}

fn of_severity(severity: &str) -> (&'static str, Tone) {
    match severity {
        "high" => ("✗", Tone::Bad),
        "medium" => ("!", Tone::Warning),
        _ => ("·", Tone::Dim),
    }
}

#[cfg(test)]
mod tests;
