//! Labels that several pages use: risks, states and times.

use jiff::Timestamp;
use mcpproxy_core::{ApprovalState, RiskLevel};
use mcpproxy_gateway::{SaidBy, StatedRisk};
use mcpproxy_store::Status;

/// A risk level with icon, word and colour. Colour alone never carries meaning.
///
/// Every page takes its words from here. A level that only the server gives says so in its word, and it has the colour
/// of an unclassified tool up to medium: a server's own risk level can raise the warning, never lower it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Risk {
    pub(crate) class: &'static str,
    pub(crate) icon: &'static str,
    pub(crate) word: &'static str,
    pub(crate) meaning: &'static str,
    /// The level alone, for a list that names the server as the source of all levels.
    pub(crate) short: &'static str,
    /// True if only the server gives the level.
    pub(crate) is_claimed: bool,
    /// Says that nobody has reviewed the level.
    pub(crate) claim: Option<&'static str>,
    /// Orders tools, the most dangerous first.
    pub(crate) rank: u8,
}

impl From<StatedRisk> for Risk {
    fn from(stated: StatedRisk) -> Self {
        let is_claimed = stated.claimed().is_some();
        let (word, claimed_word, meaning, rank) = match stated.risk {
            Some(RiskLevel::Low) => ("Low risk", "Low, says the server", "Little can go wrong.", 5),
            Some(RiskLevel::Medium) => {
                ("Medium risk", "Medium, says the server", "It makes changes that can be undone.", 3)
            }
            Some(RiskLevel::High) => {
                ("High risk", "High, says the server", "It makes changes that others will notice.", 2)
            }
            Some(RiskLevel::Critical) => (
                "Critical",
                "Critical, says the server",
                "It may be impossible to undo. Take a moment before you approve.",
                1,
            ),
            Some(RiskLevel::Forbidden) => ("Forbidden", "Forbidden, says the server", "No agent may do this.", 0),
            None => ("Unclassified", "Unclassified", "No one has rated the risk of this tool.", 4),
        };
        let class = match stated.warning() {
            Some(RiskLevel::Low) => "low",
            Some(RiskLevel::Medium) => "medium",
            Some(RiskLevel::High) => "high",
            Some(RiskLevel::Critical | RiskLevel::Forbidden) => "critical",
            None => "unclassified",
        };
        let draft = (stated.said_by == Some(SaidBy::Draft)).then_some("risk level from a draft, not reviewed");
        Self {
            class,
            icon: if stated.risk == Some(RiskLevel::Forbidden) { "ban" } else { class },
            word: if is_claimed { claimed_word } else { word },
            short: stated.risk.filter(|_| is_claimed).map_or(word, level_word),
            is_claimed,
            // A server's rating is not explained as if it were a fact.
            meaning: if is_claimed { "Only the server has rated the risk of this tool." } else { meaning },
            claim: if is_claimed { Some("risk level not verified") } else { draft },
            rank,
        }
    }
}

impl Risk {
    /// Stands for the risk of a tool that agents cannot see yet.
    pub(crate) const QUARANTINED: Self = Self {
        class: "unclassified",
        icon: "shield",
        word: "Quarantined",
        meaning: "Agents cannot see it until a user accepts its definition.",
        short: "Quarantined",
        is_claimed: false,
        claim: None,
        rank: 0,
    };

    /// Returns the level without its source, for a list that says the source once.
    pub(crate) fn without_source(self) -> Self {
        Self { word: self.short, ..self }
    }
}

/// Shortens the words of a list in which all levels come from the server: the list then says once that they do. Returns
/// true if it has to. A list with levels of several sources keeps the source in each word.
pub(crate) fn say_source_once<'a>(risks: impl Iterator<Item = &'a mut Risk>) -> bool {
    let mut rated: Vec<&mut Risk> = risks.filter(|risk| !matches!(risk.word, "Unclassified" | "Quarantined")).collect();
    let is_once = rated.len() > 1 && rated.iter().all(|risk| risk.is_claimed);
    for risk in rated.iter_mut().filter(|_| is_once) {
        **risk = risk.without_source();
    }
    is_once
}

