//! User flows, from the setup link to a decision.

use axum::body::Body;
use http::{Method, Response, StatusCode};
use http_body_util::BodyExt as _;
use mcpproxy_core::{Assurance, RiskLevel};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::people::{NO_APPROVAL, Person, SENSITIVE, about, code_at};
use super::{Fixture, NOW_MS, PATIENCE, code, text};
use crate::auth::totp;

const FORM: (&str, &str) = ("content-type", "application/x-www-form-urlencoded");

fn cookie(response: &Response<Body>) -> String {
    let set = response.headers()["set-cookie"].to_str().unwrap();
    set.split(';').next().unwrap().to_owned()
}

fn csrf(page: &str) -> String {
    let (_, rest) = page.split_once("name=\"csrf\" value=\"").unwrap();
    rest.split('"').next().unwrap().to_owned()
}

fn location(response: &Response<Body>) -> &str {
    response.headers()["location"].to_str().unwrap()
}

/// Splits the redirect after signing in into its address and the page key.
fn location_and_key(response: &Response<Body>) -> (&str, String) {
    let (address, key) = location(response).split_once("#key=").unwrap();
    assert_eq!((key.len(), key.starts_with("page_")), (69, true), "{key}");
    (address, key.to_owned())
}

#[tokio::test]
async fn from_the_link_to_a_decision() {
    let fixture = Fixture::new().await;
    let invitation = fixture.invitation().await;
    let path = format!("/ui/setup/{invitation}");
    let page = fixture.request(Method::GET, &path, &[], String::new()).await;
    assert_eq!(page.status(), 200);
    let weak =
        fixture.request(Method::POST, &path, &[FORM], "name=anna&password=short12&again=short12".to_owned()).await;
    assert_eq!(weak.status(), 422);
    let weak = text(weak).await;
    assert!(weak.contains("value=\"anna\"") && weak.contains("at least 10") && !weak.contains("short12"), "{weak}");
    let other = "name=anna&password=correct+horse&again=correct+hoarse".to_owned();
    assert_eq!(fixture.request(Method::POST, &path, &[FORM], other).await.status(), 422);
    let right = "name=anna&password=correct+horse&again=correct+horse".to_owned();
    let made = fixture.request(Method::POST, &path, &[FORM], right.clone()).await;
    let (address, page_key) = location_and_key(&made);
    assert_eq!((made.status().as_u16(), address), (303, "/ui/account"));
    let session = cookie(&made);
    assert_eq!(fixture.request(Method::POST, &path, &[FORM], right).await.status(), 404, "a link works once");
    assert_eq!(fixture.request(Method::GET, &path, &[], String::new()).await.status(), 404);

    let account = fixture.request(Method::GET, "/ui/account", &[("cookie", &session)], String::new()).await;
    let account = text(account).await;
    let person = Person { cookie: session, csrf: csrf(&account), page_key };
    let secret = account.split("<code>").nth(1).unwrap().split('<').next().unwrap().replace(' ', "");
    assert!(account.contains("<svg") && account.contains(&format!("secret={secret}")), "picture, link and text");
    let wrong = fixture.post(&person, "/ui/account/totp", "code=000000").await;
    assert_eq!(wrong.status(), 422);
    assert!(text(wrong).await.contains(&format!("secret={secret}")), "the same secret as before");
    let app = totp_rs::Secret::try_from_base32(&secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(app).build().unwrap();
    let now = u64::try_from(NOW_MS / 1000).unwrap();
    let on = fixture.post(&person, "/ui/account/totp", &format!("code={}", app.generate(now))).await;
    assert_eq!(on.status(), 200);
    let codes = recovery_codes(&text(on).await);
    assert_eq!(codes.len(), 10);
    // A double click shows the same codes, and they are valid whichever answer the browser shows.
    let again = fixture.post(&person, "/ui/account/totp", &format!("code={}", app.generate(now))).await;
    assert_eq!(recovery_codes(&text(again).await), codes);

    let id = fixture.question(RiskLevel::Critical, Assurance::Factor).await;
    let path = format!("/ui/approvals/{id}");
    let page = text(fixture.request(Method::GET, &path, &[("cookie", &person.cookie)], String::new()).await).await;
    assert!(page.contains("<title>(1) mail:send_external · cursor · mcpproxy</title>"), "{page}");
    // Setting up the app has used this code.
    let used = fixture.post(&person, &path, &format!("action=approve&totp={}", app.generate(now))).await;
    assert_eq!(used.status(), 403);
    assert_eq!(fixture.state(&id).await, "pending");
    let done = fixture.post(&person, &path, &format!("action=approve&totp={}", app.generate(now + 30))).await;
    assert_eq!((done.status().as_u16(), location(&done)), (303, path.as_str()));
    let page = text(fixture.request(Method::GET, &path, &[("cookie", &person.cookie)], String::new()).await).await;
    assert!(
        page.contains("anna approved this call with a second factor") && page.contains("Withdraw approval"),
        "{page}"
    );
    let codes = fixture.codes().await;
    for code in ["user_created", "factor_added", "approval_approved", "step_up_failed"] {
        assert!(codes.iter().any(|known| known == code), "{code} {codes:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_code_counts_once_and_for_one_approval() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let (one, two) = (
        fixture.question(RiskLevel::Critical, Assurance::Factor).await,
        fixture.question(RiskLevel::Critical, Assurance::Factor).await,
    );
    let headers = [("cookie", person.cookie.as_str()), ("x-csrf-token", person.csrf.as_str())];
    let approve = async |id: &mcpproxy_core::ApprovalId, body: Value| {
        let path = format!("/api/v1/approvals/{id}/approve");
        let response = fixture.request(Method::POST, &path, &headers, body.to_string()).await;
        let status = response.status().as_u16();
        let answer: Value = serde_json::from_str(&text(response).await).unwrap();
        (status, code(&answer).map(str::to_owned), answer)
    };
    let (status, code, answer) = approve(&one, json!({})).await;
    assert_eq!((status, code.as_deref()), (403, Some("step_up_required")));
    assert_eq!(answer["error"]["details"], json!({"factors": ["totp"]}));
    assert_eq!(approve(&one, json!({"totp": code_at(0)})).await.0, 200);
    let (status, code, _) = approve(&two, json!({"totp": code_at(0)})).await;
    assert_eq!((status, code.as_deref()), (403, Some("wrong_code")), "used for the other one");
    let (status, ..) = approve(&two, json!({"totp": code_at(-1)})).await;
    assert_eq!(status, 403, "older than the last that was used");
    assert_eq!(fixture.state(&two).await, "pending");
    // After five wrong codes in a row, even the right one is rejected for a while.
    for _ in 0..3 {
        assert_eq!(approve(&two, json!({"totp": "000000"})).await.0, 403);
    }
    let (status, code, _) = approve(&two, json!({"totp": code_at(1)})).await;
    assert_eq!((status, code.as_deref()), (429, Some("too_many_tries")));
    assert_eq!(fixture.state(&two).await, "pending");
    assert_eq!(totp::step_of(super::people::SECRET, &code_at(1), NOW_MS), Some(NOW_MS / 30_000 + 1));
    fixture.stop().await;
}

#[tokio::test]
async fn every_page_links_back() {
    let fixture = Fixture::new().await;
    let own = [("origin", "http://localhost:8080")];
    let check = async |method: Method, path: &str, status: u16, link: &str| {
        let response = fixture.request(method, path, &own, String::new()).await;
        assert_eq!(response.status(), status, "{path}");
        assert!(response.headers().contains_key("content-security-policy"), "{path}");
        let page = text(response).await;
        assert!(page.contains(&format!(r#"<a class="btn" href="{link}">"#)), "{path}: {page}");
    };
    check(Method::GET, "/ui", 404, "/ui/").await;
    check(Method::GET, "/ui/nothing", 404, "/ui/").await;
    check(Method::GET, "/ui/approvals/1/2/3", 404, "/ui/").await;
    let question = format!("/ui/approvals/{NO_APPROVAL}");
    check(Method::POST, &question, 401, &format!("/ui/login?next={question}")).await;
    check(Method::POST, "/ui/account/totp", 401, "/ui/login?next=/ui/account").await;
    check(Method::POST, "/ui/account/invite", 401, "/ui/login?next=/ui/account").await;
    check(Method::POST, "/ui/grants/1/revoke", 401, "/ui/login?next=/ui/grants").await;
    fixture.stop().await;
}

#[tokio::test]
async fn a_denial_has_a_comment_and_comes_first() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let path = format!("/ui/approvals/{id}");
    let denied = fixture.post(&person, &path, "action=deny&comment=Ask+Max+first.%3Cb%3E").await;
    assert_eq!(denied.status(), 303);
    let page = text(fixture.request(Method::GET, &path, &[("cookie", &person.cookie)], String::new()).await).await;
    assert!(page.contains("anna denied this call") && page.contains("Ask Max first.&lt;b&gt;"), "{page}");
    let late = fixture.post(&person, &path, "action=approve").await;
    assert_eq!(late.status(), 409);
    assert!(text(late).await.contains("too late"));
    assert_eq!(fixture.state(&id).await, "denied");
    let nothing = fixture.question(RiskLevel::High, Assurance::Form).await;
    assert_eq!(fixture.post(&person, &format!("/ui/approvals/{nothing}"), "").await.status(), 422);
    assert_eq!(fixture.post(&person, &format!("/ui/approvals/{NO_APPROVAL}"), "action=deny").await.status(), 404);
    fixture.stop().await;
}

#[tokio::test]
async fn an_unused_approval_can_be_withdrawn() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let path = format!("/ui/approvals/{id}");
    assert_eq!(fixture.post(&person, &path, "action=approve").await.status(), 303);
    assert_eq!(fixture.state(&id).await, "approved");
    assert_eq!(fixture.post(&person, &path, "action=deny").await.status(), 303);
    assert_eq!(fixture.state(&id).await, "denied");
    fixture.stop().await;
}

#[tokio::test]
async fn sensitive_values_are_masked_from_the_decision_on() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let args = json!({"to": "anna", "password": SENSITIVE}).to_string();
    let id = fixture.question_about(RiskLevel::High, Assurance::Form, &args, &about("why")).await;
    let path = format!("/ui/approvals/{id}");
    let get = async |path: &str| {
        text(fixture.request(Method::GET, path, &[("cookie", &person.cookie)], String::new()).await).await
    };
    let paths = [path.clone(), format!("{path}/whole"), format!("/api/v1/approvals/{id}/whole")];
    for path in &paths {
        assert!(get(path).await.contains(SENSITIVE), "{path}: an approver sees what they approve");
    }
    assert!(get(&path).await.contains("Nothing is masked here until you decide."));
    assert_eq!(fixture.post(&person, &path, "action=approve").await.status(), 303);
    assert_eq!(fixture.state(&id).await, "approved");
    for path in &paths {
        let page = get(path).await;
        assert!(page.contains("***") && !page.contains(SENSITIVE), "{path}: {page}");
    }
    assert!(get(&path).await.contains("The request is decided, so sensitive values are masked here."));
    fixture.stop().await;
}

#[tokio::test]
async fn grants_from_the_page() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let path = format!("/ui/approvals/{id}");
    let schema = "%7B%22type%22%3A%22object%22%7D";
    let without = fixture.post(&person, &path, &format!("action=grant&schema={schema}&minutes=15&uses=5")).await;
    assert_eq!(without.status(), 403);
    let page = text(without).await;
    assert!(
        page.contains("{&#34;type&#34;:&#34;object&#34;}") && page.contains("<details class=\"also\" open>"),
        "{page}"
    );
    let bad = format!("action=grant&schema=nonsense&minutes=15&uses=5&totp={}", code_at(0));
    let bad = fixture.post(&person, &path, &bad).await;
    assert_eq!(bad.status(), 403);
    assert!(text(bad).await.contains("The schema is not JSON"));
    assert_eq!(fixture.state(&id).await, "pending", "nothing is approved by a grant that is none");
    // The refused form has not used up the code.
    let good = format!("action=grant&schema={schema}&minutes=15&uses=5&totp={}", code_at(0));
    let good = fixture.post(&person, &path, &good).await;
    assert_eq!((good.status().as_u16(), location(&good)), (303, "/ui/grants"));
    assert_eq!(fixture.state(&id).await, "approved");
    let grants = fixture.get("/api/v1/grants").await;
    let grant = &grants["grants"][0];
    assert_eq!((&grant["agent"], &grant["uses_left"], &grant["by"]), (&json!("cursor"), &json!(5), &json!("anna")));
    let revoke = format!("/ui/grants/{}/revoke", grant["id"].as_str().unwrap());
    let revoked = fixture.post(&person, &revoke, "").await;
    assert_eq!((revoked.status().as_u16(), location(&revoked)), (303, "/ui/grants"));
    assert_eq!(fixture.get("/api/v1/grants").await, json!({"grants": []}));
    assert_eq!(fixture.get("/api/v1/grants?all=true").await["grants"][0]["revoked_by"], "anna");
    let critical = fixture.question(RiskLevel::Critical, Assurance::Session).await;
    let page = fixture
        .request(Method::GET, &format!("/ui/approvals/{critical}"), &[("cookie", &person.cookie)], String::new())
        .await;
    assert!(!text(page).await.contains("Also allow"), "never for critical calls");
    fixture.stop().await;
}

/// A decided approval request cannot create a standing approval.
#[tokio::test]
async fn no_standing_approval_from_a_decided_request() {
    for action in ["approve", "deny"] {
        let fixture = Fixture::new().await;
        let person = fixture.person("anna", "no hash").await;
        let id = fixture.question(RiskLevel::High, Assurance::Form).await;
        let path = format!("/ui/approvals/{id}");
        assert_eq!(fixture.post(&person, &path, &format!("action={action}")).await.status(), 303);
        let late = format!("action=grant&schema=%7B%7D&minutes=15&uses=5&totp={}", code_at(-1));
        let late = fixture.post(&person, &path, &late).await;
        assert_eq!(late.status(), 409, "{action}");
        assert!(text(late).await.contains("too late"), "{action}");
        let headers = [("cookie", person.cookie.as_str()), ("x-csrf-token", person.csrf.as_str())];
        let body = json!({"from": id.as_str(), "schema": {}, "minutes": 15, "uses": 5, "totp": code_at(0)});
        let late = fixture.request(Method::POST, "/api/v1/grants", &headers, body.to_string()).await;
        assert_eq!(late.status(), 409, "{action}");
        let expected = if action == "approve" { "is already approved" } else { "is already denied" };
        let answer = text(late).await;
        assert!(answer.contains("approval_over") && answer.contains(expected), "{answer}");
        assert_eq!(fixture.get("/api/v1/grants?all=true").await, json!({"grants": []}), "{action}");
        fixture.stop().await;
    }
}

#[tokio::test]
async fn signing_in_and_out() {
    let fixture = Fixture::new().await;
    let hash = crate::auth::password::Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await;
    let page = fixture.request(Method::GET, "/ui/approvals?state=all", &[], String::new()).await;
    assert_eq!((page.status().as_u16(), location(&page)), (303, "/ui/login?next=/ui/approvals%3Fstate%3Dall"));
    let page = fixture.request(Method::GET, location(&page), &[], String::new()).await;
    assert!(text(page).await.contains("name=\"next\" value=\"/ui/approvals?state=all\""));
    let log_in = async |name: &str, password: &str| {
        let body = format!("name={name}&password={password}&next=/ui/approvals%3Fstate%3Dall");
        fixture.request(Method::POST, "/ui/login", &[FORM], body).await
    };
    let (unknown, wrong) = (log_in("nobody", "secret-1").await, log_in("anna", "secret-1").await);
    assert_eq!((unknown.status(), wrong.status()), (StatusCode::UNAUTHORIZED, StatusCode::UNAUTHORIZED));
    let (unknown, wrong) = (text(unknown).await, text(wrong).await);
    assert_eq!(unknown.replace("nobody", "anna"), wrong, "whether there is such a person is nobody's business");
    assert!(!wrong.contains("secret-1") && wrong.contains("value=\"anna\""));
    let right = log_in("anna", "correct+horse").await;
    let (address, page_key) = location_and_key(&right);
    assert_eq!((right.status().as_u16(), address), (303, "/ui/approvals?state=all"));
    let set = right.headers()["set-cookie"].to_str().unwrap().to_owned();
    assert!(set.contains("; HttpOnly; SameSite=Strict") && !set.contains("Secure"), "{set}");
    let session = cookie(&right);
    let page = fixture.request(Method::GET, "/ui/approvals", &[("cookie", &session)], String::new()).await;
    assert_eq!(page.status(), 200);
    let person = Person { csrf: csrf(&text(page).await), cookie: session, page_key };
    let out = fixture.post(&person, "/ui/logout", "").await;
    assert_eq!((out.status().as_u16(), location(&out)), (303, "/ui/login"));
    let page = fixture.request(Method::GET, "/ui/approvals", &[("cookie", &person.cookie)], String::new()).await;
    assert_eq!(page.status(), 303, "the session is over, not only the cookie");
    for _ in 0..5 {
        log_in("anna", "wrong").await;
    }
    let locked = log_in("anna", "correct+horse").await;
    assert_eq!(locked.status(), 429);
    assert_eq!(locked.headers()["retry-after"], "61");
    let rest = fixture.request(
        Method::POST,
        "/api/v1/login",
        &[],
        json!({"name": "anna", "password": "correct horse"}).to_string(),
    );
    assert_eq!(rest.await.status(), 429, "the same count for both doors");
    fixture.stop().await;
}

#[tokio::test]
async fn programs_sign_in_for_people() {
    let fixture = Fixture::new().await;
    let hash = crate::auth::password::Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await;
    let body = json!({"name": "anna", "password": "correct horse"}).to_string();
    let response = fixture.request(Method::POST, "/api/v1/login", &[], body).await;
    assert_eq!(response.status(), 200);
    let session = cookie(&response);
    let answer: Value = serde_json::from_str(&text(response).await).unwrap();
    assert_eq!((&answer["name"], &answer["factors"]), (&json!("anna"), &json!(["totp"])));
    let headers = [("cookie", session.as_str()), ("x-csrf-token", answer["csrf"].as_str().unwrap())];
    assert_eq!(fixture.request(Method::POST, "/api/v1/logout", &headers, String::new()).await.status(), 200);
    assert_eq!(fixture.request(Method::GET, "/api/v1/approvals", &headers, String::new()).await.status(), 401);
    for bad in [
        "",
        "[]",
        "{\"name\": \"anna\"}",
        "{\"name\": \"anna\", \"password\": 1}",
        "{\"name\": 1, \"password\": \"hunter22\"}",
    ] {
        let response = fixture.request(Method::POST, "/api/v1/login", &[], bad.to_owned()).await;
        assert_eq!(response.status(), 400, "{bad}");
        assert!(!text(response).await.contains("hunter22"));
    }
    fixture.stop().await;
}

#[tokio::test]
async fn factors_are_changed_with_factors_only() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let page = fixture.request(Method::GET, "/ui/account?new=totp", &[("cookie", &person.cookie)], String::new()).await;
    let page = text(page).await;
    let secret = page.split("<code>").nth(1).unwrap().split('<').next().unwrap().replace(' ', "");
    let app = totp_rs::Secret::try_from_base32(&secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(app).build().unwrap();
    let new = app.generate(u64::try_from(NOW_MS / 1000).unwrap());
    let stolen = fixture.post(&person, "/ui/account/totp", &format!("code={new}")).await;
    assert_eq!(stolen.status(), 422, "a session alone brings no factor of its own");
    let start = fixture.post(&person, "/ui/account/passkeys/start", "").await;
    assert_eq!(start.status(), 400);
    let with_old = fixture.post(&person, "/ui/account/totp", &format!("code={new}&totp={}", code_at(0))).await;
    assert_eq!(with_old.status(), 200, "with recovery codes, of which there were none");
    let old = fixture.post(&person, "/ui/account/invite", &format!("totp={}", code_at(1))).await;
    assert_eq!(old.status(), 403, "the old app is gone");
    let later = app.generate(u64::try_from(NOW_MS / 1000 + 30).unwrap());
    let invited = fixture.post(&person, "/ui/account/invite", &format!("totp={later}")).await;
    assert_eq!(invited.status(), 200);
    let page = text(invited).await;
    let link = page.split("http://localhost:8080/ui/setup/").nth(1).unwrap().split('<').next().unwrap();
    let link = fixture.request(Method::GET, &format!("/ui/setup/{link}"), &[], String::new()).await;
    assert_eq!(link.status(), 200);
    fixture.stop().await;
}

#[tokio::test]
async fn open_pages_hear_of_changes() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let response = fixture.request(Method::GET, "/ui/events", &[("cookie", &person.cookie)], String::new()).await;
    assert_eq!(response.headers()["content-type"], "text/event-stream");
    let mut body = response.into_body();
    let mut next = async || {
        let frame = timeout(PATIENCE, body.frame()).await.unwrap().unwrap().unwrap();
        String::from_utf8(frame.into_data().unwrap().to_vec()).unwrap()
    };
    assert_eq!(next().await, "retry: 2000\nevent: change\ndata: {}\n\n");
    fixture.post(&person, &format!("/ui/approvals/{id}"), "action=deny").await;
    assert_eq!(next().await, "event: change\ndata: {}\n\n");
    fixture.stopping.cancel();
    fixture.stop().await;
}

