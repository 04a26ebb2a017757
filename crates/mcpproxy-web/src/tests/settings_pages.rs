//! Tests of the settings page and its forms.

use std::sync::Arc;

use http::{Method, StatusCode};
use mcpproxy_core::review::weakening::{Rules, Weaker};
use mcpproxy_core::settings::{Unclassified, Unresolved, parse};
use mcpproxy_gateway::{HeldChanges, Verification};
use mcpproxy_store::{FullReason, Kind, NewRecord, Status, VerifiedLog, VerifyExtent};
use sqlx::{Connection as _, SqliteConnection};
use tokio::time::timeout;

use super::people::{Person, code_at};
use super::{Fixture, NOW_MS, PATIENCE, refusal, text};

async fn page(fixture: &Fixture, person: &Person) -> String {
    let response = fixture.send(Method::GET, "/ui/settings", &[("cookie", &person.cookie)]).await;
    assert_eq!(response.status(), StatusCode::OK);
    text(response).await
}

/// A setting that was stricter.
fn held() -> HeldChanges {
    let mut old = Rules::default();
    old.settings.unclassified = Unclassified::Deny;
    HeldChanges { digest: "9f86d081".to_owned(), weaker: Weaker::between(&old, &Rules::default(), &[]) }
}

#[tokio::test]
async fn settings_are_shown_with_their_source() {
    let file = "{\n \"listen\": \"127.0.0.1:8080\",\n \"approvals\": {\"notify\": {\"webhook\": {\"url\": \
                \"https://hooks.example.com/hidden-key\",\n \"secret\": \"${env:HOOK}\"}}}}";
    let settings = parse(file, &Unresolved).unwrap();
    let fixture = Fixture::with(settings).await;
    let anna = fixture.person("anna", "no hash").await;
    let html = page(&fixture, &anna).await;
    for part in ["mcp_config.json:2", "environment variable HOOK (mcp_config.json:4)", "set, not shown", "SQLite"] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert!(!html.contains("hidden-key"), "{html}");
    assert!(html.contains("anna") && html.contains("on, can approve"), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn a_failed_reload_is_shown_with_its_lines() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    fixture.gateway.reload_failed("/data/mcp_config.json:3:1: unknown key `<b>`".to_owned());
    let html = page(&fixture, &anna).await;
    assert!(html.contains("The last reload failed"), "{html}");
    assert!(html.contains("/data/mcp_config.json:3:1: unknown key `&lt;b&gt;`"), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn held_changes_need_presence_and_their_factor() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    assert!(!page(&fixture, &anna).await.contains("/ui/settings/apply"));
    fixture.gateway.hold(Some(held()));
    let html = page(&fixture, &anna).await;
    assert!(html.contains("1 change waits for you") && html.contains("contracts.unclassified"), "{html}");
    assert!(html.contains("value=\"9f86d081\"") && html.contains("name=\"totp\""), "{html}");
    let status = async |fields: &str| {
        fixture.post_plainly(&anna, "/ui/settings/apply", &format!("digest=9f86d081&{fields}")).await.status()
    };
    assert_eq!(status("").await, StatusCode::FORBIDDEN, "a cookie is not enough");
    assert_eq!(status("totp=000000").await, StatusCode::FORBIDDEN);
    assert_eq!(status(&format!("totp={}", code_at(0))).await, StatusCode::SEE_OTHER);
    fixture.stop().await;
}

#[tokio::test]
async fn the_log_is_verified_in_the_background() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    fixture.note(refusal(1)).await;
    assert!(page(&fixture, &anna).await.contains("not verified here yet"));
    assert_eq!(fixture.post(&anna, "/ui/settings/verify", "").await.status(), StatusCode::SEE_OTHER);
    assert!(verified(&fixture).await.is_intact());
    let html = page(&fixture, &anna).await;
    assert!(html.contains("The log is intact.") && html.contains("by anna"), "{html}");
    let codes = fixture.codes().await;
    assert!(codes.iter().any(|code| code == mcpproxy_gateway::LOG_VERIFIED), "{codes:?}");
    let last = fixture.gateway.last_verification().await.unwrap().unwrap();
    assert!(last.metadata.for_json().contains("anna"), "{last:?}");
    fixture.stop().await;
}

#[tokio::test]
async fn everything_can_be_verified() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    fixture.note(refusal(1)).await;
    let html = page(&fixture, &anna).await;
    assert!(html.contains(">Verify now</button>") && html.contains(">Verify everything</button>"), "{html}");
    assert_eq!(fixture.post(&anna, "/ui/settings/verify", "extent=everything").await.status(), StatusCode::SEE_OTHER);
    assert_eq!(verified(&fixture).await.full, Some(FullReason::Asked));
    fixture.stop().await;
}

