//! The frame of pages: the navigation, and the hint at another address.

use http::Method;

use super::people::Person;
use super::{Fixture, text};

const NAVIGATION: &str = "<nav class=\"wide-nav\"";

async fn page(fixture: &Fixture, person: &Person, path: &str, expected: u16) -> String {
    let response = fixture.send(Method::GET, path, &[("cookie", person.cookie.as_str())]).await;
    assert_eq!(response.status(), expected, "{path}");
    assert!(response.headers().contains_key("content-security-policy"), "{path}");
    text(response).await
}

#[tokio::test]
async fn notices_have_the_navigation_if_a_user_is_signed_in() {
    let fixture = Fixture::new().await;
    let person = fixture.person("anna", "no hash").await;
    for (path, section) in [
        ("/ui/nothing", ""),
        ("/ui/servers/none", "/ui/servers"),
        ("/ui/activity/01HF", "/ui/activity"),
        ("/ui/tools/none/none", "/ui/tools"),
    ] {
        let html = page(&fixture, &person, path, 404).await;
        assert!(html.contains(NAVIGATION) && html.contains("anna"), "{path} {html}");
        let here = format!("href=\"{section}\" aria-current=\"page\"");
        assert_eq!(html.contains(&here), !section.is_empty(), "{path} {html}");
    }
    let plain = text(fixture.send(Method::GET, "/ui/nothing", &[]).await).await;
    assert!(plain.contains("Page not found") && !plain.contains(NAVIGATION), "{plain}");
    fixture.stop().await;
}

#[tokio::test]
async fn the_navigation_waits_for_the_second_factor() {
    let fixture = Fixture::new().await;
    let person = fixture.without_factor("ben", "no hash").await;
    let html = page(&fixture, &person, "/ui/account", 200).await;
    assert!(html.contains("Step 2 of 2") && html.contains("Sign out") && !html.contains(NAVIGATION), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn another_address_than_that_of_the_links_is_explained() {
    let fixture = Fixture::new().await;
    let at = async |host: &str| {
        let path = "/ui/login?next=/ui/tools";
        text(fixture.send(Method::GET, path, &[("host", host)]).await).await
    };
    let html = at("127.0.0.1:8080").await;
    assert!(html.contains("No account yet") && !html.contains("You are at") && !html.contains("<form"), "{html}");
    assert!(!html.contains("/my data"), "the data folder is nothing for strangers: {html}");
    fixture.person("anna", "no hash").await;
    let html = at("127.0.0.1:8080").await;
    assert!(html.contains("You are at 127.0.0.1:8080."), "{html}");
    assert!(html.contains("<a href=\"http://localhost:8080/ui/tools\">http://localhost:8080/ui/tools</a>"), "{html}");
    assert!(!at("localhost:8080").await.contains("You are at"), "the same address");
    assert!(!at("LOCALHOST:8080").await.contains("You are at"), "the same address");
    fixture.stop().await;
}
