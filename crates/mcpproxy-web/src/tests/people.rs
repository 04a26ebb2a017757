//! Users, approval requests and standing approvals for the tests.

use axum::body::Body;
use http::{Method, Request, Response, StatusCode};
use mcpproxy_core::{ApprovalId, Assurance, Digest, RiskLevel, Scope, ToolName, Variant};
use mcpproxy_store::{Kind, NewApproval, NewRecord, Status, Step};
use serde_json::{Value, json};
use tower::ServiceExt as _;

use super::{Fixture, KEY, NOW_MS, refusal, text};

/// An id that does not exist.
/// An argument value that its contract marks as sensitive.
pub(super) const SENSITIVE: &str = "hunter2";
pub(super) const NO_APPROVAL: &str = "01K9ZQ4B2R0000000000000000";
/// The secret of RFC 6238.
pub(super) const SECRET: &[u8] = b"12345678901234567890";
/// The tests cannot set the gateway's clock. This is later than both clocks.
const LATER_MS: i64 = NOW_MS * 2;

/// A signed-in user.
#[derive(Clone)]
pub(super) struct Person {
    pub(super) cookie: String,
    pub(super) csrf: String,
    pub(super) page_key: String,
}

impl Fixture {
    pub(super) async fn invitation(&self) -> String {
        let random = crate::auth::random_bytes().unwrap();
        let by = if self.store.has_users().await.unwrap() { Some(self.signed_in("first").await) } else { None };
        self.store.invite(random, by.as_ref(), NOW_MS, 1_000_000).await.unwrap()
    }

    async fn signed_in(&self, name: &str) -> mcpproxy_store::User {
        let new = self.store.open_session(name, randoms(), NOW_MS).await.unwrap();
        self.store.find_session(&new.secret, NOW_MS, 1_000, 1_000).await.unwrap().unwrap().user
    }

    /// Creates a user with an authenticator app and this password hash. Use any text if the password does not matter.
    pub(super) async fn person(&self, name: &str, hash: &str) -> Person {
        let user = self.without_factor(name, hash).await;
        let signed = self.signed_in(name).await;
        self.store.set_totp(&signed, SECRET, 0).await.unwrap();
        user
    }

    pub(super) async fn without_factor(&self, name: &str, hash: &str) -> Person {
        // The first invitation is the bootstrap invitation. The first user creates all others.
        let name = if self.store.has_users().await.unwrap() || name == "first" {
            name
        } else {
            let first = self.invitation().await;
            assert!(self.store.create_user(&first, "first", "no hash", NOW_MS).await.unwrap());
            name
        };
        let invitation = self.invitation().await;
        assert!(self.store.create_user(&invitation, name, hash, NOW_MS).await.unwrap());
        self.session(name).await
    }

    pub(super) async fn session(&self, name: &str) -> Person {
        let new = self.store.open_session(name, randoms(), NOW_MS).await.unwrap();
        let session = self.store.find_session(&new.secret, NOW_MS, 1_000, 1_000).await.unwrap().unwrap();
        let cookie = format!("mcpproxy_session={}", new.secret);
        Person { cookie, csrf: session.csrf, page_key: new.page_key }
    }

    pub(super) async fn agent(&self, name: &str) -> String {
        let random = crate::auth::random_bytes().unwrap();
        let secret = self.store.create_token(name, &Scope::everything(), random, NOW_MS).await.unwrap();
        format!("Bearer {secret}")
    }

    /// Creates a pending approval request of the agent `cursor`. The value [`SENSITIVE`] is masked.
    pub(super) async fn question(&self, risk: RiskLevel, least: Assurance) -> ApprovalId {
        let args = r#"{"to": ["anna@acme.example", "eve@evil.example"], "subject": "Q3"}"#;
        self.question_about(risk, least, args, &about("The user asked for it")).await
    }