/// Returns the word of a level in a filter, which finds the levels of operators and of servers.
pub(crate) fn level_word(level: RiskLevel) -> &'static str {
    match level {
        RiskLevel::Low => "Low",
        RiskLevel::Medium => "Medium",
        RiskLevel::High => "High",
        RiskLevel::Critical => "Critical",
        RiskLevel::Forbidden => "Forbidden",
    }
}

/// A state with icon and word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) class: &'static str,
    pub(crate) word: &'static str,
    pub(crate) icon: &'static str,
}

/// Words for how an approved call ended.
pub(crate) struct RanWords {
    class: &'static str,
    /// The state, and the heading of the outcome.
    pub(crate) state: &'static str,
    /// Before the time in a list: `Ran 3 minutes ago`.
    pub(crate) row: &'static str,
    /// The sentence about the call, before the time.
    pub(crate) sentence: &'static str,
    icon: &'static str,
}

/// Words the end of an approved call. A call that ran and failed must not look like one that succeeded.
pub(crate) fn ran_words(ran: Option<Status>) -> RanWords {
    let words = |class, state, row, sentence, icon| RanWords { class, state, row, sentence, icon };
    match ran {
        Some(Status::Success) | None => words("consumed", "Approved and run", "Ran", "It ran once", "check"),
        Some(Status::Error) => words("failed", "Ran and failed", "Ran and failed", "It ran once and failed", "x"),
        Some(Status::Started) => words("consumed", "Approved, running", "Running, started", "It was sent", "clock"),
        Some(Status::Cancelled | Status::Interrupted | Status::Refused) => words(
            "failed",
            "Sent, outcome unknown",
            "Sent, outcome unknown,",
            "It was sent, and its outcome is unknown",
            "medium",
        ),
    }
}

impl State {
    /// Words a state. `ran` is how the approved call ended.
    pub(crate) fn of(state: ApprovalState, ran: Option<Status>) -> Self {
        let (word, icon) = match state {
            ApprovalState::Consumed => {
                let words = ran_words(ran);
                return Self { class: words.class, word: words.state, icon: words.icon };
            }
            ApprovalState::Pending => ("Waiting for a decision", "clock"),
            ApprovalState::Approved => ("Approved", "check"),
            ApprovalState::Denied => ("Denied", "x"),
            ApprovalState::Expired => ("Expired", "clock"),
            ApprovalState::Cancelled => ("Cancelled", "ban"),
        };
        Self { class: state.as_str(), word, icon }
    }
}

/// Returns the words between the agent and the tool in the heading of a request.
pub(crate) fn verb(state: ApprovalState) -> &'static str {
    match state {
        ApprovalState::Pending => "wants to run",
        ApprovalState::Approved => "may run",
        ApprovalState::Consumed => "was allowed to run",
        ApprovalState::Denied | ApprovalState::Expired | ApprovalState::Cancelled => "wanted to run",
    }
}

/// A time in several formats.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Time {
    pub(crate) iso: String,
    /// The time until then.
    pub(crate) left_ms: i64,
    /// Relative: `in 4:51`, `3 minutes ago`.
    pub(crate) words: String,
    /// `14:32 UTC`, with the date if it is not today, and with the year if it is not this year.
    pub(crate) clock: String,
}

impl Time {
    pub(crate) fn new(time_ms: i64, now_ms: i64) -> Self {
        let words = if time_ms > now_ms { left(time_ms - now_ms) } else { ago(now_ms - time_ms) };
        Self { iso: crate::time::format(time_ms), left_ms: time_ms - now_ms, words, clock: clock(time_ms, now_ms) }
    }
}

/// Formats the time left as `assets/app.js` does, so that the text does not change when the script starts.
fn left(ms: i64) -> String {
    let seconds = ms / 1000;
    match seconds {
        5400.. => format!("in {} hours", (seconds + 1800) / 3600),
        600.. => format!("in {} minutes", (seconds + 30) / 60),
        _ => format!("in {}:{:02}", seconds / 60, seconds % 60),
    }
}

