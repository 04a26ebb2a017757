//! Search results over the tool lists of real servers, and over oversized tools.

use std::path::Path;
use std::sync::{Arc, LazyLock};

use mcpproxy_core::schema::Schema;
use mcpproxy_core::settings::IntentSettings;
use mcpproxy_core::{Catalog, NoMatch, Offer, Offered, ServerName};
use serde_json::{Value, json};

use super::*;

/// Members that every tool has, in any form.
const MEMBERS: [&str; 9] =
    ["name", "server", "description", "annotations", "call_with", "risk_level", "needs", "inputSchema", "score"];

fn catalog(lists: Vec<(String, Vec<String>)>) -> Catalog {
    Catalog::new(lists.into_iter().map(|(server, tools)| {
        let server = ServerName::parse(&server).unwrap();
        let offered: Vec<_> = tools.iter().map(|tool| Offered::parse(&server, tool)).collect();
        (server, Arc::new(Offer::new(offered).0))
    }))
}

/// The tools of some ninety servers.
static REAL: LazyLock<Vec<SearchHit>> = LazyLock::new(|| {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../mcpproxy-core/tests/data/tools");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let lists = files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")).map(|path| {
        let server = path.file_stem().unwrap().to_str().unwrap().replace('.', "-");
        (server, std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect())
    });
    let mut lists: Vec<_> = lists.collect();
    lists.sort();
    hits(&catalog(lists))
});

fn hits(catalog: &Catalog) -> Vec<SearchHit> {
    catalog
        .tools()
        .map(|tool| SearchHit { tool: Arc::clone(tool), score: 0.5, confidence: Confidence::Usual })
        .collect()
}

/// Requests all tools, checks what must be true of every answer, and returns what was shown.
fn check(hits: &[SearchHit], detail: Detail) -> (usize, Value) {
    let found = SearchResult { hits: hits.to_vec(), ..SearchResult::default() };
    let text = answer(&Settings::default(), &found, detail, hits.len());
    let answer: Value = serde_json::from_str(&text).unwrap();
    let tools = answer["tools"].as_array().unwrap();
    let is_whole = detail == Detail::Full && hits.len() == 1;
    assert!(is_whole || text.len() <= ANSWER_MAX_BYTES, "{} bytes", text.len());
    assert!(!tools.is_empty(), "something was found");
    let mut rest = hits.iter();
    for tool in tools {
        assert!(rest.any(|hit| tool["name"] == hit.tool.name.to_string()), "best first");
        let members: Vec<&str> = tool.as_object().unwrap().keys().map(String::as_str).collect();
        let (always, rest) = members.split_at(MEMBERS.len());
        assert_eq!(always, MEMBERS);
        assert!(rest.is_empty() || detail == Detail::Full && rest == ["outputSchema"], "{rest:?}");
    }
    if tools.len() < hits.len() {
        let expected = format!("{} of {} tools shown: the others do not fit 16 KiB. ", tools.len(), hits.len());
        assert!(answer["note"].as_str().unwrap().starts_with(&expected), "{}", answer["note"]);
    }
    (text.len(), answer)
}

#[test]
fn every_answer_fits_and_parses() {
    assert_eq!(REAL.len(), 3_004);
    for page in REAL.chunks(20).step_by(2) {
        check(page, Detail::Brief);
        check(page, Detail::Full);
    }
    // These include the largest known tools.
    let largest = REAL.iter().position(|hit| hit.tool.name.tool() == "create-sharepoint-list").unwrap();
    for limit in 1..=50 {
        let page = &REAL[largest - limit / 2..][..limit];
        check(page, Detail::Brief);
        check(page, Detail::Full);
    }
}

#[test]
fn schemas_stay_schemas() {
    let mut cut = 0;
    for hit in REAL.iter() {
        let (_, answer) = check(std::slice::from_ref(hit), Detail::Brief);
        let schema = answer["tools"][0]["inputSchema"].to_string();
        Schema::of_server(&schema).unwrap_or_else(|error| panic!("{} {error}", hit.tool.name));
        cut += usize::from(schema.contains("detail \\\"full\\\""));
    }
    assert_eq!(cut, 9, "tools whose schema cannot be shown alone");
}

/// The cost of a search for an agent: the mean bytes of an answer with five tools.
#[test]
fn brief_answers_are_small() {
    let pages: Vec<&[SearchHit]> = REAL.chunks_exact(5).step_by(2).collect();
    let mean =
        |bytes: &dyn Fn(&[SearchHit]) -> usize| pages.iter().map(|page| bytes(page)).sum::<usize>() / pages.len();
    let brief = mean(&|page| check(page, Detail::Brief).0);
    let full = mean(&|page| check(page, Detail::Full).0);
    let unbounded = mean(&|page| {
        page.iter().map(|hit| entry(&Settings::default(), hit, Form::Whole, Detail::Full).len() + 1).sum()
    });
    assert!(brief <= 6_500 && full <= 7_700 && unbounded > 10_000, "{brief} brief, {full} full, {unbounded} unbounded");
}

