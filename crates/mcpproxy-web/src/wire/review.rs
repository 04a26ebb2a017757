//! The JSON of reviews: definitions that wait for a user, decisions about them, and accepted definitions.

use mcpproxy_core::trust::{DefinitionKey, DefinitionKind, Held, Pin};
use mcpproxy_core::{Digest, Untrusted};
use mcpproxy_gateway::{Review as Waiting, ReviewEntry as WaitingDefinition};
use mcpproxy_store::{AcceptedPin, Choice, Decided, PinDecision};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use serde_json::value::{RawValue, to_raw_value};
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::words;

/// Decisions in one request. A server has no more definitions.
pub(crate) const DECISIONS_MAX: usize = 10_000;
/// Longest name in a message.
const NAME_MAX_CHARS: usize = 64;

/// The definitions of a server that wait for a user.
#[derive(Serialize, ToSchema)]
pub(crate) struct Review {
    pub(crate) server: String,
    /// True if no definition of this server was ever accepted.
    pub(crate) first_sight: bool,
    /// Findings about the name of the server, such as `glthub`.
    findings: Vec<ReviewFinding>,
    /// The definitions that wait. With `rejected=true`, also those that a user rejected.
    pub(crate) entries: Vec<ReviewEntry>,
    /// The number of listed definitions that a user rejected. They do not wait.
    rejected: usize,
}

/// A definition that waits, with the accepted version before it.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReviewEntry {
    #[schema(schema_with = definition_kinds)]
    kind: &'static str,
    /// The server's own name for it. A template has its address pattern here. Empty for the instructions.
    name: String,
    /// Identifies this version. Send it with your decision, so that you accept what you have read and nothing else.
    pin: String,
    #[schema(schema_with = held_reasons)]
    reason: &'static str,
    /// The accepted version, as the server wrote it. `null` if none was accepted.
    #[schema(value_type = Value)]
    old: Option<Box<RawValue>>,
    /// The version that waits, as the server wrote it. The instructions are a string.
    #[schema(value_type = Value)]
    new: Box<RawValue>,
    /// One sentence for each difference, the gravest first.
    changes: Vec<String>,
    /// The kinds of difference, such as `description` or `input_schema`.
    kinds: Vec<String>,
    /// An accepted definition that this new one resembles. It may be the same one under another name.
    resembles: Option<String>,
    findings: Vec<ReviewFinding>,
    /// The time at which this version began to wait, in milliseconds since 1970.
    first_seen_ms: i64,
    /// The time of the last list with this version, in milliseconds since 1970.
    last_seen_ms: i64,
    /// The number of versions that the server has shown since the last decision.
    times: u64,
    /// The user who rejected this version. `null` if it waits.
    rejected_by: Option<String>,
    /// The time at which it was rejected, in milliseconds since 1970.
    rejected_ms: Option<i64>,
}

/// Something suspicious in a definition.
#[derive(Serialize, ToSchema)]
struct ReviewFinding {
    rule: String,
    /// `low`, `medium` or `high`. A finding of severity high quarantines a definition in every case.
    severity: String,
    /// The place in the definition, such as `description`.
    #[serde(rename = "where")]
    place: String,
    reason: String,
}

impl From<Waiting> for Review {
    fn from(review: Waiting) -> Self {
        Self {
            server: review.server.to_string(),
            first_sight: review.is_first,
            findings: review.findings.iter().map(ReviewFinding::of).collect(),
            entries: review.entries.into_iter().map(Into::into).collect(),
            rejected: review.rejected,
        }
    }
}

impl From<WaitingDefinition> for ReviewEntry {
    fn from(entry: WaitingDefinition) -> Self {
        Self {
            kind: entry.kind.as_str(),
            name: entry.name.to_string(),
            pin: entry.pin,
            reason: entry.reason.as_str(),
            old: entry.old.as_deref().map(raw),
            new: raw(&entry.new),
            changes: entry.changes,
            kinds: entry.kinds,
            resembles: entry.resembles,
            findings: entry.findings.iter().map(ReviewFinding::of).collect(),
            first_seen_ms: entry.first_seen_ms,
            last_seen_ms: entry.last_seen_ms,
            times: entry.times,
            rejected_ms: entry.rejection.as_ref().map(|rejection| rejection.at_ms),
            rejected_by: entry.rejection.map(|rejection| rejection.by),
        }
    }
}

impl ReviewFinding {
    fn of(finding: &Value) -> Self {
        let text = |name: &str| finding.get(name).and_then(Value::as_str).unwrap_or_default().to_owned();
        Self { rule: text("rule"), severity: text("severity"), place: text("where"), reason: text("reason") }
    }
}

/// Keeps the server's own JSON, with all digits of its numbers.
pub(super) fn raw(text: &str) -> Box<RawValue> {
    let quoted = || to_raw_value(text).unwrap_or_else(|_| RawValue::NULL.to_owned());
    RawValue::from_string(text.to_owned()).unwrap_or_else(|_| quoted())
}