#[tokio::test]
async fn agents_see_the_state_of_their_own_requests() {
    let fixture = Fixture::new().await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let (own, other) = (fixture.agent("cursor").await, fixture.agent("somebody").await);
    let path = format!("/api/v1/approvals/{id}/status");
    for (token, expected) in [(own.as_str(), 200), (other.as_str(), 404), ("Bearer mcp_0", 401)] {
        let response = fixture.request(Method::GET, &path, &[("authorization", token)], String::new()).await;
        assert_eq!(response.status(), expected, "{token}");
    }
    let (_, answer) = fixture.ask(Method::GET, &path, &[("authorization", &own)]).await;
    let mut members: Vec<&String> = answer.as_object().unwrap().keys().collect();
    members.sort();
    assert_eq!(members, ["comment", "expires", "id", "record", "state", "tool"]);
    fixture.stop().await;
}

#[tokio::test]
async fn an_approval_as_programs_see_it() {
    let fixture = Fixture::new().await;
    let args = r#"{"to": ["a@b.example"], "n": 12345678901234567890}"#;
    let id = fixture.question_about(RiskLevel::High, Assurance::Form, args, &about("\u{202E}why")).await;
    let answer = fixture.get(&format!("/api/v1/approvals/{id}")).await;
    assert_eq!(answer["arguments"].to_string(), r#"{"to":["a@b.example"],"n":12345678901234567890}"#);
    assert_eq!(
        answer["changes"],
        json!([
            {"pointer": "to/0", "change": "unchanged", "hidden": false, "before": null, "after": "a@b.example"},
            {"pointer": "n", "change": "unchanged", "hidden": false, "before": null, "after": 12_345_678_901_234_567_890_u64},
        ])
    );
    assert_eq!(answer["reason"], "\u{202E}why");
    assert_eq!(answer["url"], format!("http://localhost:8080/ui/approvals/{id}"));
    let list = fixture.get("/api/v1/approvals?state=pending&agent=cursor&tool=mail:send_external").await;
    assert_eq!(
        (list["approvals"][0]["id"].as_str(), list["approvals"].as_array().unwrap().len()),
        (Some(id.as_str()), 1)
    );
    assert_eq!(fixture.get("/api/v1/approvals?state=denied").await["approvals"], json!([]));
    fixture.stop().await;
}

/// Returns the recovery codes on a page.
pub(super) fn recovery_codes(page: &str) -> Vec<String> {
    let list = page.split("id=\"recovery-codes\"").nth(1).and_then(|rest| rest.split(['>', '<']).nth(1));
    list.unwrap_or_default().split_whitespace().map(str::to_owned).collect()
}
