//! Tests that the search reads every field of a tool, in any spelling.

use serde_json::{Value, json};

use super::{catalog, catalog_with, find, names, only, tool};
use crate::Scope;
use crate::search::{Confidence, Index};

/// Tools that have nothing in common with the queries of the tests.
fn others() -> Vec<(&'static str, Value)> {
    vec![
        ("garden", tool("water_plants", "Waters the plants in the greenhouse")),
        ("garden", tool("mow_lawn", "Mows the lawn")),
        ("kitchen", tool("boil_eggs", "Boils eggs for breakfast")),
        ("kitchen", tool("bake_bread", "Bakes a loaf of bread")),
        ("garage", tool("wash_car", "Washes the car")),
    ]
}

fn found(tools: Vec<(&str, Value)>, contracts: &str, query: &str) -> String {
    let all: Vec<_> = others().into_iter().chain(tools).collect();
    names(&find(&Index::build(&catalog_with(&all, contracts)), query, 1)).concat()
}

#[test]
fn every_field_is_found() {
    let check = |query: &str, tool: Value, contract: &str| {
        assert_eq!(found(vec![("sought", tool)], contract, query), "sought:act", "{query}");
    };
    let with = |field: &str, value: Value| {
        let mut tool = tool("act", "");
        tool[field] = value;
        tool
    };
    let parameter = |name: &str, description: &str| {
        with("inputSchema", json!({ "properties": { name: { "description": description } } }))
    };
    check("act", tool("act", ""), "[]");
    check("sought", tool("act", ""), "[]");
    check("orbit of satellites", with("title", json!("Satellite orbits")), "[]");
    check("orbit of satellites", with("annotations", json!({ "title": "Satellite orbits" })), "[]");
    check("orbit of satellites", with("description", json!("Computes where a satellite orbits")), "[]");
    check("orbit of satellites", with("description", json!("Computes things. See: orbit, satellite")), "[]");
    check("satellites", parameter("satelliteId", ""), "[]");
    check("satellites", parameter("id", "Number of the satellite"), "[]");
    check("satellites", tool("act", ""), "- tool: sought:act\n  category: satellites\n");
    check("satellites", tool("act", ""), "- tool: sought:act\n  sideEffects: [The satellite moves]\n");
}

#[test]
fn identifiers_are_words() {
    let check = |name: &str, query: &str| {
        let expected = format!("sought:{name}");
        assert_eq!(found(vec![("sought", tool(name, ""))], "[]", query), expected, "{query}");
    };
    for name in ["createPullRequest", "create_pull_request", "create-pull-request", "CREATE_PULL_REQUEST"] {
        for query in ["create a pull request", "pull requests", "createPullRequest", "creating pull_requests"] {
            check(name, query);
        }
    }
    check("listS3Buckets", "s3 bucket");
    check("coinPaprika", "coinpaprika");
    check("getTusclases", "tus clases");
}

#[test]
fn words_that_mean_the_same_are_found() {
    let mail = || vec![("a", tool("emailsSend", "Sends an email to people")), ("b", tool("repo_remove", ""))];
    let check = |query: &str, expected: &str| assert_eq!(found(mail(), "[]", query), expected, "{query}");
    check("send mail", "a:emailsSend");
    check("mail", "a:emailsSend");
    check("delete repository", "b:repo_remove");
    check("destroy the repo", "b:repo_remove");
    check("发送邮件", "a:emailsSend");
    check("删除仓库", "b:repo_remove");
}

#[test]
fn chinese_is_found_in_both_languages() {
    let tools =
        || vec![("a", tool("t1", "查询城市的天气")), ("a", tool("t2", "发送邮件")), ("a", tool("t3", "搜索图片"))];
    let check = |query: &str, expected: &str| assert_eq!(found(tools(), "[]", query), expected, "{query}");
    check("天气", "a:t1");
    check("我想查询北京的天气", "a:t1");
    check("发邮件", "a:t2");
    check("图片搜索", "a:t3");
    check("weather", "a:t1");
    check("weather forecast", "a:t1");
    check("send an email", "a:t2");
    check("find pictures", "a:t3");
}

#[test]
fn finds_by_name_description_and_server() {
    let with_repo = |name: &str, description: &str| {
        let mut tool = tool(name, description);
        tool["inputSchema"] = json!({ "properties": { "repo": {} } });
        tool
    };
    let index = Index::build(&catalog(&[
        ("github", with_repo("create_issue", "Open a new issue")),
        ("github", with_repo("list_repos", "List repositories of an organisation")),
        ("mail", with_repo("emailsSend", "Sends an email to people")),
    ]));
    let check = |query: &str, expected: &str| {
        let found = find(&index, query, 1);
        assert_eq!(names(&found), [expected], "{query}");
        assert!(found.hits.iter().all(|hit| hit.score > 0.0 && hit.score <= 1.0));
    };
    check("creating issues", "github:create_issue");
    check("repositories", "github:list_repos");
    check("send email", "mail:emailsSend");
    check("mail", "mail:emailsSend");
    assert_eq!(names(&find(&index, "repo", 50)).len(), 3);
    let mail = crate::ServerName::parse("mail").unwrap();
    let of_mail = index.find("repo", &Scope::everything(), Some(&mail), 50);
    assert_eq!(names(&of_mail), ["mail:emailsSend"]);
    assert_eq!(names(&index.find("repo", &only(&["mail"]), None, 50)), ["mail:emailsSend"]);
}

#[test]
fn what_does_not_fit_is_a_guess_or_nothing() {
    let index = Index::build(&catalog(&others()));
    for query in ["weather", "transfer money abroad", "qwertyuiop", "查询天气"] {
        let found = find(&index, query, 5);
        assert!(found.doubt.is_some() || found.no_match.is_some(), "{query}: {:?}", names(&found));
        assert!(found.hits.iter().all(|hit| hit.confidence == Confidence::Low), "{query}");
    }
}