    pub(super) async fn question_about(
        &self,
        risk: RiskLevel,
        least: Assurance,
        args: &str,
        about: &Value,
    ) -> ApprovalId {
        let random: u128 = rand::random();
        let id = ulid(random);
        let new = NewApproval {
            id: id.clone(),
            binding: Digest::of(id.as_str().as_bytes()),
            agent: "cursor".to_owned(),
            client: Some("Cursor 1.2".to_owned()),
            tool: ToolName::parse("mail:send_external").unwrap(),
            pin: Digest::of(b"pin"),
            contract: Digest::of(b"contract"),
            variant: Variant::Destructive,
            risk: Some(risk),
            least,
            args: args.to_owned(),
            args_digest: Digest::of(args.as_bytes()),
            shown_args: args.replace(SENSITIVE, "***"),
            attached: None,
            attached_digest: Digest::of(b""),
            shown_attached: None,
            about: about.to_string(),
            created_ms: NOW_MS - 9_000,
            expires_ms: LATER_MS,
            most: 1_000,
        };
        let metadata = json!({"approval_id": id.as_str()}).to_string();
        let record = NewRecord {
            kind: Kind::Approval,
            status: Status::Success,
            code: Some("approval_requested".to_owned()),
            metadata,
            args: None,
            ..refusal(0)
        };
        self.ledger.append_if(record, vec![Step::RequestApproval(Box::new(new))]).await.unwrap().written().unwrap();
        id
    }

    pub(super) async fn request(
        &self,
        method: Method,
        path: &str,
        headers: &[(&str, &str)],
        body: String,
    ) -> Response<Body> {
        let mut request = Request::builder().method(method).uri(path).header("host", "localhost:8080");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.app.clone().oneshot(request.body(Body::from(body)).unwrap()).await.unwrap()
    }

    /// Sends a form from one of our pages, with the page key that the script adds.
    pub(super) async fn post(&self, person: &Person, path: &str, fields: &str) -> Response<Body> {
        self.post_plainly(person, path, &format!("page_key={}&{fields}", person.page_key)).await
    }

    /// Sends a form without the page key.
    pub(super) async fn post_plainly(&self, person: &Person, path: &str, fields: &str) -> Response<Body> {
        let kind = ("content-type", "application/x-www-form-urlencoded");
        let headers = [("cookie", person.cookie.as_str()), kind, ("origin", "http://localhost:8080")];
        self.request(Method::POST, path, &headers, format!("csrf={}&{fields}", person.csrf)).await
    }

    pub(super) async fn codes(&self) -> Vec<String> {
        let page = self.get("/api/v1/activity?limit=200").await;
        let codes = page["activities"].as_array().unwrap().iter().filter_map(|one| one["code"].as_str());
        codes.map(str::to_owned).collect()
    }

    pub(super) async fn state(&self, id: &ApprovalId) -> Value {
        self.ask(Method::GET, &format!("/api/v1/approvals/{id}"), &[("x-api-key", KEY)]).await.1["state"].clone()
    }
}

pub(super) fn about(reason: &str) -> Value {
    json!({
        "description": "Sends an email to people outside.",
        "side_effects": ["External communication is sent."],
        "audit_event": "email.external.sent",
        "permissions": ["emails:send"],
        "asked_by": ["contract risk level high (contracts/mail.yaml:12)"],
        "needs_step_up": false,
        "call_with": "call_tool_destructive",
        "reason": reason,
        "sensitivity": "private",
    })
}

/// Returns the code of the secret, this number of time steps from now.
pub(super) fn code_at(steps: i64) -> String {
    let totp = totp_rs::Builder::new().with_secret(totp_rs::Secret::from(SECRET.to_vec())).build().unwrap();
    totp.generate(u64::try_from(NOW_MS / 1000 + steps * 30).unwrap()).to_string()
}

fn randoms() -> [[u8; 32]; 2] {
    [rand::random(), rand::random()]
}

fn ulid(random: u128) -> ApprovalId {
    const ALPHABET: &[u8] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
    let digits = (0..25).map(|at| char::from(ALPHABET[(random >> (at * 5)) as usize % 32]));
    ApprovalId::parse(&format!("0{}", digits.collect::<String>())).unwrap()
}

/// Loads a page of a user.
pub(super) async fn get(fixture: &Fixture, person: &Person, path: &str) -> (StatusCode, String) {
    let response = fixture.send(Method::GET, path, &[("cookie", &person.cookie)]).await;
    (response.status(), text(response).await)
}

/// Sends a form of a user, with the page key.
pub(super) async fn post(fixture: &Fixture, person: &Person, path: &str, fields: &str) -> (StatusCode, String) {
    let response = fixture.post(person, path, fields).await;
    (response.status(), text(response).await)
}

/// Checks that a page has all of these parts.
pub(super) fn has(html: &str, parts: &[&str]) {
    for part in parts {
        assert!(html.contains(part), "{part}\n{html}");
    }
}
