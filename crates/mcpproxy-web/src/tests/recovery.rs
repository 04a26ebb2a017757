//! Recovery codes: made on demand, each used once, and only where a lost factor is replaced.

use http::Method;
use mcpproxy_core::{Assurance, RiskLevel};

use super::flows::recovery_codes;
use super::people::{Person, code_at};
use super::{Fixture, text};
use crate::auth::password::Passwords;

async fn anna(fixture: &Fixture) -> Person {
    let hash = Passwords::default().hash("correct horse".to_owned()).await.unwrap();
    fixture.person("anna", &hash).await
}

async fn made(fixture: &Fixture, person: &Person, step: i64) -> Vec<String> {
    let page = fixture.post(person, "/ui/account/recovery", &format!("totp={}", code_at(step))).await;
    assert_eq!(page.status(), 200);
    recovery_codes(&text(page).await)
}

async fn left(fixture: &Fixture, person: &Person) -> String {
    let page = fixture.request(Method::GET, "/ui/account", &[("cookie", &person.cookie)], String::new()).await;
    let page = text(page).await;
    assert!(recovery_codes(&page).is_empty(), "codes are shown once");
    let tag = page.split("Recovery codes").nth(1).unwrap().split("</h2>").next().unwrap();
    tag.split(" left").next().unwrap().rsplit('>').next().unwrap().to_owned()
}

#[tokio::test]
async fn each_code_replaces_a_factor_once() {
    let fixture = Fixture::new().await;
    let person = anna(&fixture).await;
    let refused = fixture.post(&person, "/ui/account/recovery", "").await;
    assert_eq!(refused.status(), 403, "new codes need a factor");
    let codes = made(&fixture, &person, 0).await;
    assert_eq!((codes.len(), left(&fixture, &person).await.as_str()), (10, "10"));
    // The password is changed with a recovery code in place of the lost app, in capitals and without hyphens.
    let change =
        |code: &str| format!("current=correct+horse&new=correct+horse+two&again=correct+horse+two&recovery={code}");
    let typed = codes[0].to_uppercase().replace('-', "+");
    let done = fixture.post(&person, "/ui/account/password", &change(&typed)).await;
    assert_eq!(done.status(), 303, "{}", text(done).await);
    assert_eq!(left(&fixture, &person).await, "9");
    let again = format!("current=correct+horse+two&new=correct+horse+3&again=correct+horse+3&recovery={}", codes[0]);
    let again = fixture.post(&person, "/ui/account/password", &again).await;
    assert_eq!(again.status(), 422, "a used code");
    let newer = made(&fixture, &person, 1).await;
    assert!(newer.iter().all(|code| !codes.contains(code)));
    let replaced = format!("current=correct+horse+two&new=correct+horse+3&again=correct+horse+3&recovery={}", codes[1]);
    assert_eq!(fixture.post(&person, "/ui/account/password", &replaced).await.status(), 422, "an old code");
    fixture.question(RiskLevel::High, Assurance::Form).await;
    let records = fixture.codes().await;
    for code in ["recovery_codes_made", "recovery_code_used", "step_up_failed"] {
        assert!(records.iter().any(|found| found == code), "{code} {records:?}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_code_approves_invites_and_removes_nothing() {
    let fixture = Fixture::new().await;
    let person = anna(&fixture).await;
    let codes = made(&fixture, &person, 0).await;
    let id = fixture.question(RiskLevel::Critical, Assurance::Factor).await;
    let with_code = |field: &str| format!("action=approve&{field}={}", codes[0]);
    for field in ["recovery", "totp", "provider_proof"] {
        let refused = fixture.post(&person, &format!("/ui/approvals/{id}"), &with_code(field)).await;
        assert_eq!(refused.status(), 403, "{field}");
    }
    assert_eq!(fixture.state(&id).await, "pending");
    let refused = fixture.post(&person, "/ui/account/invite", &with_code("recovery")).await;
    assert_eq!(refused.status(), 403);
    let refused = fixture.post(&person, "/ui/account/recovery", &with_code("recovery")).await;
    assert_eq!(refused.status(), 403, "codes do not make codes");
    assert_eq!(left(&fixture, &person).await, "10");
    fixture.stop().await;
}
