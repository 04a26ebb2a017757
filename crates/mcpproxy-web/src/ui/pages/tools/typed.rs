//! The fields of a contract as text in a form, and the change that a sent form asks for.
//!
//! A form knows each field as one or more texts. [`Typed`] has them, read from the file or from a form. Both are turned
//! into values by the same function, and a field is changed only if the values differ. So a form that was not touched
//! changes nothing, however the file spells its values. A value that the form cannot show, such as a condition, has the
//! option `keep`.

use serde_json::{Map, Value};

use crate::editor::{ContractChange, WrittenContract};
use crate::ui::form::Form;

/// The option that leaves a value as it is.
pub(super) const KEEP: &str = "keep";

/// One field of a contract in the form.
pub(super) struct Spec {
    pub(super) key: &'static str,
    pub(super) label: &'static str,
    pub(super) hint: &'static str,
    pub(super) kind: Kind,
}

pub(super) enum Kind {
    /// Values with their words.
    Choice(&'static [(&'static str, &'static str)]),
    Text,
    /// Words, separated by commas.
    Words,
    /// A list with one text per line.
    Lines,
    /// A text of several lines.
    Prose,
    DryRun,
    Rate,
}

/// The texts that belong to `dryRun` and `rateLimit`.
pub(super) const PARAMETER: &str = "dryRunParameter";
pub(super) const CALLS: &str = "rateCalls";
pub(super) const PER: &str = "ratePer";

const TRUTH: &[(&str, &str)] = &[("true", "Yes"), ("false", "No")];

pub(super) const SPECS: [Spec; 15] = [
    Spec {
        key: "riskLevel",
        label: "Risk level",
        hint: "From high on, a user approves every call. Critical also needs a second factor. Agents cannot see a forbidden tool.",
        kind: Kind::Choice(&[
            ("low", "Low"),
            ("medium", "Medium"),
            ("high", "High"),
            ("critical", "Critical"),
            ("forbidden", "Forbidden"),
        ]),
    },
    Spec {
        key: "operation",
        label: "Operation",
        hint: "What the tool does to data. It replaces the server’s annotations.",
        kind: Kind::Choice(&[("read", "Read"), ("write", "Write"), ("destructive", "Destructive")]),
    },
    Spec {
        key: "confirmation",
        label: "Approval",
        hint: "Required: a user approves every call.",
        kind: Kind::Choice(&[("none", "Not required"), ("required", "Required")]),
    },
    Spec {
        key: "autonomousExecution",
        label: "Agents may call it alone",
        hint: "No: a user approves every call.",
        kind: Kind::Choice(TRUTH),
    },
    Spec {
        key: "stepUpAuth",
        label: "Second factor for the approval",
        hint: "Yes: the approval needs a fresh code or a passkey.",
        kind: Kind::Choice(TRUTH),
    },
    Spec {
        key: "dryRun",
        label: "Dry run",
        hint: "Required: the gateway refuses a call without a dry run of the same call in the 10 minutes before.",
        kind: Kind::DryRun,
    },
    Spec {
        key: "idempotency",
        label: "Repeated calls",
        hint: "With a key, a call with the same idempotency key runs once.",
        kind: Kind::Choice(&[("none", "Run again"), ("key", "Run once per idempotency key")]),
    },
    Spec { key: "rateLimit", label: "Rate limit", hint: "For all agents together.", kind: Kind::Rate },
    Spec {
        key: "permissions",
        label: "Permissions",
        hint: "What an agent’s token must carry, separated by commas. Example: emails:send, contacts:read",
        kind: Kind::Words,
    },
    Spec {
        key: "sensitive",
        label: "Sensitive values",
        hint: "JSON pointers into arguments and results that are masked in the log, one per line. Example: /body",
        kind: Kind::Lines,
    },
    Spec {
        key: "sideEffects",
        label: "Side effects",
        hint: "Sentences for the user who approves a call, one per line. Example: The email cannot be recalled.",
        kind: Kind::Lines,
    },
    Spec {
        key: "description",
        label: "Description",
        hint: "For the user who approves a call. The server’s own description is not shown as yours.",
        kind: Kind::Prose,
    },
    Spec {
        key: "category",
        label: "Category",
        hint: "A word of your own choice. Policies can use it. Example: communication",
        kind: Kind::Text,
    },
    Spec {
        key: "auditEvent",
        label: "Audit event",
        hint: "The name of a successful call in the activity log. Example: email.sent",
        kind: Kind::Text,
    },
    Spec { key: "version", label: "Version", hint: "The record of each call has it.", kind: Kind::Text },
];

pub(super) const DRY_RUNS: &[(&str, &str)] =
    &[("none", "Not supported"), ("supported", "Supported"), ("required", "Required")];

/// The texts of a form, by the name of the input.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Typed(Vec<(&'static str, String)>);

impl Typed {
    pub(crate) fn of_file(written: &WrittenContract) -> Self {
        let value = |key: &str| written.fields.iter().find(|(known, _)| *known == key).map(|(_, value)| value);
        let texts = SPECS.iter().flat_map(|spec| texts(spec, value(spec.key)));
        Self(texts.collect())
    }

