//! The page of agents: creating and revoking tokens.

use http::{Method, StatusCode};

use super::people::Person;
use super::{Fixture, KEY, NOW_MS, refusal, text};
use mcpproxy_core::Variant;
use mcpproxy_store::{Kind, NewRecord};

const PATH: &str = "/ui/agents";

async fn page(fixture: &Fixture, person: &Person) -> String {
    let response = fixture.send(Method::GET, PATH, &[("cookie", person.cookie.as_str())]).await;
    assert_eq!(response.status(), 200);
    text(response).await
}

async fn post(fixture: &Fixture, person: &Person, path: &str, fields: &str) -> (StatusCode, String) {
    let response = fixture.post(person, path, fields).await;
    assert_eq!(response.headers()["cache-control"], "no-store");
    (response.status(), text(response).await)
}

fn token(html: &str) -> String {
    html.split("id=\"token\">").nth(1).unwrap().split('<').next().unwrap().to_owned()
}

#[tokio::test]
async fn a_token_is_shown_once_and_can_be_revoked() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    assert!(page(&fixture, &person).await.contains("No agents yet"));
    let fields = "name=ci&servers_of=all&read=on&grants=files%3A*";
    let response = fixture.post_plainly(&person, PATH, fields).await;
    assert_eq!(response.status(), 403, "a session alone is not enough");
    assert!(text(response).await.contains("value=\"ci\""), "what was typed stays");
    let (status, html) = post(&fixture, &person, PATH, fields).await;
    assert_eq!(status, 200);
    let token = token(&html);
    let agent = fixture.store.find_agent(&token).await.unwrap().unwrap();
    assert_eq!((agent.name.as_str(), agent.scope.operations), ("ci", vec![Variant::Read]));
    assert_eq!((agent.scope.grants, agent.scope.servers), (vec!["files:*".to_owned()], None));
    let shown = page(&fixture, &person).await;
    assert!(!shown.contains(&token) && shown.contains("files:*"), "{shown}");
    assert!(html.contains("data-reload=\"/ui/agents?done=created\""), "{html}");
    // A reload without JavaScript sends the form again.
    let again = fixture.post(&person, PATH, fields).await;
    let target = again.headers()["location"].to_str().unwrap().to_owned();
    assert_eq!((again.status(), target.as_str()), (StatusCode::SEE_OTHER, "/ui/agents?done=created"));
    assert_eq!(fixture.store.list_tokens().await.unwrap().len(), 1, "no second token");
    let response = fixture.send(Method::GET, &target, &[("cookie", person.cookie.as_str())]).await;
    let shown = text(response).await;
    assert!(shown.contains("It was shown once") && !shown.contains(&token), "{shown}");
    // The same form of another user is not a repeated one. Otherwise, that user would revoke this token.
    let ben = fixture.person("ben", "no hash").await;
    let (status, other) = post(&fixture, &ben, PATH, fields).await;
    assert_eq!(status, 422);
    assert!(other.contains("An agent with this name has a token already."), "{other}");
    let (status, other) = post(&fixture, &person, PATH, "name=ci&servers_of=all&read=on&write=on&grants=").await;
    assert_eq!(status, 422, "the name is taken");
    assert!(other.contains("Revoke it first, or choose another name."), "{other}");

    let answer = fixture.post_plainly(&person, "/ui/agents/revoke", "name=ci").await;
    assert_eq!((answer.status(), answer.headers()["location"].to_str().unwrap()), (StatusCode::SEE_OTHER, PATH));
    assert!(fixture.store.find_agent(&token).await.unwrap().is_none());
    assert_eq!(fixture.post_plainly(&person, "/ui/agents/revoke", "name=ci").await.status(), 409);
    let records = fixture.get("/api/v1/activity?type=auth&limit=50").await;
    let records = records["activities"].as_array().unwrap().clone();
    for code in ["token_created", "token_revoked"] {
        let record = records.iter().find(|one| one["code"] == code).unwrap();
        assert!(record.to_string().contains("anna") && record.to_string().contains("ci"), "{record}");
    }
    assert!(!format!("{records:?}").contains(&token), "no record has the token");
    fixture.stop().await;
}

