//! Published versions: the card on the settings page, the list, and the page of one version.

use askama::Template;
use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_store::VersionHead;

use crate::auth::factor::Factors;
use crate::ui::pages::Frame;
use crate::ui::pages::amount::{counted, items, one_line};
use crate::ui::pages::labels::{State, Time};
use crate::ui::pages::tools::text_diff::FileDiffs;
use crate::visible::Visible;

/// Weaker rules on a page. The rest is counted.
const WEAKER_MAX: usize = 200;
const MISTAKES_MAX: usize = 50;
const LINE_CHARS: usize = 600;
/// Bytes of whole files on a page. Larger ones are named only.
const FILES_MAX_BYTES: usize = 200_000;

/// A version in a list, or at the head of its page.
#[derive(Debug)]
pub(crate) struct VersionRow {
    pub(crate) number: i64,
    pub(crate) time: Time,
    pub(crate) by: Visible,
    /// The files that changed.
    pub(crate) changes: Visible,
    pub(crate) digest: Visible,
    pub(crate) is_active: bool,
    /// `None` for an earlier version.
    pub(crate) state: Option<State>,
}

impl VersionRow {
    /// `in_force` is the version of this gateway. `None` if it reads its folder.
    pub(crate) fn new(head: &VersionHead, in_force: Option<i64>, newest: Option<i64>, now_ms: i64) -> Self {
        let is_newest = newest == Some(head.number);
        let state = match in_force {
            Some(active) if active == head.number => Some(State { class: "ok", word: "Active", icon: "check" }),
            Some(_) if is_newest => Some(State { class: "error", word: "Not active here", icon: "critical" }),
            None if is_newest => Some(State { class: "waiting", word: "Newest", icon: "clock" }),
            Some(_) | None => None,
        };
        Self {
            number: head.number,
            time: Time::new(head.published_ms, now_ms),
            by: Visible::of(&head.published_by),
            changes: Visible::of(&one_line(&head.summary, LINE_CHARS)),
            digest: Visible::of(&head.digest),
            is_active: in_force == Some(head.number),
            state,
        }
    }
}

/// The card on the settings page.
#[derive(Debug)]
pub(crate) struct ActiveVersion {
    /// The version that this gateway has in force.
    pub(crate) active: Option<VersionRow>,
    /// Its number, also if it is not kept any more. 0 if nothing was published.
    pub(crate) number: i64,
    /// The newest version, if this gateway has another one.
    pub(crate) newest: Option<VersionRow>,
    /// True if settings, contracts and policies come from the data folder.
    pub(crate) reads_folder: bool,
}

impl ActiveVersion {
    pub(crate) fn new(heads: &[VersionHead], in_force: Option<i64>, now_ms: i64) -> Self {
        let newest = heads.first().map(|head| head.number);
        let row = |head: &VersionHead| VersionRow::new(head, in_force, newest, now_ms);
        Self {
            active: heads.iter().find(|head| Some(head.number) == in_force).map(row),
            number: in_force.unwrap_or_default(),
            newest: heads.first().filter(|head| Some(head.number) != in_force).map(row),
            reads_folder: in_force.is_none(),
        }
    }
}

#[derive(Template)]
#[template(path = "versions.html")]
pub(crate) struct Versions {
    pub(crate) frame: Frame,
    pub(crate) rows: Vec<VersionRow>,
    pub(crate) rows_key: String,
    /// False with SQLite.
    pub(crate) is_shared: bool,
    pub(crate) reads_folder: bool,
}

impl Versions {
    pub(crate) fn new(frame: Frame, rows: Vec<VersionRow>, is_shared: bool, is_published: bool) -> Self {
        let rows_key = crate::ui::pages::amount::part_key(&rows);
        Self { frame, rows, rows_key, is_shared, reads_folder: !is_published }
    }
}

