//! One definition on the review page: its texts with their differences, and the findings beside them.

use std::time::Instant;

use mcpproxy_core::Digest;
use mcpproxy_core::trust::Held;
use mcpproxy_core::trust::parts::{Part, changed, is_at, parts};
use mcpproxy_gateway::ReviewEntry;
use serde_json::Value;

use super::words::compare;
use crate::ui::pages::amount::{counted, items};
use crate::ui::pages::labels::Time;
use crate::ui::pages::servers::short;
use crate::visible::{Side, Visible};

/// Values of a definition on the page.
const PARTS_MAX: usize = 60;
/// Sentences and findings of a definition on the page.
const NOTES_MAX: usize = 20;
/// Shorter values stand on the line of their name.
const SHORT_MAX_CHARS: usize = 40;

pub(crate) struct EntryView {
    pub(crate) id: usize,
    pub(crate) kind: &'static str,
    pub(crate) name: Visible,
    pub(crate) pin: String,
    /// Identifies the version in the form.
    pub(crate) value: String,
    pub(crate) is_picked: bool,
    pub(crate) state: &'static str,
    pub(crate) is_suspicious: bool,
    pub(crate) kinds: Vec<Visible>,
    pub(crate) meanings: Vec<Visible>,
    pub(crate) resembles: Option<Visible>,
    pub(crate) since: Time,
    pub(crate) times: u64,
    /// Findings whose place is not shown.
    pub(crate) findings: Vec<FindingView>,
    pub(crate) parts: Vec<PartView>,
    /// True if the values are unfolded.
    pub(crate) is_open: bool,
    /// Says how many values the fold has.
    pub(crate) summary: String,
    pub(crate) rejection: Option<RejectionView>,
    /// True if the page does not show all of the definition.
    pub(crate) is_cut: bool,
}

/// A user's earlier decision against the definition.
pub(crate) struct RejectionView {
    pub(crate) by: Visible,
    pub(crate) at: Time,
}

pub(crate) struct PartView {
    pub(crate) label: Visible,
    /// Empty if the label says everything.
    pub(crate) text: Visible,
    pub(crate) findings: Vec<FindingView>,
}

/// A finding of the scan. Its severity is about the text, so it must not look like the risk of a tool.
pub(crate) struct FindingView {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) reason: Visible,
    pub(crate) rule: Visible,
    place: String,
    pub(crate) shown_place: Option<Visible>,
    rank: usize,
}

/// The state of a definition in the form.
#[derive(Clone, Copy)]
pub(super) struct EntryState {
    pub(super) is_picked: bool,
    pub(super) is_open: bool,
}

/// The limits of one definition on the page.
#[derive(Clone, Copy)]
pub(super) struct Room {
    pub(super) bytes: usize,
    /// The end of the time for comparing texts.
    pub(super) deadline: Instant,
}

impl EntryView {
    pub(super) fn new(entry: &ReviewEntry, id: usize, shown: EntryState, room: Room, now_ms: i64) -> Self {
        let new = parts(&entry.new);
        let mut findings: Vec<FindingView> = entry.findings.iter().map(FindingView::new).collect();
        findings.sort_by_key(|finding| finding.rank);
        let mut writer = Writer { parts: Vec::new(), findings, left: room.bytes, is_cut: false };
        match &entry.old {
            Some(old) => difference(&mut writer, &parts(old), &new, room.deadline),
            None => whole(&mut writer, &new),
        }
        let Writer { parts, mut findings, mut is_cut, .. } = writer;
        for finding in &mut findings {
            finding.shown_place = Some(short(&finding.place));
        }
        is_cut |= findings.len() > NOTES_MAX || entry.changes.len() > NOTES_MAX;
        findings.truncate(NOTES_MAX);
        Self {
            id,
            kind: entry.kind.as_str(),
            // The instructions of a server have no name.
            name: short(if entry.name.is_empty() { "Instructions of the server" } else { &entry.name }),
            pin: entry.pin.clone(),
            value: value(entry),
            is_picked: shown.is_picked,
            is_open: shown.is_open,
            summary: summary(parts.len(), entry.old.is_some()),
            rejection: entry
                .rejection
                .as_ref()
                .map(|rejection| RejectionView { by: short(&rejection.by), at: Time::new(rejection.at_ms, now_ms) }),
            state: state(entry),
            is_suspicious: is_severe(entry),
            kinds: entry.kinds.iter().take(NOTES_MAX).map(|kind| short(kind)).collect(),
            meanings: entry.changes.iter().take(NOTES_MAX).map(|meaning| short(meaning)).collect(),
            resembles: entry.resembles.as_deref().map(short),
            since: Time::new(entry.first_seen_ms, now_ms),
            times: entry.times,
            findings,
            parts,
            is_cut,
        }
    }
}

