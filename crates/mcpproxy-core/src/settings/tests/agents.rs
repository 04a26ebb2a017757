//! Tests for the `agents` section, and for the mapping of claims to agents.

use std::collections::BTreeMap;

use super::World;
use super::bad::check;
use crate::settings::{AgentOAuth, NoAgent, TokenClaims, is_provider_agent, parse};
use crate::{Agent, Scope};

/// Claims by name. A text with spaces is also a list, as in a token.
struct Claims(BTreeMap<&'static str, &'static str>);

impl TokenClaims for Claims {
    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).copied().filter(|text| !text.is_empty())
    }

    fn list(&self, name: &str) -> Vec<&str> {
        self.0.get(name).map(|text| text.split_ascii_whitespace().collect()).unwrap_or_default()
    }
}

fn oauth(fields: &str) -> AgentOAuth {
    let comma = if fields.is_empty() { "" } else { ", " };
    let text = format!(
        r#"{{"agents": {{"oauth": {{"issuer": "https://id.example.com/realms/a/", "audience": "https://gw/mcp"{comma}{fields}}}}}}}"#
    );
    parse(&text, &World).unwrap().agents.oauth.unwrap()
}

/// Writes an agent as `name: operations on servers with permissions`.
fn words(agent: Result<Agent, NoAgent>) -> String {
    match agent {
        Err(error) => format!("refused: {error}"),
        Ok(Agent { name, scope: Scope { grants, servers, operations, headless } }) => {
            let servers = servers
                .map_or("all".to_owned(), |names| names.iter().map(ToString::to_string).collect::<Vec<_>>().join(","));
            let operations: Vec<&str> = operations.iter().map(|variant| variant.operation()).collect();
            let unattended = if headless { ", unattended" } else { "" };
            format!("{name}: [{}] on [{servers}] with [{}]{unattended}", operations.join(","), grants.join(","))
        }
    }
}

#[track_caller]
fn mapped(fields: &str, claims: &[(&'static str, &'static str)], expected: &str) {
    let claims = Claims(claims.iter().copied().collect());
    assert_eq!(words(oauth(fields).agent(&claims)), expected);
}

#[test]
fn without_a_mapping_a_token_may_read() {
    mapped("", &[("sub", "anna")], "anna@id.example.com/realms/a: [read] on [all] with []");
    mapped(
        r#""claims": {"name": "email"}"#,
        &[("sub", "7"), ("email", "anna@example.com"), ("scope", "write destructive *")],
        "anna@example.com@id.example.com/realms/a: [read] on [all] with []",
    );
}

#[test]
fn claims_that_list_servers_operations_and_permissions() {
    let all = r#""claims": {"servers": "srv", "operations": "ops", "permissions": "scope"}"#;
    mapped(
        all,
        &[
            ("sub", "a"),
            ("srv", "files Mail! github"),
            ("ops", "write read admin"),
            ("scope", "emails:send a*b files:*"),
        ],
        "a@id.example.com/realms/a: [read,write] on [files,github] with [emails:send,files:*]",
    );
    mapped(all, &[("sub", "a")], "a@id.example.com/realms/a: [] on [] with []");
    mapped(all, &[("sub", "a"), ("srv", "files *")], "a@id.example.com/realms/a: [] on [all] with []");
    mapped(
        r#""claims": {"permissions": "scope"}"#,
        &[("sub", "a"), ("scope", "files:*")],
        "a@id.example.com/realms/a: [read] on [all] with [files:*]",
    );
}

#[test]
fn the_first_entry_that_matches_decides() {
    let allow = r#""claims": {"allow": [
        {"claim": "groups", "contains": "devs", "servers": ["github"], "operations": ["read", "write"], "permissions": ["issues:*"]},
        {"claim": "azp", "contains": "night job", "operations": ["destructive"], "headless": true},
        {"claim": "groups", "contains": "staff"}
    ]}"#;
    let check = |claims: &[(&'static str, &'static str)], expected: &str| mapped(allow, claims, expected);
    check(
        &[("sub", "a"), ("groups", "staff devs")],
        "a@id.example.com/realms/a: [read,write] on [github] with [issues:*]",
    );
    check(&[("sub", "a"), ("groups", "staff")], "a@id.example.com/realms/a: [read] on [all] with []");
    check(
        &[("sub", "a"), ("azp", "night job")],
        "a@id.example.com/realms/a: [destructive] on [all] with [], unattended",
    );
    let refused = "refused: no entry of `agents.oauth.claims.allow` matches the token";
    check(&[("sub", "a"), ("groups", "devs2 dev"), ("azp", "night")], refused);
    check(&[("sub", "a")], refused);
    mapped(r#""claims": {"allow": []}"#, &[("sub", "a")], refused);
    mapped(
        r#""claims": {"allow": [{"operations": []}]}"#,
        &[("sub", "a")],
        "a@id.example.com/realms/a: [] on [all] with []",
    );
}

