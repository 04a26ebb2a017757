//! The review page: what a server wants to tell agents, as a difference to what was accepted.
//!
//! An upgrade can have hundreds of changes. The page shows some of them at a time, the most suspicious first, and
//! counts all of them by the kind of change. The digest of the list binds "accept all" to the list that was shown.

mod entry;
mod words;

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use askama::Template;
use mcpproxy_core::Digest;
use mcpproxy_core::trust::parts::parts;
use mcpproxy_core::trust::{DefinitionKey, DefinitionKind, Pin};
use mcpproxy_gateway::{Review, ReviewEntry, ServerStatus, StateName};
use mcpproxy_store::{Choice, PinDecision};

use self::entry::{EntryState, EntryView, FindingView, Room, is_severe, value};
use super::{short, state};
use crate::ui::form::Form;
use crate::ui::pages::amount::counted;
use crate::ui::pages::labels::State;
use crate::ui::pages::{Frame, filters};
use crate::visible::{Visible, plain};

/// Definitions on one page. Each has a field in the form.
pub(crate) const PAGE_ENTRIES: usize = 20;
/// HTML of all definitions on one page.
const PAGE_BYTES: usize = 140_000;
const ENTRY_BYTES: usize = 40_000;
/// Definitions without findings whose values are unfolded.
const OPEN_ENTRIES: usize = 3;
/// Two long texts that share nothing take long to compare.
const COMPARE_TIMEOUT: Duration = Duration::from_millis(100);

#[derive(Template)]
#[template(path = "servers_review.html")]
pub(crate) struct ReviewPage {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    /// Says what the user has just decided.
    pub(crate) done: Option<String>,
    pub(crate) of: ReviewList,
    pub(crate) server: String,
    pub(crate) state: State,
    pub(crate) is_connecting: bool,
    pub(crate) reason: Option<Visible>,
    pub(crate) is_first: bool,
    /// The command or the address, as written in the settings.
    pub(crate) launch: Option<String>,
    /// Findings about the name of the server.
    pub(crate) findings: Vec<FindingView>,
    /// Definitions that a user rejected. They do not wait.
    pub(crate) rejected: usize,
    pub(crate) total: usize,
    /// Definitions of `total` that have an accepted version.
    pub(crate) changed: usize,
    /// Counts by kind of change, such as `12 description`.
    pub(crate) counts: Vec<Count>,
    /// Findings of the scan in all definitions.
    pub(crate) found: usize,
    /// Definitions with a finding of severity high. They are accepted one by one.
    pub(crate) severe: usize,
    /// Definitions that "accept all" accepts.
    pub(crate) acceptable: usize,
    pub(crate) entries: Vec<EntryView>,
    /// Definitions on this page whose values are folded.
    pub(crate) folded: usize,
    /// The digest of all definitions that wait.
    pub(crate) list: String,
    pub(crate) here: usize,
    pub(crate) pages: usize,
}

pub(crate) struct Count {
    pub(crate) what: Visible,
    pub(crate) count: usize,
}

/// The definitions that the page lists.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum ReviewList {
    #[default]
    Waiting,
    /// Definitions that a user rejected, to take that back.
    Rejected,
}

impl ReviewList {
    pub(crate) fn is_rejected(self) -> bool {
        self == Self::Rejected
    }

    /// Returns the part of the address that selects the list.
    pub(crate) fn query(self) -> &'static str {
        match self {
            Self::Waiting => "",
            Self::Rejected => "&of=rejected",
        }
    }
}

/// The part of the page that depends on the request.
#[derive(Default)]
pub(crate) struct Asked {
    pub(crate) error: Option<String>,
    pub(crate) done: Option<String>,
    pub(crate) of: ReviewList,
    /// True if the user wants to see all values.
    pub(crate) is_unfolded: bool,
    /// The page of the list, from 1 on.
    pub(crate) number: usize,
    /// Values that were picked in the form.
    pub(crate) picked: Vec<String>,
    pub(crate) launch: Option<String>,
}

impl ReviewPage {
    pub(crate) fn new(frame: Frame, status: &ServerStatus, mut review: Review, asked: Asked, now_ms: i64) -> Self {
        review.entries.retain(|entry| entry.rejection.is_some() == asked.of.is_rejected());
        sort(&mut review.entries);
        let pages = review.entries.len().div_ceil(PAGE_ENTRIES).max(1);
        let here = asked.number.clamp(1, pages);
        let shown: Vec<&ReviewEntry> =
            review.entries.iter().skip((here - 1) * PAGE_ENTRIES).take(PAGE_ENTRIES).collect();
        let bytes = PAGE_BYTES.checked_div(shown.len()).unwrap_or(ENTRY_BYTES).min(ENTRY_BYTES);
        let room = Room { bytes, deadline: Instant::now() + COMPARE_TIMEOUT };
        let entries = shown.iter().enumerate().map(|(id, entry)| {
            let is_open = asked.is_unfolded || id < OPEN_ENTRIES || !entry.findings.is_empty();
            let state = EntryState { is_picked: asked.picked.contains(&value(entry)), is_open };
            EntryView::new(entry, id, state, room, now_ms)
        });
        let entries: Vec<EntryView> = entries.collect();
        let severe = review.entries.iter().filter(|entry| is_severe(entry)).count();
        Self {
            frame,
            error: asked.error,
            done: asked.done,
            of: asked.of,
            server: status.name.to_string(),
            state: state(status),
            is_connecting: status.state == StateName::Connecting,
            reason: status.reason.as_deref().map(short),
            is_first: review.is_first,
            launch: asked.launch,
            findings: review.findings.iter().map(FindingView::new).collect(),
            rejected: review.rejected,
            total: review.entries.len(),
            changed: review.entries.iter().filter(|entry| entry.old.is_some()).count(),
            counts: counts(&review.entries),
            found: review.findings.len() + review.entries.iter().map(|entry| entry.findings.len()).sum::<usize>(),
            severe,
            acceptable: review.entries.len() - severe,
            folded: entries.iter().filter(|entry| !entry.is_open && !entry.parts.is_empty()).count(),
            entries,
            list: list_digest(&review.entries),
            here,
            pages,
        }
    }
}

