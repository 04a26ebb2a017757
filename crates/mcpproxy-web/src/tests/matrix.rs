//! The auth matrix: every endpoint and page with every credential.
//!
//! The loops run over the rows of the product. The expected statuses are written by hand and not derived from the rows:
//! a wrong `access` in a row must fail here. A row without an expectation fails too.

use axum::body::Body;
use http::{Method, Response};
use mcpproxy_core::{Assurance, RiskLevel};

use super::people::{NO_APPROVAL, Person, code_at};
use super::{Fixture, KEY, path, text};
use crate::auth::password::Passwords;
use crate::rest::endpoint::Endpoint;
use crate::rest::endpoints;
use crate::ui::all_pages;
use crate::ui::page::Page;

/// The expected status for each credential: none, agent token, admin key, session cookie with CSRF token, the same with
/// the page key, and the same with a fresh second factor.
type Row = [u16; 6];

const OPEN: Row = [200, 200, 200, 200, 200, 200];
const READ: Row = [401, 403, 200, 200, 200, 200];
/// A decision about a definition that does not exist.
const REJECTS: &str = r#""reject": [{"kind": "tool", "name": "a", "pin": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"}]"#;
const IDENTITY: &str = r#""identity": "9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08""#;
const READ_NONE: Row = [401, 403, 404, 404, 404, 404];

fn of_endpoint(endpoint: &Endpoint) -> Row {
    match endpoint.name {
        "health" | "ready" | "openapi" | "docs" => OPEN,
        "status" | "cluster" | "metrics" | "clients" | "servers" | "reload" | "refresh_tokens" | "tools"
        | "contracts" | "contract_docs" | "lint_contracts" | "activity" | "activity_summary" | "export_activity"
        | "events" | "approvals" | "approval" | "grants" | "config_versions" => READ,
        // No such server, tool, record or standing approval exists.
        "server_log" | "restart_server" | "tool" | "contract" | "draft_contracts" | "activity_record"
        | "revoke_grant" | "review" | "definitions" | "history" => READ_NONE,
        // Only a user changes a token. No agent has that name.
        "change_token" => [401, 403, 403, 404, 404, 404],
        // Without a query, and without a call.
        "search_tools" | "explain_call" | "replay_calls" => [401, 403, 400, 400, 400, 400],
        // SQLite serves one gateway.
        "check_config" => [401, 403, 409, 409, 409, 409],
        "publish_config" => [401, 403, 403, 403, 409, 409],
        "approval_status" => [401, 200, 200, 200, 200, 200],
        "whole_approval" => [401, 403, 403, 200, 200, 200],
        "approve" => [401, 403, 403, 403, 200, 200],
        "deny" => [401, 403, 200, 200, 200, 200],
        // Agents and the admin key cannot review, and neither can a session cookie alone. No such server exists.
        "decide_review" => [401, 403, 403, 403, 404, 404],
        // The admin key announces only while no user exists.
        "announce_server" => [401, 403, 403, 403, 200, 200],
        "lock" => READ,
        // No such server exists, and no sign-in has begun.
        "sign_in_to_server" => [401, 403, 403, 403, 404, 404],
        "sign_in_progress" => READ_NONE,
        "sign_out_of_server" => [401, 403, 403, 404, 404, 404],
        "apply_config" => [401, 403, 403, 403, 200, 200],
        "make_grant" => [401, 403, 403, 403, 403, 201],
        "log_in" => [200, 403, 403, 200, 200, 200],
        "log_out" => [401, 403, 403, 200, 200, 200],
        new => panic!("say what each credential gets from the endpoint `{new}`"),
    }
}

