//! Tests for explanations of scores.

use serde_json::json;

use super::{catalog_with, only, server, tool};
use crate::search::{Index, ScoreExplanation};
use crate::{Scope, ToolName};

fn index() -> Index {
    let mut send = tool("sendEmails", "Delivers electronic messages to people. Later lines name a calendar.");
    send["inputSchema"] = json!({ "properties": { "recipient": { "description": "Whom to send it to" } } });
    send["title"] = json!("Send an email");
    // Only the first hundred words of a description are read.
    let letters = || 'a'..='k';
    let list: Vec<String> = letters().flat_map(|one| letters().map(move |other| format!("zq{one}{other}"))).collect();
    let stuffed = tool("many", &format!("Counts. {}", list.join(" ")));
    Index::build(&catalog_with(
        &[
            ("post", send),
            ("post", tool("fetch_letters", "Reads what came in")),
            ("post", tool("tq", "查询天气")),
            ("web", tool("coinPaprika", "Prices of coins")),
            ("web", stuffed),
        ],
        "- tool: post:sendEmails\n  category: communication\n  sideEffects: [a person is disturbed]\n",
    ))
}

fn why(index: &Index, query: &str, name: &str) -> ScoreExplanation {
    index.explain(query, &Scope::everything(), None, &ToolName::parse(name).unwrap()).unwrap()
}

/// Formats matches as `word: field, field=its own word; …`.
fn told(why: &ScoreExplanation) -> String {
    let words = why.words.iter().map(|word| {
        let places = word.places.iter().map(|place| match &place.instead {
            None => place.field.as_str().to_owned(),
            Some(own) => format!("{}={}", place.field.as_str(), own.for_terminal()),
        });
        format!("{}: {}", word.word.for_terminal(), places.collect::<Vec<_>>().join(", "))
    });
    words.collect::<Vec<_>>().join("; ")
}

#[test]
fn every_word_is_explained_with_its_places() {
    let index = index();
    let check = |query: &str, name: &str, expected: &str| {
        assert_eq!(told(&why(&index, query, name)), expected, "{query} {name}");
    };
    check(
        "Please send EMAILS to a recipient",
        "post:sendEmails",
        "send: name, title, parameter description; EMAILS: name, title=email; recipient: parameter",
    );
    check("communication disturbs", "post:sendEmails", "communication: contract; disturbs: contract=disturbed");
    check("post calendars", "post:sendEmails", "post: server; calendars: description=calendar");
    // Synonyms count only in head words.
    check("mail", "post:sendEmails", "mail: name=Emails, title=email");
    check("get", "post:fetch_letters", "get: name=fetch, description=Reads");
    check("coin paprika", "web:coinPaprika", "coin: name, description=coins; paprika: name");
    check("weather", "post:tq", "weather: description=天气");
    check("查询天气", "post:tq", "查询: description; 询天: description; 天气: description");
    check("zqaa zqkk", "web:many", "zqaa: description; zqkk: ");
    check("", "post:sendEmails", "");
    check("…!", "post:sendEmails", "");
}

#[test]
fn parts_and_weights_are_those_of_the_search() {
    let index = index();
    let (query, everything) = ("send an email about letters", Scope::everything());
    for (tool, features) in index.candidates(query, &everything) {
        let why = index.explain(query, &everything, None, &tool.name).unwrap();
        assert_eq!(why.lexical, features.words);
        assert_eq!(why.features, features);
        assert!(!why.is_named);
        assert_eq!(why.semantic, features.meaning.max(features.sentence).max(features.request));
        assert!((why.words.iter().map(|word| word.weight).sum::<f32>() - 1.0).abs() < 1e-5);
        assert!(why.words.iter().all(|word| word.weight > 0.0));
    }
}

/// The weights of words, and all numbers based on them, are those among the tools of one server.
#[test]
fn a_search_in_one_server_is_the_one_explained() {
    let index = index();
    let (query, everything, web) = ("post prices of coins", Scope::everything(), server("web"));
    let within = index.find(query, &everything, Some(&web), 5);
    let hit = within.hits.first().unwrap();
    let explain = |server| index.explain(query, &everything, server, &hit.tool.name).unwrap();
    assert_eq!(explain(Some(&web)).features.score(), hit.score);
    assert_ne!(explain(None).features.score(), hit.score);
    assert_eq!(index.explain(query, &everything, Some(&server("post")), &hit.tool.name), None);
}

#[test]
fn only_what_an_agent_sees_is_explained() {
    let index = index();
    let explain = |scope: &Scope, name: &str| index.explain("coin", scope, None, &ToolName::parse(name).unwrap());
    assert!(explain(&only(&["web"]), "web:coinPaprika").is_some());
    assert_eq!(explain(&only(&["post"]), "web:coinPaprika"), None);
    assert_eq!(explain(&Scope::everything(), "web:unknown"), None);
    assert_eq!(explain(&Scope::everything(), "unknown:many"), None);
    // The explained tool need not be a hit.
    assert_eq!(explain(&Scope::everything(), "web:many").map(|why| why.lexical < 0.5), Some(true));
}
