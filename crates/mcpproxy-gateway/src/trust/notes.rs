//! Records and details of what a judgement found.

use mcpproxy_core::trust::scan::Finding;
use mcpproxy_core::trust::{Admitted, Held, Judgement, Known, Verdict};
use mcpproxy_core::{ServerName, Untrusted};
use mcpproxy_store::{Kind, NewRecord, Status};
use serde_json::{Value, json};

use super::admission::JudgedDefinition;
use crate::events::GatewayEvent;
use crate::message::with_members;
use crate::record;

/// Definitions in the metadata of a record, and names in its message. The rest is counted.
const RECORDED_MAX: usize = 50;
const NAMED_MAX: usize = 5;
/// Longest name of a prompt or template in a message.
const NAME_MAX_CHARS: usize = 64;

const SEEN: &str = "definitions_seen";
const CHANGED: &str = "definitions_changed";
const QUARANTINED: &str = "definitions_quarantined";

/// Builds the records of a list: what was accepted at first sight, which changes were applied, and what waits for a
/// user.
pub(super) fn of_news(server: &ServerName, all: &[JudgedDefinition], known: &Known) -> Vec<NewRecord> {
    let news = || all.iter().filter(|one| one.is_news(known));
    let (warned, admitted): (Vec<_>, Vec<_>) =
        news().filter(|one| matches!(one.judgement.verdict, Verdict::Admitted(_))).partition(|one| is_warned(one));
    let held: Vec<_> = news().filter(|one| matches!(one.judgement.verdict, Verdict::Held(_))).collect();
    let mut records = Vec::new();
    if !admitted.is_empty() {
        let (code, words) =
            if known.is_known { (CHANGED, "applied without a review") } else { (SEEN, "accepted at first sight") };
        let message = format!("{words}: {}", names(&admitted));
        records.push(of(server, code, message, &admitted, Status::Success));
    }
    if !warned.is_empty() {
        let message = format!("shown to agents without a review, with a warning: {}", names(&warned));
        let record = of(server, CHANGED, message, &warned, Status::Success);
        let warnings = json!([{"code": "unreviewed"}]).to_string();
        let metadata = with_members(&record.metadata, &[("warnings", &warnings)]);
        records.push(NewRecord { metadata, ..record });
    }
    if !held.is_empty() {
        let until = if held.iter().all(|one| is_unlocked(one)) {
            "quarantined, because the lock file does not have it"
        } else {
            "quarantined until a user reviews it"
        };
        let message = format!("{until}: {}", names(&held));
        records.push(of(server, QUARANTINED, message, &held, Status::Refused));
    }
    records
}

/// Tells a person who watches the gateway that something waits, is not in the lock file, or is shown with a warning.
pub(super) fn events(server: &ServerName, all: &[JudgedDefinition], known: &Known) -> Vec<GatewayEvent> {
    let news = || all.iter().filter(|one| one.is_news(known));
    let is_held = |one: &&JudgedDefinition| matches!(one.judgement.verdict, Verdict::Held(_));
    let (unlocked, held): (Vec<_>, Vec<_>) = news().filter(is_held).partition(|one| is_unlocked(one));
    let warned: Vec<_> = news().filter(|one| is_warned(one)).collect();
    let is_first = held.iter().all(|one| one.judgement.verdict == Verdict::Held(Held::FirstSight));
    let event = |all: &[&JudgedDefinition], event: &dyn Fn(ServerName, usize, String) -> GatewayEvent| {
        (!all.is_empty()).then(|| event(server.clone(), all.len(), names(all)))
    };
    let events = [
        event(&held, &|server, count, summary| GatewayEvent::Quarantined { server, count, is_first, summary }),
        event(&unlocked, &|server, count, summary| GatewayEvent::NotLocked { server, count, summary }),
        event(&warned, &|server, count, summary| GatewayEvent::Unreviewed { server, count, summary }),
    ];
    events.into_iter().flatten().collect()
}