fn of_page(page: &Page) -> Row {
    match page.name {
        "root" => [303, 303, 303, 303, 303, 303],
        "style" | "script" | "key_script" => OPEN,
        // No sign-in is under way, and there is no https address.
        "oauth_callback" | "oauth_document_callback" => [400, 400, 400, 400, 400, 400],
        "oauth_client" => [404, 404, 404, 404, 404, 404],
        "setup" => [200, 403, 403, 200, 200, 200],
        // Without a password.
        "create_user" => [422, 403, 403, 422, 422, 422],
        "login" => [200, 403, 403, 303, 303, 303],
        // With a wrong password.
        "log_in" => [401, 403, 403, 401, 401, 401],
        "log_out" => [401, 403, 403, 303, 303, 303],
        // No provider is configured. Signed-in users need not sign in again.
        "provider_sign_in" => [404, 403, 403, 303, 303, 303],
        // Without a state.
        "provider_callback" => [400, 403, 403, 400, 400, 400],
        // None of these users signs in with a provider.
        "provider_step_up" => [401, 403, 403, 400, 400, 400],
        "make_recovery_codes" => [401, 403, 403, 403, 403, 200],
        "overview" | "activity" | "tools" | "servers" | "agents" | "settings" | "versions" => {
            [303, 403, 403, 200, 200, 200]
        }
        // SQLite has no version.
        "version" => [303, 403, 403, 404, 404, 404],
        "publish_version" | "publish_challenge" => [401, 403, 403, 404, 404, 404],
        // No such record exists.
        "activity_record" | "activity_session" => [303, 403, 403, 404, 404, 404],
        "account" | "approvals" | "approval" | "whole" | "grants" => [303, 403, 403, 200, 200, 200],
        "new_server" => [303, 403, 403, 200, 200, 200],
        // No server has that name.
        "server" | "review_server" | "whole_definition" | "finish_sign_in" => [303, 403, 403, 404, 404, 404],
        "change_server" | "decide_server" => [401, 403, 403, 404, 404, 404],
        // Without a text, and without a name.
        "add_server" | "create_agent" => [401, 403, 403, 403, 422, 403],
        // No agent has that name.
        "revoke_agent" | "change_agent" => [401, 403, 403, 409, 409, 409],
        "edit_agent" => [303, 403, 403, 404, 404, 404],
        // With an invalid code, and without passkeys.
        "set_totp" | "add_passkey" | "remove_passkey" => [401, 403, 403, 422, 422, 422],
        "challenge" | "approval_challenge" => [401, 403, 403, 400, 400, 400],
        "begin_passkey" => [401, 403, 403, 400, 400, 200],
        // Without a new password.
        "change_password" => [401, 403, 403, 422, 422, 422],
        "invite" => [401, 403, 403, 403, 403, 200],
        // No user has that name.
        "remove_user" => [401, 403, 403, 403, 403, 409],
        // No server is connected, so there is no such tool.
        "tool" | "contract" => [303, 403, 403, 404, 404, 404],
        "explain_tool" | "dry_run_tool" | "change_contract" => [401, 403, 403, 404, 404, 404],
        // None of these users has a passkey.
        "contract_challenge" | "proposal_challenge" => [401, 403, 403, 400, 400, 400],
        "decide" => [401, 403, 403, 403, 303, 303],
        "revoke_grant" => [401, 403, 403, 409, 409, 409],
        "events" => [401, 403, 403, 200, 200, 200],
        "apply_held" => [401, 403, 403, 403, 303, 303],
        // Nothing waits.
        "apply_challenge" => [401, 403, 403, 409, 409, 409],
        // No session has that name.
        "end_session" => [401, 403, 403, 409, 409, 409],
        "verify_log" => [401, 403, 403, 303, 303, 303],
        new => panic!("say what each credential gets from the page `{new}`"),
    }
}

/// One sender for each credential.
struct Crowd {
    fixture: Fixture,
    agent: String,
    person: Person,
    invitation: String,
}

const COLUMNS: [&str; 6] = ["none", "agent", "key", "session", "page", "fresh"];

impl Crowd {
    async fn new() -> Self {
        let fixture = Fixture::new().await;
        let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
        let person = fixture.person("anna", &hash).await;
        let (agent, invitation) = (fixture.agent("cursor").await, fixture.invitation().await);
        Self { fixture, agent, person, invitation }
    }

