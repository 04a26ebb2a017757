//! Tests that a query with the name of a tool finds that tool.

use std::path::Path;

use serde_json::Value;

use super::guards::office;
use super::{catalog, catalog_with, exact, find, names, only, server, tool};
use crate::search::candidates::VisibleTools;
use crate::search::{Confidence, Index};
use crate::{Scope, ToolName};

/// Returns the tools of some ninety real servers.
fn real() -> Vec<(String, Value)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools");
    let files = std::fs::read_dir(folder).unwrap().map(|file| file.unwrap().path());
    let mut tools = Vec::new();
    for path in files.filter(|path| path.extension().is_some_and(|extension| extension == "jsonl")) {
        let server = path.file_stem().unwrap().to_str().unwrap().replace('.', "-");
        let text = std::fs::read_to_string(&path).unwrap();
        tools.extend(text.lines().map(|line| (server.clone(), serde_json::from_str(line).unwrap())));
    }
    tools
}

#[test]
fn every_tool_is_found_first_by_its_name() {
    let tools = real();
    assert_eq!(tools.len(), 3_004);
    let tools: Vec<(&str, Value)> = tools.iter().map(|(server, tool)| (server.as_str(), tool.clone())).collect();
    let catalog = catalog(&tools);
    let index = Index::build(&catalog);
    let everything = VisibleTools::of(&index.merged, &Scope::everything(), None);
    for (number, tool) in (0..).zip(catalog.tools()) {
        assert_eq!(index.named(&tool.name.to_string(), &everything), Some(number), "{}", tool.name);
    }
    // Whole searches are slow, so take a sample. It has names that words alone do not find.
    for tool in catalog.tools().step_by(20) {
        let name = tool.name.to_string();
        assert_eq!(exact(&find(&index, &name, 1)), [(name, 1.0_f32.to_bits())]);
    }
}

#[test]
fn a_name_need_not_say_the_server() {
    let mut tools = office();
    tools.push(("archive", tool("read_file", "Reads a file of the archive.")));
    tools.push(("odd", tool("the", "")));
    tools.push(("odd", tool("_", "")));
    let index = Index::build(&catalog(&tools));
    let first = |query: &str, scope: &Scope| {
        let found = index.find(query, scope, None, 5);
        found.hits.first().map(|hit| (hit.tool.name.to_string(), hit.score))
    };
    let everything = Scope::everything();
    for (query, name) in [
        ("merge_pull_request", "github:merge_pull_request"),
        (" files:read_file\n", "files:read_file"),
        ("archive:read_file", "archive:read_file"),
        ("odd:the", "odd:the"),
        ("the", "odd:the"),
        ("_", "odd:_"),
    ] {
        assert_eq!(first(query, &everything), Some((name.to_owned(), 1.0)), "{query}");
    }
    // Two servers have a tool of this name, and the server `mail` has none.
    assert!(first("read_file", &everything).is_some_and(|(_, score)| score < 1.0));
    assert!(first("mail:read_file", &everything).is_none_or(|(_, score)| score < 1.0));
    assert_eq!(first("read_file", &only(&["files", "mail"])), Some(("files:read_file".to_owned(), 1.0)));
    let within = index.find("read_file", &everything, Some(&server("archive")), 5);
    assert_eq!(names(&within), ["archive:read_file"]);
    assert_eq!(within.hits[0].score, 1.0);
    let explained = |query: &str| {
        index.explain(query, &everything, None, &ToolName::parse("archive:read_file").unwrap()).map(|why| why.is_named)
    };
    assert_eq!((explained("archive:read_file"), explained("read_file")), (Some(true), Some(false)));
}

#[test]
fn copies_and_floor_do_not_count_for_a_name() {
    let servers: Vec<String> = (0..5).map(|at| format!("mail{at}")).collect();
    let copy = || tool("zqx_qqz", "Send an email to one or more people.");
    let tools: Vec<(&str, Value)> = servers.iter().map(|server| (server.as_str(), copy())).collect();
    let index = Index::build(&catalog(&tools));
    for server in &servers {
        let name = format!("{server}:zqx_qqz");
        assert_eq!(names(&find(&index, &name, 1)), [name.as_str()]);
    }
}

#[test]
fn the_name_of_a_hidden_tool_leaves_no_trace() {
    let without = Index::build(&catalog(&office()));
    let seen: Vec<&str> = office().into_iter().map(|(server, _)| server).collect();
    let mut tools = office();
    tools.push(("mail", tool("secret_sending", "Sends in secret.")));
    tools.push(("aaa", tool("read_file", "Reads a file.")));
    tools.push(("aaa", tool("zqx", "Reads a file.")));
    let forbidden = "- tool: mail:secret_sending\n  riskLevel: forbidden\n";
    let with = Index::build(&catalog_with(&tools, forbidden));
    for query in ["mail:secret_sending", "secret_sending", "aaa:read_file", "read_file", "aaa:zqx", "zqx"] {
        let (scoped, whole) = (with.find(query, &only(&seen), None, 50), find(&without, query, 50));
        assert_eq!(exact(&scoped), exact(&whole), "{query}");
        assert_eq!(scoped.no_match, whole.no_match, "{query}");
    }
    assert!(find(&without, "zqx", 5).hits.iter().all(|hit| hit.confidence == Confidence::Low));
}
