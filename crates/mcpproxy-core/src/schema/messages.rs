//! Puts mismatches into words for an agent.

use serde_json::Value;

use super::condition::{Condition, CountLimit, Node, NodeId, NumberBound, ObjectCondition, Properties, ValueCondition};
use super::mismatch::{Mismatch, MismatchKind, PathStep};
use super::problem::{ANYTHING, Problem, REQUIRED};
use crate::json::{ExactPart, LongNumbers};
use crate::{Untrusted, nearest};

/// Maximum length of a value that is quoted. A longer value may be a secret, so only its length is given.
const QUOTE_MAX_CHARS: usize = 40;
const DESCRIPTION_MAX_CHARS: usize = 200;
const POINTER_MAX_CHARS: usize = 200;
const EXPECTED_MAX_CHARS: usize = 300;
/// Number of alternatives that a message lists.
const NAMED_MAX: usize = 8;

pub(super) fn problem(nodes: &[Node], mismatch: &Mismatch<'_, '_>, long: &LongNumbers) -> Problem {
    let mut pointer: String = mismatch.path.iter().map(|step| pointer_step(*step)).collect();
    let mut found = found(ExactPart::new(mismatch.instance.value, long));
    let mut described = mismatch.instance.described;
    match &mismatch.kind {
        MismatchKind::Missing(name) => {
            pointer.push_str(&pointer_step(PathStep::Key(name)));
            Problem::MISSING.clone_into(&mut found);
            described = property_of(nodes, mismatch.instance.node, name);
        }
        MismatchKind::Name(name, _) => {
            pointer.push_str(&pointer_step(PathStep::Key(name)));
            found = format!("the property name {}", quoted(name));
        }
        MismatchKind::Unknown(_) => "an unknown property".clone_into(&mut found),
        MismatchKind::Several { fitted, .. } => found = format!("{found}, which matches {fitted}"),
        MismatchKind::NotUnique => found = format!("{found}, two of which are equal"),
        MismatchKind::Value(_)
        | MismatchKind::ItemCount(..)
        | MismatchKind::Contains { .. }
        | MismatchKind::PropertyCount(..)
        | MismatchKind::Not
        | MismatchKind::Choice(_) => {}
    }
    Problem {
        pointer: shortened_to(&pointer, POINTER_MAX_CHARS),
        expected: shortened_to(&expected(nodes, mismatch), EXPECTED_MAX_CHARS),
        found,
        description: described
            .and_then(|node| nodes.get(node as usize)?.description.as_deref())
            .map(|text| shortened_to(&Untrusted::new(text).for_terminal(), DESCRIPTION_MAX_CHARS)),
    }
}

fn expected(nodes: &[Node], mismatch: &Mismatch<'_, '_>) -> String {
    match &mismatch.kind {
        MismatchKind::Value(condition) => condition_text(condition),
        MismatchKind::ItemCount(limit, count) => limit_words(*limit, *count, "item", "items"),
        MismatchKind::NotUnique => "unique items".to_owned(),
        MismatchKind::Contains { min, max: None } => format!("at least {min} {} matching `contains`", items(*min)),
        MismatchKind::Contains { min, max: Some(max) } if min == max => {
            format!("exactly {min} {} matching `contains`", items(*min))
        }
        MismatchKind::Contains { min, max: Some(max) } => format!("{min} to {max} items matching `contains`"),
        MismatchKind::PropertyCount(limit, count) => limit_words(*limit, *count, "property", "properties"),
        MismatchKind::Not => "a value that does not match the schema in `not`".to_owned(),
        MismatchKind::Missing(name) => {
            let property = property_of(nodes, mismatch.instance.node, name);
            let kind = property.and_then(|node| value_conditions(nodes, node).find(|condition| is_kind(condition)));
            kind.map_or_else(|| ANYTHING.to_owned(), condition_text) + REQUIRED
        }
        MismatchKind::Unknown(known) => no_such_property(*known, mismatch.path.last()),
        MismatchKind::Name(_, node) => {
            match list(value_conditions(nodes, *node).filter(|one| is_about_name(one)).map(condition_text), " and ") {
                words if words.is_empty() => "a different property name".to_owned(),
                words => format!("a property name ({words})"),
            }
        }
        MismatchKind::Several { of, .. } => format!("a value that matches exactly one of {of} alternatives"),
        MismatchKind::Choice(mismatches) => {
            let mut words: Vec<String> = Vec::new();
            for option in mismatches.iter().map(|mismatch| expected(nodes, mismatch)) {
                if !words.contains(&option) {
                    words.push(option);
                }
            }
            list(words.into_iter(), " or ")
        }
    }
}

fn value_conditions(nodes: &[Node], node: NodeId) -> impl Iterator<Item = &ValueCondition> {
    let conditions = nodes.get(node as usize).map(|node| node.conditions.as_slice()).unwrap_or_default();
    conditions.iter().filter_map(|condition| match condition {
        Condition::Value(on_value) => Some(on_value),
        Condition::Object(_) | Condition::Array(_) | Condition::Branch(_) => None,
    })
}

/// Returns `true` for conditions that say best what a missing property should be.
fn is_kind(condition: &ValueCondition) -> bool {
    matches!(condition, ValueCondition::Type(_) | ValueCondition::Enum(_) | ValueCondition::Const(_))
}

