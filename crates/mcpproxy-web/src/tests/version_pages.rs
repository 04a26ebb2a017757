//! Tests of the pages of published versions, and of publishing from them.

use std::sync::Arc;

use mcpproxy_core::contract::Contracts;
use mcpproxy_gateway::Files;
use mcpproxy_store::{ConfigFiles, NewVersion, PresenceProof};
use serde_json::json;
use sqlx::{Connection as _, SqliteConnection};

use super::people::{Person, code_at, get, has, post};
use super::tool_pages::recorded;
use super::{Fixture, NOW_MS, settings};

const FILE: &str = "contracts/fx.yaml";
const FORBIDDEN: &str = "- tool: fx:note\n  riskLevel: forbidden\n";
const LOW: &str = "- tool: fx:note\n  riskLevel: low\n";

fn files(contracts: &str) -> ConfigFiles {
    vec![(FILE.to_owned(), contracts.to_owned()), ("mcp_config.json".to_owned(), "{}\n".to_owned())]
}

fn value<'h>(html: &'h str, name: &str) -> &'h str {
    let start = format!("name=\"{name}\" value=\"");
    html.split(&start).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

async fn present(fixture: &Fixture, person: &Person) -> PresenceProof {
    let secret = person.cookie.split_once('=').unwrap().1;
    let session = fixture.store.find_session(secret, NOW_MS, 1_000, 1_000).await.unwrap().unwrap();
    session.present(&person.page_key).unwrap()
}

/// Publishes these contracts as anna, one version after the other, and puts the last one in force.
async fn team(versions: &[&str]) -> (Fixture, Person) {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let proof = present(&fixture, &anna).await;
    fixture.gateway.set_version(0);
    for (after, contracts) in versions.iter().enumerate() {
        let (after, files) = (i64::try_from(after).unwrap(), files(contracts));
        let new = NewVersion { after, summary: "contracts/<b>.yaml", files: &files };
        fixture.store.publish_version(&new, &proof, NOW_MS - 180_000).await.unwrap().unwrap();
        fixture.gateway.set_version(after + 1);
        let contracts = Contracts::parse(&[(FILE.to_owned(), (*contracts).to_owned())]).unwrap_or_default();
        let contracts = Arc::new(contracts);
        fixture.gateway.reload(Files { settings: Arc::new(settings()), contracts, ..Files::default() });
    }
    (fixture, anna)
}

