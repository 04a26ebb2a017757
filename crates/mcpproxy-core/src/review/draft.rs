//! Drafts a contract file for a server's tools, which the operator reviews, corrects and puts into effect.
//!
//! Everything in the file counts as the operator's words: after the review, the approval page shows it as such. So
//! a sentence that the server wrote never becomes a field of a draft. It is a comment, which the operator can adopt.
//! Without the field, the page shows the server's sentence as the server's.

use serde_json::Value;

use super::names::{self, Bulk};
use super::wild::Wild;
use super::writer::{self, Notes};
use crate::catalog::parameters::Parameters;
use crate::catalog::{Offer, Offered};
use crate::contract::{Confirmation, Contract, DRAFT_MARKER, Effective, FIELDS, Source, StepUp, Written};
use crate::schema::Schema;
use crate::{RiskLevel, ServerName, Variant, mask};

/// Common names of arguments that ask for a dry run.
const DRY_RUNS: [&str; 5] = ["dryRun", "dry_run", "dry-run", "dryrun", "preview"];
const DESCRIPTION_MAX_CHARS: usize = 200;
const SENSITIVE_MAX: usize = 20;
/// Fields with sentences for the user who approves a call.
const SENTENCES: [&str; 2] = ["description", "sideEffects"];
const SAID_BY_SERVER: &str = "  # the server's words";

/// Drafts a contract file in YAML with one contract per tool. The same offer always gives the same text.
pub fn draft(server: &ServerName, offer: &Offer) -> String {
    let mut text = format!(
        "{DRAFT_MARKER}: contracts for the tools of `{server}`, derived from their schemas, annotations and names.\n\
         # A gateway enforces this file as soon as it is in its folder `contracts/`. Review and correct each contract,\n\
         # then remove the first line. `mcpproxy contract lint` checks the contracts that are in force.\n\
         # The server's own sentences are comments, because a user who approves a call would read them as yours.\n"
    );
    if offer.is_empty() {
        text.push_str("\n# The server offers no tools.\n[]\n");
    }
    for offered in offer.tools() {
        text.push('\n');
        text.push_str(&draft_one(offered));
    }
    text
}

