//! The pages of servers: what they show, and what their forms need.

use std::sync::{Arc, Mutex};

use http::{Method, StatusCode};
use mcpproxy_core::ServerName;
use mcpproxy_core::settings::{Settings, Unresolved, parse};
use mcpproxy_core::trust::{Definition, DefinitionKind};
use serde_json::json;

use super::people::Person;
use super::{Fixture, settings, text};
use crate::editor::{EditError, Edited, NextVersion, ServersEditor, Undo, Written};

const HOSTILE: &str = "<script>alert(1)</script>\u{202E}\u{1b}[2J";

/// Writes down what a page asks for.
#[derive(Clone, Default)]
struct FakeEditor {
    done: Arc<Mutex<Vec<String>>>,
    /// Changes are published as the first version.
    is_published: bool,
}

impl FakeEditor {
    fn note(&self, text: String, names: Vec<ServerName>, notes: Vec<String>) -> Result<Edited, EditError> {
        let written = match self.is_published {
            true => Written::Version(NextVersion { after: 0, files: vec![("mcp_config.json".to_owned(), text)] }),
            false => {
                self.done.lock().unwrap().push(text);
                Written::File(Undo::new(|| {}))
            }
        };
        Ok(Edited { names, notes, written })
    }

    fn done(&self) -> Vec<String> {
        self.done.lock().unwrap().clone()
    }
}

impl ServersEditor for FakeEditor {
    fn add(&self, pasted: &str, name: Option<&str>) -> Result<Edited, EditError> {
        if pasted.contains("bad") {
            return Err(EditError::Invalid(format!("That is wrong: {HOSTILE}")));
        }
        if pasted.contains("read-only") {
            return Err(EditError::ReadOnly { file: "mcp_config.json".to_owned(), text: "PASTE ME".to_owned() });
        }
        let notes = if pasted.contains("noted") { vec!["A secret moved.".to_owned()] } else { vec![] };
        self.note(format!("add {pasted} {name:?}"), vec![ServerName::parse("new").unwrap()], notes)
    }

    fn set_enabled(&self, server: &ServerName, is_enabled: bool) -> Result<Edited, EditError> {
        self.note(format!("set {server} {is_enabled}"), vec![server.clone()], vec![])
    }

    fn remove(&self, server: &ServerName) -> Result<Edited, EditError> {
        self.note(format!("remove {server}"), vec![server.clone()], vec![])
    }
}

/// A gateway with a server that is disabled, so that only the stored lists count.
async fn fixture() -> (Fixture, String, FakeEditor, Person) {
    fixture_with(FakeEditor::default()).await
}

async fn fixture_with(editor: FakeEditor) -> (Fixture, String, FakeEditor, Person) {
    let text = r#"{"mcpServers": {"fx": {"command": "fx", "enabled": false}}}"#;
    let parsed = parse(text, &Unresolved).unwrap();
    let identity = parsed.servers[0].identity.key().to_owned();
    let settings = Settings { servers: parsed.servers, ..settings() };
    let fixture = Fixture::with_editor(settings, Box::new(editor.clone())).await;
    let person = fixture.person("anna", "no hash").await;
    (fixture, identity, editor, person)
}

async fn list(fixture: &Fixture, identity: &str, admitted: &[Definition], held: &[Definition]) {
    let details = json!({"changes": [HOSTILE], "kinds": ["description"], "findings": []}).to_string();
    fixture.list(identity, admitted, held, &details).await;
}

fn tool(name: &str, description: &str) -> Definition {
    let json = json!({"name": name, "description": description, "inputSchema": {}}).to_string();
    Definition::new(DefinitionKind::Tool, name, &json)
}

async fn page(fixture: &Fixture, person: &Person, path: &str) -> (StatusCode, String) {
    let response = fixture.send(Method::GET, path, &[("cookie", person.cookie.as_str())]).await;
    (response.status(), text(response).await)
}

async fn post(fixture: &Fixture, person: &Person, path: &str, fields: &str) -> (StatusCode, String, String) {
    let response = fixture.post(person, path, fields).await;
    let location = response.headers().get("location").map(|to| to.to_str().unwrap().to_owned()).unwrap_or_default();
    (response.status(), location, text(response).await)
}

/// Returns the values of the check boxes, encoded for a form.
fn boxes(html: &str) -> Vec<String> {
    let parts = html.split("name=\"pick-").skip(1);
    let value = |part: &str| part.split("value=\"").nth(1)?.split('"').next().map(|value| value.replace(' ', "+"));
    parts.filter_map(value).collect()
}

