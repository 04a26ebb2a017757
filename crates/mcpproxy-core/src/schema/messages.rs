//! Puts faults into words for an agent and its user.

use serde_json::Value;

use super::fault::{Fault, Step, What};
use super::problem::{ANYTHING, Problem, REQUIRED};
use super::rule::{Bound, Id, Limit, Node, Properties, Rule};
use crate::{Untrusted, nearest};

/// Longest value that is quoted. What is longer may be a secret, and is only described.
const QUOTE_MAX_CHARS: usize = 40;
const DESCRIPTION_MAX_CHARS: usize = 200;
const POINTER_MAX_CHARS: usize = 200;
const EXPECTED_MAX_CHARS: usize = 300;
/// So many of a long list are named.
const NAMED_MAX: usize = 8;

pub(super) fn problem(nodes: &[Node], fault: &Fault<'_, '_>) -> Problem {
    let mut pointer: String = fault.path.iter().map(|step| pointer_step(*step)).collect();
    let mut found = found(fault.spot.value);
    let mut described = fault.spot.described;
    match &fault.what {
        What::Missing(name) => {
            pointer.push_str(&pointer_step(Step::Key(name)));
            Problem::MISSING.clone_into(&mut found);
            described = property_of(nodes, fault.spot.node, name);
        }
        What::Name(name, _) => {
            pointer.push_str(&pointer_step(Step::Key(name)));
            found = format!("the name {}", quoted(name));
        }
        What::Unknown(_) => "an unknown property".clone_into(&mut found),
        What::Several { fitted, .. } => found = format!("{found}, which fits {fitted}"),
        What::Rule(Rule::Unique) => found = format!("{found}, of which two are equal"),
        What::Rule(_) | What::Choice(_) => {}
    }
    Problem {
        pointer: shortened_to(&pointer, POINTER_MAX_CHARS),
        expected: shortened_to(&expected(nodes, fault), EXPECTED_MAX_CHARS),
        found,
        description: described
            .and_then(|node| nodes.get(node as usize)?.description.as_deref())
            .map(|text| shortened_to(&Untrusted::new(text).for_terminal(), DESCRIPTION_MAX_CHARS)),
    }
}

fn expected(nodes: &[Node], fault: &Fault<'_, '_>) -> String {
    match &fault.what {
        What::Rule(rule) => rule_words(rule),
        What::Missing(name) => {
            let rules = property_of(nodes, fault.spot.node, name).and_then(|node| nodes.get(node as usize));
            let words = rules.into_iter().flat_map(|node| &node.rules).find_map(|rule| match rule {
                Rule::Type(_) | Rule::Enum(_) | Rule::Const(_) => Some(rule_words(rule)),
                _ => None,
            });
            words.unwrap_or_else(|| ANYTHING.to_owned()) + REQUIRED
        }
        What::Unknown(known) => no_such_property(*known, fault.path.last()),
        What::Name(_, node) => {
            let rules = nodes.get(*node as usize).map(|node| node.rules.as_slice()).unwrap_or_default();
            let is_clear =
                |rule: &&Rule| matches!(rule, Rule::Enum(_) | Rule::Const(_) | Rule::Length(..) | Rule::Pattern(_));
            match list(rules.iter().filter(is_clear).map(rule_words), " and ") {
                words if words.is_empty() => "another name".to_owned(),
                words => format!("as a name {words}"),
            }
        }
        What::Several { of, .. } => format!("exactly one of {of} forms"),
        What::Choice(faults) => {
            let mut words: Vec<String> = Vec::new();
            for option in faults.iter().map(|fault| expected(nodes, fault)) {
                if !words.contains(&option) {
                    words.push(option);
                }
            }
            list(words.into_iter(), " or ")
        }
    }
}