#[test]
fn a_tool_made_to_be_large_is_given_all_the_same() {
    let words = "word ".repeat(20_000);
    let deep = (0..20).fold(
        json!({"type": "string"}),
        |inner, _| json!({"description": "x".repeat(2_000), "properties": {"a": inner}}),
    );
    let names: Vec<String> = (0..2_000).map(|number| format!("argument_\u{1}_{number}")).collect();
    let many: serde_json::Map<String, Value> = names.iter().map(|name| (name.clone(), json!({}))).collect();
    let check = |schema: Value, annotations: Value| {
        let tool = json!({"name": "large", "description": words, "inputSchema": schema, "annotations": annotations});
        let small = json!({"name": "small", "inputSchema": {"type": "object"}});
        let hits = hits(&catalog(vec![("s".to_owned(), vec![tool.to_string(), small.to_string()])]));
        assert_eq!(hits.len(), 2);
        for detail in [Detail::Brief, Detail::Full] {
            let (_, answer) = check(&hits, detail);
            assert_eq!(answer["tools"].as_array().unwrap().len(), 2);
            assert_eq!(answer["note"].is_string(), detail == Detail::Full);
            let (bytes, alone) = check(&hits[..1], detail);
            assert_eq!(bytes > ANSWER_MAX_BYTES, detail == Detail::Full, "whole if it is alone");
            Schema::of_server(&alone["tools"][0]["inputSchema"].to_string()).unwrap();
        }
    };
    check(json!({"type": "object", "properties": {"a": deep}}), json!({"title": words, "destructiveHint": true}));
    check(json!({"type": "object", "properties": {"a": {"enum": [words]}}}), json!({}));
    check(json!({"type": "object", "properties": many.clone(), "required": names}), json!({}));
    check(json!({"type": "object", "properties": many}), json!({"x": words}));
    let repeated = json!({"type": vec!["string"; 2_000]});
    check(json!({"type": "object", "properties": {"a": repeated}, "required": ["a"]}), json!({}));
}

#[test]
fn a_tool_that_does_not_fit_hides_no_other() {
    let tool = |name: &str, description: &str| {
        json!({"name": name, "description": description, "inputSchema": {"type": "object"}}).to_string()
    };
    // Most of the answer is full, and the next tool does not fit into the rest.
    let described =
        "Says what it does in some twenty words, so that a page is full before all of them are shown. ".repeat(3);
    let long = tool(&"x".repeat(128), &"\u{1}".repeat(150));
    let count = (20..60).find(|count| {
        let mut tools: Vec<String> = (0..*count).map(|at| tool(&format!("a{at:02}"), &described)).collect();
        tools.extend([long.clone(), tool("z", "")]);
        let hits = hits(&catalog(vec![("s".to_owned(), tools)]));
        let (_, answer) = check(&hits, Detail::Brief);
        let shown = answer["tools"].as_array().unwrap();
        let is_skipped = shown.len() == count + 1 && shown[*count]["name"] == "s:z";
        assert!(
            !is_skipped || answer["note"].as_str().unwrap().starts_with(&format!("{} of {} ", count + 1, count + 2))
        );
        is_skipped
    });
    assert!(count.is_some());
}

#[test]
fn required_keys_are_named() {
    let intent = IntentSettings { two_key: TwoKey::Required, ..IntentSettings::default() };
    let settings = Settings { intent, ..Settings::default() };
    let found = SearchResult { hits: REAL.iter().take(1).cloned().collect(), ..SearchResult::default() };
    for detail in [Detail::Brief, Detail::Full] {
        let answer: Value = serde_json::from_str(&answer(&settings, &found, detail, 1)).unwrap();
        assert_eq!(answer["usage_instructions"], USAGE_TWO_KEYS);
    }
    assert!(USAGE_TWO_KEYS.len() <= 200, "{} bytes", USAGE_TWO_KEYS.len());
}

#[test]
fn nothing_says_why() {
    let found = SearchResult { no_match: Some(NoMatch::NoWords), ..SearchResult::default() };
    for detail in [Detail::Brief, Detail::Full] {
        assert_eq!(
            answer(&Settings::default(), &found, detail, 5),
            "{\"tools\":[],\"note\":\"The query contains no words. Describe what the tool should do, such as \
             \\\"create an issue\\\".\",\"usage_instructions\":\"Once a search finds a tool, call it with the variant in its \
             call_with.\"}"
        );
    }
}
