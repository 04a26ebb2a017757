//! Rug pulls: pairs of a definition that a user accepted, and what the server lists later.
//!
//! `data/rugpulls.jsonl` has one pair per line. Everything in it is data. Text that cannot be seen is escaped.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on should stop there")]

use std::collections::HashMap;

use mcpproxy_core::trust::scan::Neighbours;
use mcpproxy_core::trust::{
    Accepted, Admitted, Definition, DefinitionKey, DefinitionKind, Held, Judgement, Known, OnChange, Pinned, Rules,
    Verdict, Welcome, judge,
};
use serde_json::Value;

const PAIRS: &str = include_str!("data/rugpulls.jsonl");

struct Pair {
    id: String,
    kind: String,
    is_malicious: bool,
    before: Vec<Definition>,
    after: Vec<Definition>,
}

fn pairs() -> Vec<Pair> {
    let definitions = |value: &Value| -> Vec<Definition> {
        let tools = value.as_array().cloned().unwrap_or_else(|| vec![value.clone()]);
        let define =
            |tool: &Value| Definition::new(DefinitionKind::Tool, tool["name"].as_str().unwrap(), &tool.to_string());
        tools.iter().map(define).collect()
    };
    let pair = |line: &str| {
        let pair: Value = serde_json::from_str(line).unwrap();
        Pair {
            id: pair["id"].as_str().unwrap().to_owned(),
            kind: pair["kind"].as_str().unwrap().to_owned(),
            is_malicious: pair["malicious"].as_bool().unwrap(),
            before: definitions(&pair["before"]),
            after: definitions(&pair["after"]),
        }
    };
    PAIRS.lines().map(pair).collect()
}

fn judged(pair: &Pair) -> Vec<(DefinitionKey, Judgement)> {
    let pinned = |definition: &Definition| {
        let accepted = Accepted { pin: definition.pin(), json: definition.json.clone() };
        (definition.key.clone(), Pinned { accepted: Some(accepted), ..Pinned::default() })
    };
    let definitions: HashMap<DefinitionKey, Pinned> = pair.before.iter().map(pinned).collect();
    let known = Known { is_known: true, definitions, ..Known::default() };
    let rules = Rules::Settings { first_sight: Welcome::Accept, on_change: OnChange::Review };
    let judgements = judge(&pair.after, &known, &rules, &Neighbours::default());
    pair.after.iter().map(|definition| definition.key.clone()).zip(judgements).collect()
}

fn is_held(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Held(_))
}

#[test]
fn every_malicious_change_is_held() {
    let malicious: Vec<Pair> = pairs().into_iter().filter(|pair| pair.is_malicious).collect();
    assert_eq!(malicious.len(), 24);
    for pair in malicious {
        let judged = judged(&pair);
        assert!(judged.iter().any(|(_, one)| is_held(one.verdict)), "{} {}: {judged:?}", pair.id, pair.kind);
    }
}

/// Both tools of a swap carry a definition that was accepted, under the other name.
#[test]
fn swapped_names_are_held_both() {
    for pair in pairs().iter().filter(|pair| pair.kind == "rename-swap" && pair.after.len() > 1) {
        assert!(judged(pair).iter().all(|(_, one)| one.verdict == Verdict::Held(Held::Changed)), "{}", pair.id);
    }
}

#[test]
fn another_form_is_no_change() {
    let mut count = 0;
    for pair in pairs() {
        if ["key-order", "required-order", "list-order", "whitespace"].contains(&pair.kind.as_str()) {
            count += 1;
            assert!(judged(&pair).iter().all(|(_, one)| one.verdict == Verdict::Same), "{} {}", pair.id, pair.kind);
        }
    }
    assert_eq!(count, 6);
}

#[test]
fn stricter_changes_are_admitted() {
    let verdicts = |kind: &str| -> Vec<Verdict> {
        let pairs: Vec<Pair> = pairs().into_iter().filter(|pair| pair.kind == kind).collect();
        pairs.iter().flat_map(judged).map(|(_, one)| one.verdict).collect()
    };
    assert_eq!(verdicts("stricter"), [Verdict::Admitted(Admitted::Stricter)]);
    // One upgrade only closes the object and names the dialect. The other one adds an unknown member.
    assert_eq!(verdicts("sdk-upgrade"), [Verdict::Admitted(Admitted::Stricter), Verdict::Held(Held::Changed)]);
}

#[test]
fn a_new_tool_waits_and_the_known_one_stays() {
    for pair in pairs().iter().filter(|pair| pair.kind == "new-tool") {
        for (key, one) in judged(pair) {
            let is_known = pair.before.iter().any(|before| before.key == key);
            let expected = if is_known { Verdict::Same } else { Verdict::Held(Held::New) };
            assert_eq!(one.verdict, expected, "{} {key}", pair.id);
        }
    }
}

#[test]
fn a_renamed_tool_names_the_one_it_resembles() {
    let renamed = pairs().into_iter().find(|pair| pair.kind == "rename-swap" && pair.after.len() == 1).unwrap();
    let judged = judged(&renamed);
    assert_eq!(judged[0].1.verdict, Verdict::Held(Held::New));
    assert_eq!(judged[0].1.resembles.as_deref(), Some(&*renamed.before[0].key.name));
}

/// Every difference is told, and the first sentence names what matters most.
#[test]
fn every_change_says_what_it_means() {
    for pair in pairs() {
        for (key, one) in judged(&pair) {
            let Some(change) = one.change else { continue };
            assert!(!change.meanings.is_empty() && !change.kinds.is_empty(), "{} {key}", pair.id);
        }
    }
    let first = |id: &str| {
        let pair = pairs().into_iter().find(|pair| pair.id == id).unwrap();
        judged(&pair)[0].1.change.clone().unwrap().meanings[0].clone()
    };
    assert_eq!(first("rug-d01"), "The tool no longer counts as destructive: destructiveHint was true and is false.");
    assert_eq!(
        first("rug-d05"),
        "Its results no longer count as coming from outside: openWorldHint was true and is false."
    );
    assert_eq!(first("rug-d10"), "New required parameter `context`: agents must send data in it.");
    assert_eq!(first("rug-d16"), "New result field `next_step`: models read it.");
    assert_eq!(
        first("rug-d18"),
        "The contract no longer asks for confirmation: `confirmation` was \"required\" and is \"none\"."
    );
    assert_eq!(
        first("rug-d21"),
        "The default of parameter `callback` was \"\" and is \"https://in.example.net/hook\"."
    );
}
