//! Formats records as rows: a list with fitted columns, and a stream with fixed columns.
//!
//! Names of servers and tools are never cut. Where a whole row does not fit, a record takes two lines:
//!
//! ```text
//! ID               TIME         INTENT   STATUS   DURATION
//! 01M7FFDZMN00009  11-15 11:28  ✎ write  success  1.8ms
//!     demo:create_note
//! ```
//!
//! A word in parentheses after the tool says what the status does not: `(dry run)`, `(replayed)` or `(warning)`.

use mcpproxy_core::{ErrorCode, RiskLevel, Variant};
use mcpproxy_store::{CallMark, Kind, Record, Status};

use super::words::{NONE, duration, intent, word};
use crate::terminal::listing::{Cell, Layout, whole_lines};
use crate::terminal::output::{line, shorten};
use crate::terminal::style::{Tone, of_state};
use crate::terminal::time::{local, local_time};
use crate::terminal::wrap::width;

const HEADER: [&str; 7] = ["ID", "TIME", "SERVER", "TOOL", "INTENT", "STATUS", "DURATION"];
/// The columns of the first of two lines.
const SHORT_HEADER: [&str; 5] = ["ID", "TIME", "INTENT", "STATUS", "DURATION"];
/// Position of the risk column, which is shown if there is room.
const RISK: usize = 5;
/// Characters of an id that are unique. The rest is random.
const ID_CHARS: usize = 15;
const GAP: usize = 2;
/// Starts the code of a step of an approval request.
const STEP: &str = "approval_";
/// Starts the message of a record about a reload.
const RELOADED: &str = "reloaded: ";
/// Longest list of changes in a row. `activity show` has all of them.
const CHANGED_MAX_CHARS: usize = 40;
/// Column widths of the stream.
const STEADY: [usize; 7] = [15, 19, 16, 32, 13, 11, 8];
/// Column widths of the first of two lines: 58 together.
const STEADY_SHORT: [usize; 5] = [15, 8, 7, 11, 8];
/// Widths that are enough for most names of servers and tools.
const SERVER_ENOUGH: usize = 12;
const TOOL_ENOUGH: usize = 24;

/// The amount of detail in a row.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Wording {
    Full,
    /// No year, no seconds, and `destr` for `destructive`.
    Short,
    /// Like `Short`, with the time of day instead of the date.
    Live,
}

pub(super) fn list(records: &[Record], layout: Layout) -> String {
    if records.is_empty() {
        return "No records.\n".to_owned();
    }
    let has_risks = records.iter().any(|record| record.risk.is_some());
    let with_risks = has_risks.then(|| with_risks(records, layout)).flatten();
    with_risks
        .or_else(|| whole_lines(&HEADER, rows(records, Wording::Full), layout))
        .or_else(|| whole_lines(&HEADER, rows(records, Wording::Short), layout))
        .unwrap_or_else(|| two_lines_each(records, layout))
}

fn rows(records: &[Record], wording: Wording) -> Vec<Vec<Cell>> {
    records.iter().map(|record| cells(record, wording).to_vec()).collect()
}

/// Adds the risk column.
fn with_risks(records: &[Record], layout: Layout) -> Option<String> {
    let mut header = HEADER.to_vec();
    header.insert(RISK, "RISK");
    let rows = records.iter().map(|record| {
        let [id, time, server, tool, intent, status, duration] = cells(record, Wording::Full);
        let risk = record.risk.map_or(NONE, RiskLevel::as_str).to_owned().into();
        vec![id, time, server, tool, intent, risk, status, duration]
    });
    whole_lines(&header, rows, layout)
}

/// Formats each record as a row without names, and the names below it.
fn two_lines_each(records: &[Record], layout: Layout) -> String {
    let rows = |wording| records.iter().map(move |record| without_names(cells(record, wording)).to_vec());
    let full = whole_lines(&SHORT_HEADER, rows(Wording::Full), layout);
    let text = full.or_else(|| whole_lines(&SHORT_HEADER, rows(Wording::Short), Layout { room: None, ..layout }));
    let text = text.unwrap_or_default();
    let names = std::iter::once(String::new()).chain(records.iter().map(names));
    text.lines().zip(names).map(|(line, names)| format!("{line}\n{names}")).collect()
}

