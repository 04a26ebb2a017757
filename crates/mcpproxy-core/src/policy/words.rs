//! Finds mistakes that Cedar's types cannot: unknown words, impossible names, and expensive `like` patterns.

use super::mistake::Fault;
use super::scan::{Kind, Statement, Token};
use crate::time::WEEKDAYS;
use crate::{RiskLevel, ServerName, ToolName, Untrusted, Variant, nearest};

const PATTERN_MAX_CHARS: usize = 200;
const PATTERNS_MAX_CHARS: usize = 2_000;

pub(super) fn check(statement: &Statement<'_>) -> Vec<Fault> {
    let tokens = &statement.tokens;
    let mut faults = Vec::new();
    for window in tokens.windows(4) {
        let [dot, field, operator, value] = window else { continue };
        let compares = operator.is_sign("==") || operator.is_sign("!=");
        if dot.is_sign(".") && field.kind == Kind::Word && compares {
            faults.extend(closed_list(field.text, value));
        }
    }
    for window in tokens.windows(3) {
        let [kind, colons, name] = window else { continue };
        if kind.kind == Kind::Word && colons.is_sign("::") {
            faults.extend(entity_name(kind.text, name));
        }
    }
    for window in tokens.windows(5) {
        let [variable, operator, kind, colons, name] = window else { continue };
        if (operator.is_sign("==") || operator.is_word("in")) && kind.kind == Kind::Word && colons.is_sign("::") {
            faults.extend(never_true(variable.text, operator.text, kind, name));
        }
    }
    faults.extend(patterns(tokens));
    faults
}

/// Returns the possible values of an attribute, if it has a fixed list.
fn words_of(field: &str) -> Option<Vec<&'static str>> {
    match field {
        "risk" => {
            let levels = RiskLevel::ALL.into_iter().filter(|level| *level != RiskLevel::Forbidden);
            Some(levels.map(RiskLevel::as_str).chain(["unclassified"]).collect())
        }
        "operation" => Some(Variant::ALL.map(Variant::operation).into_iter().chain(["unknown"]).collect()),
        "variant" => Some(Variant::ALL.map(Variant::operation).to_vec()),
        "sensitivity" => Some(vec!["public", "internal", "private", "unknown"]),
        "weekday" => Some(WEEKDAYS.to_vec()),
        _ => None,
    }
}

fn closed_list(field: &str, value: &Token<'_>) -> Option<Fault> {
    let words = words_of(field)?;
    let word = value.plain_text()?;
    if words.contains(&word) {
        return None;
    }
    let shown = Untrusted::shortened(word, 64);
    let hint = nearest(word, words.iter().copied()).map(|near| format!("; did you mean \"{near}\"?"));
    let message = format!(
        "{field} is never \"{}\", but one of {}{}",
        shown.for_terminal(),
        words.join(", "),
        hint.unwrap_or_default()
    );
    Some(Fault { at: value.at, message })
}

/// Explains comparisons that are never true. Cedar only reports that they are impossible.
fn never_true(variable: &str, operator: &str, kind: &Token<'_>, name: &Token<'_>) -> Option<Fault> {
    let message = match (variable, operator, kind.text) {
        ("resource", "==", "Server" | "Category") => {
            format!("a tool is in a {}: write resource in {}::{}", kind.text.to_lowercase(), kind.text, shown(name))
        }
        ("resource", _, "Agent" | "Action") => {
            "resource is a tool: write Tool, or `in` Server or Category, here".to_owned()
        }
        ("principal", _, "Server" | "Category" | "Tool" | "Action") => {
            "principal is an agent: write Agent::\"…\" here".to_owned()
        }
        ("action", "==", "Action") if name.plain_text() == Some("call") => {
            "`call` is a group of actions: write action in Action::\"call\", or action alone".to_owned()
        }
        _ => return None,
    };
    Some(Fault { at: kind.at, message })
}

fn shown(name: &Token<'_>) -> String {
    Untrusted::shortened(name.text, 64).for_terminal().into_owned()
}

fn entity_name(kind: &str, name: &Token<'_>) -> Option<Fault> {
    let text = name.plain_text()?;
    let message = match kind {
        "Server" => {
            format!("no server can have this name: {}", ServerName::parse(text).err()?)
        }
        "Tool" => format!("no tool can have this name: {}", ToolName::parse(text).err()?),
        _ => return None,
    };
    Some(Fault { at: name.at, message })
}

fn patterns(tokens: &[Token<'_>]) -> Option<Fault> {
    let mut all = 0;
    for window in tokens.windows(2) {
        let [like, pattern] = window else { continue };
        if !like.is_word("like") || pattern.kind != Kind::Text {
            continue;
        }
        let chars = pattern.text.chars().count();
        all += chars;
        if chars > PATTERN_MAX_CHARS {
            let message = format!("this pattern is longer than {PATTERN_MAX_CHARS} characters: split it");
            return Some(Fault { at: pattern.at, message });
        }
        if all > PATTERNS_MAX_CHARS {
            let message = format!(
                "the patterns of this policy are longer than {PATTERNS_MAX_CHARS} characters in total: split it into \
                 several policies"
            );
            return Some(Fault { at: pattern.at, message });
        }
    }
    None
}
