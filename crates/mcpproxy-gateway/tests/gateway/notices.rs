//! Notifications of new approval requests: a signed webhook with retries, and a command. Neither contains the
//! arguments.

use std::sync::{Arc, Mutex};

use axum::Router;
use axum::extract::Request;
use hmac::{Hmac, KeyInit as _, Mac as _};
use http::{HeaderMap, StatusCode};
use http_body_util::BodyExt;
use mcpproxy_core::settings::{ApprovalSettings, Notify, Secret, Webhook};
use serde_json::{Value, json};
use sha2::Sha256;
use tokio::io::AsyncReadExt as _;
use tokio::net::TcpListener;
use tokio::sync::mpsc;

use crate::agent::{Agent, Way};
use crate::asked::{Got, HIGH, Stage, now_ms, send};
use crate::rig::within;

const SECRET: &str = "sixteen characters";
const ARGS: &str = r#"{"to":"somebody secret","body":"something secret"}"#;
const REASON: &str = r#","intent":{"operation_type":"write","reason":"because of a secret"}"#;

/// Answers with these status codes in turn, then with 204. Returns its URL and the received requests.
async fn webhook(answers: &[StatusCode]) -> (String, mpsc::UnboundedReceiver<(HeaderMap, String)>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let url = format!("http://{}/hook?key=1", listener.local_addr().unwrap());
    let answers = Arc::new(Mutex::new(answers.to_vec()));
    let (tell, told) = mpsc::unbounded_channel();
    let take = move |request: Request| {
        let (answers, tell) = (Arc::clone(&answers), tell.clone());
        async move {
            let (parts, body) = request.into_parts();
            assert_eq!((parts.method.as_str(), parts.uri.to_string().as_str()), ("POST", "/hook?key=1"));
            let body = String::from_utf8(body.collect().await.unwrap().to_bytes().to_vec()).unwrap();
            tell.send((parts.headers, body)).unwrap();
            let mut answers = answers.lock().unwrap();
            if answers.is_empty() { StatusCode::NO_CONTENT } else { answers.remove(0) }
        }
    };
    tokio::spawn(async move { axum::serve(listener, Router::new().fallback(take)).await.unwrap() });
    (url, told)
}

fn notified(url: Option<&str>, command: Option<Vec<String>>) -> ApprovalSettings {
    let webhook = url.map(|url| Webhook { url: Secret::new(url), secret: Secret::new(SECRET) });
    ApprovalSettings { notify: Notify { webhook, command, bell: false }, ..crate::asked::never_held() }
}

/// Verifies the signature and its age.
fn is_signed(headers: &HeaderMap, body: &str) -> bool {
    let signature = headers["x-mcpproxy-signature"].to_str().unwrap();
    let (time, hex) = signature.strip_prefix("t=").unwrap().split_once(",v1=").unwrap();
    let mut mac = Hmac::<Sha256>::new_from_slice(SECRET.as_bytes()).unwrap();
    mac.update(format!("{time}.{body}").as_bytes());
    let expected: String = mac.finalize().into_bytes().iter().map(|byte| format!("{byte:02x}")).collect();
    let age_s = now_ms() / 1000 - time.parse::<i64>().unwrap();
    expected == hex && (0..=60).contains(&age_s)
}

#[tokio::test]
async fn a_webhook_is_signed_and_tried_again() {
    let (url, mut told) = webhook(&[StatusCode::SERVICE_UNAVAILABLE]).await;
    let stage = Stage::new(HIGH, notified(Some(&url), None)).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, REASON)).await.id();
    let (headers, first) = within(told.recv()).await.unwrap();
    assert!(is_signed(&headers, &first) && !is_signed(&headers, &first.replace("high", "low")));
    assert_eq!(headers["content-type"], "application/json");
    let expires_at = jiff::Timestamp::from_millisecond(stage.find(&id).await.expires_ms).unwrap().to_string();
    let expected = json!({
        "event": "approval_requested", "approval_id": id.as_str(), "agent": "a", "tool": "fx:send", "risk_level": "high",
        "risk_said_by": "operator", "approve_url": format!("http://localhost:8080/ui/approvals/{id}"), "expires_at": expires_at,
    });
    assert_eq!(serde_json::from_str::<Value>(&first).unwrap(), expected);
    assert!(!first.contains("secret"), "{first}");
    let (headers, second) = within(told.recv()).await.unwrap();
    assert_eq!(second, first, "the same, once more");
    assert!(is_signed(&headers, &second));
    // A call that shares the approval request sends no notification. A new approval request does.
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id(), id);
    let other = Got::of(&mut agent, &stage.rig, &send("{}", "")).await.id();
    let (_, third) = within(told.recv()).await.unwrap();
    assert_eq!(serde_json::from_str::<Value>(&third).unwrap()["approval_id"], other.as_str());
    assert!(told.try_recv().is_err());
}

/// A notification that fails does not delay the approval request.
#[tokio::test]
async fn a_webhook_that_is_not_there_changes_nothing() {
    let stage =
        Stage::new(HIGH, notified(Some("http://127.0.0.1:1/"), Some(vec!["/no/such/program".to_owned()]))).await;
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.id();
    stage.approve(&id).await.unwrap();
    assert_eq!(Got::of(&mut agent, &stage.rig, &send(ARGS, "")).await.code(), "sent");
}

#[tokio::test]
async fn a_program_is_told_in_its_environment() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    // Bash writes its environment to this socket, and closes it at the end.
    let script = format!("env > /dev/tcp/127.0.0.1/{}", listener.local_addr().unwrap().port());
    let command = ["bash", "-c", &script].map(str::to_owned).to_vec();
    let stage = Stage::new(HIGH, notified(None, Some(command))).await;
    let mut asked = stage.rig.gateway.approvals().requested();
    let mut agent = Agent::new(&stage.rig, Way::Session, "a").await;
    let id = Got::of(&mut agent, &stage.rig, &send(ARGS, REASON)).await.id();
    let written = async {
        let mut text = String::new();
        listener.accept().await.unwrap().0.read_to_string(&mut text).await.unwrap();
        text
    };
    let environment = within(written).await;
    let names = ["MCPPROXY_A", "MCPPROXY_TOOL", "MCPPROXY_RISK"];
    let is_own = |line: &&str| names.iter().any(|name| line.starts_with(name));
    let mut own: Vec<&str> = environment.lines().filter(is_own).collect();
    own.sort_unstable();
    let url = format!("http://localhost:8080/ui/approvals/{id}");
    let expected = [
        "MCPPROXY_AGENT=a".to_owned(),
        format!("MCPPROXY_APPROVAL_ID={id}"),
        format!("MCPPROXY_APPROVE_URL={url}"),
        "MCPPROXY_RISK_LEVEL=high".to_owned(),
        "MCPPROXY_RISK_SAID_BY=operator".to_owned(),
        "MCPPROXY_TOOL=fx:send".to_owned(),
    ];
    assert_eq!(own, expected);
    assert!(!environment.contains("secret"), "{environment}");
    let asked = asked.try_recv().unwrap();
    assert_eq!((asked.id, asked.url, asked.tool.as_str()), (id, url, "fx:send"));
}