/// A verification of new lines is not called one of the whole log.
#[tokio::test]
async fn lines_that_were_not_read_again_are_named() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let part = NewRecord {
        kind: Kind::Settings,
        status: Status::Success,
        code: Some(mcpproxy_gateway::LOG_VERIFIED.to_owned()),
        message: Some("intact since the last verification: 7 new lines".to_owned()),
        metadata: format!("{{\"user\":\"anna\",\"full\":false,\"last_full_ms\":{}}}", NOW_MS - 3 * 86_400_000),
        ..refusal(0)
    };
    fixture.note(part).await;
    let html = page(&fixture, &anna).await;
    for part in ["The log is intact since the last verification.", "Earlier lines were not read again.", "7 new lines"]
    {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert!(!html.contains("The log is intact.</strong>"), "{html}");
    fixture.stop().await;
}

/// A changed record is found, and both pages say so.
#[tokio::test]
async fn damage_is_shown() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let id = fixture.note(refusal(1)).await;
    let path = format!("sqlite:{}", fixture.folder.path().join("mcpproxy.db").display());
    let mut behind = SqliteConnection::connect(&path).await.unwrap();
    sqlx::query("UPDATE records SET tool = 'list_users'").execute(&mut behind).await.unwrap();
    behind.close().await.unwrap();
    assert!(fixture.gateway.verify_log("anna", VerifyExtent::SinceLast));
    let found = verified(&fixture).await;
    assert!(!found.is_intact() && found.summary().contains(&id.to_string()), "{}", found.summary());
    let html = page(&fixture, &anna).await;
    assert!(html.contains("The log is damaged."), "{html}");
    let overview = text(fixture.send(Method::GET, "/ui/", &[("cookie", &anna.cookie)]).await).await;
    assert!(overview.contains("The last verification found damage"), "{overview}");
    fixture.stop().await;
}

/// Each gateway of a database has its own state. The record tells it what another one found.
#[tokio::test]
async fn everything_is_verified_after_another_gateway_found_damage() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let damaged = NewRecord {
        kind: Kind::Settings,
        status: Status::Error,
        code: Some(mcpproxy_gateway::LOG_VERIFIED.to_owned()),
        message: Some("chain x is damaged".to_owned()),
        metadata: "{\"user\":\"ben\",\"full\":true}".to_owned(),
        ..refusal(0)
    };
    fixture.note(damaged.clone()).await;
    let part = NewRecord {
        status: Status::Success,
        message: Some("intact since the last verification: 7 new lines".to_owned()),
        metadata: format!("{{\"user\":\"ben\",\"full\":false,\"last_full_ms\":{NOW_MS}}}"),
        ..damaged
    };
    fixture.note(part).await;
    let overview = async || text(fixture.send(Method::GET, "/ui/", &[("cookie", &anna.cookie)]).await).await;
    let alarm = "The last verification found damage";
    assert!(overview().await.contains(alarm), "the new lines alone do not end the alarm");

    let mut commits = fixture.ledger.committed();
    assert_eq!(fixture.post(&anna, "/ui/settings/verify", "").await.status(), StatusCode::SEE_OTHER);
    loop {
        commits.mark_unchanged();
        let last = fixture.gateway.last_verification().await.unwrap().unwrap();
        if last.metadata.for_json().contains("anna") {
            break;
        }
        timeout(PATIENCE, commits.changed()).await.unwrap().unwrap();
    }
    let Verification::Ended { result, .. } = fixture.gateway.verification() else { panic!("it has ended") };
    assert_eq!(result.unwrap().full, Some(FullReason::Asked), "not only the new lines");
    assert!(!overview().await.contains(alarm));
    fixture.stop().await;
}