#[tokio::test]
async fn a_scope_is_changed() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let secret = fixture.agent("ci").await;
    let secret = secret.strip_prefix("Bearer ").unwrap();
    let edit = "/ui/agents/edit";
    let response = fixture.send(Method::GET, &format!("{edit}?name=ci"), &[("cookie", person.cookie.as_str())]).await;
    assert_eq!(response.status(), 200);
    assert!(text(response).await.contains("Change what ci may do"));
    // Less needs no more than the session.
    let narrow = fixture.post_plainly(&person, edit, "name=ci&servers_of=all&read=on&grants=").await;
    assert_eq!(
        (narrow.status().as_u16(), narrow.headers()["location"].to_str().unwrap()),
        (303, "/ui/agents?done=changed")
    );
    let scope = async || fixture.store.find_agent(secret).await.unwrap().unwrap().scope;
    assert_eq!((scope().await.operations, scope().await.grants), (vec![Variant::Read], vec![]));
    let wide = "name=ci&servers_of=all&read=on&write=on&grants=files%3A*";
    let refused = fixture.post_plainly(&person, edit, wide).await;
    assert_eq!(refused.status(), 403, "more needs a proof of presence");
    assert!(text(refused).await.contains("value=\"files:*\""), "what was typed stays");
    assert_eq!(scope().await.operations, [Variant::Read]);
    assert_eq!(post(&fixture, &person, edit, wide).await.0, 303);
    assert_eq!(scope().await.operations, [Variant::Read, Variant::Write]);
    for (fields, expected) in [("name=ci&servers_of=all", 422), ("name=none&servers_of=all&read=on", 409)] {
        assert_eq!(post(&fixture, &person, edit, fields).await.0, expected, "{fields}");
    }
    let records = fixture.get("/api/v1/activity?code=token_changed&limit=50").await;
    let record = &records["activities"][0];
    assert_eq!((&record["status"], &record["metadata"]["user"]), (&"success".into(), &"anna".into()), "{record}");
    assert_eq!(record["metadata"]["before"]["operations"], serde_json::json!(["read"]), "{record}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_scope_is_changed_over_rest() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    fixture.agent("ci").await;
    let headers = [("cookie", person.cookie.as_str()), ("x-csrf-token", person.csrf.as_str())];
    let send = async |body: serde_json::Value| {
        let response = fixture.request(Method::POST, "/api/v1/tokens/ci", &headers, body.to_string()).await;
        (response.status().as_u16(), text(response).await)
    };
    let narrow = serde_json::json!({"grants": ["files:*"], "servers": [], "operations": ["read"]});
    let (status, answer) = send(narrow.clone()).await;
    assert_eq!(status, 200, "{answer}");
    let mut wide = serde_json::json!({"grants": ["*"], "servers": null, "operations": ["read"]});
    let (status, answer) = send(wide.clone()).await;
    assert!(status == 403 && answer.contains("page_key_required"), "{answer}");
    wide["page_key"] = person.page_key.clone().into();
    assert_eq!(send(wide).await.0, 200);
    assert_eq!(fixture.store.find_scope("ci").await.unwrap().unwrap().grants, ["*"]);
    for (name, value) in [("grants", "**"), ("operations", "fly"), ("servers", "A B")] {
        let mut bad = narrow.clone();
        bad[name] = serde_json::json!([value]);
        let (status, answer) = send(bad).await;
        assert!(status == 400 && answer.contains("bad_body"), "{name} {answer}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn bad_forms() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    for fields in [
        "name=a&servers_of=all",
        "name=a&read=on",
        "name=&servers_of=all&read=on",
        "name=a%2Fb%3Cscript%3E&servers_of=all&read=on",
        "name=a&servers_of=some&read=on",
        "name=a&servers_of=some&read=on&servers=%3Cscript%3E",
        "name=a&servers_of=all&read=on&grants=%3Cscript%3E",
    ] {
        let (status, html) = post(&fixture, &person, PATH, fields).await;
        assert_eq!(status, 422, "{fields}");
        assert!(html.contains("role=\"alert\"") && !html.contains("<script>"), "{fields} {html}");
    }
    assert!(fixture.store.list_tokens().await.unwrap().is_empty());
    fixture.stop().await;
}

#[tokio::test]
async fn calls_and_clients_of_agents() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    fixture.agent("cursor").await;
    for (number, hours) in [200, 2, 1].into_iter().enumerate() {
        let random = number.try_into().unwrap();
        let record = NewRecord { kind: Kind::Call, random, time_ms: NOW_MS - hours * super::HOUR_MS, ..refusal(0) };
        fixture.call(record, "{}").await;
    }
    let dry_run = NewRecord { kind: Kind::Call, metadata: r#"{"dry_run":"server"}"#.to_owned(), ..refusal(1) };
    fixture.call(dry_run, "{}").await;
    fixture.note(refusal(1)).await;
    let html = page(&fixture, &person).await;
    assert!(html.contains("<span class=\"num\">2</span> destructive"), "{html}");
    let overview = fixture.send(Method::GET, "/ui/?days=7", &[("cookie", person.cookie.as_str())]).await;
    let overview = text(overview).await;
    assert!(overview.contains("2 calls in the last 7 days: 0 read, 0 write, 2 destructive."), "{overview}");
    for page in [html, overview] {
        assert!(page.contains("Refused calls, dry runs and repeated answers do not count."), "{page}");
    }
    let answer = fixture.send(Method::GET, PATH, &[("x-api-key", KEY)]).await;
    assert_eq!(answer.status(), 403, "the admin key has no pages");
    fixture.stop().await;
}