fn without_names([id, time, _server, _tool, intent, status, duration]: [Cell; 7]) -> [Cell; 5] {
    [id, time, intent, status, duration]
}

/// Formats the names of a record as its second line.
fn names(record: &Record) -> String {
    match (word(&record.server), subject(record)) {
        (server, tool) if server == NONE => format!("    {tool}\n"),
        (server, tool) if tool.starts_with('(') => format!("    {server} {tool}\n"),
        (server, tool) => format!("    {server}:{tool}\n"),
    }
}

/// Formats rows one at a time, with fixed columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Stream {
    /// Everything on one line.
    Wide { server: usize, tool: usize },
    /// Everything on one line of any length, without a terminal.
    Unlimited,
    /// Names on a second line.
    Narrow,
}

impl Stream {
    pub(super) fn new(room: Option<usize>) -> Self {
        let Some(room) = room else { return Self::Unlimited };
        let [id, time, _, _, intent, status, duration] = STEADY;
        let others = id + time + intent + status + duration + GAP * (STEADY.len() - 1);
        let names = room.saturating_sub(others);
        if names < SERVER_ENOUGH + TOOL_ENOUGH {
            return Self::Narrow;
        }
        // Tools have longer names than servers.
        let server = (names / 3).min(STEADY[2]);
        Self::Wide { server, tool: (names - server).min(STEADY[3]) }
    }

    pub(super) fn header(self, layout: Layout) -> String {
        match self {
            Self::Wide { .. } | Self::Unlimited => self.line(HEADER.map(|name| Cell::new(name, Tone::Dim)), layout),
            Self::Narrow => line_of(&SHORT_HEADER.map(|name| Cell::new(name, Tone::Dim)), &STEADY_SHORT, layout),
        }
    }

    pub(super) fn row(self, record: &Record, layout: Layout) -> String {
        match self {
            Self::Wide { server, tool } => {
                let fits = width(&word(&record.server)) <= server && width(&subject(record)) <= tool;
                if fits {
                    return self.line(cells(record, Wording::Full), layout);
                }
                // A row with a long name takes two lines instead of cutting the name.
                let [id, time, _, _, intent, status, duration] = cells(record, Wording::Full);
                let empty = || Cell::from(String::new());
                self.line([id, time, empty(), empty(), intent, status, duration], layout) + &names(record)
            }
            Self::Unlimited => self.line(cells(record, Wording::Full), layout),
            Self::Narrow => {
                line_of(&without_names(cells(record, Wording::Live)), &STEADY_SHORT, layout) + &names(record)
            }
        }
    }

    fn line(self, cells: [Cell; 7], layout: Layout) -> String {
        let mut widths = STEADY;
        if let Self::Wide { server, tool } = self {
            (widths[2], widths[3]) = (server, tool);
        }
        line_of(&cells, &widths, layout)
    }
}

fn line_of(cells: &[Cell], widths: &[usize], layout: Layout) -> String {
    crate::terminal::listing::line(cells, widths, layout.colours)
}

fn cells(record: &Record, wording: Wording) -> [Cell; 7] {
    let intent = |variant: Variant| match (wording, variant) {
        (Wording::Short | Wording::Live, Variant::Destructive) => "✖ destr",
        (Wording::Full | Wording::Short | Wording::Live, variant) => intent(variant),
    };
    let intent_tone = if record.intent_type == Some(Variant::Destructive) { Tone::Bad } else { Tone::Plain };
    let id: String = record.id.to_string().chars().take(ID_CHARS).collect();
    let time = match wording {
        Wording::Full => local_time(record.time_ms()),
        Wording::Short => local(record.time_ms(), "%m-%d %H:%M"),
        Wording::Live => local(record.time_ms(), "%H:%M:%S"),
    };
    let status = status(record);
    [
        id.into(),
        time.into(),
        word(&record.server).into(),
        subject(record).into(),
        Cell::new(record.intent_type.map_or(NONE, intent), intent_tone),
        Cell::new(status.clone(), of_state(&status)),
        record.duration_us.map_or(NONE.to_owned(), duration).into(),
    ]
}

