//! Tests that a tool stuffed with keywords does not outrank the right one.

use serde_json::{Map, Value, json};

use super::encoder::encoded;
use super::guards::office;
use super::{catalog, server, tool};
use crate::search::words::{is_stop_word, words};
use crate::search::{Field, Index};
use crate::{Scope, ToolName};

/// Everyday queries, each with the right tool.
const EVERYDAY: [(&str, &str); 16] = [
    ("send an email to Bob", "mail:send_email"),
    ("write an email to my boss", "mail:send_email"),
    ("search my inbox for messages from Ann", "mail:search_inbox"),
    ("delete that email", "mail:delete_email"),
    ("create an event in my calendar for Friday", "calendar:create_event"),
    ("list the events of this week", "calendar:list_events"),
    ("read the file notes.txt", "files:read_file"),
    ("rename a file", "files:move_file"),
    ("open an issue in the repository", "github:create_issue"),
    ("merge the pull request", "github:merge_pull_request"),
    ("weather forecast for Paris", "weather:get_forecast"),
    ("transfer money to my landlord's account", "bank:transfer_money"),
    ("what is the balance of my account", "bank:get_balance"),
    ("fastest route between Berlin and Hamburg", "maps:find_route"),
    ("run a query on the database", "db:run_query"),
    ("translate this text into Spanish", "translate:translate_text"),
];

/// Returns each word of all other tools once, as an author would use them to match every query.
fn trade() -> Vec<String> {
    let mut all = Vec::new();
    for (_, tool) in office() {
        let text = format!("{} {}", tool["name"].as_str().unwrap(), tool["description"].as_str().unwrap());
        for word in words(&text).into_iter().filter(|word| !is_stop_word(&word.stem)) {
            let word = word.as_written.to_lowercase();
            if !all.contains(&word) {
                all.push(word);
            }
        }
    }
    all
}

/// Returns a number of different words, those of other tools first.
fn list(length: usize) -> String {
    let trade = trade();
    let more = (trade.len()..length).map(|at| format!("{}word{at}", trade[at % trade.len()]));
    trade.iter().cloned().chain(more).take(length).collect::<Vec<_>>().join(" ")
}

fn parameters(words: &str, description: &str) -> Value {
    let names = words.split(' ').map(|word| (word.to_owned(), json!({})));
    let described = ("text".to_owned(), json!({ "description": description }));
    json!({ "properties": names.chain([described]).collect::<Map<String, Value>>() })
}

/// Returns every way to stuff a tool, for one query or for all.
fn stuffed(query: &str) -> Vec<(&'static str, Value)> {
    let with = |mut tool: Value, title: &str, parameters: Value| {
        tool["title"] = json!(title);
        tool["inputSchema"] = parameters;
        tool
    };
    let trade = trade().join(" ");
    let is_trade = |word: &&str| trade.split(' ').any(|own| own == *word);
    let best = query.split(' ').filter(is_trade).max_by_key(|word| word.len()).unwrap();
    let many = list(500);
    let long_name: String = trade.replace(' ', "_").chars().take(128).collect();
    let repeated = format!("{best} ").repeat(1_000);
    let queries = EVERYDAY.map(|(query, _)| query).join(". ");
    let prose = format!("Helps with everything. {}", format!("{query}. ").repeat(10));
    vec![
        ("one word, a thousand times", tool("helper", &repeated)),
        ("one word in every field", with(tool("helper", &repeated), &repeated, parameters(best, &repeated))),
        ("a list", tool("helper", &many)),
        ("a list after a sentence", tool("helper", &format!("Helps with everything. {many}"))),
        ("a list as first sentence", tool("helper", &format!("Helps with {}. Really.", trade.replace(' ', ", ")))),
        ("a list of parameters", with(tool("helper", "Helps."), "", parameters(&many, &many))),
        ("a long name", tool(&long_name, "Helps.")),
        ("a long title", with(tool("helper", "Helps."), &many, json!({}))),
        ("lists everywhere", with(tool(&long_name, &many), &many, parameters(&many, &many))),
        ("all queries", tool("helper", &format!("Helps with everything. {queries}"))),
        ("the query, ten times, after a sentence", tool("helper", &prose)),
    ]
}

