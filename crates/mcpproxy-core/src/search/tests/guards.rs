//! Tests that hidden tools leave no trace, that an updated index equals a rebuilt one, and that no query does harm.

use std::collections::BTreeMap;
use std::sync::Arc;

use proptest::prelude::*;
use serde_json::Value;

use super::{catalog, catalog_with, exact, find, names, offer, only, server, tool};
use crate::catalog::{Catalog, Offer};
use crate::search::{GUESSES_MAX, Index, NoMatch};
use crate::{Scope, ServerName};

/// Tools of an office, on several servers.
pub(in crate::search) fn office() -> Vec<(&'static str, Value)> {
    vec![
        ("mail", tool("send_email", "Send an email to one or more people.")),
        ("mail", tool("search_inbox", "Search the inbox for messages.")),
        ("mail", tool("delete_email", "Delete an email for good.")),
        ("calendar", tool("create_event", "Create an event in the calendar.")),
        ("calendar", tool("list_events", "List the events of a day or week.")),
        ("files", tool("read_file", "Read the content of a file.")),
        ("files", tool("move_file", "Move or rename a file.")),
        ("github", tool("create_issue", "Open a new issue in a repository.")),
        ("github", tool("merge_pull_request", "Merge a pull request.")),
        ("weather", tool("get_forecast", "Get the weather forecast of a city.")),
        ("bank", tool("transfer_money", "Transfer money to another account.")),
        ("bank", tool("get_balance", "Get the balance of an account.")),
        ("maps", tool("find_route", "Find the fastest route between two places.")),
        ("db", tool("run_query", "Run a read-only SQL query on the database.")),
        ("translate", tool("translate_text", "Translate a text into another language.")),
    ]
}

const QUERIES: [&str; 8] = [
    "send an email to Bob",
    "delete the message and then create an issue",
    "weather in Paris",
    "issues",
    "sending deleted issues of repositories",
    "how much money is in my account?",
    "查询天气",
    "drop the table",
];

#[test]
fn forbidden_tools_leave_no_trace() {
    let without = Index::build(&catalog(&office()));
    let mut tools = office();
    for (at, name) in ["mail", "github", "aaa", "weather"].into_iter().enumerate() {
        let place = if at % 2 == 0 { 0 } else { tools.len() };
        let description = "Sending emails, deleted issues and the weather of repositories; drop a table. 查询天气";
        tools.insert(place, (name, tool("secret_sending", description)));
    }
    let rule = |pattern: &str| format!("- tool: {pattern}\n  riskLevel: forbidden\n");
    let contracts = ["mail", "github", "aaa", "weather"].map(|server| rule(&format!("{server}:secret_sending")));
    let with = Index::build(&catalog_with(&tools, &contracts.concat()));
    let permitted = Index::build(&catalog(&tools));
    for query in QUERIES {
        assert_eq!(exact(&find(&with, query, 50)), exact(&find(&without, query, 50)), "{query}");
        assert_eq!(find(&with, query, 50).no_match, find(&without, query, 50).no_match, "{query}");
    }
    assert_ne!(exact(&find(&permitted, QUERIES[0], 50)), exact(&find(&without, QUERIES[0], 50)));
}

#[test]
fn servers_out_of_scope_leave_no_trace() {
    let without = Index::build(&catalog(&office()));
    let seen: Vec<&str> = office().into_iter().map(|(server, _)| server).collect();
    let mut tools = office();
    // Other forms of the words, alphabetically before and after these, and more tools than the scope sees.
    for server in ["aaa", "kkk", "zzz"] {
        for at in 0..30 {
            let name = format!("emailing_{at}_issues");
            tools.push((server, tool(&name, "Emailed weathers, sends deletions of issues. Dropping tables 查询天气")));
        }
    }
    let with = Index::build(&catalog(&tools));
    for query in QUERIES {
        let (seen, whole) = (with.find(query, &only(&seen), None, 50), find(&without, query, 50));
        assert_eq!(exact(&seen), exact(&whole), "{query}");
        assert_eq!(seen.no_match, whole.no_match, "{query}");
    }
}

#[test]
fn copies_do_not_fill_a_page() {
    let servers: Vec<String> = (0..10).map(|at| format!("mail{at}")).collect();
    let copy = || tool("send_email", "Send an email to one or more people.");
    let mut tools: Vec<(&str, Value)> = servers.iter().map(|server| (server.as_str(), copy())).collect();
    tools.push(("news", tool("send_newsletter", "Send a newsletter by email to all subscribers.")));
    tools.push(("drafts", tool("draft_email", "Write the draft of an email.")));
    tools.push(("inbox", tool("forward_message", "Forward a message by email to someone else.")));
    let index = Index::build(&catalog(&tools));
    let page = names(&find(&index, "send an email", 5));
    assert_eq!(page.len(), 5);
    assert_eq!(page.iter().filter(|name| name.ends_with(":send_email")).count(), 2, "{page:?}");
    let all = names(&find(&index, "send an email", 50));
    assert_eq!(all.iter().filter(|name| name.ends_with(":send_email")).count(), 10);
}