/// Returns the tool, or the subject of a record that has no tool.
fn subject(record: &Record) -> String {
    match record.kind {
        Kind::Call | Kind::Refusal => format!("{}{}", word(&record.tool), marks(record)),
        Kind::Approval if record.tool.is_some() && is_step(record) => format!("{} (approval)", word(&record.tool)),
        Kind::Approval if record.tool.is_some() => format!("{} ({})", word(&record.tool), step(record)),
        Kind::Settings => match record.message.as_ref().map(|message| message.for_terminal()) {
            Some(changed) if record.status == Status::Success => {
                let changed = changed.strip_prefix(RELOADED).unwrap_or(&changed);
                format!("(settings: {})", shorten(changed, CHANGED_MAX_CHARS))
            }
            Some(_) | None => "(settings: not reloaded)".to_owned(),
        },
        Kind::Auth if record.code.is_some() => format!("({})", who_did(record)),
        // A changed definition that nobody reviewed is a warning.
        Kind::Server => format!("({}){}", record.kind.as_str(), marks(record)),
        Kind::Approval | Kind::Auth => format!("({})", record.kind.as_str()),
    }
}

/// Returns the marks of a call. A dry run or a replayed answer must not look like a call that ran.
fn marks(record: &Record) -> String {
    let mark = match record.mark() {
        CallMark::Real => None,
        CallMark::DryRun => Some("dry run"),
        CallMark::Replayed => Some("replayed"),
    };
    let mismatch = record.code.as_ref().is_some_and(|code| code.for_json() == ErrorCode::OutputMismatch.as_str());
    let is_warned = record.has_warnings() || (mismatch && record.status == Status::Success);
    let marks: Vec<&str> = mark.into_iter().chain(is_warned.then_some("warning")).collect();
    if marks.is_empty() { String::new() } else { format!(" ({})", marks.join(", ")) }
}

/// Returns the status for people. Scripts get the recorded one from `-o json`.
fn status(record: &Record) -> String {
    let waits = record.code.as_ref().is_some_and(|code| code.for_json() == ErrorCode::ConfirmationRequired.as_str());
    match record.kind {
        // The call was not refused for good. It waits for a user.
        Kind::Refusal if waits => "unapproved".to_owned(),
        // An approval request is not a call, and must not look like a successful one.
        Kind::Approval if is_step(record) => step(record),
        Kind::Approval | Kind::Refusal | Kind::Call | Kind::Server | Kind::Settings | Kind::Auth => {
            record.status.as_str().to_owned()
        }
    }
}

/// Returns true for a step of an approval request, such as `approval_requested`. A prompt that failed is none.
fn is_step(record: &Record) -> bool {
    let is_step = record.code.as_ref().is_some_and(|code| code.for_json().starts_with(STEP));
    is_step && record.status != Status::Error
}

/// Returns an authentication event and its user: `login failed: anna`.
fn who_did(record: &Record) -> String {
    let what = word(&record.code).replace('_', " ");
    let metadata: serde_json::Value = serde_json::from_str(record.metadata.for_json()).unwrap_or_default();
    match metadata.get("user").and_then(serde_json::Value::as_str) {
        Some(user) => format!("{what}: {}", line(user)),
        None => what,
    }
}

