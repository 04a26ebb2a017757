//! Formats the result of `tools search`: tools with their scores and, with `--explain`, the reasons.

use serde_json::Value;

use super::{members, row};
use crate::terminal::listing::listing;
use crate::terminal::output::{line, member, shorten};
use crate::terminal::size::prose_columns;
use crate::terminal::wrap::wrap;

/// Prose is wrapped at this column, even on a wider terminal.
const WIDTH_MAX: usize = 80;
const WORD_MAX_CHARS: usize = 24;
const LEGEND: &str = "Score: 0 to 1. Words: share of the query that the tool's own words cover, 0 to 1. Meaning: similarity \
    of meaning, 0 to 1. Sum: the features that make up the score. Share: weight of a word; rare words weigh more.";
const NEXT: &str = "List all tools with `mcpproxy tools list` and all servers with `mcpproxy servers list`.";

/// Formats an answer. `waiting` has a line for each server whose definitions wait for a review.
pub(super) fn found(answer: &Value, waiting: &str) -> String {
    let tools = members(answer, "tools");
    let note = answer.get("note").and_then(Value::as_str).map(line);
    if tools.is_empty() {
        let note = note.unwrap_or_else(|| "No tool matches.".to_owned());
        return wrapped(&format!("{note} {NEXT}"), 0) + waiting;
    }
    let rows = tools.iter().map(|tool| {
        let mut row = row(tool);
        row.insert(1, number(tool, "score").into());
        row
    });
    let table = listing(&["TOOL", "SCORE", "CALL WITH", "RISK", "NEEDS", "DESCRIPTION"], rows.collect());
    // Only guesses come with a note.
    let table = note.map_or_else(|| table.clone(), |note| format!("{table}\n{}", wrapped(&note, 0)));
    let reasons: Vec<String> = tools.iter().filter_map(|tool| Some(reason(tool, why(tool)?))).collect();
    match reasons.is_empty() {
        true => table,
        false => format!("{table}\n{}\n{}", wrapped(LEGEND, 0), reasons.join("\n")),
    }
}

fn why(tool: &Value) -> Option<&Value> {
    tool.get("why").filter(|why| why.is_object())
}

/// Formats the reasons for one tool: its numbers, and a line for each word of the query.
fn reason(tool: &Value, why: &Value) -> String {
    let is_named = why.get("named").and_then(Value::as_bool).unwrap_or_default();
    let numbers = format!(
        "  score {}{}   words {}   meaning {}{}\n{}",
        number(tool, "score"),
        if is_named { ", because the query is its name" } else { "" },
        number(why, "lexical"),
        number(why, "semantic"),
        // The score of a tool that is named does not depend on it, and the line is full.
        if is_named { String::new() } else { source(why) },
        sum(why)
    );
    let words: Vec<(String, String, String)> = members(why, "words")
        .iter()
        .map(|word| (shorten(&member(word, "word"), WORD_MAX_CHARS), share(word), places(word)))
        .collect();
    let width = words.iter().map(|(word, _, _)| word.chars().count()).chain([4]).max().unwrap_or_default();
    let header = format!("  {:width$}  SHARE  FOUND IN\n", "WORD");
    let lines = words.iter().map(|(word, share, places)| {
        let start = format!("  {word:width$}  {share:>5}  ");
        let places = wrapped(places, start.chars().count());
        format!("{start}{}", places.trim_start())
    });
    let lines: String = lines.collect();
    let header = if lines.is_empty() { "" } else { &header };
    format!("{}\n{numbers}{header}{lines}", member(tool, "name"))
}

/// Formats ` by encoder` or ` by table`.
fn source(why: &Value) -> String {
    why.get("meaning_by").and_then(Value::as_str).map(|source| format!(" by {}", line(source))).unwrap_or_default()
}

/// Formats `sum 1.50 = words 1.00 + name 0.50`.
fn sum(why: &Value) -> String {
    let features = members(why, "features");
    let total: f64 = features.iter().filter_map(|feature| feature.get("adds").and_then(Value::as_f64)).sum();
    let adds: Vec<String> =
        features.iter().map(|feature| format!("{} {}", member(feature, "name"), number(feature, "adds"))).collect();
    wrapped(&format!("sum {total:.2} = {}", adds.join(" + ")), 2)
}

/// Formats `name as "delete", description`.
fn places(word: &Value) -> String {
    let places: Vec<String> = members(word, "places")
        .iter()
        .map(|place| match place.get("instead").and_then(Value::as_str) {
            Some(instead) => format!("{} as \"{}\"", member(place, "field"), shorten(&line(instead), WORD_MAX_CHARS)),
            None => member(place, "field"),
        })
        .collect();
    if places.is_empty() { "not found".to_owned() } else { places.join(", ") }
}

fn number(value: &Value, name: &str) -> String {
    value.get(name).and_then(Value::as_f64).map_or_else(|| "-".to_owned(), |number| format!("{number:.2}"))
}