#[test]
fn nothing_is_told_apart() {
    let index = Index::build(&catalog(&office()));
    let why = |index: &Index, query: &str, scope: &Scope| index.find(query, scope, None, 5).no_match;
    let everything = Scope::everything();
    for query in ["", "   ", "…!?", "🎉🎉", "\u{0}\u{7}", &"-".repeat(100_000)] {
        assert_eq!(why(&index, query, &everything), Some(NoMatch::NoWords), "{query:?}");
    }
    assert_eq!(why(&index, "send email", &only(&[])), Some(NoMatch::NoTools));
    assert_eq!(why(&index, "send email", &only(&["unknown"])), Some(NoMatch::NoTools));
    assert_eq!(why(&Index::default(), "send email", &everything), Some(NoMatch::NoTools));
    assert_eq!(why(&Index::default(), "", &everything), Some(NoMatch::NoTools));
    assert_eq!(why(&index, "send email", &everything), None);
    assert!(find(&index, "send email", 0).hits.is_empty());
}

#[test]
fn guesses_are_few_and_marked() {
    let index = Index::build(&catalog(&office()));
    let guessed = find(&index, "the holiday greetings committee wants its people surprised", 50);
    let doubt = guessed.doubt.expect("a guess");
    assert!(doubt.best < doubt.floor && (1..=GUESSES_MAX).contains(&guessed.hits.len()));
    assert!(doubt.unknown.iter().any(|word| word.for_json() == "holiday"), "{:?}", doubt.unknown);
    assert_eq!(find(&index, "send an email", 5).doubt, None);
    // A word that is too long has no meaning.
    let unrelated = find(&index, &"q".repeat(120), 5);
    assert!(matches!(unrelated.no_match, Some(NoMatch::Unrelated { .. })), "{:?}", names(&unrelated));
}

/// Checks what holds for every result.
fn check_answer(index: &Index, query: &str, limit: usize) {
    let found = find(index, query, limit);
    assert!(found.hits.len() <= limit);
    assert!(found.hits.iter().all(|hit| hit.score.is_finite() && (0.0..=1.0).contains(&hit.score)), "{query:?}");
    assert!(found.no_match.is_none() || found.hits.is_empty());
    assert!(found.doubt.is_none() || found.hits.len() <= GUESSES_MAX, "{query:?}");
    // No tool here has copies, which would be moved to the end.
    assert!(found.hits.is_sorted_by(|one, other| one.score >= other.score), "{query:?}");
    let mut all = names(&found);
    all.sort_unstable();
    all.dedup();
    assert_eq!(all.len(), found.hits.len(), "each tool once");
    for hit in &found.hits {
        let why = index.explain(query, &Scope::everything(), None, &hit.tool.name).unwrap();
        assert!((0.0..=1.0001).contains(&why.lexical) && (0.0..=1.01).contains(&why.semantic), "{query:?} {why:?}");
    }
}

#[test]
fn hostile_queries_do_no_harm() {
    let index = Index::build(&catalog(&office()));
    for piece in ["send email ", "the of and ", "文件", "🎉", "a", "aB", "\u{301}", "x1", "\u{0}", ". ", "and "] {
        check_answer(&index, &piece.repeat(100_000 / piece.len()), 50);
    }
    let different: Vec<String> = (0..20_000).map(|number| format!("w{number}")).collect();
    check_answer(&index, &different.join(" "), 50);
}

/// Generates servers with one of four sets of tools, so that some stay unchanged.
fn servers() -> impl Strategy<Value = BTreeMap<usize, u8>> {
    prop::collection::btree_map(0..4_usize, prop::sample::select(vec![0, 0b1, 0b1101, 0xff]), 0..5)
}

/// Returns the tools of one server, out of eight.
fn some_tools(which: u8) -> Vec<Value> {
    let office = office();
    let chosen = office.into_iter().take(8).enumerate().filter(|(at, _)| which >> at & 1 == 1);
    chosen.map(|(_, (_, tool))| tool).collect()
}

fn next_catalog(before: &Catalog, offers: &BTreeMap<ServerName, (u8, Arc<Offer>)>) -> Catalog {
    let offers = offers.iter().map(|(server, (_, offer))| (server.clone(), Arc::clone(offer)));
    before.next(offers, &Arc::default(), &Arc::default())
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(48) })]

    #[test]
    fn any_query_is_answered(query in "\\PC{0,200}", limit in 0..20_usize) {
        check_answer(&Index::build(&catalog(&office())), &query, limit);
    }

    #[test]
    fn an_index_is_the_same_however_it_came_to_be(steps in prop::collection::vec(servers(), 1..6)) {
        let mut offers: BTreeMap<ServerName, (u8, Arc<Offer>)> = BTreeMap::new();
        let (mut catalog, mut index) = (Catalog::default(), Index::default());
        for step in steps {
            let before = std::mem::take(&mut offers);
            for (number, which) in step {
                let name = server(&format!("s{number}"));
                let kept = before.get(&name).filter(|(old, _)| *old == which).cloned();
                let value = kept.unwrap_or_else(|| (which, offer(&name, &some_tools(which))));
                offers.insert(name, value);
            }
            catalog = next_catalog(&catalog, &offers);
            let next = index.next(&catalog);
            let built = Index::build(&next_catalog(&Catalog::default(), &offers));
            for query in QUERIES {
                prop_assert_eq!(exact(&find(&next, query, 50)), exact(&find(&built, query, 50)));
            }
            for (name, (which, _)) in &offers {
                let is_kept = before.get(name).is_some_and(|(old, _)| old == which);
                let is_shared = index.merged.section(name).zip(next.merged.section(name)).is_some_and(|(old, new)| Arc::ptr_eq(old, new));
                // A server without tools keeps its section as long as it has none, even if the offer is new.
                prop_assert!(is_shared == is_kept || (is_shared && *which == 0), "{} {}", name, which);
            }
            index = next;
        }
    }
}