/// Accepts and rejects definitions.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct DecideReview {
    #[serde(default)]
    pub(crate) accept: Vec<ReviewedDefinition>,
    #[serde(default)]
    pub(crate) reject: Vec<ReviewedDefinition>,
    /// A fresh code from an authenticator app. Replaces `page_key`.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required without `totp`.
    pub(crate) page_key: Option<String>,
}

/// A version of a definition that you have read.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct ReviewedDefinition {
    #[schema(schema_with = definition_kinds)]
    pub(crate) kind: String,
    /// Empty for the instructions.
    #[serde(default)]
    pub(crate) name: String,
    /// `pin` of the version that you have read.
    pub(crate) pin: String,
    /// True to accept a version that a user rejected before. Without it, a rejection is never taken back.
    #[serde(default)]
    pub(crate) rejected: bool,
}

/// Announces a server, before it is written into the settings.
#[derive(Deserialize, ToSchema)]
#[serde(deny_unknown_fields)]
pub(crate) struct AnnounceServer {
    /// The SHA-256 digest of the server's name and its command or URL, as the settings have them.
    identity: String,
    /// A fresh code from an authenticator app. Replaces `page_key`.
    pub(crate) totp: Option<String>,
    /// `page_key` from the answer to signing in. Required for users without `totp`.
    pub(crate) page_key: Option<String>,
}

impl AnnounceServer {
    pub(crate) fn identity(&self) -> Result<Digest, &'static str> {
        Digest::parse(&self.identity)
            .ok_or("`identity` has not 64 hexadecimal digits; run `mcpproxy servers add` instead")
    }
}

impl DecideReview {
    /// Checks the decisions. The message names the first that makes no sense.
    pub(crate) fn decisions(&self) -> Result<Vec<PinDecision>, String> {
        let count = self.accept.len().saturating_add(self.reject.len());
        if count == 0 {
            return Err("`accept` and `reject` are empty, so there is nothing to decide".to_owned());
        }
        if count > DECISIONS_MAX {
            return Err(format!("{count} decisions are too many; send at most {DECISIONS_MAX} at a time"));
        }
        let accept = self.accept.iter().map(|one| (one, Choice::Accept));
        let all = accept.chain(self.reject.iter().map(|one| (one, Choice::Reject)));
        let mut seen = std::collections::HashSet::with_capacity(count);
        let mut decisions = Vec::with_capacity(count);
        for (one, choice) in all {
            let decision = one.decision(choice)?;
            if !seen.insert(decision.key.clone()) {
                return Err(format!("{} has two decisions", shown(&decision.key.to_string())));
            }
            decisions.push(decision);
        }
        Ok(decisions)
    }
}

impl ReviewedDefinition {
    fn decision(&self, choice: Choice) -> Result<PinDecision, String> {
        let kind = DefinitionKind::parse(&self.kind).ok_or_else(|| {
            let kinds = DefinitionKind::ALL.map(DefinitionKind::as_str).join(", ");
            format!("`kind` is `{}`; it is one of {kinds}", shown(&self.kind))
        })?;
        let pin = Pin::parse(&self.pin).ok_or_else(|| {
            format!("`pin` of {} {} has not 64 hexadecimal digits; copy it unchanged", self.kind, shown(&self.name))
        })?;
        let choice = match (choice, self.rejected) {
            (Choice::Accept, true) => Choice::AcceptRejected,
            (Choice::Reject, true) => {
                return Err(format!("{} {} is rejected already", self.kind, shown(&self.name)));
            }
            (choice, _) => choice,
        };
        Ok(PinDecision { key: DefinitionKey { kind, name: self.name.as_str().into() }, pin, choice })
    }
}

fn shown(text: &str) -> String {
    Untrusted::shortened(text, NAME_MAX_CHARS).for_terminal().into_owned()
}

/// One result for each decision, in the order of the request: first all of `accept`, then all of `reject`.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReviewResults {
    pub(crate) results: Vec<ReviewResult>,
}

/// The result of a decision.
#[derive(Serialize, ToSchema)]
pub(crate) struct ReviewResult {
    #[schema(schema_with = definition_kinds)]
    kind: &'static str,
    name: String,
    #[schema(schema_with = review_results)]
    result: &'static str,
}

impl ReviewResults {
    pub(crate) fn new(decisions: Vec<PinDecision>, decided: &[Decided]) -> Self {
        let result = |(decision, decided): (PinDecision, &Decided)| ReviewResult {
            kind: decision.key.kind.as_str(),
            name: decision.key.name.to_string(),
            result: word(*decided),
        };
        Self { results: decisions.into_iter().zip(decided).map(result).collect() }
    }
}

fn word(decided: Decided) -> &'static str {
    match decided {
        Decided::Done => "done",
        Decided::Changed => "changed",
        Decided::Gone => "gone",
    }
}