/// Returns `true` for conditions that make sense for a property name.
fn is_about_name(condition: &ValueCondition) -> bool {
    matches!(
        condition,
        ValueCondition::Enum(_) | ValueCondition::Const(_) | ValueCondition::Length(..) | ValueCondition::Pattern(_)
    )
}

fn condition_text(condition: &ValueCondition) -> String {
    match condition {
        ValueCondition::Never => "no value".to_owned(),
        ValueCondition::Type(types) => list(types.words().map(str::to_owned), " or "),
        ValueCondition::Enum(options) => {
            let words = |option| value_words(options.whole().part(option));
            match options.value().as_array().map(Vec::as_slice).unwrap_or_default() {
                [] => "no value".to_owned(),
                [only] => words(only),
                many => format!("one of {}", list(many.iter().map(words), ", ")),
            }
        }
        ValueCondition::Const(value) => value_words(value.whole()),
        ValueCondition::Bound(bound, number) => {
            let number = value_words(number.whole());
            match bound {
                NumberBound::Least => format!("at least {number}"),
                NumberBound::Most => format!("at most {number}"),
                NumberBound::Above => format!("more than {number}"),
                NumberBound::Below => format!("less than {number}"),
            }
        }
        ValueCondition::MultipleOf(number) => format!("a multiple of {}", value_words(number.whole())),
        ValueCondition::Length(limit, count) => limit_words(*limit, *count, "character", "characters"),
        ValueCondition::Pattern(compiled) => format!("a string that matches `{}`", excerpt(&compiled.text, 120)),
        ValueCondition::Format(compiled) => {
            format!("a string in the format `{}`", excerpt(&compiled.text, QUOTE_MAX_CHARS))
        }
    }
}

fn items(count: u64) -> &'static str {
    if count == 1 { "item" } else { "items" }
}

fn limit_words(limit: CountLimit, count: u64, one: &str, many: &str) -> String {
    let words = if count == 1 { one } else { many };
    match limit {
        CountLimit::Least => format!("at least {count} {words}"),
        CountLimit::Most => format!("at most {count} {words}"),
    }
}

fn no_such_property(known: Option<&Properties>, step: Option<&PathStep<'_>>) -> String {
    let Some(known) = known else { return "no additional property".to_owned() };
    let names = || known.named.iter().map(|(name, _)| &**name);
    let meant = match step {
        Some(PathStep::Key(name)) => nearest(name, names()),
        Some(PathStep::Item(_)) | None => None,
    };
    match meant {
        Some(meant) => format!("a known property (did you mean {}?)", quoted(meant)),
        None if known.named.is_empty() => "no property".to_owned(),
        None => format!("one of the properties {}", list(names().map(quoted), ", ")),
    }
}

/// Returns the node of a property, if the node of the object has one.
fn property_of(nodes: &[Node], object: NodeId, name: &str) -> Option<NodeId> {
    nodes.get(object as usize)?.conditions.iter().find_map(|condition| match condition {
        Condition::Object(ObjectCondition::Properties(properties)) => properties.find(name),
        Condition::Object(_) | Condition::Value(_) | Condition::Array(_) | Condition::Branch(_) => None,
    })
}

fn found(part: ExactPart<'_>) -> String {
    match part.value {
        Value::Null => "null".to_owned(),
        Value::Bool(value) => value.to_string(),
        Value::Number(_) => format!("the number {}", value_words(part)),
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

/// Formats a value from the schema, or a number. Numbers have all their digits, up to a limit.
fn value_words(part: ExactPart<'_>) -> String {
    match part.value {
        Value::String(text) => quoted(text),
        value @ (Value::Array(_) | Value::Object(_)) => format!("`{}`", excerpt(&value.to_string(), QUOTE_MAX_CHARS)),
        Value::Number(number) => match part.long(number) {
            Some(long) => excerpt(&long.text, QUOTE_MAX_CHARS * 2),
            None => number.to_string(),
        },
        value @ (Value::Null | Value::Bool(_)) => value.to_string(),
    }
}

fn list(mut words: impl Iterator<Item = String>, between: &str) -> String {
    let named: Vec<String> = words.by_ref().take(NAMED_MAX).collect();
    match words.count() {
        0 => named.join(between),
        more => format!("{} and {more} more", named.join(", ")),
    }
}

fn pointer_step(step: PathStep<'_>) -> String {
    match step {
        PathStep::Item(position) => format!("/{position}"),
        PathStep::Key(key) => format!("/{}", excerpt(&key.replace('~', "~0").replace('/', "~1"), QUOTE_MAX_CHARS * 2)),
    }
}

/// Quotes and escapes a text from outside.
pub(super) fn quoted(text: &str) -> String {
    format!("\"{}\"", excerpt(text, QUOTE_MAX_CHARS * 2).replace('"', "\\\""))
}

fn excerpt(text: &str, max_chars: usize) -> String {
    Untrusted::shortened(text, max_chars).for_terminal().into_owned()
}

/// Shortens and escapes a pointer into a schema.
pub(super) fn shortened(pointer: &str) -> String {
    shortened_to(&excerpt(pointer, POINTER_MAX_CHARS), POINTER_MAX_CHARS)
}

fn shortened_to(text: &str, max_chars: usize) -> String {
    Untrusted::shortened(text, max_chars).for_json().to_owned()
}

/// Shortens a description to what messages show.
pub(super) fn description(text: &str) -> String {
    Untrusted::shortened(text, DESCRIPTION_MAX_CHARS).for_json().to_owned()
}
