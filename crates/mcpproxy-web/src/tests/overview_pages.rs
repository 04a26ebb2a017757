//! Tests of the overview page.

use http::{Method, StatusCode};
use mcpproxy_core::{Assurance, RiskLevel, Variant};
use mcpproxy_store::{Kind, NewRecord, Status};

use super::people::{Person, about};
use super::{Fixture, NOW_MS, refusal, text};

const HOSTILE: &str = "<script>alert(1)</script>\\u202e";

async fn page(fixture: &Fixture, person: &Person, path: &str) -> String {
    let response = fixture.send(Method::GET, path, &[("cookie", &person.cookie)]).await;
    assert_eq!(response.status(), StatusCode::OK, "{path}");
    text(response).await
}

fn call(hours: i64, intent: Variant) -> NewRecord {
    NewRecord { kind: Kind::Call, status: Status::Success, intent_type: Some(intent), code: None, ..refusal(hours) }
}

#[tokio::test]
async fn a_new_gateway_teaches_the_first_call() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let html = page(&fixture, &anna, "/ui/").await;
    let connect = "mcpproxy --home &#39;/my data&#39; connect";
    // Without the demo server, there is no call to try.
    for part in ["No calls yet", connect, "<strong>Add a server</strong>", "No problems found"] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert!(!html.contains("<svg class=\"chart") && !html.contains("demo:"), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn waiting_calls_come_first() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let args = format!("{{\"to\":\n \"{HOSTILE}\", \"text\": \"{}\"}}", "x".repeat(1_000_000));
    let about = about(&HOSTILE.repeat(20_000));
    let id = fixture.question_about(RiskLevel::High, Assurance::Session, &args, &about).await;
    let html = page(&fixture, &anna, "/ui/").await;
    assert!(html.contains("1 call waits for your decision"), "{html}");
    assert!(html.contains(&format!("href=\"/ui/approvals/{id}\"")), "{html}");
    assert!(html.contains("&lt;script&gt;") && !html.contains("<script>alert"), "{html}");
    assert!(html.len() < 30_000, "{} bytes", html.len());
    assert!(html.find("waits for your decision") < html.find("id=\"attention\""));
    fixture.stop().await;
}

#[tokio::test]
async fn calls_and_refusals_are_shown() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    fixture.call(call(50, Variant::Write), "1").await;
    fixture.note(refusal(1)).await;
    fixture.call(call(0, Variant::Read), "1").await;
    fixture.call(call(0, Variant::Destructive), "1").await;
    let day = page(&fixture, &anna, "/ui/").await;
    let sentence = "2 calls in the last 24 hours: 1 read, 0 write, 1 destructive.";
    for part in [sentence, "<svg class=\"chart", "fill-destructive", "SERVER_MISMATCH", "/ui/tools/demo/delete_user"] {
        assert!(day.contains(part), "{part}\n{day}");
    }
    let week = page(&fixture, &anna, "/ui/?days=7").await;
    let sentence = "3 calls in the last 7 days: 1 read, 1 write, 1 destructive.";
    assert!(week.contains(sentence), "{week}");
    // Anything else is the default.
    assert!(page(&fixture, &anna, "/ui/?days=%22%3E%3Cb%3E").await.contains("in the last 24 hours"));
    fixture.stop().await;
}

#[tokio::test]
async fn what_needs_attention_has_a_link() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    fixture.gateway.reload_failed("/data/mcp_config.json:3:1: unknown key `<b>`".to_owned());
    let html = page(&fixture, &anna, "/ui/").await;
    assert!(html.contains("Settings not loaded"), "{html}");
    assert!(html.contains("mcp_config.json:3:1: unknown key `&lt;b&gt;`"), "{html}");
    assert!(html.contains("href=\"/ui/settings#reloads\""), "{html}");
    fixture.stop().await;
}

/// A log that was written for a while and never verified.
#[tokio::test]
async fn an_unverified_log_is_named() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    assert!(!page(&fixture, &anna, "/ui/").await.contains("verified"));
    let old = NewRecord {
        kind: Kind::Settings,
        status: Status::Success,
        code: Some(mcpproxy_gateway::LOG_VERIFIED.to_owned()),
        time_ms: NOW_MS - 8 * 86_400_000,
        ..refusal(0)
    };
    fixture.note(old).await;
    let html = page(&fixture, &anna, "/ui/").await;
    assert!(html.contains("The activity log was not verified in full for 8 days"), "{html}");
    assert!(html.contains("href=\"/ui/settings#verify\""), "{html}");
    fixture.stop().await;
}

/// A verification of new lines does not count as one of the whole log.
#[tokio::test]
async fn only_a_full_verification_ends_the_reminder() {
    for (days, is_reminded) in [(6, false), (9, true)] {
        let fixture = Fixture::new().await;
        let anna = fixture.person("anna", "no hash").await;
        let full_ms = NOW_MS - days * 86_400_000;
        let part = NewRecord {
            kind: Kind::Settings,
            status: Status::Success,
            code: Some(mcpproxy_gateway::LOG_VERIFIED.to_owned()),
            metadata: format!("{{\"user\":\"anna\",\"full\":false,\"last_full_ms\":{full_ms}}}"),
            ..refusal(0)
        };
        fixture.note(part).await;
        let html = page(&fixture, &anna, "/ui/").await;
        assert_eq!(html.contains("The activity log was not verified in full for 9 days"), is_reminded, "{html}");
        fixture.stop().await;
    }
}