/// A lock file of all enabled servers.
#[derive(Serialize, ToSchema)]
pub(crate) struct LockFile {
    /// The text of the file.
    pub(crate) lock: String,
    /// Servers that are not connected. Of these, the file has what was accepted before.
    pub(crate) unreached: Vec<String>,
    /// The number of quarantined definitions of all servers.
    pub(crate) quarantined: usize,
}

/// The accepted definitions of a server.
#[derive(Serialize, ToSchema)]
pub(crate) struct Definitions {
    pub(crate) server: String,
    pub(crate) definitions: Vec<AcceptedDefinition>,
}

/// A definition that agents see.
#[derive(Serialize, ToSchema)]
pub(crate) struct AcceptedDefinition {
    #[schema(schema_with = definition_kinds)]
    kind: &'static str,
    /// The server's own name for it. A template has its address pattern here. Empty for the instructions.
    name: String,
    /// The hash of everything in it that matters to a model or to the gateway.
    pin: String,
    /// The definition as the server wrote it. The instructions are a string.
    #[schema(value_type = Value)]
    definition: Box<RawValue>,
    /// The time at which this version was listed for the first time, in milliseconds since 1970.
    first_seen_ms: i64,
    /// The time of the last list with this version, in milliseconds since 1970.
    last_seen_ms: i64,
    /// The time at which it was accepted, in milliseconds since 1970.
    accepted_ms: i64,
    /// The name of a user, or the rule that accepted it, such as `first_sight`.
    accepted_by: String,
}

impl From<AcceptedPin> for AcceptedDefinition {
    fn from(accepted: AcceptedPin) -> Self {
        Self {
            kind: accepted.key.kind.as_str(),
            name: accepted.key.name.to_string(),
            pin: accepted.pin.to_string(),
            definition: raw(&accepted.json),
            first_seen_ms: accepted.first_seen_ms,
            last_seen_ms: accepted.last_seen_ms,
            accepted_ms: accepted.accepted_ms,
            accepted_by: accepted.accepted_by,
        }
    }
}

pub(super) fn definition_kinds() -> Object {
    words("The kind of definition.", DefinitionKind::ALL.map(DefinitionKind::as_str))
}

fn held_reasons() -> Object {
    words(
        "The reason why agents do not see it. `suspicious`: the scan found something severe.",
        Held::ALL.map(Held::as_str),
    )
}

fn review_results() -> Object {
    words(
        "`changed`: another version waits now, so read it first. `gone`: nothing waits any more, because somebody else \
         decided or the server no longer lists it.",
        [Decided::Done, Decided::Changed, Decided::Gone].map(word),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    const PIN: &str = "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08";

    fn decisions(body: &str) -> Result<Vec<PinDecision>, String> {
        serde_json::from_str::<DecideReview>(body).map_err(|error| error.to_string())?.decisions()
    }

    #[test]
    fn decisions_are_checked() {
        let check = |body: &str, expected: &str| {
            let found = decisions(&body.replace("PIN", PIN)).unwrap_err();
            assert!(found.contains(expected), "{body}: {found}");
        };
        check("{}", "nothing to decide");
        check(r#"{"accept": [{"kind": "tol", "name": "a", "pin": "PIN"}]}"#, "it is one of tool, prompt, template");
        check(
            r#"{"accept": [{"kind": "tool", "name": "a\u001b", "pin": "9F86"}]}"#,
            "`pin` of tool a\\u{1b} has not 64",
        );
        let twice = r#"{"accept": [{"kind": "tool", "name": "a", "pin": "PIN"}], "reject": [{"kind": "tool", "name": "a", "pin": "PIN"}]}"#;
        check(twice, "tool a has two decisions");
        check(r#"{"accept": [], "rejected": []}"#, "unknown field");
        let again = r#"{"reject": [{"kind": "tool", "name": "a", "pin": "PIN", "rejected": true}]}"#;
        check(again, "tool a is rejected already");
        let many: Vec<String> =
            (0..=DECISIONS_MAX).map(|n| format!(r#"{{"kind": "tool", "name": "{n}", "pin": "PIN"}}"#)).collect();
        check(&format!(r#"{{"accept": [{}]}}"#, many.join(",")), "10001 decisions are too many");
    }

    #[test]
    fn decisions_keep_their_order() {
        let body = r#"{"reject": [{"kind": "instructions", "pin": "PIN"}], "accept": [{"kind": "tool", "name": "a", "pin": "PIN"}]}"#;
        let found = decisions(&body.replace("PIN", PIN)).unwrap();
        let found: Vec<(String, Choice)> = found.into_iter().map(|one| (one.key.to_string(), one.choice)).collect();
        assert_eq!(found, [("tool a".to_owned(), Choice::Accept), ("instructions".to_owned(), Choice::Reject)]);
    }
}
