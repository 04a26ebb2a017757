//! Changing a password, removing a user, and the input that a mistake is about.

use http::Method;
use mcpproxy_core::{Assurance, RiskLevel};
use serde_json::json;

use super::people::{Person, code_at};
use super::{Fixture, text};
use crate::auth::password::Passwords;

async fn with_password(fixture: &Fixture, name: &str) -> Person {
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person(name, &hash).await
}

async fn is_in(fixture: &Fixture, person: &Person) -> bool {
    let page = fixture.request(Method::GET, "/ui/account", &[("cookie", &person.cookie)], String::new()).await;
    page.status() == 200
}

#[tokio::test]
async fn a_new_password_takes_the_old_one_and_a_factor() {
    let fixture = Fixture::new().await;
    let person = with_password(&fixture, "anna").await;
    let elsewhere = fixture.session("anna").await;
    let (path, new) = ("/ui/account/password", "new=battery+staple&again=battery+staple");
    for (fields, why) in [
        ("current=correct+horse&new=short&again=short".to_owned(), "at least 10"),
        ("current=correct+horse&new=battery+staple&again=battery+stable".to_owned(), "do not match"),
        (new.to_owned(), "The password is wrong"),
        (format!("current=wrong+horse&{new}&totp={}", code_at(0)), "The password is wrong"),
        (format!("current=correct+horse&{new}"), "needs a second factor"),
        (format!("current=correct+horse&{new}&totp=000000"), "The code is wrong"),
    ] {
        let refused = fixture.post(&person, path, &fields).await;
        assert_eq!(refused.status(), 422, "{fields}");
        let page = text(refused).await;
        assert!(page.contains(why) && !page.contains("battery staple"), "{fields} {page}");
    }
    assert!(is_in(&fixture, &elsewhere).await);
    let done = fixture.post(&person, path, &format!("current=correct+horse&{new}&totp={}", code_at(1))).await;
    assert_eq!(
        (done.status().as_u16(), done.headers()["location"].to_str().unwrap()),
        (303, "/ui/account?done=password")
    );
    assert_eq!((is_in(&fixture, &person).await, is_in(&fixture, &elsewhere).await), (true, false));
    let log_in = async |password: &str| {
        let body = json!({"name": "anna", "password": password}).to_string();
        fixture.request(Method::POST, "/api/v1/login", &[], body).await.status().as_u16()
    };
    assert_eq!((log_in("correct horse").await, log_in("battery staple").await), (401, 200));
    fixture.question(RiskLevel::High, Assurance::Form).await;
    assert!(fixture.codes().await.iter().any(|code| code == "password_changed"));
    fixture.stop().await;
}

#[tokio::test]
async fn a_removed_user_loses_sessions_and_standing_approvals() {
    let fixture = Fixture::new().await;
    let (anna, berta) = (with_password(&fixture, "anna").await, with_password(&fixture, "berta").await);
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let grant = format!("action=grant&schema=%7B%7D&minutes=15&uses=5&totp={}", code_at(-1));
    assert_eq!(fixture.post(&berta, &format!("/ui/approvals/{id}"), &grant).await.status(), 303);
    let invited = text(fixture.post(&berta, "/ui/account/invite", &format!("totp={}", code_at(0))).await).await;
    let link = invited.split("http://localhost:8080/ui/setup/").nth(1).unwrap().split('<').next().unwrap().to_owned();
    let page = fixture.request(Method::GET, "/ui/account", &[("cookie", &anna.cookie)], String::new()).await;
    assert!(text(page).await.contains("action=\"/ui/account/persons/berta/remove\""));

    let path = "/ui/account/persons/berta/remove";
    for fields in ["", "totp=000000"] {
        assert_eq!(fixture.post(&anna, path, fields).await.status(), 403, "a session alone removes nobody");
    }
    assert!(is_in(&fixture, &berta).await);
    let own = fixture.post(&anna, "/ui/account/persons/anna/remove", &format!("totp={}", code_at(-1))).await;
    assert_eq!(own.status(), 409, "nobody removes themselves, so the last one stays");
    let done = fixture.post(&anna, path, &format!("totp={}", code_at(0))).await;
    assert_eq!(
        (done.status().as_u16(), done.headers()["location"].to_str().unwrap()),
        (303, "/ui/account?done=person")
    );
    assert!(!is_in(&fixture, &berta).await, "at once");
    let link = fixture.request(Method::GET, &format!("/ui/setup/{link}"), &[], String::new()).await;
    assert_eq!(link.status(), 404);
    assert_eq!(fixture.get("/api/v1/grants").await, json!({"grants": []}));
    assert_eq!(fixture.get("/api/v1/grants?all=true").await["grants"][0]["revoked_by"], "anna");
    // Records are written in order, so waiting for this one is enough.
    fixture.question(RiskLevel::High, Assurance::Form).await;
    let records = fixture.get("/api/v1/activity?limit=200").await;
    let of = |code: &str| records["activities"].as_array().unwrap().iter().find(|one| one["code"] == code).cloned();
    assert_eq!(of("user_removed").unwrap()["metadata"], json!({"user": "anna", "removed": "berta"}));
    assert!(of("grant_revoked").is_some());
    fixture.stop().await;
}

/// Returns the ids of the elements that want the focus.
fn focused(html: &str) -> Vec<String> {
    let tags = html.split('<').filter(|tag| tag.split('>').next().is_some_and(|tag| tag.contains(" autofocus")));
    let id =
        |tag: &str| tag.split_once("id=\"").and_then(|(_, rest)| rest.split('"').next()).unwrap_or("none").to_owned();
    tags.map(id).collect()
}

#[tokio::test]
async fn the_focus_goes_to_the_input_of_a_mistake() {
    let fixture = Fixture::new().await;
    let path = format!("/ui/setup/{}", fixture.invitation().await);
    let set_up = async |fields: &str| {
        let form = [("content-type", "application/x-www-form-urlencoded")];
        text(fixture.request(Method::POST, &path, &form, fields.to_owned()).await).await
    };
    let fresh = text(fixture.request(Method::GET, &path, &[], String::new()).await).await;
    assert_eq!(focused(&fresh), ["name"]);
    assert_eq!(focused(&set_up("name=anna&password=correct+horse&again=other+horse").await), ["password"]);
    assert_eq!(focused(&set_up("name=a%20b&password=correct+horse&again=correct+horse").await), ["name"]);

    let anna = with_password(&fixture, "anna").await;
    let critical = fixture.question(RiskLevel::Critical, Assurance::Factor).await;
    let high = fixture.question(RiskLevel::High, Assurance::Session).await;
    let decide = async |id: &mcpproxy_core::ApprovalId, fields: &str| {
        let response = fixture.post_plainly(&anna, &format!("/ui/approvals/{id}"), fields).await;
        assert_eq!(response.status(), 403, "{fields}");
        text(response).await
    };
    assert_eq!(focused(&decide(&critical, "action=approve").await), ["totp"]);
    assert_eq!(focused(&decide(&critical, "action=approve&totp=000000").await), ["totp"]);
    assert_eq!(focused(&decide(&high, "action=approve").await), ["approve-password"]);
    let grant = "action=grant&schema=%7B%7D&minutes=15&uses=5";
    assert_eq!(focused(&decide(&high, grant).await), ["grant-totp"]);
    fixture.stop().await;
}