    /// Reads a form. An input that is missing keeps the text of the file.
    pub(crate) fn of_form(form: &Form, of_file: &Self) -> Self {
        let text = |(name, old): &(&'static str, String)| {
            let new = form.text(name).map(|text| text.replace("\r\n", "\n").trim().to_owned());
            (*name, new.unwrap_or_else(|| old.clone()))
        };
        Self(of_file.0.iter().map(text).collect())
    }

    pub(super) fn text(&self, name: &str) -> &str {
        self.0.iter().find(|(known, _)| *known == name).map_or("", |(_, text)| text)
    }

    /// The inputs of a form that sends the same texts again.
    pub(crate) fn inputs(&self) -> &[(&'static str, String)] {
        &self.0
    }

    /// Returns the difference to the file, or the first wrong text.
    pub(crate) fn change(&self, of_file: &Self) -> Result<ContractChange, FieldError> {
        let mut fields = Vec::new();
        for spec in &SPECS {
            let (new, old) = (value(spec, self)?, value(spec, of_file).unwrap_or(Wanted::Keep));
            match new {
                Wanted::Keep => {}
                new if new == old => {}
                Wanted::Unset => fields.push((spec.key, None)),
                Wanted::Set(value) => fields.push((spec.key, Some(value))),
            }
        }
        Ok(ContractChange { fields })
    }
}

/// A text that is wrong, and the input that it stands in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct FieldError {
    /// The name of the input. `None` if the mistake is in no single one.
    pub(crate) input: Option<&'static str>,
    pub(crate) sentence: String,
}

impl FieldError {
    fn at(input: &'static str, sentence: String) -> Self {
        Self { input: Some(input), sentence }
    }