/// Returns true if agents see a change that nobody reviewed, and the settings ask for a warning.
fn is_warned(one: &JudgedDefinition) -> bool {
    one.judgement.verdict == Verdict::Admitted(Admitted::Warned)
}

fn is_unlocked(one: &JudgedDefinition) -> bool {
    one.judgement.verdict == Verdict::Held(Held::NotLocked)
}

/// Writes what a reviewer sees next to a definition.
pub(super) fn details(judgement: &Judgement) -> String {
    let mut details = json!({"findings": judgement.findings.iter().map(finding).collect::<Vec<_>>()});
    if let Some(members) = details.as_object_mut() {
        if let Some(change) = &judgement.change {
            members.insert("changes".to_owned(), json!(change.meanings));
            members.insert("kinds".to_owned(), json!(change.kinds));
        }
        if let Some(name) = &judgement.resembles {
            members.insert("resembles".to_owned(), json!(name));
        }
    }
    details.to_string()
}

pub(super) fn finding(finding: &Finding) -> Value {
    json!({
        "rule": finding.rule,
        "severity": finding.severity.as_str(),
        "where": finding.place,
        "reason": finding.reason,
    })
}

fn of(server: &ServerName, code: &str, message: String, all: &[&JudgedDefinition], status: Status) -> NewRecord {
    let left_out = all.len().saturating_sub(RECORDED_MAX);
    let listed: Vec<Value> = all.iter().take(RECORDED_MAX).map(|one| described(one)).collect();
    let mut metadata = json!({"definitions": listed});
    if let (1.., Some(members)) = (left_out, metadata.as_object_mut()) {
        members.insert("left_out".to_owned(), left_out.into());
    }
    NewRecord {
        server: Some(server.to_string()),
        code: Some(code.to_owned()),
        message: Some(message),
        metadata: metadata.to_string(),
        ..record::blank(Kind::Server, status)
    }
}

fn described(one: &JudgedDefinition) -> Value {
    let mut value = json!({
        "kind": one.definition.key.kind.as_str(),
        "name": Untrusted::shortened(&one.definition.key.name, NAME_MAX_CHARS).for_json(),
        "pin": one.pin.map(|pin| pin.to_string()),
        "reason": reason(one.judgement.verdict),
    });
    if let Some(members) = value.as_object_mut() {
        if let Some(change) = &one.judgement.change {
            members.insert("kinds".to_owned(), json!(change.kinds));
        }
        if !one.judgement.findings.is_empty() {
            let findings: Vec<Value> = one.judgement.findings.iter().map(finding).collect();
            members.insert("findings".to_owned(), json!(findings));
        }
        if let Some(name) = &one.judgement.resembles {
            members.insert("resembles".to_owned(), json!(name));
        }
    }
    value
}

fn reason(verdict: Verdict) -> &'static str {
    match verdict {
        Verdict::Same => "same",
        Verdict::Admitted(reason) => reason.as_str(),
        Verdict::Held(reason) => reason.as_str(),
    }
}

/// Names the first definitions with the reason, and counts the others.
fn names(all: &[&JudgedDefinition]) -> String {
    let more = all.len().saturating_sub(NAMED_MAX);
    let name = |one: &&JudgedDefinition| {
        let key = Untrusted::shortened(&one.definition.key.to_string(), NAME_MAX_CHARS).for_terminal().into_owned();
        let kinds = one.judgement.change.as_ref().map(|change| change.kinds.join(", ")).unwrap_or_default();
        let reason = reason(one.judgement.verdict).replace('_', " ");
        if kinds.is_empty() { format!("{key} ({reason})") } else { format!("{key} ({reason}: {kinds})") }
    };
    let rest = (more > 0).then(|| format!("{more} more"));
    all.iter().take(NAMED_MAX).map(name).chain(rest).collect::<Vec<_>>().join(", ")
}
