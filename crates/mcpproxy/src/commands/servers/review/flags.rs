//! Turns the decisions of the command line into one choice for each definition.

use mcpproxy_core::nearest;

use super::ReviewArgs;
use super::entry::{Choice, Entry};
use super::visible::visible;
use crate::exit::{Exit, Failure};

/// Returns the choice for each definition, in their order. `None`: no decision.
pub(super) fn choices(args: &ReviewArgs, entries: &[Entry]) -> Result<Vec<Option<Choice>>, Failure> {
    let mut choices = vec![None; entries.len()];
    let named = [(&args.accept, Choice::Accept), (&args.reject, Choice::Reject)];
    for (names, choice) in named {
        for name in names {
            let index = find(entries, name)?;
            let before = choices.get_mut(index).and_then(|slot| slot.replace(choice));
            if before.is_some_and(|before| before != choice) {
                let message = format!("`{}` is both accepted and rejected.", visible(name));
                return Err(Failure::new(Exit::Usage, message).hint("name it once"));
            }
        }
    }
    for (slot, entry) in choices.iter_mut().zip(entries) {
        if slot.is_none() {
            *slot = match (args.accept_all && !entry.is_severe(), args.reject_all) {
                (true, _) => Some(Choice::Accept),
                (false, true) => Some(Choice::Reject).filter(|_| !entry.is_rejected()),
                (false, false) => None,
            };
        }
    }
    Ok(choices)
}

/// Finds a definition by its name, or by its kind and name.
fn find(entries: &[Entry], wanted: &str) -> Result<usize, Failure> {
    let by_full_name = entries.iter().position(|entry| entry.full_name() == wanted);
    let by_name: Vec<(usize, &Entry)> = entries.iter().enumerate().filter(|(_, entry)| entry.name == wanted).collect();
    match (by_full_name, by_name.as_slice()) {
        (Some(index), []) => Ok(index),
        (None, [(index, _)]) => Ok(*index),
        (_, []) => {
            let failure = Failure::new(Exit::Usage, format!("No definition `{}` waits for review.", visible(wanted)));
            let full: Vec<String> = entries.iter().map(Entry::full_name).collect();
            let names = entries.iter().map(|entry| entry.name.as_str()).chain(full.iter().map(String::as_str));
            Err(match nearest(wanted, names.filter(|name| !name.is_empty())) {
                Some(near) => failure.hint(format!("did you mean `{}`?", visible(near))),
                None => failure.hint("run the command without --accept and --reject to see what waits"),
            })
        }
        (_, several) => {
            let names: Vec<String> = several.iter().map(|(_, entry)| visible(&entry.full_name())).collect();
            let message = format!("`{}` names more than one definition.", visible(wanted));
            Err(Failure::new(Exit::Usage, message).hint(format!("use one of: {}", names.join(", "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use mcpproxy_core::ServerName;
    use serde_json::json;

    use super::*;

    fn entries() -> Vec<Entry> {
        let entry = |kind: &str, name: &str, severity: &str| {
            json!({
                "kind": kind, "name": name, "pin": "", "reason": "new", "old": null, "new": {}, "changes": [],
                "kinds": [], "resembles": null, "first_seen_ms": 0, "last_seen_ms": 0, "times": 1,
                "findings": [{"rule": "r", "severity": severity, "where": "", "reason": ""}],
            })
        };
        let all = json!([
            entry("instructions", "", "low"),
            entry("tool", "send", "low"),
            entry("tool", "poison", "high"),
            entry("prompt", "send", "medium"),
        ]);
        serde_json::from_value(all).unwrap()
    }

    fn args(accept: &[&str], reject: &[&str], all: Option<Choice>) -> ReviewArgs {
        let owned = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect();
        ReviewArgs {
            name: ServerName::parse("fx").unwrap(),
            accept: owned(accept),
            reject: owned(reject),
            accept_all: all == Some(Choice::Accept),
            rejected: false,
            reject_all: all == Some(Choice::Reject),
            yes: false,
        }
    }

    #[test]
    fn flags_decide() {
        let check = |accept: &[&str], reject: &[&str], all: Option<Choice>, expected: &str| {
            let found = match choices(&args(accept, reject, all), &entries()) {
                Err(failure) => failure.to_string(),
                Ok(choices) => choices
                    .into_iter()
                    .map(|choice| match choice {
                        None => '-',
                        Some(Choice::Accept) => 'a',
                        Some(Choice::Reject) => 'r',
                    })
                    .collect(),
            };
            assert_eq!(found, expected, "{accept:?} {reject:?}");
        };
        check(&[], &[], Some(Choice::Accept), "aa-a");
        check(&["poison"], &[], Some(Choice::Accept), "aaaa");
        check(&[], &[], Some(Choice::Reject), "rrrr");
        check(&["tool:send"], &["prompt:send"], None, "-a-r");
        check(&["instructions"], &[], Some(Choice::Reject), "arrr");
        check(&["send"], &[], None, "`send` names more than one definition.");
        check(&["poison"], &["tool:poison"], None, "`tool:poison` is both accepted and rejected.");
        check(&["sned\u{202E}"], &[], None, "No definition `sned⟨U+202E⟩` waits for review.");
    }
}
