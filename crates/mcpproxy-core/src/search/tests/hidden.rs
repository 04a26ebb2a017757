//! Tests that servers out of scope leave no trace, however many tools they have.

use serde_json::Value;

use super::guards::office;
use super::{catalog, exact, find, only, tool};
use crate::search::Index;

/// Returns more postings than a search reads, on servers before and after the visible ones.
fn crowd() -> Vec<(&'static str, Value)> {
    let text = "Drop, destroy, erase and wipe mails, inboxes and emails; send and deliver messages of people";
    (0..6_000).map(|at| (["aaa", "zzz"][at % 2], tool(&format!("email_{at}"), text))).collect()
}

#[test]
fn a_crowd_out_of_scope_leaves_no_trace() {
    let mut tools = office();
    // More tools than a search ranks have exactly the same words. The choice among them must not depend on other
    // servers.
    let twins: Vec<String> = (0..120).map(|at| format!("t{at:03}")).collect();
    tools.extend(twins.iter().map(|server| (server.as_str(), tool("notify", "Deletes mail and sends messages."))));
    let without = Index::build(&catalog(&tools));
    let seen: Vec<&str> = tools.iter().map(|(server, _)| *server).collect();
    let scope = only(&seen);
    let with = Index::build(&catalog(&tools.iter().cloned().chain(crowd()).collect::<Vec<_>>()));
    for query in [
        "send an email to people",
        "deliver mails to people and send messages, drop, destroy, erase and wipe the inbox",
        "delete the message of the account and create an issue",
    ] {
        let (seen, whole) = (with.find(query, &scope, None, 50), find(&without, query, 50));
        assert_eq!(exact(&seen), exact(&whole), "{query}");
        assert_eq!(seen.no_match, whole.no_match, "{query}");
        let names = |index: &Index, scope| {
            let all = index.candidates(query, scope);
            all.iter().map(|(tool, features)| (tool.name.to_string(), *features)).collect::<Vec<_>>()
        };
        assert_eq!(names(&with, &scope), names(&without, &crate::Scope::everything()), "{query}");
    }
}