    /// Creates a user with an unused factor, because each code works only once.
    async fn fresh_person(&self) -> Person {
        self.fixture.person(&format!("p{:08x}", rand::random::<u32>()), "no hash").await
    }

    async fn headers(&self, column: usize, person: &Person) -> Vec<(String, String)> {
        let own = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        match column {
            0 => vec![],
            1 => vec![own("authorization", &self.agent)],
            2 => vec![own("x-api-key", KEY)],
            _ => vec![own("cookie", &person.cookie), own("x-csrf-token", &person.csrf)],
        }
    }

    async fn ask(&self, column: usize, method: Method, path: &str, kind: &str, body: String) -> Response<Body> {
        let person = if column == 5 { self.fresh_person().await } else { self.fixture.session("anna").await };
        let mut headers = self.headers(column, &person).await;
        headers.push(("content-type".to_owned(), kind.to_owned()));
        let headers: Vec<(&str, &str)> = headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
        let body = body.replace("PAGE_KEY", page_key(column, &person));
        self.fixture.request(method, path, &headers, body).await
    }

    async fn question(&self) -> String {
        self.fixture.question(RiskLevel::High, Assurance::Form).await.to_string()
    }
}

/// Returns the page key, if this column has it.
fn page_key(column: usize, person: &Person) -> &str {
    if column == 4 { &person.page_key } else { "" }
}

