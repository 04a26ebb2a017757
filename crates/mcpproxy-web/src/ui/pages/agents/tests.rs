//! The content of the page of agents.

use mcpproxy_core::{Scope, ServerName};

use super::new_agent::ServersOf;
use super::*;

const NOW_MS: i64 = 1_800_000_000_000;

fn token(name: &str, revoked_ms: Option<i64>) -> TokenInfo {
    let scope = Scope {
        grants: vec!["files:*".to_owned()],
        servers: Some(vec![ServerName::parse("fx").unwrap()]),
        operations: vec![Variant::Read],
        headless: true,
    };
    TokenInfo { name: name.to_owned(), scope, created_ms: NOW_MS - 60_000, revoked_ms, last_used_ms: Some(NOW_MS) }
}

fn facts(tokens: Vec<TokenInfo>) -> Facts {
    Facts {
        tokens,
        of_provider: vec![],
        calls: vec![],
        sessions: vec![],
        clients: vec![],
        servers: vec!["fx".to_owned()],
        now_ms: NOW_MS,
    }
}

fn shown(facts: &Facts, said: Said) -> String {
    Agents::new(Frame::outside("Agents"), facts, said).render().unwrap()
}

#[test]
fn agents_with_everything_about_them() {
    let mut facts = facts(vec![token("ci", None), token("old", Some(NOW_MS))]);
    facts.calls = vec![AgentCalls { agent: "ci".to_owned(), intent_type: Variant::Read, count: 41 }];
    facts.sessions = vec![ClientStatus {
        agent: "ci".to_owned(),
        client: Some("Cursor 1.2<script>".to_owned()),
        protocol: "2025-11-25".to_owned(),
        elicitation: true,
        idle: std::time::Duration::ZERO,
    }];
    let html = shown(&facts, Said::default());
    for expected in
        ["files:*", "unattended", "Cursor 1.2&lt;script&gt;", "connected, MCP 2025-11-25", "1 revoked", ">41<"]
    {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(html.contains("/ui/activity?agent=ci"));
}

#[test]
fn the_client_of_the_newest_record_is_shown_without_a_session() {
    let mut facts = facts(vec![token("ci", None)]);
    facts.clients = vec![("ci".to_owned(), Some(Untrusted::new("Codex 3\u{202E}")))];
    let html = shown(&facts, Said::default());
    assert!(html.contains("Codex 3<span class=\"mark\"") && !html.contains("connected, MCP"), "{html}");
}

#[test]
fn agents_of_the_provider_have_no_token_to_revoke() {
    let mut facts = facts(vec![]);
    let (name, scope) = ("anna@id.example.com".to_owned(), token("x", None).scope);
    let agent = Some(std::sync::Arc::new(mcpproxy_core::Agent { name: name.clone(), scope }));
    facts.calls = vec![AgentCalls { agent: name.clone(), intent_type: Variant::Write, count: 17 }];
    let client = Some(Untrusted::new("Claude <2>"));
    facts.of_provider = vec![
        ProviderAgent { name, agent, last_seen_ms: Some(NOW_MS), client },
        ProviderAgent { name: "ben@id.example.com".to_owned(), agent: None, last_seen_ms: None, client: None },
    ];
    let html = shown(&facts, Said::default());
    for expected in [
        "anna@id.example.com",
        "Claude &lt;2&gt;",
        "read on fx, with files:*, unattended",
        ">17<",
        "/ui/activity?agent=anna%40id.example.com",
        "known when its next request arrives",
        "agents.oauth.blocked",
    ] {
        assert!(html.contains(expected), "{expected}: {html}");
    }
    assert!(!html.contains("/ui/agents/revoke") && !html.contains("No agents yet"), "{html}");
}

#[test]
fn many_agents_are_bounded() {
    let tokens = (0..2_000).map(|n| token(&format!("agent-{n}"), (n % 2 == 0).then_some(NOW_MS))).collect();
    let html = shown(&facts(tokens), Said::default());
    assert!(html.contains("800 more") && html.contains("30 revoked"), "{}", html.len());
    assert!(html.len() < 500_000, "{}", html.len());
}

#[test]
fn a_new_token_starts_with_nothing() {
    let html = shown(&facts(vec![]), Said::default());
    let form = html.split("id=\"new\"").nth(1).unwrap();
    assert!(!form.contains(" checked") && !form.contains("value=\"*\""), "{form}");
    assert!(form.contains("name=\"servers_of\" value=\"all\" required>"), "{form}");
    assert!(form.contains("name=\"grants\"") && form.contains("files:*\" value=\"\">"), "{form}");
}

#[test]
fn forms_become_scopes() {
    let known = ["fx".to_owned(), "time".to_owned()];
    let form = |boxes: &[(&str, bool)], change: &dyn Fn(&mut NewAgent)| {
        let operations = Variant::ALL.map(|variant| (variant.operation(), true));
        let grants = "*".to_owned();
        let mut typed =
            NewAgent { name: "ci".to_owned(), servers_of: ServersOf::All, operations, grants, ..NewAgent::default() };
        typed.boxes = boxes.iter().map(|(name, is_on)| ((*name).to_owned(), *is_on)).collect();
        change(&mut typed);
        typed.scope(&known)
    };
    let boxes = [("fx", true), ("time", false)];
    let all = form(&boxes, &|_| {}).unwrap();
    assert_eq!((all.servers, all.operations.len(), all.grants.len()), (None, 3, 1));
    let some = form(&boxes, &|typed| {
        typed.servers_of = ServersOf::Some;
        typed.grants = "files:*, emails:send".to_owned();
        typed.operations[2].1 = false;
    });
    let some = some.unwrap();
    assert_eq!(some.servers.unwrap(), [ServerName::parse("fx").unwrap()]);
    assert_eq!((some.operations.len(), some.grants), (2, vec!["files:*".to_owned(), "emails:send".to_owned()]));
    let check = |change: &dyn Fn(&mut NewAgent), expected: &str| {
        let error = form(&[("fx", false)], change).unwrap_err();
        assert!(error.contains(expected), "{error}");
    };
    check(&|typed| typed.name = String::new(), "name");
    check(&|typed| typed.servers_of = ServersOf::Some, "at least one server");
    check(&|typed| typed.servers_of = ServersOf::Unchosen, "Choose the servers");
    check(&|typed| typed.operations = typed.operations.map(|(name, _)| (name, false)), "at least one operation");
    check(&|typed| typed.grants = "files:**".to_owned(), "not valid");
    let unknown = form(&[], &|typed| {
        typed.servers_of = ServersOf::Some;
        typed.servers = "<b>".to_owned();
    });
    assert!(unknown.unwrap_err().contains("no server with the name"));
}
