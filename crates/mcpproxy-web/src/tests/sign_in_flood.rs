//! Failed attempts to sign in with other names lock nobody out.

use std::net::IpAddr;

use http::{Method, StatusCode};
use mcpproxy_store::{Admission, Attempt, NewRecord, Pace};
use serde_json::json;

use super::{Fixture, NOW_MS, text};
use crate::auth::password::Passwords;
use crate::auth::records;
use crate::auth::sign_ins::OF_ONE_ADDRESS;

async fn log_in(fixture: &Fixture, name: &str, password: &str) -> StatusCode {
    let body = json!({"name": name, "password": password}).to_string();
    fixture.request(Method::POST, "/api/v1/login", &[], body).await.status()
}

/// All requests of this test come from the same address, as they do on one machine or behind a proxy.
#[tokio::test]
async fn many_invented_names_lock_nobody_out() {
    let fixture = Fixture::new().await;
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await;
    for n in 0..45 {
        assert_eq!(log_in(&fixture, &format!("invented-{n}"), "wrong").await, 401, "{n}");
    }
    assert_eq!(log_in(&fixture, "invented-44", "wrong").await, 429, "one guess per name from this address");
    assert_eq!(log_in(&fixture, "anna", "correct horse").await, 200);
    assert_eq!(log_in(&fixture, "anna", "correct horse").await, 200, "a success is not a mistake");
    assert_eq!(log_in(&fixture, "anna", "wrong").await, 401);
    assert_eq!(log_in(&fixture, "anna", "correct horse").await, 429, "anna made a mistake");
    // Records are written in order, so the others are on disk, too.
    fixture.note(NewRecord { time_ms: NOW_MS, ..records::done("logout", "anna") }).await;
    let failed = fixture.get("/api/v1/activity?type=auth&limit=500").await;
    let failed = failed["activities"].as_array().unwrap().iter().filter(|one| one["code"] == "login_failed").count();
    assert_eq!(failed, 30, "a flood does not fill the log");
    fixture.stop().await;
}

/// A sign-in that gets no place is refused at once. The others wait for their turn.
#[tokio::test]
async fn one_address_cannot_start_many_sign_ins_at_once() {
    let fixture = Fixture::new().await;
    let attempt = async |n: usize| {
        let body = json!({"name": format!("invented-{n}"), "password": "wrong"}).to_string();
        let answer = fixture.request(Method::POST, "/api/v1/login", &[], body).await;
        (answer.status().as_u16(), answer.headers().contains_key("retry-after"))
    };
    let answers = futures::future::join_all((0..OF_ONE_ADDRESS + 20).map(attempt)).await;
    assert!(answers.iter().all(|answer| [(401, false), (429, true)].contains(answer)), "{answers:?}");
    let waited = answers.iter().filter(|answer| answer.0 == 401).count();
    assert!((OF_ONE_ADDRESS..answers.len()).contains(&waited), "{answers:?}");
    fixture.stop().await;
}

/// Anyone can send a body to this path, so many of them must fit into memory.
#[tokio::test]
async fn the_body_of_a_sign_in_is_small() {
    let fixture = Fixture::new().await;
    assert_eq!(log_in(&fixture, "anna", &"x".repeat(20_000)).await, 413);
    fixture.stop().await;
}

/// The second gateway has its own process and the same database.
#[tokio::test]
async fn another_gateway_knows_the_failures() {
    let fixture = Fixture::new().await;
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await;
    for n in 0..5 {
        let attempt = Attempt::SignIn { name: "anna", address: IpAddr::from([192, 0, 2, n]) };
        let admitted = fixture.store.count_attempt(attempt, NOW_MS).await.unwrap();
        assert_eq!(admitted, Admission::Admitted(Pace::Normal));
    }
    let body = "name=anna&password=correct+horse".to_owned();
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let refused = fixture.request(Method::POST, "/ui/login", &form, body).await;
    assert_eq!((refused.status().as_u16(), &refused.headers()["retry-after"]), (429, &"61".parse().unwrap()));
    assert!(text(refused).await.contains("Too many failed attempts."));
    fixture.stop().await;
}
