//! Mistakes in policy files, with position and a message for the author.

use cedar_policy::{ParseErrors, ValidationError, ValidationResult, ValidationWarning};
use miette::Diagnostic;

use crate::{Mistake, Untrusted};

/// Maximum length of a message, because Cedar can quote a whole policy in one.
const MESSAGE_MAX_CHARS: usize = 400;

/// Phrases in Cedar's messages, and our replacements.
const WORDS: [(&str, &str); 4] = [
    ("for policy `policy`, ", ""),
    ("policy scopes must contain a", "a policy has a"),
    ("policy condition", "condition"),
    (
        "expected single entity uid or template slot, found set of entity uids",
        "only one is allowed here: write when { resource in [Server::\"…\", Server::\"…\"] }",
    ),
];

/// A mistake with a byte offset, before line and column are computed.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) struct Fault {
    /// Byte offset in the file.
    pub(super) at: usize,
    pub(super) message: String,
}

impl Fault {
    pub(super) fn in_text(self, text: &str) -> Mistake {
        let before = text.get(..self.at).unwrap_or(text);
        let line = before.matches('\n').count() + 1;
        let column = before.rsplit('\n').next().unwrap_or_default().trim_start_matches('\u{FEFF}').chars().count() + 1;
        Mistake { line, column, message: self.message }
    }
}

/// Converts the syntax errors of one policy, whose text begins at `start`.
pub(super) fn of_syntax(errors: &ParseErrors, start: usize) -> Vec<Fault> {
    let mut faults: Vec<Fault> = errors.iter().map(|error| fault(error, start)).collect();
    tidy(&mut faults);
    faults
}

pub(super) fn of_validation(result: &ValidationResult, start: usize) -> Vec<Fault> {
    let errors = result.validation_errors().map(|error| {
        let fault = fault(error, start);
        let said = |message: &str| Fault { at: fault.at, message: message.to_owned() };
        match error {
            ValidationError::UnsafeAttributeAccess(_) => attribute(fault),
            ValidationError::UnrecognizedActionId(_) => {
                said("unknown action: use read, write or destructive, or call for all three")
            }
            ValidationError::EntityDerefLevelViolation(_) => {
                said("only principal, resource and context have attributes: compare others with `==` or `in`")
            }
            ValidationError::NonLitExtConstructor(_) => {
                said("this needs text in quotes, as in datetime(\"2026-12-24\") and duration(\"8h\")")
            }
            _ => fault,
        }
    });
    let warnings = result.validation_warnings().filter_map(|warning| match warning {
        // Reported below, if no other message is more precise.
        ValidationWarning::ImpossiblePolicy(_) | ValidationWarning::InvalidActionApplication(_) => None,
        _ => Some(fault(warning, start)),
    });
    let mut faults: Vec<Fault> = errors.chain(warnings).collect();
    tidy(&mut faults);
    if faults.is_empty() && !result.validation_passed_without_warnings() {
        let message = "this policy can never forbid anything: its conditions contradict each other or the schema";
        faults.push(Fault { at: start, message: message.to_owned() });
    }
    faults
}

/// Removes the action from a message. Cedar checks a policy once per action and repeats the message for each.
fn attribute(mut fault: Fault) -> Fault {
    for action in ["read", "write", "destructive"] {
        fault.message = fault.message.replace(&format!(" in context for Action::\"{action}\""), " in context");
    }
    fault
}

/// Keeps one mistake per position, in the order of the file.
fn tidy(faults: &mut Vec<Fault>) {
    faults.sort();
    faults.dedup_by(|one, other| one.at == other.at);
}

fn fault(diagnostic: &dyn Diagnostic, start: usize) -> Fault {
    let mut message = diagnostic.to_string();
    let label = diagnostic.labels().and_then(|mut labels| labels.next());
    let hint = label.as_ref().and_then(|label| label.label()).map(str::to_owned);
    let help = diagnostic.help().map(|help| help.to_string());
    for more in [hint, help].into_iter().flatten() {
        message.push_str("; ");
        message.push_str(&more);
    }
    // Cedar names the policy by the id it was parsed under. The file and line are more useful.
    for (word, ours) in WORDS {
        message = message.replace(word, ours);
    }
    let message = Untrusted::shortened(&message, MESSAGE_MAX_CHARS).for_terminal().into_owned();
    Fault { at: start + label.map_or(0, |label| label.offset()), message }
}