/// Identifies a version in a form. The name is hashed, because browsers change line breaks in the values of a form.
pub(super) fn value(entry: &ReviewEntry) -> String {
    format!("{} {} {}", entry.kind.as_str(), entry.pin, Digest::of(entry.name.as_bytes()))
}

/// Returns true if the scan found something of severity high.
pub(super) fn is_severe(entry: &ReviewEntry) -> bool {
    entry.findings.iter().any(|finding| severity(finding) == "high")
}

fn severity(finding: &Value) -> &str {
    finding.get("severity").and_then(Value::as_str).unwrap_or_default()
}

fn summary(values: usize, is_changed: bool) -> String {
    counted(items(values), if is_changed { "changed value" } else { "value" })
}

fn state(entry: &ReviewEntry) -> &'static str {
    match (entry.reason, entry.old.is_some()) {
        (Held::Rejected, _) => "rejected",
        (Held::NotLocked, _) => "not in the lock file",
        (Held::FirstSight, _) => "not accepted yet",
        (_, true) => "changed",
        (_, false) => "new",
    }
}

impl FindingView {
    pub(super) fn new(finding: &Value) -> Self {
        let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default();
        let (class, word, rank) = match severity(finding) {
            "high" => ("bad", "Finding: high", 0),
            "medium" => ("warn", "Finding: medium", 1),
            _ => ("", "Finding: low", 2),
        };
        let (reason, rule) = (short(text("reason")), short(text("rule")));
        Self { class, word, reason, rule, place: text("where").to_owned(), shown_place: None, rank }
    }
}

/// Collects parts until there is no room.
struct Writer {
    parts: Vec<PartView>,
    findings: Vec<FindingView>,
    left: usize,
    is_cut: bool,
}

impl Writer {
    fn add(&mut self, label: &str, pieces: &[(Side, String)], about: &[&Part]) {
        if self.left == 0 || self.parts.len() == PARTS_MAX {
            self.is_cut = true;
            return;
        }
        let (text, is_cut) = Visible::difference(pieces, self.left);
        self.is_cut |= is_cut;
        let label = short(label);
        self.left = self.left.saturating_sub(text.to_string().len() + label.to_string().len());
        let is_here = |finding: &FindingView| about.iter().any(|part| is_at(&finding.place, &part.path));
        let (here, elsewhere) = std::mem::take(&mut self.findings).into_iter().partition(is_here);
        self.findings = elsewhere;
        self.parts.push(PartView { label, text, findings: here });
    }
}

/// Shows the values that differ.
fn difference(writer: &mut Writer, old: &[Part], new: &[Part], deadline: Instant) {
    for change in &changed(old, new) {
        let pieces = match (&change.old, &change.new) {
            (Some(old), Some(new)) => compare(old, new, deadline),
            (Some(old), None) => vec![(Side::Old, old.clone())],
            (None, Some(new)) => vec![(Side::New, new.clone())],
            (None, None) => continue,
        };
        writer.add(&label(change.part), &pieces, &[change.part]);
    }
}

/// Shows a whole definition: its texts, then each parameter with its short values on one line.
fn whole(writer: &mut Writer, new: &[Part]) {
    for group in new.chunk_by(|a, b| a.owner == b.owner && !a.owner.is_empty()) {
        let Some(first) = group.first() else { continue };
        if first.owner.is_empty() {
            // The heading has the name.
            if !matches!(first.field.as_str(), "name" | "uriTemplate") {
                writer.add(&first.field, &[(Side::Both, first.text.clone())], &[first]);
            }
            continue;
        }
        let is_noise = |part: &Part| part.owner == "parameters" && part.field == "type" && part.text == "object";
        let (brief, long): (Vec<&Part>, Vec<&Part>) =
            group.iter().filter(|part| !is_noise(part)).partition(|part| is_short(part));
        let facts = brief.iter().map(|part| match part.field.as_str() {
            "type" => part.text.clone(),
            field => format!("{field}: {}", part.text),
        });
        let heading: Vec<String> = std::iter::once(first.owner.clone()).chain(facts).collect();
        let texts: Vec<String> = long.iter().map(|part| long_text(part)).collect();
        if !(brief.is_empty() && long.is_empty()) {
            let about: Vec<&Part> = group.iter().collect();
            let pieces: Vec<(Side, String)> = texts.into_iter().map(|text| (Side::Both, text)).collect();
            writer.add(&heading.join(" · "), &pieces, &about);
        }
    }
}

fn long_text(part: &Part) -> String {
    if part.field == "description" { part.text.clone() } else { format!("\n{}: {}", part.field, part.text) }
}

fn is_short(part: &Part) -> bool {
    part.field != "description" && part.text.chars().count() <= SHORT_MAX_CHARS && !part.text.contains('\n')
}

fn label(part: &Part) -> String {
    match part.owner.is_empty() {
        true => part.field.clone(),
        false => format!("{}: {}", part.owner, part.field),
    }
}