/// Waits for the record of the verification, which is written after its end.
async fn verified(fixture: &Fixture) -> Arc<VerifiedLog> {
    let mut commits = fixture.ledger.committed();
    loop {
        commits.mark_unchanged();
        if fixture.gateway.last_verification().await.unwrap().is_some() {
            break;
        }
        timeout(PATIENCE, commits.changed()).await.unwrap().unwrap();
    }
    match fixture.gateway.verification() {
        Verification::Ended { result, .. } => result.unwrap(),
        other => panic!("{other:?}"),
    }
}

fn ends(html: &str) -> Vec<String> {
    let parts = html.split("name=\"session\" value=\"").skip(1);
    parts.map(|part| part.split('"').next().unwrap().to_owned()).collect()
}

#[tokio::test]
async fn sessions_are_listed_and_ended() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let elsewhere = fixture.session("anna").await;
    let phone = "Mozilla/5.0 (Linux; Android 10; K) AppleWebKit/537.36 Chrome/140.0.0.0 Mobile Safari/537.36";
    let headers = [("cookie", elsewhere.cookie.as_str()), ("user-agent", phone)];
    assert_eq!(fixture.send(Method::GET, "/ui/account", &headers).await.status(), 200);
    let html = page(&fixture, &anna).await;
    assert!(html.contains("Chrome on Android") && html.contains("this browser"), "{html}");
    let path = "/ui/settings/sessions/end";
    let of = |secret: &str| mcpproxy_store::SessionId::of(secret).to_string();
    let secret = |person: &Person| person.cookie.split_once('=').unwrap().1.to_owned();
    let (own, other) = (of(&secret(&anna)), of(&secret(&elsewhere)));
    assert!(ends(&html).contains(&own) && ends(&html).contains(&other), "{html}");
    assert!(!html.contains(&secret(&elsewhere)), "no secret is on the page");
    // A stolen cookie must not sign out the user everywhere else.
    let refused = fixture.post_plainly(&anna, path, &format!("session={other}")).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let headers = [("cookie", elsewhere.cookie.as_str())];
    assert_eq!(fixture.send(Method::GET, "/ui/settings", &headers).await.status(), 200, "it is still open");
    let ended = fixture.post(&anna, path, &format!("session={other}")).await;
    let target = ended.headers()["location"].to_str().unwrap();
    assert_eq!((ended.status(), target), (StatusCode::SEE_OTHER, "/ui/settings?done=session"));
    let headers = [("cookie", elsewhere.cookie.as_str())];
    assert_eq!(fixture.send(Method::GET, "/ui/settings", &headers).await.status(), 303, "it has ended");
    assert_eq!(fixture.post_plainly(&anna, path, &format!("session={other}")).await.status(), 409);
    // Signing out needs no more than the session.
    let ended = fixture.post_plainly(&anna, path, &format!("session={own}")).await;
    assert_eq!(ended.headers()["location"].to_str().unwrap(), "/ui/login");
    assert_eq!(fixture.send(Method::GET, "/ui/settings", &[("cookie", &anna.cookie)]).await.status(), 303);
    fixture.stop().await;
}

#[tokio::test]
async fn a_stolen_cookie_does_not_end_the_sessions_of_others() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let ben = fixture.person("ben", "no hash").await;
    let secret = ben.cookie.split_once('=').unwrap().1;
    let fields = format!("session={}", mcpproxy_store::SessionId::of(secret));
    let path = "/ui/settings/sessions/end";
    let refused = fixture.post_plainly(&anna, path, &fields).await;
    assert_eq!(refused.status(), StatusCode::FORBIDDEN);
    let html = text(refused).await;
    assert!(html.contains("<details open><summary>End") && html.contains("id=\"session-asked-password\""), "{html}");
    let is_open = async || fixture.send(Method::GET, "/ui/settings", &[("cookie", &ben.cookie)]).await.status() == 200;
    assert!(is_open().await);
    assert_eq!(fixture.post(&anna, path, &fields).await.status(), StatusCode::SEE_OTHER);
    assert!(!is_open().await);
    let records = fixture.get("/api/v1/activity?code=session_closed").await;
    let record = &records["activities"][0];
    assert_eq!((&record["metadata"]["user"], &record["metadata"]["of"]), (&"anna".into(), &"ben".into()), "{record}");
    fixture.stop().await;
}