/// Returns the step of an approval: `requested`, `denied`, `grant used`.
fn step(record: &Record) -> String {
    let code = word(&record.code);
    let step = code.strip_prefix(STEP).unwrap_or(&code).replace('_', " ");
    if step == NONE { record.kind.as_str().to_owned() } else { step }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::Untrusted;

    use super::*;
    use crate::terminal::style::Colours;

    #[test]
    fn names_get_their_own_line_where_there_is_no_room() {
        let check = |room: usize, expected: Stream| assert_eq!(Stream::new(Some(room)), expected, "{room}");
        check(200, Stream::Wide { server: 16, tool: 32 });
        check(120, Stream::Wide { server: 14, tool: 28 });
        check(114, Stream::Wide { server: 12, tool: 24 });
        check(113, Stream::Narrow);
        check(60, Stream::Narrow);
        assert_eq!(Stream::new(None), Stream::Unlimited);
        assert!(STEADY_SHORT.iter().sum::<usize>() + GAP * 4 <= 60);
    }

    fn record(kind: Kind, status: Status, tool: Option<&str>, code: Option<&str>, message: Option<&str>) -> Record {
        Record {
            id: mcpproxy_store::RecordId::parse("01HF7YAT00ZZW1Z00000000000").unwrap(),
            chain: 0,
            seq: 1,
            end_seq: None,
            kind,
            status,
            agent: None,
            client: None,
            server: None,
            tool: tool.map(Untrusted::new),
            intent_type: None,
            risk: None,
            code: code.map(Untrusted::new),
            message: message.map(Untrusted::new),
            duration_us: None,
            metadata: Untrusted::new("{}"),
            end_metadata: None,
            args: None,
            result: None,
        }
    }

    #[test]
    fn rows_say_what_happened() {
        let check = |record: &Record, expected: (&str, &str)| {
            assert_eq!((subject(record).as_str(), status(record).as_str()), expected, "{record:?}");
        };
        let call = |metadata: &str| Record {
            metadata: Untrusted::new(metadata),
            ..record(Kind::Call, Status::Success, Some("drop"), None, None)
        };
        check(&call("{}"), ("drop", "success"));
        check(&call(r#"{"dry_run":"server"}"#), ("drop (dry run)", "success"));
        check(&call(r#"{"replayed_from":"01X"}"#), ("drop (replayed)", "success"));
        check(&call(r#"{"warnings":[{"code":"unannotated"}]}"#), ("drop (warning)", "success"));
        check(&call(r#"{"warnings":[{}],"dry_run":"server"}"#), ("drop (dry run, warning)", "success"));
        let mismatch = record(Kind::Call, Status::Success, Some("drop"), Some("output_mismatch"), None);
        check(&mismatch, ("drop (warning)", "success"));
        let refusal = |code: &str| record(Kind::Refusal, Status::Refused, Some("drop"), Some(code), None);
        check(&refusal("confirmation_required"), ("drop", "unapproved"));
        check(&refusal("approval_denied"), ("drop", "refused"));
        let approval = |status: Status, code: &str| record(Kind::Approval, status, Some("drop"), Some(code), None);
        check(&approval(Status::Success, "approval_requested"), ("drop (approval)", "requested"));
        check(&approval(Status::Success, "approval_approved"), ("drop (approval)", "approved"));
        check(&approval(Status::Refused, "approval_denied"), ("drop (approval)", "denied"));
        check(&approval(Status::Error, "approval_not_shown"), ("drop (not shown)", "error"));
        check(&approval(Status::Success, "grant_created"), ("drop (grant created)", "success"));
        let reload = |status: Status, message: &str| record(Kind::Settings, status, None, None, Some(message));
        check(&reload(Status::Success, "reloaded: added a; contracts"), ("(settings: added a; contracts)", "success"));
        check(&reload(Status::Success, "reloaded"), ("(settings: reloaded)", "success"));
        check(&reload(Status::Error, "mcp_config.json:1:2: bad"), ("(settings: not reloaded)", "error"));
        let long = format!("reloaded: added {}", "x, ".repeat(500));
        assert!(subject(&reload(Status::Success, &long)).chars().count() < 60);
    }

    #[test]
    fn a_row_is_one_line_whatever_is_in_it() {
        let layout = Layout { room: Some(120), colours: Colours::Off };
        let cells = ["01HF7YAT00ZZW1Z", "10:00:00", "server", "日本語", "✖ destr", "success", "0.1ms"];
        let line = Stream::new(Some(120)).line(cells.map(|text| text.to_owned().into()), layout);
        assert_eq!(
            line,
            "01HF7YAT00ZZW1Z  10:00:00             server          日本語                        ✖ destr        \
             success      0.1ms\n"
        );
    }
}