fn rule_words(rule: &Rule) -> String {
    match rule {
        Rule::Never => "no value at all".to_owned(),
        Rule::Type(types) => list(types.words().map(str::to_owned), " or "),
        Rule::Enum(options) => match options.as_slice() {
            [] => "no value at all".to_owned(),
            [only] => value_words(only),
            many => format!("one of {}", list(many.iter().map(value_words), ", ")),
        },
        Rule::Const(value) => value_words(value),
        Rule::Bound(bound, number) => match bound {
            Bound::Least => format!("at least {number}"),
            Bound::Most => format!("at most {number}"),
            Bound::Above => format!("more than {number}"),
            Bound::Below => format!("less than {number}"),
        },
        Rule::MultipleOf(number) => format!("a multiple of {number}"),
        Rule::Length(limit, count) => limit_words(*limit, *count, "character", "characters"),
        Rule::Pattern(leaf) => format!("text that matches `{}`", excerpt(&leaf.text, 120)),
        Rule::Format(leaf) => format!("text in the format `{}`", excerpt(&leaf.text, QUOTE_MAX_CHARS)),
        Rule::ItemCount(limit, count) => limit_words(*limit, *count, "item", "items"),
        Rule::Unique => "items that all differ".to_owned(),
        Rule::Contains { min, max: None, .. } => format!("at least {min} of the items to be of a certain form"),
        Rule::Contains { min, max: Some(max), .. } if min == max => {
            format!("exactly {min} of the items to be of a certain form")
        }
        Rule::Contains { min, max: Some(max), .. } => format!("{min} to {max} of the items to be of a certain form"),
        Rule::PropertyCount(limit, count) => limit_words(*limit, *count, "property", "properties"),
        Rule::Not(_) => "a value that is not of an excluded form".to_owned(),
        // The rest have faults of their own, or those of other nodes.
        _ => "another value".to_owned(),
    }
}

fn limit_words(limit: Limit, count: u64, one: &str, many: &str) -> String {
    let words = if count == 1 { one } else { many };
    match limit {
        Limit::Least => format!("at least {count} {words}"),
        Limit::Most => format!("at most {count} {words}"),
    }
}

fn no_such_property(known: Option<&Properties>, step: Option<&Step<'_>>) -> String {
    let Some(known) = known else { return "no such property".to_owned() };
    let names = || known.named.iter().map(|(name, _)| &**name);
    let meant = match step {
        Some(Step::Key(name)) => nearest(name, names()),
        _ => None,
    };
    match meant {
        Some(meant) => format!("no such property (did you mean {}?)", quoted(meant)),
        None if known.named.is_empty() => "no property".to_owned(),
        None => format!("no property besides {}", list(names().map(quoted), ", ")),
    }
}

/// The node for a property, if the node for the object has it.
fn property_of(nodes: &[Node], object: Id, name: &str) -> Option<Id> {
    nodes.get(object as usize)?.rules.iter().find_map(|rule| match rule {
        Rule::Properties(properties) => properties.find(name),
        _ => None,
    })
}

fn found(value: &Value) -> String {
    match value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(number) => format!("the number {number}"),
        Value::String(text) => match text.chars().count() {
            0 => "an empty string".to_owned(),
            1..=QUOTE_MAX_CHARS => format!("the string {}", quoted(text)),
            count => format!("a string of {count} characters"),
        },
        Value::Array(items) if items.is_empty() => "an empty array".to_owned(),
        Value::Array(items) if items.len() == 1 => "an array of 1 item".to_owned(),
        Value::Array(items) => format!("an array of {} items", items.len()),
        Value::Object(members) if members.is_empty() => "an empty object".to_owned(),
        Value::Object(members) if members.len() == 1 => "an object with 1 property".to_owned(),
        Value::Object(members) => format!("an object with {} properties", members.len()),
    }
}

/// A value that the schema itself names.
fn value_words(value: &Value) -> String {
    match value {
        Value::String(text) => quoted(text),
        Value::Array(_) | Value::Object(_) => format!("`{}`", excerpt(&value.to_string(), QUOTE_MAX_CHARS)),
        Value::Null | Value::Bool(_) | Value::Number(_) => value.to_string(),
    }
}

fn list(mut words: impl Iterator<Item = String>, between: &str) -> String {
    let named: Vec<String> = words.by_ref().take(NAMED_MAX).collect();
    match words.count() {
        0 => named.join(between),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn pointer_step(step: Step<'_>) -> String {
    match step {
        Step::Item(position) => format!("/{position}"),
        Step::Key(key) => format!("/{}", excerpt(&key.replace('~', "~0").replace('/', "~1"), QUOTE_MAX_CHARS * 2)),
    }
}

/// Somebody's word in quotes.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text, QUOTE_MAX_CHARS * 2).replace('"', "\\\""))
}

fn excerpt(text: &str, max_chars: usize) -> String {
    Untrusted::shortened(text, max_chars).for_terminal().into_owned()
}

/// A pointer into a schema, made safe to print.
pub(super) fn shortened(pointer: &str) -> String {
    shortened_to(&excerpt(pointer, POINTER_MAX_CHARS), POINTER_MAX_CHARS)
}

fn shortened_to(text: &str, max_chars: usize) -> String {
    Untrusted::shortened(text, max_chars).for_json().to_owned()
}

/// As much of a description as will be shown.
pub(super) fn description(text: &str) -> String {
    Untrusted::shortened(text, DESCRIPTION_MAX_CHARS).for_json().to_owned()
}