#[tokio::test]
async fn every_rest_route_with_every_credential() {
    let crowd = Crowd::new().await;
    for endpoint in endpoints() {
        let mut found = [0; 6];
        for (column, status) in found.iter_mut().enumerate() {
            let id = crowd.question().await;
            let path =
                path(endpoint).replace(NO_APPROVAL, if endpoint.name == "revoke_grant" { NO_APPROVAL } else { &id });
            let totp = if column == 5 { format!("\"totp\": \"{}\"", code_at(0)) } else { String::new() };
            let body = match endpoint.name {
                "approve" if totp.is_empty() => "{\"page_key\": \"PAGE_KEY\"}".to_owned(),
                "approve" => format!("{{{totp}}}"),
                "apply_config" if totp.is_empty() => r#"{"digest": "x", "page_key": "PAGE_KEY"}"#.to_owned(),
                "apply_config" => format!("{{\"digest\": \"x\", {totp}}}"),
                "publish_config" => {
                    let proof = if totp.is_empty() { r#""page_key": "PAGE_KEY""#.to_owned() } else { totp };
                    format!(r#"{{"after": 0, "digest": "x", "version": 1, {proof}}}"#)
                }
                "decide_review" if totp.is_empty() => format!("{{{REJECTS}, \"page_key\": \"PAGE_KEY\"}}"),
                "decide_review" => format!("{{{REJECTS}, {totp}}}"),
                "announce_server" if totp.is_empty() => format!("{{{IDENTITY}, \"page_key\": \"PAGE_KEY\"}}"),
                "announce_server" => format!("{{{IDENTITY}, {totp}}}"),
                "sign_in_to_server" if totp.is_empty() => r#"{"page_key": "PAGE_KEY"}"#.to_owned(),
                "sign_in_to_server" => format!("{{{totp}}}"),
                "make_grant" => {
                    let totp = if totp.is_empty() { totp } else { format!(", {totp}") };
                    format!("{{\"from\": \"{id}\", \"schema\": {{}}, \"minutes\": 1, \"uses\": 1{totp}}}")
                }
                "log_in" => r#"{"name": "anna", "password": "correct horse"}"#.to_owned(),
                "change_token" => r#"{"grants": [], "servers": null, "operations": ["read"]}"#.to_owned(),
                _ => String::new(),
            };
            *status =
                crowd.ask(column, endpoint.method.method(), &path, "application/json", body).await.status().as_u16();
        }
        assert_eq!(found, of_endpoint(endpoint), "{endpoint:?} {COLUMNS:?}");
    }
    crowd.fixture.stop().await;
}

#[tokio::test]
async fn every_page_with_every_credential() {
    let crowd = Crowd::new().await;
    for page in all_pages() {
        let mut found = [0; 6];
        for (column, status) in found.iter_mut().enumerate() {
            let id = crowd.question().await;
            let path = page.path.replace("{approval}", &id).replace("{invitation}", &crowd.invitation);
            let path = path.replace("{grant}", NO_APPROVAL).replace("{passkey}", "none").replace("{person}", "none");
            let server = if page.name.starts_with("tool") || page.path.contains("{tool}") { "demo" } else { "none" };
            let path = path.replace("{server}", server).replace("{tool}", "echo").replace("{digest}", "none");
            let path = path.replace("{version}", "1");
            let person = if column == 5 { crowd.fresh_person().await } else { crowd.fixture.session("anna").await };
            let totp = if column == 5 { code_at(0) } else { String::new() };
            let fields = match page.name {
                "decide" => "action=approve",
                "log_in" => "name=nobody&password=wrong",
                "set_totp" => "code=000000",
                "challenge" => "for=/ui/account/invite",
                _ => "",
            };
            let body = if page.method.method() == Method::GET {
                String::new()
            } else {
                format!("csrf={}&page_key={}&totp={totp}&{fields}", person.csrf, page_key(column, &person))
            };
            let mut headers = crowd.headers(column, &person).await;
            headers.retain(|(name, _)| name != "x-csrf-token");
            headers.push(("content-type".to_owned(), "application/x-www-form-urlencoded".to_owned()));
            let headers: Vec<(&str, &str)> =
                headers.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
            let response = crowd.fixture.request(page.method.method(), &path, &headers, body).await;
            *status = response.status().as_u16();
            for name in ["content-security-policy", "x-content-type-options", "referrer-policy"] {
                assert!(response.headers().contains_key(name), "{page:?} {column} {name}");
            }
            let is_kept = response.headers()["cache-control"] != "no-store";
            assert_eq!(is_kept, matches!(page.name, "style" | "script" | "key_script"), "{page:?} {column}");
        }
        assert_eq!(found, of_page(page), "{page:?} {COLUMNS:?}");
    }
    crowd.fixture.stop().await;
}

/// Critical calls, and calls that require a second factor.
#[tokio::test]
async fn what_takes_more_than_a_session() {
    let crowd = Crowd::new().await;
    for (risk, least, rest, page) in [
        (RiskLevel::Critical, Assurance::Session, [401, 403, 403, 403, 200, 200], [401, 403, 403, 403, 303, 303]),
        (RiskLevel::Critical, Assurance::Factor, [401, 403, 403, 403, 403, 200], [401, 403, 403, 403, 403, 303]),
        (RiskLevel::High, Assurance::Factor, [401, 403, 403, 403, 403, 200], [401, 403, 403, 403, 403, 303]),
    ] {
        let mut found = ([0; 6], [0; 6]);
        for (column, expected) in rest.iter().enumerate() {
            let totp = if column == 5 { code_at(0) } else { String::new() };
            let id = crowd.fixture.question(risk, least).await;
            let key = "{\"page_key\": \"PAGE_KEY\"}".to_owned();
            let body = if totp.is_empty() { key } else { format!("{{\"totp\": \"{totp}\"}}") };
            let path = format!("/api/v1/approvals/{id}/approve");
            found.0[column] = crowd.ask(column, Method::POST, &path, "application/json", body).await.status().as_u16();
            let is_approved = crowd.fixture.state(&id).await == "approved";
            assert_eq!(is_approved, *expected == 200, "{risk:?} {least:?} {column}");

            let id = crowd.fixture.question(risk, least).await;
            let kind = "application/x-www-form-urlencoded";
            let body = format!("action=approve&totp={totp}&page_key=PAGE_KEY");
            let path = format!("/ui/approvals/{id}");
            found.1[column] = crowd.ask(column, Method::POST, &path, kind, body).await.status().as_u16();
        }
        assert_eq!(found, (rest, page), "{risk:?} {least:?} {COLUMNS:?}");
    }
    crowd.fixture.stop().await;
}

/// Pages of other sites can make a browser send its cookie, but nothing else.
#[tokio::test]
async fn forged_requests_change_nothing() {
    let crowd = Crowd::new().await;
    let person = &crowd.person;
    let (wrong, right) = ("0".repeat(64), person.csrf.as_str());
    let ours = "http://localhost:8080";
    for (csrf, origin, site) in [
        (None, None, None),
        (Some(wrong.as_str()), None, None),
        (Some(""), None, None),
        (Some(right), Some("http://localhost:5173"), None),
        (Some(right), Some("http://127.0.0.1:8080"), None),
        (Some(right), Some("https://evil.example"), None),
        (Some(right), Some("null"), None),
        (Some(right), Some(ours), Some("cross-site")),
        (Some(right), Some(ours), Some("same-site")),
    ] {
        let mut headers = vec![("cookie", person.cookie.as_str())];
        headers.extend(origin.map(|origin| ("origin", origin)));
        headers.extend(site.map(|site| ("sec-fetch-site", site)));
        let id = crowd.fixture.question(RiskLevel::High, Assurance::Form).await;
        for endpoint in endpoints().filter(|one| !one.method.is_safe() && one.name != "log_in") {
            let mut headers = headers.clone();
            headers.extend(csrf.map(|csrf| ("x-csrf-token", csrf)));
            let path = path(endpoint).replace(NO_APPROVAL, id.as_str());
            let response = crowd.fixture.request(endpoint.method.method(), &path, &headers, String::new()).await;
            assert_eq!(response.status(), 403, "{endpoint:?} {csrf:?} {origin:?} {site:?}");
        }
        headers.push(("content-type", "application/x-www-form-urlencoded"));
        let is_inside = |page: &&Page| !page.method.is_safe() && !matches!(page.name, "create_user" | "log_in");
        for page in all_pages().filter(is_inside) {
            let path = page.path.replace("{approval}", id.as_str()).replace("{grant}", "x").replace("{passkey}", "x");
            let path = path.replace("{person}", "first");
            let path = path.replace("{server}", "demo").replace("{tool}", "echo").replace("{digest}", "x");
            let csrf = csrf.map(|csrf| format!("&csrf={csrf}")).unwrap_or_default();
            let response = crowd.fixture.request(Method::POST, &path, &headers, format!("action=approve{csrf}")).await;
            assert_eq!(response.status(), 403, "{page:?} {csrf:?} {origin:?} {site:?}");
        }
        assert_eq!(crowd.fixture.state(&id).await, "pending");
    }
    // A page of another site must not be able to sign a user in either.
    for path in ["/ui/login", "/api/v1/login"] {
        let headers = [("origin", "http://localhost:5173"), ("content-type", "application/x-www-form-urlencoded")];
        let response = crowd.fixture.request(Method::POST, path, &headers, String::new()).await;
        assert_eq!(response.status(), 403, "{path}");
    }
    crowd.fixture.stop().await;
}

/// The address of a form stays in the browser when it shows the answer.
#[tokio::test]
async fn the_address_of_a_form_leads_to_its_page() {
    let crowd = Crowd::new().await;
    let has_page = |path: &str| all_pages().any(|page| page.path == path && page.method.is_safe());
    let forms: Vec<_> = all_pages().filter(|page| page.sent_from.is_some() && !has_page(page.path)).collect();
    assert!(forms.len() > 5, "{forms:?}");
    for form in forms {
        let path = form.path.replace(['{', '}'], "");
        let response = crowd.fixture.request(Method::GET, &path, &[], String::new()).await;
        let location = response.headers().get("location").map(|location| location.to_str().unwrap());
        assert_eq!((response.status().as_u16(), location), (303, form.sent_from), "{form:?}");
    }
    crowd.fixture.stop().await;
}

/// A user without a second factor can add one, and do nothing else.
#[tokio::test]
async fn without_a_factor_nothing_can_be_decided() {
    let crowd = Crowd::new().await;
    let id = crowd.question().await;
    let new = crowd.fixture.without_factor("newcomer", "no hash").await;
    let headers = [("cookie", new.cookie.as_str()), ("x-csrf-token", new.csrf.as_str())];
    for endpoint in endpoints() {
        let expected = match endpoint.name {
            "health" | "ready" | "openapi" | "docs" => 200,
            "log_in" | "log_out" => continue,
            _ => 403,
        };
        let path = path(endpoint).replace(NO_APPROVAL, &id);
        let response = crowd.fixture.request(endpoint.method.method(), &path, &headers, String::new()).await;
        assert_eq!(response.status(), expected, "{endpoint:?}");
    }
    for page in all_pages().filter(|page| matches!(page.name, "approvals" | "approval" | "grants")) {
        let path = page.path.replace("{approval}", &id);
        let response = crowd.fixture.request(Method::GET, &path, &headers, String::new()).await;
        assert_eq!(
            (response.status().as_u16(), response.headers()["location"].to_str().unwrap()),
            (303, "/ui/account")
        );
    }
    for (path, fields) in [(format!("/ui/approvals/{id}"), "action=approve"), ("/ui/account/invite".to_owned(), "")] {
        assert_eq!(crowd.fixture.post(&new, &path, fields).await.status(), 403, "{path}");
    }
    let account = crowd.fixture.request(Method::GET, "/ui/account", &headers, String::new()).await;
    assert_eq!(account.status(), 200);
    assert!(text(account).await.contains("Add a second factor"));
    crowd.fixture.stop().await;
}

/// Each refused attempt to decide is recorded once.
#[tokio::test]
async fn refused_decisions_are_written_down() {
    let crowd = Crowd::new().await;
    let id = crowd.fixture.question(RiskLevel::High, Assurance::Form).await;
    let tries = [
        (Method::POST, format!("/api/v1/approvals/{id}/approve"), 1),
        (Method::POST, format!("/api/v1/approvals/{id}/approve"), 2),
        (Method::POST, format!("/api/v1/approvals/{id}/deny"), 1),
        (Method::POST, "/api/v1/grants".to_owned(), 1),
        (Method::POST, "/api/v1/grants".to_owned(), 2),
        (Method::DELETE, format!("/api/v1/grants/{id}"), 1),
        (Method::POST, format!("/ui/approvals/{id}"), 1),
        (Method::POST, format!("/ui/approvals/{id}"), 2),
    ];
    for (method, path, column) in &tries {
        let response = crowd.ask(*column, method.clone(), path, "application/json", "{}".to_owned()).await;
        assert_eq!(response.status(), 403, "{path} {column}");
    }
    let stranger = [("authorization", "Bearer mcp_nobody")];
    let path = format!("/api/v1/approvals/{id}/approve");
    assert_eq!(crowd.fixture.request(Method::POST, &path, &stranger, String::new()).await.status(), 403);
    let mut commits = crowd.fixture.ledger.committed();
    let mut count = 0;
    for _ in 0..100 {
        commits.mark_unchanged();
        count = crowd.fixture.codes().await.iter().filter(|code| *code == "approval_decision_refused").count();
        if count >= tries.len() {
            break;
        }
        let _late = tokio::time::timeout(std::time::Duration::from_millis(200), commits.changed()).await;
    }
    assert_eq!(count, tries.len());
    let page = crowd.fixture.get("/api/v1/activity?type=auth&limit=200").await;
    let first = page["activities"].as_array().unwrap().iter().find(|one| one["agent"] == "cursor").unwrap();
    assert_eq!(first["status"], "refused");
    crowd.fixture.stop().await;
}

/// The routes for agents ignore session cookies.
#[tokio::test]
async fn people_are_no_agents() {
    let crowd = Crowd::new().await;
    for path in ["/mcp", "/mcp/direct"] {
        for column in [0, 2, 3] {
            let response = crowd.ask(column, Method::POST, path, "application/json", "{}".to_owned()).await;
            assert_eq!(response.status(), 401, "{path} {column}");
        }
    }
    crowd.fixture.stop().await;
}