#[tokio::test]
async fn sqlite_has_no_versions() {
    let fixture = Fixture::new().await;
    let anna = fixture.person("anna", "no hash").await;
    let (status, html) = get(&fixture, &anna, "/ui/settings/versions").await;
    assert_eq!(status, 200);
    has(&html, &["This gateway uses SQLite"]);
    let (_, html) = get(&fixture, &anna, "/ui/settings").await;
    assert!(!html.contains("Published version"), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn the_active_version_is_on_the_settings_page() {
    let (fixture, anna) = team(&[]).await;
    let (_, html) = get(&fixture, &anna, "/ui/settings").await;
    has(&html, &["Nothing is published yet", "config apply --from FOLDER", "/ui/settings/versions"]);
    let (_, html) = get(&fixture, &anna, "/ui/settings/versions").await;
    has(&html, &["No version yet"]);
    fixture.stop().await;

    let (fixture, anna) = team(&[FORBIDDEN, LOW]).await;
    let (_, html) = get(&fixture, &anna, "/ui/settings").await;
    has(&html, &["Version 2</a> is active.", "anna", "3 minutes ago", "contracts/&lt;b&gt;.yaml"]);
    has(&html, &["Publish a version to change them."]);
    let (_, html) = get(&fixture, &anna, "/ui/settings/versions").await;
    has(&html, &["/ui/settings/versions/2", "/ui/settings/versions/1", "Active", "contracts/&lt;b&gt;.yaml"]);
    assert!(!html.contains("<b>.yaml"), "{html}");
    // This gateway could not use the newest version.
    fixture.gateway.set_version(1);
    fixture.gateway.reload_failed("version 2/contracts/fx.yaml:1:1: unknown key `<i>`".to_owned());
    let (_, html) = get(&fixture, &anna, "/ui/settings").await;
    has(&html, &["Version 1</a> is active.", "Version 2</a> is newer"]);
    let (_, html) = get(&fixture, &anna, "/ui/settings/versions/2").await;
    has(&html, &["Not active here", "has not taken the version over", "unknown key `&lt;i&gt;`"]);
    fixture.stop().await;
}

#[tokio::test]
async fn a_version_shows_its_differences() {
    let hostile = "# <script>alert(1)</script>\u{202E}\n- tool: fx:note\n  riskLevel: high\n";
    let (fixture, anna) = team(&[hostile, LOW]).await;
    let (status, html) = get(&fixture, &anna, "/ui/settings/versions/1").await;
    assert_eq!(status, 200);
    has(&html, &["Differences to version 2, the active one", "&lt;script&gt;", "U+202E", "  riskLevel: low</del>"]);
    has(&html, &["  riskLevel: high</ins>", "What version 1 changed", "new file", "Publish as version 3"]);
    assert!(!html.contains("<script>alert") && !html.contains('\u{202E}'), "{html}");
    let (_, html) = get(&fixture, &anna, "/ui/settings/versions/2").await;
    has(&html, &["What version 2 changed", "  riskLevel: low</ins>", "This is the newest version."]);
    has(&html, &["<summary class=\"said\">contracts/fx.yaml</summary>", ">- tool: fx:note\n  riskLevel: low\n</pre>"]);
    assert!(!html.contains("Publish as"), "{html}");
    for gone in ["3", "0", "x", "99999999999999999999"] {
        let (status, html) = get(&fixture, &anna, &format!("/ui/settings/versions/{gone}")).await;
        assert_eq!(status, 404, "{gone}");
        has(&html, &["Version not found"]);
    }
    fixture.stop().await;
}

#[tokio::test]
async fn a_stricter_version_is_published_again_with_presence() {
    let (fixture, anna) = team(&[FORBIDDEN, LOW]).await;
    let path = "/ui/settings/versions/1";
    let (_, html) = get(&fixture, &anna, path).await;
    has(&html, &["No rule becomes weaker."]);
    let fields = format!("after={}&digest={}", value(&html, "after"), value(&html, "digest"));
    assert_eq!(fixture.post_plainly(&anna, path, &fields).await.status(), 403, "a cookie alone is not enough");
    for outdated in [fields.replace("after=2", "after=1"), "after=2&digest=0".to_owned(), String::new()] {
        let (status, html) = post(&fixture, &anna, path, &outdated).await;
        assert_eq!(status, 409, "{outdated}");
        has(&html, &["Another version was published", "Nothing was published."]);
    }
    assert_eq!(fixture.store.newest_version().await.unwrap().unwrap().number, 2);

    let response = fixture.post(&anna, path, &fields).await;
    assert_eq!(response.status(), 303);
    assert_eq!(response.headers()["location"], "/ui/settings/versions/3?done=published");
    let newest = fixture.store.newest_version().await.unwrap().unwrap();
    assert_eq!((newest.number, newest.published_by.as_str()), (3, "anna"));
    assert_eq!(newest.summary, "back to version 1: contracts/fx.yaml");
    let (_, html) = get(&fixture, &anna, "/ui/settings/versions/3?done=published").await;
    has(&html, &["This version is published for all gateways. This gateway has taken it over."]);
    let (_, html) = get(&fixture, &anna, path).await;
    has(&html, &["the newest version has the same files"]);
    let (status, _) = post(&fixture, &anna, path, &fields).await;
    assert_eq!(status, 409, "sent twice");
    fixture.stop().await;
}

#[tokio::test]
async fn a_weaker_version_needs_a_second_factor() {
    let (fixture, anna) = team(&[LOW, FORBIDDEN]).await;
    let path = "/ui/settings/versions/1";
    let (_, html) = get(&fixture, &anna, path).await;
    has(&html, &["This allows more than before.", "riskLevel forbidden → low", "Code from your authenticator app"]);
    let fields = format!("after={}&digest={}", value(&html, "after"), value(&html, "digest"));
    let (status, html) = post(&fixture, &anna, path, &fields).await;
    assert_eq!(status, 403, "the key of the page is not enough");
    has(&html, &["This needs a second factor."]);
    let (status, html) = post(&fixture, &anna, path, &format!("{fields}&totp=000000")).await;
    assert_eq!(status, 403);
    has(&html, &["The code is wrong", "aria-invalid=\"true\""]);
    assert_eq!(fixture.store.newest_version().await.unwrap().unwrap().number, 2);
    let (status, _) = post(&fixture, &anna, path, &format!("{fields}&totp={}", code_at(0))).await;
    assert_eq!(status, 303);
    let record = recorded(&fixture, "version_published").await;
    assert_eq!((&record["metadata"]["user"], &record["metadata"]["version"]), (&json!("anna"), &json!(3)));
    assert!(record["metadata"]["weaker"][0].as_str().unwrap().contains("fx:note"), "{record}");
    let (_, html) = get(&fixture, &anna, "/ui/activity?type=settings").await;
    has(&html, &["Settings, contracts and policies published"]);
    fixture.stop().await;
}

#[tokio::test]
async fn a_version_that_this_gateway_cannot_use_is_not_published_again() {
    let (fixture, anna) = team(&["- tool: fx:note\n  riskLevel: huge\n", LOW]).await;
    let path = "/ui/settings/versions/1";
    let (status, html) = get(&fixture, &anna, path).await;
    assert_eq!(status, 200);
    has(&html, &["it cannot be published here", "huge", "riskLevel: huge</ins>"]);
    assert!(!html.contains("Publish as"), "{html}");
    let digest = mcpproxy_store::files_digest(&files("- tool: fx:note\n  riskLevel: huge\n"));
    let (status, _) = post(&fixture, &anna, path, &format!("after=2&digest={digest}")).await;
    assert_eq!(status, 409);
    fixture.stop().await;
}

/// No gateway uses a version that was changed in the database. A user can still publish another one after it.
#[tokio::test]
async fn a_damaged_version_is_named() {
    let (fixture, anna) = team(&[LOW, FORBIDDEN]).await;
    let path = format!("sqlite:{}", fixture.folder.path().join("mcpproxy.db").display());
    let mut behind = SqliteConnection::connect(&path).await.unwrap();
    sqlx::query("UPDATE config_versions SET files = '[]' WHERE number = 2").execute(&mut behind).await.unwrap();
    behind.close().await.unwrap();
    let (status, html) = get(&fixture, &anna, "/ui/settings/versions/2").await;
    assert_eq!(status, 409);
    has(&html, &["This version is damaged", "Publish another version."]);
    let (status, html) = get(&fixture, &anna, "/ui/settings/versions/1").await;
    assert_eq!(status, 200);
    has(&html, &["Differences to version 2", "new file", "riskLevel forbidden → low", "Publish as version 3"]);
    let (status, html) = get(&fixture, &anna, "/ui/settings/versions").await;
    assert_eq!(status, 200);
    has(&html, &["/ui/settings/versions/2"]);
    fixture.stop().await;
}
