//! Compares `_meta`, and the server's own contract in it.

use super::values::{fact, name_of, sentence};
use super::{Differences, Gravity, members};
use crate::Hints;
use crate::contract::{Contract, Effective, META_KEY};
use crate::file::shown;
use crate::json::{canonical, string_value};
use crate::trust::pin::FRAMEWORK_NOTES;

const KIND: &str = "contract";
/// The fields whose values are words of the gateway or numbers. In any other field, a server could hide a text.
const PLAIN: [&str; 6] = ["riskLevel", "operation", "autonomousExecution", "confirmation", "stepUpAuth", "permissions"];

pub(super) fn compare_meta(found: &mut Differences, old: Option<&str>, new: Option<&str>) {
    let (was, is) = (old.unwrap_or("{}"), new.unwrap_or("{}"));
    let Some(pairs) = members::differing(was, is, |_, value| canonical(value)) else {
        found.add(Gravity::Other, "meta", "`_meta` has another form.");
        return;
    };
    for members::Pair { key, old, new } in pairs {
        if key == META_KEY {
            compare(found, old, new);
        } else if !FRAMEWORK_NOTES.contains(&key.as_ref()) {
            let what = format!("{} of `_meta`", name_of("Member", &key));
            found.add(Gravity::Data, "meta", sentence(&what, old, new));
        }
    }
}

fn compare(found: &mut Differences, old: Option<&str>, new: Option<&str>) {
    let effective = |json: Option<&str>| {
        let contract = json.map(Contract::of_server).transpose().ok()?;
        Some(Effective::of(&[], contract.as_ref(), Hints::default()))
    };
    let pairs = members::differing(old.unwrap_or("{}"), new.unwrap_or("{}"), |_, value| canonical(value));
    let (Some(before), Some(after), Some(pairs)) = (effective(old), effective(new), pairs) else {
        found.add(Gravity::Severe, KIND, "The contract of the server has another form.");
        return;
    };
    let (weaker, stronger) = (before.weaker_fields(&after), after.weaker_fields(&before));
    for members::Pair { key, old, new } in &pairs {
        let (key, fact) = (key.as_ref(), fact(&format!("`{}`", shown(key)), *old, *new));
        if weaker.contains(&key) {
            found.add(Gravity::Severe, KIND, format!("{}: {fact}.", weakened(key)));
        } else if stronger.contains(&key) && asks_for_more(key, *old, *new) {
            found.add(Gravity::Stricter, KIND, format!("The contract asks for more: {fact}."));
        } else {
            found.add(Gravity::Text, KIND, format!("The contract changed: {fact}."));
        }
    }
    // One field can weaken others: with a lower risk level, nobody confirms.
    for key in weaker.into_iter().filter(|key| !pairs.iter().any(|pair| pair.key == *key)) {
        found.add(Gravity::Severe, KIND, format!("{}.", weakened(key)));
    }
}

fn weakened(key: &str) -> &'static str {
    match key {
        "riskLevel" => "The contract claims less risk",
        "operation" => "The contract claims that calls do less",
        "autonomousExecution" => "The contract lets agents call the tool on their own",
        "confirmation" => "The contract no longer asks for confirmation",
        "stepUpAuth" => "The contract no longer asks for a second factor",
        "permissions" => "The contract asks for fewer permissions",
        "dryRun" => "The contract no longer asks for a dry run",
        "rateLimit" => "The contract allows more calls",
        "sensitive" => "The contract masks fewer values",
        _ => "The contract asks for less",
    }
}

/// Returns true if the new value is plain and cannot be read as a claim that the tool is harmless.
fn asks_for_more(key: &str, old: Option<&str>, new: Option<&str>) -> bool {
    let is_plain = PLAIN.contains(&key) && new.is_some_and(|new| !new.starts_with('{'));
    let is_claim = match (key, new.and_then(string_value).as_deref()) {
        ("riskLevel", Some("high" | "critical" | "forbidden")) | ("operation", Some("destructive")) => false,
        ("riskLevel" | "operation", _) => old.is_none(),
        (_, _) => false,
    };
    is_plain && !is_claim
}