fn draft_one(offered: &Offered) -> String {
    let wild = Wild::of(offered);
    let judgement = Judgement::of(offered, &wild);
    let (mut own, unusable) = own_fields(offered, &judgement);
    let quoted: Vec<(&'static str, Value)> = own.extract_if(.., |(name, _)| SENTENCES.contains(name)).collect();
    let is_quoted = |name: &str| quoted.iter().any(|(field, _)| *field == name);
    let fields: Vec<(&'static str, Value)> = FIELDS
        .iter()
        .map(|field| field.key)
        .filter_map(|name| {
            let own = own.iter().find(|(field, _)| *field == name).map(|(_, value)| value.clone());
            // A sentence of the server replaces none about a destructive tool.
            if is_quoted(name) && (name == "description" || judgement.operation != Variant::Destructive) {
                return None;
            }
            Some((name, own.or_else(|| drafted(name, offered, &wild, &judgement))?))
        })
        .collect();
    let is_written = |name: &str| fields.iter().any(|(field, _)| *field == name);
    let mut notes = Notes { before: judgement.reasons.clone(), after: Vec::new() };
    notes.before.extend(unusable.into_iter().map(|name| {
        format!("The schema in `{name}` of the server's contract cannot be used. Write one here that can. It replaces the server's.")
    }));
    let description = first_sentence(offered.description.for_json()).filter(|_| !is_quoted("description"));
    let described = description.map(|text| ("description", Value::from(text)));
    notes.after.extend(
        described
            .into_iter()
            .chain(quoted)
            .map(|(name, value)| format!("{name}: {}{SAID_BY_SERVER}", writer::flow(&value))),
    );
    if !is_written("permissions") {
        notes.after.push(format!("permissions: [{}]", suggested_permission(offered, judgement.operation)));
    }
    if !is_written("auditEvent") && judgement.operation != Variant::Read {
        notes.after.push(format!("auditEvent: {}.{}", offered.name.server(), offered.name.tool()));
    }
    if !is_written("idempotency") && is_idempotent(offered) && judgement.operation != Variant::Read {
        notes.after.push(
            "idempotency: { mode: natural, keyFrom: [] }  # the server says that it is idempotent: name the \
             arguments that identify a call"
                .to_owned(),
        );
    }
    writer::contract(&notes, &offered.name.to_string(), &fields)
}

/// Returns the fields of the server's contract that fit the judgement, and the fields whose schemas cannot be used.
/// Values that follow from the risk level are left out. For a forbidden tool, fields about calls are left out too.
fn own_fields(offered: &Offered, judgement: &Judgement) -> (Vec<(&'static str, Value)>, Vec<&'static str>) {
    let Some(own) = &offered.contract else { return Default::default() };
    let own_risk = own.risk.as_ref().map(|risk| risk.value);
    let risk = Some(Written { value: judgement.risk, line: 0, column: 0 });
    let effective = Effective::of(&[], Some(&Contract { risk, ..own.clone() }), offered.hints);
    let is_forbidden = judgement.risk == RiskLevel::Forbidden;
    // A server's step-up condition narrows the requirement of its own level, not of a stricter one.
    let narrows = judgement.risk == RiskLevel::Critical && own_risk != Some(RiskLevel::Critical);
    let fields = effective.fields().into_iter().filter(|(name, value, source)| {
        let is_left_out = match *name {
            "operation" => true,
            "stepUpAuth" if narrows => true,
            // A forbidden tool is never called, so nothing about calls belongs in its contract.
            "autonomousExecution" => is_forbidden,
            name => is_forbidden && FIELDS.iter().any(|field| field.key == name && field.calls_only),
        };
        **source == Source::Server && !is_left_out && !is_weakest(name, value)
    });
    let (usable, unusable): (Vec<_>, Vec<_>) = fields.partition(|(name, _, _)| is_usable(name, own));
    let usable = usable.into_iter().map(|(name, value, _)| (name, value));
    (usable.collect(), unusable.into_iter().map(|(name, _, _)| name).collect())
}

/// Returns true for a value that requires nothing. From a server it has no effect, but in the operator's file it would
/// be final.
fn is_weakest(name: &str, value: &Value) -> bool {
    match name {
        "autonomousExecution" => *value == true,
        "confirmation" => value == "none",
        "stepUpAuth" => *value == false,
        "permissions" | "sideEffects" => value.as_array().is_some_and(Vec::is_empty),
        _ => false,
    }
}

/// Returns false for a schema that a contract file could not contain. Server schemas are compiled late, so errors can
/// appear here.
fn is_usable(name: &str, own: &Contract) -> bool {
    let schema = match name {
        "inputSchema" => own.input_schema.as_ref().map(|written| &written.value),
        "outputSchema" => own.output_schema.as_ref().map(|written| &written.value.schema),
        "confirmation" => own.confirmation.as_ref().and_then(|written| match &written.value {
            Confirmation::When(schema) => Some(schema),
            Confirmation::None | Confirmation::Required => None,
        }),
        "stepUpAuth" => own.step_up.as_ref().and_then(|written| match &written.value {
            StepUp::When(schema) => Some(schema),
            StepUp::Never | StepUp::Always => None,
        }),
        _ => None,
    };
    // Compile a copy. The schema itself would stay compiled for as long as the tool is there.
    schema.is_none_or(|schema| Schema::parse(schema.text()).is_ok())
}

/// Suggests a value for a field without one.
fn drafted(name: &str, offered: &Offered, wild: &Wild, judgement: &Judgement) -> Option<Value> {
    match name {
        "riskLevel" => Some(judgement.risk.as_str().into()),
        "operation" => Some(judgement.operation.operation().into()),
        "category" => Some(wild.category.clone().unwrap_or_else(|| offered.name.server().to_string()).into()),
        "permissions" => (!wild.permissions.is_empty()).then(|| wild.permissions.clone().into()),
        "sideEffects" => {
            let server = offered.name.server();
            match judgement.operation {
                Variant::Read => None,
                Variant::Write => Some(vec![format!("Changes data on {server}.")].into()),
                Variant::Destructive => {
                    Some(vec![format!("Changes data on {server} in a way that may be impossible to undo.")].into())
                }
            }
        }
        "dryRun" if judgement.risk != RiskLevel::Forbidden => {
            let parameters = Parameters::of(offered);
            let parameter = DRY_RUNS.into_iter().find(|name| parameters.is_flag(name))?;
            Some(serde_json::json!({"mode": "supported", "parameter": parameter}))
        }
        "sensitive" => {
            let parameters = Parameters::of(offered);
            let secret: Vec<String> = parameters
                .names()
                .filter(|name| is_secret(name))
                .take(SENSITIVE_MAX)
                .map(|name| format!("/{name}"))
                .collect();
            (!secret.is_empty()).then(|| secret.into())
        }
        _ => None,
    }
}

/// Returns true if the log masks values under this name by itself. Unusual names are left to the operator.
fn is_secret(name: &str) -> bool {
    let is_plain = name.bytes().all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
    is_plain && name.len() <= 64 && mask(&format!("{{\"{name}\":\"Xq7vZ2mK9pLw4TnB\"}}"), &[]).is_changed()
}

fn is_idempotent(offered: &Offered) -> bool {
    let annotations = offered.field("annotations").and_then(crate::json::members).unwrap_or_default();
    annotations.into_iter().any(|(key, value)| key == "idempotentHint" && value == "true")
}

fn suggested_permission(offered: &Offered, operation: Variant) -> String {
    let verb = names::verb(offered.name.tool()).map_or(operation.operation(), |verb| verb.word);
    format!("{}:{verb}", offered.name.server())
}

/// Returns the text up to the first full stop or line break, on one line.
fn first_sentence(text: &str) -> Option<String> {
    let line = text.lines().map(str::trim).find(|line| !line.is_empty())?;
    let sentence = match line.split_once(". ") {
        Some((first, _)) => format!("{first}."),
        None => line.to_owned(),
    };
    Some(crate::Untrusted::shortened(&sentence, DESCRIPTION_MAX_CHARS).for_json().to_owned())
}

/// The risk level and the operation of a tool, with the reasons.
struct Judgement {
    risk: RiskLevel,
    operation: Variant,
    reasons: Vec<String>,
}

impl Judgement {
    fn of(offered: &Offered, wild: &Wild) -> Self {
        let tool = offered.name.tool();
        let verb = names::verb(tool);
        let own = offered.contract.as_ref();
        let own_operation = own.and_then(|own| own.operation.as_ref()).map(|written| written.value);
        let own_risk = own.and_then(|own| own.risk.as_ref()).map(|written| written.value);
        let hinted = offered.hints.operation();
        let (wild_operation, wild_risk) = (wild.operation.map(|(it, _)| it), wild.risk.map(|(it, _)| it));
        let mut reasons = Vec::new();
        reasons.extend(said("the server's contract", own_operation, own_risk));
        match (wild.operation, wild.risk) {
            (Some((_, one)), Some((_, other))) if one != other => {
                reasons.extend(said(&format!("`{one}`"), wild_operation, None));
                reasons.extend(said(&format!("`{other}`"), None, wild_risk));
            }
            (operation, risk) => {
                let key = operation.map(|(_, key)| key).or(risk.map(|(_, key)| key)).unwrap_or_default();
                reasons.extend(said(&format!("`{key}`"), wild_operation, wild_risk));
            }
        }
        reasons.extend(hinted.map(|it| format!("annotations say {}", it.operation())));
        reasons.extend(verb.map(|verb| format!("`{}` in its name suggests {}", verb.word, verb.operation)));
        reasons.extend(names::subject(tool).map(|subject| subject.reason.to_owned()));
        reasons.extend((names::bulk(tool) == Some(Bulk::Many)).then(|| "it works on many things at once".to_owned()));

        let named = verb.map(|verb| verb.operation);
        let operations = [own_operation, wild_operation, hinted, named];
        let operation = operations.into_iter().flatten().max();
        // A server's statement about its own tools counts only where it is stricter.
        let stated = own_risk.max(wild_risk);
        let guess_from = if stated.is_some() { hinted.max(named) } else { Some(operation.unwrap_or(Variant::Write)) };
        let is_delicate = names::forbidden(tool).is_some() || wild.is_secret;
        let least = if is_delicate { RiskLevel::High } else { RiskLevel::Low };
        let least = names::subject(tool).map_or(least, |subject| subject.least.max(least));
        let guessed = guess_from.map_or(least, |operation| guessed_risk(offered, operation, verb).max(least));
        let is_raised = stated.is_some_and(|stated| stated < guessed);
        if is_raised {
            reasons.push(format!("its name and annotations suggest {}", guessed.as_str()));
        }
        if is_raised || operations.into_iter().flatten().min() != operation {
            reasons.push("these differ, so the stricter one is used".to_owned());
        }
        if reasons.is_empty() {
            reasons.push("nothing states what it does, so it is treated as a write".to_owned());
        }
        let risk = stated.map_or(guessed, |stated| stated.max(guessed));
        let reasons = comments(tool, risk, &reasons, wild);
        Self { risk, operation: operation.unwrap_or(Variant::Write), reasons }
    }
}

/// Words what one source says about a tool, such as `the server's contract says write and low`.
fn said(who: &str, operation: Option<Variant>, risk: Option<RiskLevel>) -> Option<String> {
    let words: Vec<&str> = operation.map(Variant::operation).into_iter().chain(risk.map(RiskLevel::as_str)).collect();
    (!words.is_empty()).then(|| format!("{who} says {}", words.join(" and ")))
}

/// Returns the comments above a contract.
fn comments(tool: &str, risk: RiskLevel, reasons: &[String], wild: &Wild) -> Vec<String> {
    let mut all = vec![format!("{tool}: {}, because {}.", risk.as_str(), reasons.join("; "))];
    if let Some(why) = names::forbidden(tool).filter(|_| risk != RiskLevel::Forbidden) {
        all.push(format!("Consider `riskLevel: forbidden`: {why}."));
    }
    if wild.is_secret {
        all.push("The server marks it with `SecretHint`: its results hold secrets.".to_owned());
    }
    all
}

/// Guesses the risk level from name and annotations. `tests/drafted_levels.rs` has examples of each level.
fn guessed_risk(offered: &Offered, operation: Variant, verb: Option<names::Verb>) -> RiskLevel {
    let tool = offered.name.tool();
    if operation == Variant::Write && names::is_reminder(tool) {
        return RiskLevel::Low;
    }
    let of_operation = match operation {
        Variant::Read => RiskLevel::Low,
        Variant::Write => RiskLevel::Medium,
        Variant::Destructive => RiskLevel::High,
    };
    // `openWorldHint: false` does not lower it: a server cannot talk its own tools down.
    let risk = verb.map_or(of_operation, |verb| verb.risk.max(of_operation));
    let risk = names::subject(tool).map_or(risk, |subject| subject.least.max(risk));
    match (risk, names::bulk(tool)) {
        (RiskLevel::Medium, Some(Bulk::Several)) => RiskLevel::High,
        (RiskLevel::High, Some(Bulk::Several)) | (RiskLevel::Medium | RiskLevel::High, Some(Bulk::Many)) => {
            RiskLevel::Critical
        }
        (risk, _) => risk,
    }
}

/// Returns what the server's annotations say about the reach of a tool.
pub(super) fn open_world(offered: &Offered) -> Option<bool> {
    let annotations: Value = serde_json::from_str(offered.field("annotations")?).ok()?;
    annotations.get("openWorldHint")?.as_bool()
}

#[cfg(test)]
mod tests;
