//! Words for records that are not about calls: servers, settings, accounts and tokens.
//!
//! A record is named after its subject and what happened to it: `Server time added`. If it did not happen, it is named
//! after what was tried, and the status says how it ended: `Add server time`, failed.

use mcpproxy_core::Untrusted;
use mcpproxy_store::{Kind, Record, Status};
use serde_json::Value;

use super::words::{code, event, member};
use crate::ui::pages::labels::State;

/// The words for one code. `{}` stands for the subject.
struct Words {
    code: &'static str,
    subject: Subject,
    done: &'static str,
    tried: &'static str,
}

/// The part of a record that is its subject.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Subject {
    Server,
    /// The signed-in user, who is named in no other place then.
    User,
    /// A member of the metadata.
    Member(&'static str),
    None,
}

const fn words(code: &'static str, subject: Subject, done: &'static str, tried: &'static str) -> Words {
    Words { code, subject, done, tried }
}

const WORDS: &[Words] = &[
    words("server_add", Subject::Member("name"), "Server {} written to the settings", "Add server {}"),
    words("server_added", Subject::Server, "Server {} added", "Add server {}"),
    words("server_restarted", Subject::Server, "Server {} restarted", "Restart server {}"),
    words("server_enabled", Subject::Server, "Server {} enabled", "Enable server {}"),
    words("server_disabled", Subject::Server, "Server {} disabled", "Disable server {}"),
    words("server_removed", Subject::Server, "Server {} removed", "Remove server {}"),
    words(
        "definitions_seen",
        Subject::Server,
        "Definitions of {} accepted at first sight",
        "Definitions of {} seen for the first time",
    ),
    words("definitions_changed", Subject::Server, "Definitions of {} changed", "Definitions of {} changed"),
    words(
        "definitions_quarantined",
        Subject::Server,
        "Definitions of {} quarantined",
        "Definitions of {} held for review",
    ),
    words("definitions_reviewed", Subject::Server, "Definitions of {} reviewed", "Review definitions of {}"),
    words("tools_changed", Subject::Server, "Tools of {} changed", "Tools of {} changed"),
    words("tools_refresh_failed", Subject::Server, "Tools of {} read again", "Read the tools of {} again"),
    words("token_created", Subject::Member("agent"), "Token of {} created", "Create a token for {}"),
    words("token_changed", Subject::Member("agent"), "Token of {} changed", "Change the token of {}"),
    words("token_revoked", Subject::Member("agent"), "Token of {} revoked", "Revoke the token of {}"),
    words("login", Subject::User, "{} signed in", "Sign-in of {}"),
    words("logout", Subject::User, "{} signed out", "Sign-out of {}"),
    words("session_closed", Subject::Member("of"), "Session of {} ended", "End a session of {}"),
    words("login_failed", Subject::None, "Sign-in", "Sign-in with a wrong name or password"),
    words("password_wrong", Subject::User, "Password of {}", "Wrong password of {}"),
    words("step_up_failed", Subject::User, "Second factor of {}", "Wrong second factor of {}"),
    words("user_created", Subject::User, "Account of {} created", "Create the account of {}"),
    words("user_invited", Subject::User, "{} invited an approver", "Invitation by {}"),
    words("user_removed", Subject::Member("removed"), "User {} removed", "Remove user {}"),
    words("password_changed", Subject::User, "{} changed the password", "Change the password of {}"),
    words("factor_added", Subject::User, "{} added a second factor", "Add a second factor for {}"),
    words("factor_removed", Subject::User, "{} removed a second factor", "Remove a second factor of {}"),
    words("unauthorized", Subject::None, "Agent token", "Request with an unknown agent token"),
    words("approval_decision_refused", Subject::Member("with"), "Decision with an {}", "Decision with an {}"),
    words("contract_saved", Subject::Member("tool"), "Contract of {} saved", "Save the contract of {}"),
    words("version_published", Subject::None, "Settings, contracts and policies published", "Publish a version"),
    words("log_verified", Subject::None, "Log verified", "Verify the log"),
    words("weakening_held", Subject::None, "Weaker rules applied", "Change that weakens rules"),
    words("weaker_at_start", Subject::None, "Weaker rules since the last run", "Weaker rules since the last run"),
];

/// Names a record after its subject and what happened to it.
pub(crate) fn subject(record: &Record, metadata: &Value) -> String {
    let server = record.server.as_ref().map_or("", Untrusted::for_json);
    let is_done = record.status == Status::Success;
    let Some(words) = find(record) else {
        return match (record.kind, code(record), is_done) {
            (Kind::Server, "", true) => format!("Server {server} connected"),
            (Kind::Server, "", false) => format!("Connect server {server}"),
            (Kind::Server, other, _) => format!("Server {server}: {}", event(other)),
            (Kind::Settings, "", true) => "Settings reloaded".to_owned(),
            (Kind::Settings, "", false) => "Reload the settings".to_owned(),
            (kind, "", _) => super::words::kind_word(kind).to_owned(),
            (_, other, _) => event(other),
        };
    };
    let subject = match words.subject {
        Subject::Server => Some(server),
        Subject::User => member(metadata, "user"),
        Subject::Member(name) => member(metadata, name),
        Subject::None => None,
    };
    let text = if is_done { words.done } else { words.tried };
    match subject.filter(|subject| !subject.is_empty()) {
        Some(subject) => text.replace("{}", subject),
        None => text.replace(" {}", "").replace("{} ", "A user "),
    }
}

/// Returns the user who did it, unless the subject names them.
pub(crate) fn actor<'m>(record: &Record, metadata: &'m Value) -> Option<&'m str> {
    let is_subject = find(record).is_some_and(|words| words.subject == Subject::User);
    member(metadata, "user").filter(|_| !is_subject)
}

/// Returns the status with an icon.
pub(crate) fn status(record: &Record) -> State {
    let (class, word, icon) = match (record.status, code(record)) {
        (Status::Refused, "definitions_quarantined" | "weakening_held") => ("held", "Held back", "clock"),
        (Status::Refused, "definitions_reviewed") => ("cancelled", "No effect", "ban"),
        (Status::Success, _) => ("ok", "Done", "check"),
        (Status::Refused, _) => ("refused", "Refused", "ban"),
        (Status::Error, _) => ("error", "Failed", "x"),
        (Status::Started, _) => ("waiting", "Running", "clock"),
        (Status::Cancelled, _) => ("cancelled", "Cancelled", "ban"),
        (Status::Interrupted, _) => ("error", "Unknown", "medium"),
    };
    State { class, word, icon }
}

fn find(record: &Record) -> Option<&'static Words> {
    WORDS.iter().find(|words| words.code == code(record))
}