    /// Finds the input of a mistake that the reader of contract files reports. It names the key.
    pub(crate) fn of_file(sentence: String) -> Self {
        let is_named = |spec: &&Spec| sentence.split(|c: char| !c.is_alphanumeric()).any(|word| word == spec.key);
        let input = SPECS.iter().find(is_named).map(|spec| match spec.kind {
            Kind::Rate => CALLS,
            Kind::Choice(_) | Kind::Text | Kind::Words | Kind::Lines | Kind::Prose | Kind::DryRun => spec.key,
        });
        Self { input, sentence }
    }
}

/// The value that a form asks for.
#[derive(Clone, Debug, PartialEq)]
enum Wanted {
    Keep,
    Unset,
    Set(Value),
}

/// Returns the texts of a value, one for each input of the field.
fn texts(spec: &Spec, value: Option<&Value>) -> Vec<(&'static str, String)> {
    let member = |name: &str| value.and_then(|value| value.get(name));
    let plain = |value: Option<&Value>| match value {
        None => String::new(),
        Some(Value::String(text)) => text.clone(),
        Some(other) => other.to_string(),
    };
    let joined = |separator: &str| {
        let all = value.and_then(Value::as_array).into_iter().flatten().filter_map(Value::as_str);
        all.collect::<Vec<_>>().join(separator)
    };
    match spec.kind {
        Kind::Choice(choices) => {
            let mode = mode(value);
            let is_known = |mode: &str| choices.iter().any(|(known, _)| *known == mode);
            let text = mode.map(|mode| if is_known(&mode) { mode } else { KEEP.to_owned() });
            vec![(spec.key, text.unwrap_or_default())]
        }
        Kind::Text | Kind::Prose => vec![(spec.key, plain(value).trim().to_owned())],
        Kind::Words => vec![(spec.key, joined(", "))],
        Kind::Lines => vec![(spec.key, joined("\n"))],
        Kind::DryRun => {
            let mode = member("mode").or(value);
            vec![(spec.key, plain(mode)), (PARAMETER, plain(member("parameter")))]
        }
        Kind::Rate => vec![(CALLS, plain(member("calls"))), (PER, plain(member("per")))],
    }
}

/// Returns a value as the word of a choice. An object with more than a mode is no choice.
fn mode(value: Option<&Value>) -> Option<String> {
    Some(match value? {
        Value::String(text) => text.clone(),
        Value::Bool(truth) => truth.to_string(),
        Value::Object(members) if members.len() == 1 => match members.get("mode").and_then(Value::as_str) {
            Some(mode) => mode.to_owned(),
            None => KEEP.to_owned(),
        },
        Value::Null | Value::Number(_) | Value::Array(_) | Value::Object(_) => KEEP.to_owned(),
    })
}

fn value(spec: &Spec, typed: &Typed) -> Result<Wanted, FieldError> {
    let text = typed.text(spec.key);
    let list = |separators: &[char]| {
        let all = text.split(separators).map(str::trim).filter(|part| !part.is_empty());
        let all: Vec<Value> = all.map(Value::from).collect();
        if all.is_empty() { Wanted::Unset } else { Wanted::Set(all.into()) }
    };
    let chosen = |choices: &[(&str, &str)]| match text {
        "" => Ok(Wanted::Unset),
        KEEP => Ok(Wanted::Keep),
        text if choices.iter().any(|(known, _)| *known == text) => Ok(Wanted::Set(match text {
            "true" => true.into(),
            "false" => false.into(),
            word => word.into(),
        })),
        _ => Err(FieldError::at(spec.key, format!("Choose one of the options of “{}”.", spec.label))),
    };
    Ok(match spec.kind {
        Kind::Choice(choices) => chosen(choices)?,
        Kind::Text | Kind::Prose if text.is_empty() => Wanted::Unset,
        Kind::Text | Kind::Prose => Wanted::Set(text.into()),
        Kind::Words => list(&[',', '\n', ' ']),
        Kind::Lines => list(&['\n']),
        Kind::DryRun => match (chosen(DRY_RUNS)?, typed.text(PARAMETER)) {
            (Wanted::Set(mode), parameter) if !parameter.is_empty() && mode != "none" => {
                Wanted::Set(Value::from_iter([("mode", mode), ("parameter", parameter.into())]))
            }
            (wanted, _) => wanted,
        },
        Kind::Rate => match (typed.text(CALLS), typed.text(PER)) {
            ("", "") => Wanted::Unset,
            (calls, per) => {
                let wrong = |_| FieldError::at(CALLS, "Enter the number of calls of the rate limit.".to_owned());
                let calls: u32 = calls.parse().map_err(wrong)?;
                let per = if per.is_empty() { "1m" } else { per };
                Wanted::Set(Value::Object(Map::from_iter([
                    ("calls".to_owned(), calls.into()),
                    ("per".to_owned(), per.into()),
                ])))
            }
        },
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn written(fields: Vec<(&'static str, Value)>) -> WrittenContract {
        WrittenContract { file: "contracts/mail.yaml".to_owned(), line: Some(2), fields }
    }

    fn typed(of_file: &Typed, changes: &[(&str, &str)]) -> Typed {
        let text = |(name, old): &(&'static str, String)| {
            let new = changes.iter().find(|(changed, _)| changed == name);
            (*name, new.map_or_else(|| old.clone(), |(_, text)| (*text).to_owned()))
        };
        Typed(of_file.0.iter().map(text).collect())
    }

    #[test]
    fn an_untouched_form_changes_nothing() {
        let fields = vec![
            ("riskLevel", json!("high")),
            ("confirmation", json!({"when": {"required": ["to"]}})),
            ("stepUpAuth", json!(true)),
            ("dryRun", json!({"mode": "required"})),
            ("idempotency", json!({"mode": "natural", "keyFrom": ["id"]})),
            ("rateLimit", json!({"calls": 5, "per": "1m"})),
            ("permissions", json!(["a:b", "c"])),
            ("sideEffects", json!(["One, two.", "Three."])),
            ("description", json!("Two\nlines.\n")),
            ("version", json!(3)),
        ];
        let file = Typed::of_file(&written(fields));
        assert_eq!(file.change(&file), Ok(ContractChange::default()));
        assert_eq!((file.text("confirmation"), file.text("idempotency")), ("keep", "keep"));
    }

    #[test]
    fn only_what_differs_is_changed() {
        let file = Typed::of_file(&written(vec![("riskLevel", json!("high")), ("permissions", json!(["a"]))]));
        let check = |changes: &[(&str, &str)], expected: Vec<(&'static str, Option<Value>)>| {
            assert_eq!(typed(&file, changes).change(&file), Ok(ContractChange { fields: expected }), "{changes:?}");
        };
        check(&[("riskLevel", "low")], vec![("riskLevel", Some(json!("low")))]);
        check(&[("riskLevel", "")], vec![("riskLevel", None)]);
        check(&[("permissions", "a,b c")], vec![("permissions", Some(json!(["a", "b", "c"])))]);
        check(&[("stepUpAuth", "false")], vec![("stepUpAuth", Some(json!(false)))]);
        let dry_run = json!({"mode": "supported", "parameter": "dry"});
        check(&[("dryRun", "supported"), (PARAMETER, "dry")], vec![("dryRun", Some(dry_run))]);
        check(&[("rateCalls", "30")], vec![("rateLimit", Some(json!({"calls": 30, "per": "1m"})))]);
        check(&[("sideEffects", "One.\n\n Two. ")], vec![("sideEffects", Some(json!(["One.", "Two."])))]);
    }

    #[test]
    fn wrong_texts_are_sentences() {
        let file = Typed::of_file(&written(Vec::new()));
        for (name, text) in [("riskLevel", "harmless"), ("rateCalls", "many"), ("dryRun", "x"), ("ratePer", "1h")] {
            let error = typed(&file, &[(name, text)]).change(&file).unwrap_err();
            assert_eq!(error.input, Some(if name == PER { CALLS } else { name }), "{error:?}");
        }
        let of = |sentence: &str| FieldError::of_file(sentence.to_owned()).input;
        assert_eq!(of("contracts/fx.yaml:4:3: `confirmation: none` contradicts risk level"), Some("confirmation"));
        assert_eq!(of("contracts/fx.yaml:4:3: `rateLimit.per` is too long"), Some(CALLS));
        assert_eq!(of("the file is locked"), None);
    }
}
