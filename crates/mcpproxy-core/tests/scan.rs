//! Scans attacks in many wordings, harmless tools that use the words of attacks, and real tools.
//!
//! `data/scan/paraphrases.jsonl` has attacks in six sets. Each set was written before anyone looked at how the rules
//! match it. A `text` is put into the description of a harmless tool. The floors of this test are what the rules reach,
//! so that a change of a rule or a word cannot lose much without notice.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

#[path = "data/tools.rs"]
mod tools;

use std::collections::BTreeMap;

use mcpproxy_core::trust::scan::{Neighbours, Severity, scan};
use serde_json::{Value, json};

fn lines(text: &str) -> Vec<Value> {
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn worst(tool: &Value, neighbours: &Neighbours) -> Option<Severity> {
    scan(&tool.to_string(), neighbours).iter().map(|finding| finding.severity).max()
}

fn tool(case: &Value) -> Value {
    case.get("tool").cloned().unwrap_or_else(|| {
        let text = case["text"].as_str().unwrap();
        json!({
            "name": "lookup_record",
            "description": format!("Looks up a record by its id and returns its fields.\n\n{text}"),
            "inputSchema": {"type": "object", "properties": {"id": {"type": "string", "description": "Id"}}},
        })
    })
}

#[test]
fn other_wordings_are_found() {
    let mut sets: BTreeMap<String, (usize, usize)> = BTreeMap::new();
    let mut missed = Vec::new();
    for case in lines(include_str!("data/scan/paraphrases.jsonl")) {
        let beside = case["beside"].as_array().into_iter().flatten().filter_map(Value::as_str);
        let beside = beside.filter_map(|name| name.split_once(':')).map(|(server, tool)| (server, [tool]));
        let (found, all) = sets.entry(case["set"].as_str().unwrap().to_owned()).or_default();
        *all += 1;
        if worst(&tool(&case), &Neighbours::new(beside)) >= Some(Severity::Medium) {
            *found += 1;
        } else {
            missed.push(case["id"].as_str().unwrap().to_owned());
        }
    }
    let floors = [("a", 95), ("b", 88), ("c", 80), ("d", 80), ("e", 87), ("f", 85)];
    for (set, floor) in floors {
        let (found, all) = sets[set];
        assert!(found * 100 >= all * floor, "set {set}: {found} of {all}; missed: {missed:?}");
    }
}

#[test]
fn harmless_tools_with_the_words_of_attacks_are_quiet() {
    for tool in lines(include_str!("data/scan/decoys.jsonl")) {
        let findings = scan(&tool.to_string(), &Neighbours::default());
        let loud: Vec<_> = findings.iter().filter(|finding| finding.severity >= Severity::Medium).collect();
        assert!(loud.is_empty(), "{}: {loud:?}", tool["name"]);
    }
}

#[test]
fn real_tools_are_quiet() {
    // Every fourth tool, because all of them take long without optimization.
    let tools: Vec<String> = tools::lists().into_iter().flat_map(|list| list.tools).step_by(4).collect();
    assert!(tools.len() > 700);
    let (mut medium, mut high) = (Vec::new(), Vec::new());
    for tool in &tools {
        let findings = scan(tool, &Neighbours::default());
        match findings.first().map(|finding| finding.severity) {
            Some(Severity::High) => high.push(findings),
            Some(Severity::Medium) => medium.push(findings),
            Some(Severity::Low) | None => {}
        }
    }
    assert!(high.len() * 200 <= tools.len(), "{high:?}");
    assert!((medium.len() + high.len()) * 50 <= tools.len(), "{medium:?}");
}