fn share(word: &Value) -> String {
    let weight = word.get("weight").and_then(Value::as_f64);
    weight.map_or_else(|| "-".to_owned(), |weight| format!("{:.0}%", weight * 100.0))
}

/// Wraps text into indented lines of at most `WIDTH` characters.
fn wrapped(text: &str, indent: usize) -> String {
    let lines = wrap(text, prose_columns().min(WIDTH_MAX).saturating_sub(indent));
    lines.iter().map(|line| format!("{:indent$}{line}\n", "")).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn answer(why: &Value) -> Value {
        json!({"note": null, "tools": [{
            "name": "demo:delete_user", "score": 0.8234, "call_with": "call_tool_destructive", "risk_level": "high",
            "needs": ["confirmation"], "description": "Removes a user.\n(Call with call_tool_destructive.)", "why": why,
        }]})
    }

    #[test]
    fn a_search_shows_scores() {
        assert_eq!(
            found(&answer(&Value::Null), ""),
            "TOOL              SCORE  CALL WITH              RISK  NEEDS         DESCRIPTION\n\
             demo:delete_user  0.82   call_tool_destructive  high  confirmation  Removes a user.\n"
        );
    }

    #[test]
    fn reasons_fit_a_terminal_and_are_harmless() {
        let place = |field: &str, instead: Value| json!({"field": field, "instead": instead});
        let everywhere: Vec<Value> = ["name", "title", "server", "description", "parameter", "parameter description"]
            .iter()
            .map(|field| place(field, json!("deleting")))
            .collect();
        let feature = |name: &str, adds: f64| json!({"name": name, "value": 0.5, "adds": adds});
        let features = [
            feature("meaning", 0.371),
            feature("sentence", 0.59),
            feature("request", 0.66),
            feature("parameters", 0.1),
            feature("words", 1.63),
            feature("name", 0.35),
            feature("server", 0.512),
        ];
        let why = json!({"named": false, "lexical": 0.75, "semantic": 0.1, "meaning_by": "encoder", "features": features,
            "words": [
            {"word": "remove", "weight": 0.6, "places": everywhere},
            {"word": "user", "weight": 0.305, "places": [place("name", Value::Null), place("description", Value::Null)]},
            {"word": "now\u{1b}[2J", "weight": 0.1, "places": []},
        ]});
        let text = found(&answer(&why), "");
        let (_, reasons) = text.split_once("\n\n").unwrap();
        assert_eq!(
            reasons,
            "Score: 0 to 1. Words: share of the query that the tool's own words cover, 0 to\n\
             1. Meaning: similarity of meaning, 0 to 1. Sum: the features that make up the\n\
             score. Share: weight of a word; rare words weigh more.\n\
             \n\
             demo:delete_user\n\
             \x20 score 0.82   words 0.75   meaning 0.10 by encoder\n\
             \x20 sum 4.21 = meaning 0.37 + sentence 0.59 + request 0.66 + parameters 0.10 +\n\
             \x20 words 1.63 + name 0.35 + server 0.51\n\
             \x20 WORD          SHARE  FOUND IN\n\
             \x20 remove          60%  name as \"deleting\", title as \"deleting\", server as\n\
             \x20                      \"deleting\", description as \"deleting\", parameter as\n\
             \x20                      \"deleting\", parameter description as \"deleting\"\n\
             \x20 user            30%  name, description\n\
             \x20 now\\u{1b}[2J    10%  not found\n"
        );
        assert!(reasons.lines().all(|line| line.chars().count() <= 80));
        let mut named = why;
        named["named"] = json!(true);
        let text = found(&answer(&named), "");
        assert!(text.contains("\n  score 0.82, because the query is its name   words 0.75   meaning 0.10\n"), "{text}");
        assert!(text.lines().skip(2).all(|line| line.chars().count() <= 80));
    }

    #[test]
    fn guesses_come_with_a_note() {
        let tool = json!({"name": "mail:send", "score": 0.07, "call_with": "call_tool_write", "needs": []});
        let text = found(&json!({"tools": [tool], "note": "These are guesses: the best score is 0.07."}), "");
        assert!(
            text.contains("mail:send") && text.ends_with("\n\nThese are guesses: the best score is 0.07.\n"),
            "{text}"
        );
    }

    #[test]
    fn nothing_is_explained() {
        let answer = json!({"tools": [], "note": "No tool fits: the best match scores 0.12, below 0.25. No tool here knows \
            the word \"x\u{1b}\". Try other words for what should be done, without names or values."});
        assert_eq!(
            found(&answer, "fx: 2 definitions wait\n"),
            "No tool fits: the best match scores 0.12, below 0.25. No tool here knows the\n\
             word \"x\\u{1b}\". Try other words for what should be done, without names or\n\
             values. List all tools with `mcpproxy tools list` and all servers with `mcpproxy\n\
             servers list`.\nfx: 2 definitions wait\n"
        );
    }
}