#[tokio::test]
async fn lists_and_details() {
    let (fixture, _, _, person) = fixture().await;
    let (status, html) = page(&fixture, &person, "/ui/servers").await;
    assert_eq!(status, 200);
    assert!(html.contains("href=\"/ui/servers/fx\"") && html.contains("Disabled"), "{html}");
    assert!(html.contains("about=servers"), "the page is live");
    let (status, html) = page(&fixture, &person, "/ui/servers/fx").await;
    assert_eq!(status, 200);
    assert!(html.contains("value=\"enable\"") && !html.contains("value=\"restart\""), "{html}");
    for path in ["/ui/servers/none", "/ui/servers/%3Cscript%3E", "/ui/servers/fx%2F..", "/ui/servers/none/review"] {
        let (status, html) = page(&fixture, &person, path).await;
        assert_eq!(status, 404, "{path}");
        assert!(!html.contains("<script>"), "{html}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn forms_of_a_server() {
    let (fixture, _, editor, person) = fixture().await;
    let path = "/ui/servers/fx";
    assert_eq!(post(&fixture, &person, path, "action=restart").await.0, 409);
    assert_eq!(post(&fixture, &person, path, "action=disable").await.0, 303);
    // Enabling gives agents more.
    let response = fixture.post_plainly(&person, path, "action=enable").await;
    assert_eq!(response.status(), 403);
    assert!(text(response).await.contains("Enter your password"));
    assert_eq!(post(&fixture, &person, path, "action=enable").await.0, 303);
    assert_eq!(post(&fixture, &person, path, "action=remove").await.0, 422);
    assert_eq!(post(&fixture, &person, path, "action=remove&name=other").await.0, 422);
    assert_eq!(post(&fixture, &person, path, "action=remove&name=fx").await.0, 303);
    assert_eq!(editor.done(), ["set fx false", "set fx true", "remove fx"]);
    let records = fixture.get("/api/v1/activity?server=fx&limit=50").await;
    let records = records["activities"].as_array().unwrap().clone();
    for code in ["server_disabled", "server_enabled", "server_removed"] {
        let record = records.iter().find(|one| one["code"] == code).unwrap();
        assert_eq!(record["metadata"]["user"], "anna", "{record}");
    }
    fixture.stop().await;
}

/// Returns a hidden value of a form.
fn value<'h>(html: &'h str, name: &str) -> &'h str {
    let start = format!("name=\"{name}\" value=\"");
    html.split(&start).nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

#[tokio::test]
async fn changes_of_published_settings_are_confirmed() {
    let (fixture, _, _, person) = fixture_with(FakeEditor { is_published: true, ..FakeEditor::default() }).await;
    fixture.gateway.set_version(0);
    let path = "/ui/servers/fx";
    let (_, html) = page(&fixture, &person, path).await;
    assert!(html.contains("You see the differences before they are published"), "{html}");
    let (status, _, html) = post(&fixture, &person, path, "action=enable").await;
    assert_eq!(status, 200);
    for part in ["<h1>Enable fx</h1>", "set fx true</ins>", "No rule becomes weaker.", "Publish as version 1"] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    assert_eq!(fixture.store.newest_version().await.unwrap(), None);
    let confirm =
        format!("action={}&after={}&digest={}", value(&html, "action"), value(&html, "after"), value(&html, "digest"));
    assert_eq!(fixture.post_plainly(&person, path, &confirm).await.status(), 403, "a cookie alone is not enough");
    let (status, _, html) = post(&fixture, &person, path, &confirm.replace("enable", "disable")).await;
    assert_eq!(status, 409, "another change than the one that was shown");
    assert!(html.contains("Another version was published") && html.contains("set fx false</ins>"), "{html}");
    let (status, location, _) = post(&fixture, &person, path, &confirm).await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/fx?done=server_enabled"));
    let version = fixture.store.find_version(1).await.unwrap().unwrap();
    assert_eq!((version.files[0].1.as_str(), version.head.published_by.as_str()), ("set fx true", "anna"));
    // The next draft still follows version 0.
    let (status, _, html) = post(&fixture, &person, path, "action=disable").await;
    assert_eq!(status, 409);
    assert!(html.contains("Version 1 is newer than the one that this gateway has."), "{html}");
    fixture.stop().await;
}

#[tokio::test]
async fn servers_are_added_to_published_settings() {
    let (fixture, _, _, person) = fixture_with(FakeEditor { is_published: true, ..FakeEditor::default() }).await;
    fixture.gateway.set_version(0);
    let path = "/ui/servers/add";
    let (_, html) = page(&fixture, &person, path).await;
    assert!(html.contains("Show the differences") && !html.contains("Secrets are moved"), "{html}");
    let (status, _, html) = post(&fixture, &person, path, "how=paste&json=bad").await;
    assert_eq!(status, 422);
    assert!(html.contains("That is wrong") && html.contains(">bad</textarea>"), "what was typed stays: {html}");
    let fields = "how=form&name=new&start=uvx+noted&env=A%3D%3Cb%3E";
    let (status, _, html) = post(&fixture, &person, path, fields).await;
    assert_eq!(status, 200);
    for part in ["<h1>Add new</h1>", "A secret moved.", "value=\"A=&#60;b&#62;\"", "&lt;b&gt;"] {
        assert!(html.contains(part), "{part}\n{html}");
    }
    let confirm = format!("{fields}&after=0&digest={}", value(&html, "digest"));
    let (status, location, _) = post(&fixture, &person, path, &confirm).await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/new/review"));
    assert_eq!(fixture.store.newest_version().await.unwrap().unwrap().number, 1);
    fixture.stop().await;
}

#[tokio::test]
async fn adding_servers() {
    let (fixture, _, editor, person) = fixture().await;
    let path = "/ui/servers/add";
    assert_eq!(page(&fixture, &person, path).await.0, 200);
    let fields = "how=form&name=new&start=uvx+mcp-server-time&env=A%3Db";
    let response = fixture.post_plainly(&person, path, fields).await;
    assert_eq!(response.status(), 403);
    let html = text(response).await;
    assert!(html.contains("value=\"uvx mcp-server-time\""), "what was typed stays: {html}");
    let (status, location, _) = post(&fixture, &person, path, fields).await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/new/review"));
    let (status, location, _) = post(&fixture, &person, path, "how=paste&json=%7B%7D&json_name=x").await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/new/review"));
    let (status, location, _) = post(&fixture, &person, path, "how=paste&json=noted").await;
    assert!(status == 303 && location.starts_with("/ui/servers/add?added="), "a reload adds nothing again: {location}");
    for _ in 0..2 {
        let (status, html) = page(&fixture, &person, &location).await;
        assert!(status == 200 && html.contains("A secret moved.") && html.contains("Review new"), "{html}");
    }
    let html = page(&fixture, &person, "/ui/servers/add?added=none").await.1;
    assert!(html.contains("Fill in a form"), "an unknown record shows the forms: {html}");
    let expected =
        r#"add {"mcpServers":{"new":{"command":"uvx","args":["mcp-server-time"],"env":{"A":"b"}}}} Some("new")"#;
    assert_eq!(editor.done(), [expected, r#"add {} Some("x")"#, "add noted None"]);
    let (status, _, html) = post(&fixture, &person, path, "how=paste&json=bad%3Cscript%3E").await;
    assert!(status == 422 && html.contains("That is wrong") && !html.contains("<script>a"), "{html}");
    let (status, _, html) = post(&fixture, &person, path, "how=paste&json=read-only").await;
    assert!(status == 409 && html.contains("PASTE ME"), "{html}");
    let (status, _, html) = post(&fixture, &person, path, "how=form&name=fx&start=x").await;
    assert!(status == 422 && html.contains("exists already"), "{html}");
    assert_eq!(editor.done().len(), 3);
    assert_eq!(fixture.codes().await.iter().filter(|code| *code == "server_added").count(), 3);
    let records = fixture.get("/api/v1/activity?code=server_add&limit=50").await;
    let mut statuses: Vec<&str> =
        records["activities"].as_array().unwrap().iter().map(|one| one["status"].as_str().unwrap()).collect();
    statuses.sort_unstable();
    assert_eq!(statuses, ["error", "error", "success", "success", "success"], "one record for each attempt");
    fixture.stop().await;
}

#[tokio::test]
async fn a_review_on_the_page() {
    let (fixture, identity, _, person) = fixture().await;
    list(&fixture, &identity, &[tool("rate", "Returns a rate.")], &[]).await;
    list(&fixture, &identity, &[], &[tool("rate", "Returns a good rate."), tool("b", HOSTILE)]).await;
    let path = "/ui/servers/fx/review";
    let (status, html) = page(&fixture, &person, path).await;
    assert_eq!(status, 200);
    assert!(html.contains("Returns a <ins>good</ins> rate."), "{html}");
    assert!(!html.contains("<script>a") && !html.contains('\u{202E}') && html.contains("U+202E"), "{html}");
    let picks = boxes(&html);
    assert_eq!(picks.len(), 2);
    assert_eq!(post(&fixture, &person, path, "action=accept").await.0, 422, "nothing is selected");
    let one = format!("action=accept&pick-0={}", picks[0]);
    let response = fixture.post_plainly(&person, path, &one).await;
    assert_eq!(response.status(), 403, "a session alone is not enough");
    assert!(text(response).await.contains("checked"), "the selection stays");
    let (status, location, _) = post(&fixture, &person, path, &one).await;
    assert_eq!(
        (status.as_u16(), location.as_str()),
        (303, "/ui/servers/fx/review?accepted=1&rejected=0"),
        "the other one still waits"
    );
    assert!(page(&fixture, &person, &location).await.1.contains("You accepted 1 definition."));
    assert_eq!(fixture.get("/api/v1/servers/fx/definitions").await["definitions"].as_array().unwrap().len(), 1);

    // Another version waits now, so what was shown can no longer be decided.
    list(&fixture, &identity, &[], &[tool("b", "Other."), tool("c", "New.")]).await;
    let html = page(&fixture, &person, path).await.1;
    let list_digest = html.split("name=\"list\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let picks = boxes(&html);
    list(&fixture, &identity, &[], &[tool("b", "Otherwise."), tool("c", "New.")]).await;
    let stale = format!("action=accept&pick-0={}&pick-1={}", picks[0], picks[1]);
    for fields in [stale, format!("action=accept_all&list={list_digest}")] {
        let (status, _, html) = post(&fixture, &person, path, &fields).await;
        assert_eq!(status, 409, "{fields}");
        assert!(html.contains("the list has changed") && html.contains("Otherwise."), "{html}");
    }
    let html = page(&fixture, &person, path).await.1;
    let list_digest = html.split("name=\"list\" value=\"").nth(1).unwrap().split('"').next().unwrap().to_owned();
    let (status, location, _) = post(&fixture, &person, path, &format!("action=reject_all&list={list_digest}")).await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/fx?accepted=0&rejected=2"));
    assert!(page(&fixture, &person, &location).await.1.contains("You rejected 2 definitions."));
    assert!(page(&fixture, &person, path).await.1.contains("What it lists appears here"), "nothing waits");
    fixture.stop().await;
}

#[tokio::test]
async fn a_rejection_is_taken_back_on_the_page() {
    let (fixture, identity, _, person) = fixture().await;
    list(&fixture, &identity, &[], &[tool("b", "New."), tool("c", "New.")]).await;
    let (path, rejected) = ("/ui/servers/fx/review", "/ui/servers/fx/review?page=1&of=rejected");
    let picks = boxes(&page(&fixture, &person, path).await.1);
    let (status, ..) = post(&fixture, &person, path, &format!("action=reject&pick-0={}", picks[0])).await;
    assert_eq!(status, 303);
    let html = page(&fixture, &person, rejected).await.1;
    assert!(html.contains("Rejected by anna") && boxes(&html) == picks[..1], "{html}");
    let restore = format!("action=restore&pick-0={}", picks[0]);
    let response = fixture.post_plainly(&person, rejected, &restore).await;
    assert_eq!(response.status(), 403, "a session alone is not enough");
    assert!(text(response).await.contains("checked"), "the selection stays");
    let waiting = format!("action=restore&pick-0={}", picks[1]);
    assert_eq!(post(&fixture, &person, rejected, &waiting).await.0, 409, "this one was never rejected");
    let (status, location, _) = post(&fixture, &person, rejected, &restore).await;
    assert_eq!((status.as_u16(), location.as_str()), (303, "/ui/servers/fx/review?accepted=1&rejected=0"));
    let accepted = fixture.get("/api/v1/servers/fx/definitions").await;
    assert_eq!(accepted["definitions"].as_array().unwrap().len(), 1, "{accepted}");
    assert!(page(&fixture, &person, rejected).await.1.contains("No rejected definitions"));
    fixture.stop().await;
}

#[tokio::test]
async fn the_whole_definition_is_plain_text() {
    let (fixture, identity, _, person) = fixture().await;
    let held = tool("b", HOSTILE);
    list(&fixture, &identity, &[], std::slice::from_ref(&held)).await;
    let path = format!("/ui/servers/fx/review/whole?pin={}", held.pin());
    let response = fixture.send(Method::GET, &path, &[("cookie", person.cookie.as_str())]).await;
    assert_eq!(response.headers()["content-type"], "text/plain; charset=utf-8");
    assert!(text(response).await.contains("\\u{202e}"));
    assert_eq!(page(&fixture, &person, "/ui/servers/fx/review/whole?pin=x").await.0, 404);
    fixture.stop().await;
}
