//! A session cookie alone cannot approve a call, because other programs on this machine may have it.

use http::Method;
use mcpproxy_core::{Assurance, RiskLevel};

use super::people::{Person, code_at};
use super::{Fixture, text};
use crate::auth::password::Passwords;

async fn anna(fixture: &Fixture) -> Person {
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await
}

#[tokio::test]
async fn an_approval_needs_the_page_key_or_the_password() {
    let fixture = Fixture::new().await;
    let person = anna(&fixture).await;
    let another = fixture.session("anna").await.page_key;
    for (risk, least) in [(RiskLevel::High, Assurance::Form), (RiskLevel::Critical, Assurance::Session)] {
        let id = fixture.question(risk, least).await;
        let path = format!("/ui/approvals/{id}");
        let page = fixture.request(Method::GET, &path, &[("cookie", &person.cookie)], String::new()).await;
        let page = text(page).await;
        assert!(page.contains("name=\"password\"") && page.contains("<div data-presence>"), "{page}");
        for (fields, why) in [
            ("action=approve".to_owned(), "Enter your password"),
            ("action=approve&page_key=&password=".to_owned(), "Enter your password"),
            (format!("action=approve&page_key={another}"), "Enter your password"),
            (format!("action=approve&page_key={}", person.csrf), "Enter your password"),
            ("action=approve&password=wrong+horse".to_owned(), "The password is wrong"),
        ] {
            let refused = fixture.post_plainly(&person, &path, &fields).await;
            assert_eq!(refused.status(), 403, "{fields}");
            let page = text(refused).await;
            assert!(page.contains(why) && page.contains("<div data-presence data-asks>"), "{fields} {page}");
            assert!(!page.contains("wrong horse"));
            assert_eq!(fixture.state(&id).await, "pending", "{fields}");
        }
        let typed = fixture.post_plainly(&person, &path, "action=approve&password=correct+horse").await;
        assert_eq!((typed.status().as_u16(), fixture.state(&id).await), (303, "approved".into()));
        let id = fixture.question(risk, least).await;
        let kept = fixture.post(&person, &format!("/ui/approvals/{id}"), "action=approve").await;
        assert_eq!((kept.status().as_u16(), fixture.state(&id).await), (303, "approved".into()));
        let id = fixture.question(risk, least).await;
        let denied = fixture.post_plainly(&person, &format!("/ui/approvals/{id}"), "action=deny").await;
        assert_eq!((denied.status().as_u16(), fixture.state(&id).await), (303, "denied".into()), "a no takes neither");
    }
    assert!(fixture.codes().await.iter().any(|code| code == "password_wrong"));
    fixture.stop().await;
}

#[tokio::test]
async fn where_a_factor_is_asked_for_it_is_enough_and_nothing_else_is() {
    let fixture = Fixture::new().await;
    let person = anna(&fixture).await;
    let id = fixture.question(RiskLevel::Critical, Assurance::Factor).await;
    let path = format!("/ui/approvals/{id}");
    for fields in ["action=approve", "action=approve&password=correct+horse"] {
        let refused = fixture.post_plainly(&person, &path, fields).await;
        assert_eq!(refused.status(), 403);
        let page = text(refused).await;
        assert!(page.contains("needs a second factor") && !page.contains("name=\"password\""), "{page}");
    }
    let done = fixture.post_plainly(&person, &path, &format!("action=approve&totp={}", code_at(0))).await;
    assert_eq!((done.status().as_u16(), fixture.state(&id).await), (303, "approved".into()));
    fixture.stop().await;
}

#[tokio::test]
async fn passwords_are_counted_wherever_they_are_typed() {
    let fixture = Fixture::new().await;
    let person = anna(&fixture).await;
    let id = fixture.question(RiskLevel::High, Assurance::Form).await;
    let path = format!("/ui/approvals/{id}");
    for _ in 0..5 {
        assert_eq!(fixture.post_plainly(&person, &path, "action=approve&password=wrong").await.status(), 403);
    }
    let locked = fixture.post_plainly(&person, &path, "action=approve&password=correct+horse").await;
    assert!(text(locked).await.contains("Too many wrong passwords"));
    assert_eq!(fixture.state(&id).await, "pending");
    let form = [("content-type", "application/x-www-form-urlencoded")];
    let body = "name=anna&password=correct+horse".to_owned();
    assert_eq!(fixture.request(Method::POST, "/ui/login", &form, body).await.status(), 429);
    assert_eq!(fixture.post(&person, &path, "action=approve").await.status(), 303, "who has the key is not kept out");
    fixture.stop().await;
}

/// Otherwise a thief with the cookie could register a factor before the user does.
#[tokio::test]
async fn the_first_factor_takes_the_key_or_the_password() {
    let fixture = Fixture::new().await;
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    let new = fixture.without_factor("newcomer", &hash).await;
    let page = fixture.request(Method::GET, "/ui/account", &[("cookie", &new.cookie)], String::new()).await;
    let page = text(page).await;
    let secret = page.split("<code>").nth(1).unwrap().split('<').next().unwrap().replace(' ', "");
    let app = totp_rs::Secret::try_from_base32(&secret).unwrap();
    let app = totp_rs::Builder::new().with_secret(app).build().unwrap();
    let code = app.generate(u64::try_from(super::NOW_MS / 1000).unwrap());
    let stolen = fixture.post_plainly(&new, "/ui/account/totp", &format!("code={code}")).await;
    assert_eq!(stolen.status(), 422);
    let page = text(stolen).await;
    assert!(page.contains("Enter your password") && page.contains("data-presence data-asks"), "{page}");
    assert_eq!(fixture.post_plainly(&new, "/ui/account/passkeys/start", "").await.status(), 400);
    assert_eq!(fixture.post(&new, "/ui/account/passkeys/start", "").await.status(), 200);
    let fields = format!("code={code}&password=correct+horse");
    assert_eq!(fixture.post_plainly(&new, "/ui/account/totp", &fields).await.status(), 200);
    fixture.stop().await;
}
