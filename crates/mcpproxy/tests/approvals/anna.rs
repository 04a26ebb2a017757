//! Anna, the first user: created with the setup link, with a password and an authenticator app.

use std::io::{Read as _, Write as _};

use jiff::Timestamp;
use mcpproxy_store::{Location, Store};
use serde_json::{Value, json};
use totp_rs::{Algorithm, Builder, Secret};

use crate::common::person::Person;
use crate::common::{Folder, Serving};

pub(crate) const PASSWORD: &str = "horse battery staple";
const SECRET: &[u8] = b"12345678901234567890";

/// Creates Anna with the setup link that `serve` printed, with a password and an authenticator app.
pub(crate) fn make_anna(serving: &Serving<'_>) {
    let port = serving.address.rsplit_once(':').unwrap().1;
    let base = format!("http://localhost:{port}");
    let mut link = None;
    serving.wait("the link for the first user", || {
        link = serving.said_word(&format!("{base}/ui/setup/"));
        link.is_some()
    });
    let path = link.unwrap().replace(&base, "");
    let password = PASSWORD.replace(' ', "+");
    let body = format!("name=anna&password={password}&again={password}");
    let answer = post(serving, &path, &body);
    assert!(answer.starts_with("HTTP/1.1 303 "), "{answer}");
    assert!(post(serving, &path, &body).starts_with("HTTP/1.1 404 "), "a link works once");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    runtime.block_on(async {
        let store = Store::open(&Location::Sqlite(serving.folder.file("mcpproxy.db"))).await.unwrap();
        let now_ms = Timestamp::now().as_millisecond();
        let session = store.open_session("anna", [[7; 32], [8; 32]], now_ms).await.unwrap();
        let session = store.find_session(&session.secret, now_ms, 60_000, 60_000).await.unwrap().unwrap();
        store.set_totp(&session.user, SECRET, 0).await.unwrap();
        store.close().await;
    });
}

fn post(serving: &Serving<'_>, path: &str, body: &str) -> String {
    send(serving, path, "Content-Type: application/x-www-form-urlencoded\r\n", body)
}

pub(crate) fn send(serving: &Serving<'_>, path: &str, headers: &str, body: &str) -> String {
    let mut stream = serving.connect();
    let host = serving.address.replace("127.0.0.1", "localhost");
    let length = body.len();
    let head = format!("Host: {host}\r\n{headers}Content-Length: {length}\r\nConnection: close");
    write!(stream, "POST {path} HTTP/1.1\r\n{head}\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

/// Signs Anna in and returns the headers for her requests.
pub(crate) fn signed_in(serving: &Serving<'_>) -> String {
    let body = json!({"name": "anna", "password": PASSWORD}).to_string();
    let answer = send(serving, "/api/v1/login", "", &body);
    let cookie = answer.lines().find_map(|line| line.strip_prefix("set-cookie: ")).unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let said: Value = serde_json::from_str(answer.split_once("\r\n\r\n").unwrap().1).unwrap();
    format!("Cookie: {cookie}\r\nX-CSRF-Token: {}\r\n", said["csrf"].as_str().unwrap())
}

/// Returns the current code of Anna's authenticator app.
pub(crate) fn code() -> String {
    let totp = Builder::new()
        .with_algorithm(Algorithm::SHA1)
        .with_digits(6)
        .with_skew(1)
        .with_step_duration(30)
        .with_account_name("anna")
        .with_secret(Secret::from(SECRET.to_vec()));
    let now = u64::try_from(Timestamp::now().as_second()).unwrap();
    totp.build().unwrap().generate(now).to_string()
}

pub(crate) fn approve(folder: &Folder, id: &str) -> Person {
    Person::runs(&folder.command(&["approvals", "approve", id]))
}