/// Puts the definitions that need the most care first.
fn sort(entries: &mut [ReviewEntry]) {
    entries.sort_by_cached_key(|entry| {
        // Models read instructions and prompts before any tool.
        let is_early = !matches!(entry.kind, DefinitionKind::Tool | DefinitionKind::Template);
        let care = Reverse((
            is_severe(entry),
            is_early,
            !entry.findings.is_empty(),
            entry.resembles.is_some(),
            entry.old.is_some(),
        ));
        (care, entry.kind.as_str(), entry.name.clone())
    });
}

/// Words a count: `2 new tools`, `3 changed descriptions`.
fn plural(what: &str, count: usize) -> String {
    let is_one = count == 1 || !what.contains(' ') || what.ends_with('s');
    if is_one { what.to_owned() } else { format!("{what}s") }
}

/// Counts new definitions by what they are, and changed ones by what changed.
fn counts(entries: &[ReviewEntry]) -> Vec<Count> {
    let mut all: BTreeMap<String, usize> = BTreeMap::new();
    for entry in entries {
        if entry.old.is_none() {
            *all.entry(format!("new {}", entry.kind.as_str())).or_default() += 1;
        } else if entry.kinds.is_empty() {
            *all.entry("changed".to_owned()).or_default() += 1;
        }
        for kind in entry.kinds.iter().filter(|_| entry.old.is_some()) {
            *all.entry(format!("changed {}", kind.replace('_', " "))).or_default() += 1;
        }
    }
    let mut counts: Vec<Count> =
        all.iter().take(20).map(|(what, count)| Count { what: short(&plural(what, *count)), count: *count }).collect();
    counts.sort_by_key(|one| Reverse(one.count));
    counts
}

/// Hashes the kinds, names and hashes of all definitions that wait.
pub(crate) fn list_digest(entries: &[ReviewEntry]) -> String {
    let mut values: Vec<String> = entries.iter().map(value).collect();
    values.sort();
    Digest::of(values.join("\n").as_bytes()).to_string()
}

/// The values that the form names.
pub(crate) fn picked(form: &Form) -> Vec<String> {
    (0..PAGE_ENTRIES).filter_map(|number| form.text(&format!("pick-{number}"))).map(str::to_owned).collect()
}

/// Says what a user has decided, by the numbers in the address of the page.
pub(crate) fn done_words(query: &str) -> Option<String> {
    let count = |name: &str| {
        query.split('&').find_map(|pair| pair.strip_prefix(name)).and_then(|count| count.parse::<u64>().ok())
    };
    let words = |count: u64, verb: &str, then: &str| format!("You {verb} {}. {then}", counted(count, "definition"));
    let accepted = count("accepted=").filter(|count| *count > 0);
    let rejected = count("rejected=").filter(|count| *count > 0);
    match (accepted, rejected) {
        (Some(1), _) => Some(words(1, "accepted", "Agents see it now.")),
        (Some(more), _) => Some(words(more, "accepted", "Agents see them now.")),
        (None, Some(1)) => Some(words(1, "rejected", "Agents do not see it.")),
        (None, Some(more)) => Some(words(more, "rejected", "Agents do not see them.")),
        (None, None) => None,
    }
}

/// Decisions about the picked versions, as far as exactly these still wait.
pub(crate) fn picked_decisions(entries: &[ReviewEntry], picked: &[String], choice: Choice) -> Vec<PinDecision> {
    let wanted = entries.iter().filter(|entry| picked.contains(&value(entry)));
    wanted.filter_map(|entry| decision(entry, choice)).collect()
}

/// Decisions about all definitions that wait. A finding of severity high is never accepted together with others.
pub(crate) fn all_decisions(entries: &[ReviewEntry], choice: Choice) -> Vec<PinDecision> {
    let wanted = entries.iter().filter(|entry| choice == Choice::Reject || !is_severe(entry));
    wanted.filter_map(|entry| decision(entry, choice)).collect()
}

fn decision(entry: &ReviewEntry, choice: Choice) -> Option<PinDecision> {
    let key = DefinitionKey { kind: entry.kind, name: entry.name.clone() };
    Some(PinDecision { key, pin: Pin::parse(&entry.pin)?, choice })
}

/// The whole definition as plain text, with invisible characters escaped: each value on one line, then the JSON itself.
pub(crate) fn whole(entry: &ReviewEntry) -> String {
    let mut text = format!("{} {}\npin {}\n", entry.kind.as_str(), plain(&entry.name), entry.pin);
    let versions = [("accepted version", entry.old.as_ref()), ("version that waits", Some(&entry.new))];
    for (title, json) in versions {
        let Some(json) = json else { continue };
        text.push_str(&format!("\n== {title} ==\n"));
        for part in parts(json) {
            let owner = if part.owner.is_empty() { String::new() } else { format!("{}: ", plain(&part.owner)) };
            text.push_str(&format!("{owner}{}: {}\n", plain(&part.field), plain(&part.text)));
        }
        text.push_str(&format!("\n{}\n", plain(json)));
    }
    text
}

#[cfg(test)]
mod tests;