#[test]
fn stuffed_tools_do_not_come_first() {
    no_stuffed_tool_wins(|index| index);
}

#[test]
fn stuffed_tools_do_not_come_first_with_the_encoder() {
    no_stuffed_tool_wins(encoded);
}

fn no_stuffed_tool_wins(prepare: fn(Index) -> Index) {
    let mut won = Vec::new();
    for (query, honest) in EVERYDAY {
        for (way, stuffed) in stuffed(query) {
            let mut tools = office();
            tools.push(("assistant", stuffed));
            let index = prepare(Index::build(&catalog(&tools)));
            let all = index.candidates(query, &Scope::everything());
            let features = |wanted: &dyn Fn(&str) -> bool| {
                let found = all.iter().find(|(tool, _)| wanted(&tool.name.to_string()));
                found.map(|(_, features)| *features).unwrap_or_default()
            };
            let (own, other) = (features(&|name| name == honest), features(&|name| name.starts_with("assistant:")));
            if own.score() <= other.score() {
                won.push(format!(
                    "{way}: `{query}` {:.3} {:.2?} before {:.3} {:.2?}",
                    other.score(),
                    other.values(),
                    own.score(),
                    own.values()
                ));
            }
        }
    }
    won.sort();
    assert!(won.is_empty(), "{}", won.join("\n"));
}

#[test]
fn no_field_is_read_to_its_end() {
    let letters = || 'a'..='o';
    let filler: Vec<String> = letters().flat_map(|one| letters().map(move |other| format!("zq{one}{other}"))).collect();
    let (few, many) = (filler[..4].join(" "), filler.join(" "));
    let with = |field: &str, value: Value| {
        let mut tool = tool("helper", "Helps.");
        tool[field] = value;
        tool
    };
    let described = |text: &str| json!({ "properties": { "a": { "description": text } } });
    let named = |text: &str| json!({ "properties": { text: {} } });
    let make = |text: &str| {
        let text = format!("{text} satellite");
        let short: String = text.replace(' ', "_");
        vec![
            with("title", json!(text)),
            with("description", json!(format!("Helps. {text}"))),
            with("inputSchema", described(&text)),
            with("inputSchema", named(&short)),
        ]
    };
    let is_read = |tool: &Value| {
        let index = Index::build(&catalog(&[("assistant", tool.clone())]));
        let name = ToolName::parse("assistant:helper").unwrap();
        let why = index.explain("satellite", &Scope::everything(), None, &name).unwrap();
        why.lexical > 0.8 && why.words[0].places.iter().any(|place| place.instead.is_none())
    };
    for (short, long) in make(&few).iter().zip(&make(&many)) {
        assert!(is_read(short), "{short}");
        assert!(!is_read(long), "{long}");
    }
}

#[test]
fn repeating_a_word_adds_nothing() {
    let worth = |times: usize| {
        let tool = tool("helper", &"satellite ".repeat(times));
        let index = Index::build(&catalog(&[("assistant", tool)]));
        let section = index.merged.section(&server("assistant")).unwrap();
        let at = section.stems.iter().position(|stem| stem.starts_with("satel")).unwrap();
        section.entries[0].words.iter().find(|(word, _)| *word as usize == at).unwrap().1
    };
    assert!(worth(3) > worth(1));
    assert!(worth(1_000) < worth(3));
    assert!(worth(1_000) < worth(1));
}

#[test]
fn words_that_are_not_read_are_not_kept() {
    let text = |letters: &str| {
        let letters = || letters.chars();
        let words = letters().flat_map(|a| letters().flat_map(move |b| letters().map(move |c| format!("q{a}{b}{c}"))));
        words.collect::<Vec<_>>().join(" ")
    };
    let mut tool = tool("helper", &text("abcdefghijkl"));
    tool["title"] = json!(text("mnopqr"));
    tool["inputSchema"] = parameters(&text("stuvwx"), &text("abcdexyz"));
    let index = Index::build(&catalog(&[("assistant", tool)]));
    let section = index.merged.section(&server("assistant")).unwrap();
    let read: usize = Field::ALL.iter().map(|field| field.share().max_words).sum();
    assert!(section.stems.len() <= read, "{}", section.stems.len());
}