#[derive(Template)]
#[template(path = "version.html")]
pub(crate) struct VersionPage {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) done: Option<&'static str>,
    pub(crate) version: VersionRow,
    /// The differences to the newest version. `None` if this is the newest.
    pub(crate) against: Option<Against>,
    /// The differences to the version before. `None` if that one is not kept any more.
    pub(crate) own: Option<FileDiffs>,
    pub(crate) files: Vec<WholeFile>,
    pub(crate) publishing: Publishing,
    pub(crate) factors: Factors,
    /// The reason for which this gateway has not taken over the newest version.
    pub(crate) mistakes: Vec<Visible>,
}

/// A file of a version, to copy it into a folder.
#[derive(Debug)]
pub(crate) struct WholeFile {
    pub(crate) name: Visible,
    /// `None` if the files before it have filled the page.
    pub(crate) text: Option<Visible>,
}

impl WholeFile {
    pub(crate) fn all(files: &[(String, String)]) -> Vec<Self> {
        let mut left = FILES_MAX_BYTES;
        let file = |(name, text): &(String, String)| {
            let rest = left.checked_sub(text.len());
            left = rest.unwrap_or(left);
            Self { name: Visible::of(name), text: rest.map(|_| Visible::lines(text)) }
        };
        files.iter().map(file).collect()
    }
}

/// A change that a user has not confirmed yet.
#[derive(Template)]
#[template(path = "proposal.html")]
pub(crate) struct Proposal {
    pub(crate) frame: Frame,
    pub(crate) error: Option<String>,
    pub(crate) title: String,
    /// The address of the form that proposed it.
    pub(crate) path: String,
    pub(crate) notes: Vec<String>,
    pub(crate) diffs: FileDiffs,
    pub(crate) form: PublishForm,
    /// The fields of the form that proposed it.
    pub(crate) inputs: Vec<(String, String)>,
    pub(crate) factors: Factors,
}

/// The differences to the newest version.
pub(crate) struct Against {
    pub(crate) number: i64,
    /// False if this gateway has not taken over the newest version.
    pub(crate) is_active: bool,
    pub(crate) diffs: FileDiffs,
}

/// Tells if a version can be published again.
pub(crate) enum Publishing {
    Newest,
    /// Its files are those of the newest version.
    Same,
    /// This gateway could not use it, for example because a variable of the environment is missing.
    Invalid(Vec<Visible>),
    Possible(PublishForm),
}

impl Publishing {
    pub(crate) fn invalid(mistakes: &str) -> Self {
        Self::Invalid(lines(mistakes))
    }
}

pub(crate) struct PublishForm {
    /// The number of the version that the files were compared with.
    pub(crate) after: i64,
    /// The number that the files get.
    pub(crate) next: i64,
    pub(crate) digest: String,
    pub(crate) weaker: Vec<Visible>,
    /// Counts weaker rules that are not listed. Empty if there are none.
    pub(crate) more: String,
    pub(crate) needs_step_up: bool,
}

impl PublishForm {
    pub(crate) fn new(after: i64, digest: &str, weaker: &Weaker) -> Self {
        let lines = weaker.lines();
        let more = lines.len().saturating_sub(WEAKER_MAX);
        Self {
            after,
            next: after.saturating_add(1),
            digest: digest.to_owned(),
            weaker: lines.iter().take(WEAKER_MAX).map(|line| Visible::of(line)).collect(),
            more: if more > 0 { counted(items(more), "more change") } else { String::new() },
            needs_step_up: weaker.needs_step_up,
        }
    }
}

impl VersionPage {
    pub(crate) fn new(
        frame: Frame,
        version: VersionRow,
        against: Option<Against>,
        own: Option<FileDiffs>,
        publishing: Publishing,
    ) -> Self {
        Self {
            frame,
            error: None,
            done: None,
            version,
            against,
            own,
            files: Vec::new(),
            publishing,
            factors: Factors::default(),
            mistakes: Vec::new(),
        }
    }

    pub(crate) fn not_taken_over(self, reason: Option<&str>) -> Self {
        Self { mistakes: lines(reason.unwrap_or_default()), ..self }
    }
}

fn lines(mistakes: &str) -> Vec<Visible> {
    mistakes.lines().take(MISTAKES_MAX).map(|line| Visible::of(&one_line(line, LINE_CHARS))).collect()
}