fn ago(ms: i64) -> String {
    let some = |count: i64, unit: &str| format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" });
    match ms / 1000 {
        0..=1 => "just now".to_owned(),
        seconds @ 2..=89 => some(seconds, "second"),
        seconds @ 90..=3569 => some((seconds + 30) / 60, "minute"),
        seconds @ 3570..=129_599 => some((seconds + 1800) / 3600, "hour"),
        seconds => some((seconds + 43_200) / 86_400, "day"),
    }
}

fn clock(time_ms: i64, now_ms: i64) -> String {
    let at = |ms: i64| Timestamp::from_millisecond(ms).unwrap_or_default();
    let format = |format: &str| at(time_ms).strftime(format).to_string();
    let is_today = at(time_ms).strftime("%F").to_string() == at(now_ms).strftime("%F").to_string();
    let is_this_year = at(time_ms).strftime("%Y").to_string() == at(now_ms).strftime("%Y").to_string();
    match (is_today, is_this_year) {
        (true, _) => format("%H:%M UTC"),
        (false, true) => format("%-d %B, %H:%M UTC"),
        (false, false) => format("%-d %B %Y, %H:%M UTC"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_servers_level_says_so_and_never_calms() {
        let check = |risk, said_by, expected: (&str, &str)| {
            let risk = Risk::from(StatedRisk { risk, said_by });
            assert_eq!((risk.class, risk.word), expected);
        };
        check(None, None, ("unclassified", "Unclassified"));
        check(Some(RiskLevel::Medium), Some(SaidBy::Operator), ("medium", "Medium risk"));
        check(Some(RiskLevel::Medium), Some(SaidBy::Draft), ("medium", "Medium risk"));
        check(Some(RiskLevel::Medium), Some(SaidBy::Server), ("unclassified", "Medium, says the server"));
        check(Some(RiskLevel::Low), Some(SaidBy::Server), ("unclassified", "Low, says the server"));
        check(Some(RiskLevel::Critical), Some(SaidBy::Server), ("critical", "Critical, says the server"));
    }

    #[test]
    fn a_list_says_its_source_once() {
        let risk = |level, by| Risk::from(StatedRisk { risk: Some(level), said_by: Some(by) });
        let check = |risks: &[Risk], expected: &[&str], is_once: bool| {
            let mut risks = risks.to_vec();
            assert_eq!(say_source_once(risks.iter_mut()), is_once);
            assert_eq!(risks.iter().map(|risk| risk.word).collect::<Vec<_>>(), expected);
        };
        let (low, high) = (risk(RiskLevel::Low, SaidBy::Server), risk(RiskLevel::High, SaidBy::Server));
        let unrated = Risk::from(StatedRisk { risk: None, said_by: None });
        check(&[high, low, unrated, Risk::QUARANTINED], &["High", "Low", "Unclassified", "Quarantined"], true);
        assert_eq!(low.without_source().class, "unclassified", "a server's level still calms nobody");
        let ours = risk(RiskLevel::High, SaidBy::Operator);
        check(&[ours, low, low], &["High risk", "Low, says the server", "Low, says the server"], false);
        check(&[low], &["Low, says the server"], false);
        check(&[ours, ours], &["High risk", "High risk"], false);
        check(&[], &[], false);
    }

    #[test]
    fn times() {
        let now_ms = 1_800_000_000_000;
        let check = |offset_s: i64, words: &str, clock: &str| {
            let time = Time::new(now_ms + offset_s * 1000, now_ms);
            assert_eq!((time.words.as_str(), time.clock.as_str()), (words, clock), "{offset_s}");
        };
        check(291, "in 4:51", "08:04 UTC");
        check(9, "in 0:09", "08:00 UTC");
        check(600, "in 10 minutes", "08:10 UTC");
        check(86_400, "in 24 hours", "16 January, 08:00 UTC");
        check(0, "just now", "08:00 UTC");
        check(-8, "8 seconds ago", "07:59 UTC");
        check(-90, "2 minutes ago", "07:58 UTC");
        check(-3600, "1 hour ago", "07:00 UTC");
        check(-7200, "2 hours ago", "06:00 UTC");
        check(-86_400 * 3, "3 days ago", "12 January, 08:00 UTC");
        check(-86_400 * 20, "20 days ago", "26 December 2026, 08:00 UTC");
    }
}
