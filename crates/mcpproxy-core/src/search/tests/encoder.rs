//! Tests of the search with the encoder: what it finds, when it is used, and that servers cannot abuse it.

use std::collections::HashMap;
use std::sync::{LazyLock, Mutex};

use super::guards::office;
use super::{catalog, exact, find, names, only, tool};
use crate::search::{Index, MeaningSource, ToolVector, VectorKey};
use crate::{Scope, ToolName};

/// Vectors that a test computed, for the other tests.
static COMPUTED: LazyLock<Mutex<HashMap<VectorKey, ToolVector>>> = LazyLock::new(Mutex::default);

/// Gives all tools of an index their vectors.
pub(super) fn encoded(index: Index) -> Index {
    let index = index.with_encoder();
    for tool in index.pending(usize::MAX) {
        let known = COMPUTED.lock().unwrap().get(&tool.key()).cloned();
        let vector = known.unwrap_or_else(|| tool.encode().unwrap());
        COMPUTED.lock().unwrap().insert(tool.key(), vector.clone());
        tool.supply(vector);
    }
    assert_eq!(index.encoded(), Some(index.merged.tools.len()));
    index
}

fn source(index: &Index, query: &str, tool: &str) -> MeaningSource {
    let name = ToolName::parse(tool).unwrap();
    index.explain(query, &Scope::everything(), None, &name).unwrap().meaning_by
}

#[test]
fn tools_are_found_by_meaning() {
    let index = encoded(Index::build(&catalog(&office())));
    let check = |query: &str, expected: &str| assert_eq!(names(&find(&index, query, 1)), [expected], "{query}");
    check("how warm will it be tomorrow", "weather:get_forecast");
    check("wire 50 euros to Ann", "bank:transfer_money");
    check("what is on my agenda", "calendar:list_events");
    check("report a bug", "github:create_issue");
    assert_eq!(source(&index, "report a bug", "github:create_issue"), MeaningSource::Encoder);
}

/// Nothing waits for the encoder: before a tool has its vector, it has the score of an index without encoder.
#[test]
fn a_tool_without_vector_is_ranked_by_the_table() {
    let plain = Index::build(&catalog(&office()));
    let index = Index::build(&catalog(&office())).with_encoder();
    assert_eq!((plain.encoded(), plain.pending(9).len()), (None, 0));
    assert_eq!((index.encoded(), index.pending(9).len(), index.pending(99).len()), (Some(0), 9, office().len()));
    let query = "send an email to Bob";
    assert_eq!(exact(&find(&index, query, 50)), exact(&find(&plain, query, 50)));
    let first = index.pending(1);
    first[0].supply(first[0].encode().unwrap());
    assert_eq!((index.encoded(), index.pending(99).len()), (Some(1), office().len() - 1));
    let tools = office();
    let sources = tools.iter().map(|(server, tool)| format!("{server}:{}", tool["name"].as_str().unwrap()));
    let by_encoder = sources.filter(|name| source(&index, query, name) == MeaningSource::Encoder).count();
    assert_eq!(by_encoder, 1);
}

#[test]
fn the_next_index_keeps_the_vectors_of_unchanged_servers() {
    let mut tools = office();
    let index = Index::build(&catalog(&tools)).with_encoder();
    let all = catalog(&tools);
    let index = encoded(index.next(&all));
    assert_eq!(index.next(&all).encoded(), Some(tools.len()));
    tools.push(("mail", tool("archive", "Archives an email.")));
    // The texts of other servers did not change, but `catalog` reads all tools again.
    let changed = index.next(&catalog(&tools));
    assert!(changed.encoded() < Some(tools.len()));
    assert_eq!(encoded(changed).encoded(), Some(tools.len()));
}

/// A server with many tools, or one that changes them all the time, must not keep the others waiting.
#[test]
fn servers_take_turns() {
    let mut tools: Vec<_> = (0..20).map(|at| ("aaa", tool(&format!("tool_{at}"), "Does something."))).collect();
    tools.push(("zzz", tool("last", "Does something else.")));
    let index = Index::build(&catalog(&tools)).with_encoder();
    for first in index.pending(2) {
        first.supply(first.encode().unwrap());
    }
    assert_eq!(source(&index, "last", "zzz:last"), MeaningSource::Encoder);
    assert_eq!((index.pending(usize::MAX).len(), index.pending(0).len()), (19, 0));
}

#[test]
fn servers_out_of_scope_leave_no_trace() {
    let without = encoded(Index::build(&catalog(&office())));
    let seen: Vec<&str> = office().into_iter().map(|(server, _)| server).collect();
    let mut tools = office();
    for server in ["aaa", "kkk", "zzz"] {
        for at in 0..10 {
            tools.push((server, tool(&format!("email_{at}"), "Sends emails, deletes issues, and tells the weather.")));
        }
    }
    let with = encoded(Index::build(&catalog(&tools)));
    for query in ["send an email to Bob", "delete the message and then create an issue", "how warm will it be"] {
        let (seen, whole) = (with.find(query, &only(&seen), None, 50), find(&without, query, 50));
        assert_eq!(exact(&seen), exact(&whole), "{query}");
    }
}

#[test]
fn odd_queries_do_no_harm() {
    let index = encoded(Index::build(&catalog(&office())));
    for query in [
        "x".repeat(1_000_000),
        "email ".repeat(100_000),
        "send mail. ".repeat(10_000),
        "and ".repeat(10_000),
        String::new(),
        "\u{0}\u{fffd}\u{202e}".to_owned(),
        "查询天气。发送邮件给他 погода 🦀".to_owned(),
    ] {
        let found = find(&index, &query, 5);
        assert!(found.hits.iter().all(|hit| (0.0..=1.0).contains(&hit.score)));
        assert_eq!(exact(&found), exact(&find(&index, &query, 5)));
    }
}