#[test]
fn names_that_cannot_be_used_are_refused() {
    let refused = "refused: the token has no usable claim `sub` to name its agent (`agents.oauth.claims.name`)";
    let long: &'static str = Box::leak("a".repeat(129).into_boxed_str());
    for name in ["", "a b", "ä", "a\n", "a\"b", "<b>", long] {
        mapped("", &[("sub", name)], refused);
    }
    mapped("", &[], refused);
    for name in ["auth0|5f7c8ec7", "anna@example.com", "https://a/b", "a+b=c~d:e_f.g-h"] {
        let expected: &'static str =
            Box::leak(format!("{name}@id.example.com/realms/a: [read] on [all] with []").into_boxed_str());
        mapped("", &[("sub", name)], expected);
    }
    mapped(
        r#""blocked": ["anna", "ben"]"#,
        &[("sub", "ben")],
        "refused: the operator has blocked this agent (`agents.oauth.blocked`)",
    );
    assert!(is_provider_agent("anna@id.example.com") && !is_provider_agent("anna") && !is_provider_agent("anonymous"));
}

#[test]
fn clients_ask_for_the_scopes_that_entries_look_for() {
    let scopes = |fields: &str| oauth(fields).requested_scopes().join(" ");
    assert_eq!(scopes(""), "");
    assert_eq!(scopes(r#""scopes": ["openid", "mcp"]"#), "openid mcp");
    let allow = r#""scopes": ["mcp"], "claims": {"allow": [
        {"claim": "scope", "contains": "mcp"}, {"claim": "scope", "contains": "mcp:write"},
        {"claim": "groups", "contains": "devs"}]}"#;
    assert_eq!(scopes(allow), "mcp mcp:write");
}

#[test]
fn issuers() {
    let check_issuer = |issuer: &str, expected: Option<&str>| {
        let text = format!(r#"{{"agents": {{"oauth": {{"issuer": "{issuer}", "audience": "a"}}}}}}"#);
        let expected = expected.map(|error| format!("line 1, column 33: {error}"));
        check(&text, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    };
    for good in [
        "https://id.example.com",
        "https://id.example.com:8443/realms/main/",
        "http://localhost:4444",
        "http://127.0.0.1:4444",
        "http://[::1]:4444",
    ] {
        check_issuer(good, None);
    }
    let bad = "expected the URL of an identity provider such as \"https://id.example.com\", without `@`, query or `#`";
    for text in ["", "id.example.com", "https://", "https://u@a", "https://a?b", "https://a#b", "ftp://a", " https://a"]
    {
        check_issuer(text, Some(bad));
    }
    let open = "the keys that check tokens would cross the network unprotected; write `https://` (`http://` is accepted \
                for localhost only)";
    for text in ["http://id.example.com", "http://10.0.0.1", "http://localhost.example.com", "http://a.localhost"] {
        check_issuer(text, Some(open));
    }
}

#[test]
fn mistakes_name_the_key_and_what_to_write() {
    check(
        r#"{"agents": {"oauth": {}}}"#,
        &[
            "line 1, column 22: `issuer` is missing; write the URL of your identity provider",
            "line 1, column 22: `audience` is missing; write the public URL of `/mcp`",
        ],
    );
    let fields = |fields: &str| {
        format!("{{\"agents\": {{\"oauth\": {{\"issuer\": \"https://a\", \"audience\": \"a\",\n{fields}}}}}}}")
    };
    check(
        &fields(r#""client_id": "x", "resource": "y""#),
        &[
            "line 2, column 1: unknown key `client_id`; the gateway only checks tokens; the agents' clients register themselves; remove it",
            "line 2, column 19: unknown key `resource`; did you mean `audience`?",
        ],
    );
    check(
        &fields(r#""claims": {"servers": "s", "allow": []}"#),
        &["line 2, column 12: `servers` and `allow` cannot be combined; remove one of them"],
    );
    check(
        &fields(
            r#""claims": {"allow": [{"claim": "groups"}, {"contains": "x", "headless": true}, {"operations": ["admin"]}]}"#,
        ),
        &[
            "line 2, column 22: `claim` without `contains`; add it, or remove `claim`",
            "line 2, column 43: `contains` without `claim`; add it, or remove `contains`",
            "line 2, column 96: unknown value `admin`; write one of `read`, `write`, `destructive`",
        ],
    );
    check(
        &fields(r#""scopes": ["a b"], "blocked": ["ä"]"#),
        &[
            "line 2, column 12: expected a scope such as \"mcp:read\", without spaces or quotes",
            "line 2, column 32: expected a value of the claim that names agents (`claims.name`), such as \"anna\"",
        ],
    );
}
