//! The pages of tools, with a server of the test: lists, one tool, explained calls and the contract editor.

use std::sync::{Arc, Mutex};

use axum::Json;
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;
use mcpproxy_core::ToolName;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::review::edit;
use mcpproxy_core::settings::{self, Unresolved};
use mcpproxy_core::trust::{Definition, DefinitionKind};
use mcpproxy_gateway::Files;
use mcpproxy_store::files_digest;
use serde_json::{Value, json};

use super::people::{Person, code_at, get, has, post};
use super::{Fixture, PATIENCE};
use crate::editor::{
    ContractChange, ContractDraft, ContractsEditor, Destination, EditError, NextVersion, WrittenContract,
};

const FILE: &str = "contracts/fx.yaml";
const HOSTILE: &str = "Sends mail.<script>alert(1)</script>\u{202E}\u{1b}[2J";
const CONTRACTS: &str = "\
# Ours.
- tool: fx:send
  riskLevel: high # others notice
- tool: fx:wipe
  riskLevel: forbidden
";

/// A contract file in memory.
#[derive(Clone)]
struct FakeFile {
    text: Arc<Mutex<String>>,
    saving: Saving,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Saving {
    File,
    ByHand,
    /// Drafts are published as the first version.
    Version,
}

impl FakeFile {
    fn new(saving: Saving) -> Self {
        Self { text: Arc::new(Mutex::new(CONTRACTS.to_owned())), saving }
    }

    fn text(&self) -> String {
        self.text.lock().unwrap().clone()
    }
}

impl ContractsEditor for FakeFile {
    fn written(&self, tool: &ToolName) -> Result<WrittenContract, EditError> {
        let found = edit::written(FILE, &self.text(), tool);
        let (line, fields) = found.map(|found| (found.line, found.fields)).unzip();
        Ok(WrittenContract { file: FILE.to_owned(), line, fields: fields.unwrap_or_default() })
    }

    fn draft(&self, tool: &ToolName, change: &ContractChange) -> Result<ContractDraft, EditError> {
        let before = self.text();
        let after = edit::edited(FILE, &before, tool, &change.fields).unwrap();
        let contracts = Contracts::parse(&[(FILE.to_owned(), after.clone())])
            .map_err(|mistakes| EditError::Invalid(mistakes[0].1.to_string()))?;
        let files = vec![(FILE.to_owned(), after.clone())];
        let digest = files_digest(&files);
        let destination = match self.saving {
            Saving::File => Destination::File,
            Saving::ByHand => Destination::ByHand,
            Saving::Version => Destination::Version(NextVersion { after: 0, files }),
        };
        Ok(ContractDraft { file: FILE.to_owned(), before, after, digest, contracts: Arc::new(contracts), destination })
    }

    fn write(&self, draft: &ContractDraft) -> Result<(), EditError> {
        *self.text.lock().unwrap() = draft.after.clone();
        Ok(())
    }
}

fn tools() -> Vec<Value> {
    let schema = json!({"type": "object", "required": ["to"], "properties": {
        "to": {"type": "array", "items": {"type": "string"}, "description": "<img src=x onerror=alert(1)>"},
        "subject": {"type": "string"},
    }});
    let hints = json!({"destructiveHint": true, "title": "<b>Send</b>"});
    vec![
        json!({"name": "send", "description": HOSTILE, "inputSchema": schema, "annotations": hints}),
        json!({"name": "list", "description": "Lists mail. ".repeat(1_000), "inputSchema": {"type": "object"},
            "annotations": {"readOnlyHint": true}}),
        json!({"name": "wipe", "description": "Deletes everything.", "inputSchema": {"type": "object"}}),
    ]
}

async fn answer(Json(request): Json<Value>) -> Response {
    let result = match request["method"].as_str() {
        Some("initialize") => json!({"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
            "serverInfo": {"name": "fx", "version": "1"}}),
        Some("tools/list") => json!({"tools": tools()}),
        Some("ping") => json!({}),
        Some(method) if method.starts_with("notifications/") => return StatusCode::ACCEPTED.into_response(),
        _ => {
            let error = json!({"code": -32601, "message": "Method not found"});
            return Json(json!({"jsonrpc": "2.0", "id": request["id"], "error": error})).into_response();
        }
    };
    Json(json!({"jsonrpc": "2.0", "id": request["id"], "result": result})).into_response()
}

/// Accepts the tools, as a user would. The scan would quarantine the hostile one.
async fn accept(fixture: &Fixture, identity: &str) {
    let definition =
        |tool: Value| Definition::new(DefinitionKind::Tool, tool["name"].as_str().unwrap(), &tool.to_string());
    let definitions: Vec<Definition> = tools().into_iter().map(definition).collect();
    fixture.list(identity, &definitions, &[], "{}").await;
}

/// Waits until the log has a record with this code.
pub(super) async fn recorded(fixture: &Fixture, code: &str) -> Value {
    let mut commits = fixture.ledger.committed();
    loop {
        commits.mark_unchanged();
        let page = fixture.get("/api/v1/activity?limit=200").await;
        if let Some(found) = page["activities"].as_array().unwrap().iter().find(|one| one["code"] == code) {
            return found.clone();
        }
        tokio::time::timeout(PATIENCE, commits.changed()).await.unwrap().unwrap();
    }
}

/// Starts a gateway with the server `fx`, and a user.
async fn fixture(file: FakeFile) -> (Fixture, Person) {
    let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let router = axum::Router::new().fallback(axum::routing::post(answer));
    tokio::spawn(async move { axum::serve(listener, router).await });
    let text = json!({
        "trust": {"first_sight": "accept"},
        "mcpServers": {"fx": {"url": format!("http://{address}/mcp")}},
    });
    let settings = settings::parse(&text.to_string(), &Unresolved).unwrap();
    let fixture = Fixture::with_contracts(super::settings(), Box::new(file.clone())).await;
    accept(&fixture, settings.servers[0].identity.key()).await;
    let contracts = Contracts::parse(&[(FILE.to_owned(), file.text())]).unwrap();
    fixture.gateway.reload(Files { settings: Arc::new(settings), contracts: Arc::new(contracts), ..Files::default() });
    fixture.gateway.ready().await;
    let person = fixture.person("anna", "no hash").await;
    (fixture, person)
}

/// Nothing of the server is markup, and nothing invisible stays invisible.
fn is_harmless(html: &str) {
    for bad in ["<script>alert", "<img src=x", "<b>Send", "\u{202E}", "\u{1b}"] {
        assert!(!html.contains(bad), "{bad:?}");
    }
    assert!(html.len() < 200_000, "{} bytes", html.len());
}

#[tokio::test]
async fn tools_are_listed_and_found() {
    let (fixture, person) = fixture(FakeFile::new(Saving::File)).await;
    let (status, html) = get(&fixture, &person, "/ui/tools").await;
    assert_eq!(status, 200);
    is_harmless(&html);
    has(&html, &["3 tools", "/ui/tools/fx/send", "High risk", "rated in contracts/fx.yaml:3", "Forbidden"]);
    has(&html, &["Hidden from agents", "Unclassified", "U+202E", "&lt;script&gt;"]);
    let (_, html) = get(&fixture, &person, "/ui/tools?risk=forbidden").await;
    assert!(html.contains("/ui/tools/fx/wipe") && !html.contains("/ui/tools/fx/send"));
    let (_, html) = get(&fixture, &person, "/ui/tools?server=none").await;
    has(&html, &["No tool matches these filters"]);

    let (status, html) = get(&fixture, &person, "/ui/tools?q=send+mail").await;
    assert_eq!(status, 200);
    is_harmless(&html);
    has(&html, &["/ui/tools/fx/send", "Its meaning is", "How the score was computed", "Words of the query"]);
    assert!(!html.contains("/ui/tools/fx/wipe"), "agents do not find a forbidden tool");
    let (_, html) = get(&fixture, &person, "/ui/tools?q=send+mail&risk=high").await;
    has(&html, &["/ui/tools/fx/send", "value=\"high\" selected"]);
    let (_, html) = get(&fixture, &person, "/ui/tools?q=send+mail&risk=low").await;
    assert!(!html.contains("/ui/tools/fx/send") && html.contains("No tool found"), "the filter counts in a search too");
    let (status, html) = get(&fixture, &person, "/ui/tools?q=%3Cscript%3E").await;
    assert_eq!(status, 200);
    assert!(!html.contains("value=\"<script>"));
    fixture.stop().await;
}

#[tokio::test]
async fn one_tool_with_its_contract() {
    let (fixture, person) = fixture(FakeFile::new(Saving::File)).await;
    let (status, html) = get(&fixture, &person, "/ui/tools/fx/send").await;
    assert_eq!(status, 200);
    is_harmless(&html);
    has(
        &html,
        &["fx:send", "A user approves every call.", "call_tool_destructive", "from your files", "contracts/fx.yaml:3"],
    );
    has(&html, &["risk level", "annotations", "array of string", "required", "&lt;img src=x"]);
    has(&html, &["No record of this tool yet", "&#34;to&#34;: []"]);
    let (status, html) = get(&fixture, &person, "/ui/tools/fx/list").await;
    assert_eq!(status, 200);
    is_harmless(&html);
    has(&html, &["Nobody has written a contract", "Show the first 8000 of 12000 characters"]);
    let (_, html) = get(&fixture, &person, "/ui/tools/fx/wipe").await;
    has(&html, &["Agents cannot see or call this tool."]);
    for gone in ["/ui/tools/fx/gone", "/ui/tools/A%20B/x", "/ui/tools/fx/%00", "/ui/tools/fx/gone/contract"] {
        assert_eq!(get(&fixture, &person, gone).await.0, 404, "{gone}");
    }
    fixture.stop().await;
}

#[tokio::test]
async fn calls_are_explained_and_not_made() {
    let (fixture, person) = fixture(FakeFile::new(Saving::File)).await;
    let path = "/ui/tools/fx/send";
    let (status, html) =
        post(&fixture, &person, path, "variant=destructive&arguments=%7B%22to%22%3A%5B%22a%22%5D%7D").await;
    assert_eq!(status, 200);
    has(
        &html,
        &[
            "This call would wait until a user approves it.",
            "The check “confirmation” decided.",
            "Asks a user",
            "rate limit",
            "Passed",
        ],
    );
    let (_, html) = post(&fixture, &person, path, "variant=read&arguments=%7B%22to%22%3A%5B%5D%7D").await;
    has(&html, &["This call would be refused.", "Agents call this tool with call_tool_destructive.", "Not reached"]);
    has(
        &html,
        &[
            "The server says that the tool does more: destructive.",
            "Run the dry run",
            "the agent still has to make its own",
        ],
    );
    has(&html, &["call tool-read fx:send --args &#39;{&#34;to&#34;:[]}&#39; --dry-run"]);
    for to_agents in ["use call_tool_", "Use call_tool_", "Make the call to request", "Ask the user"] {
        assert!(!html.contains(to_agents), "{to_agents}\n{html}");
    }
    let (_, html) = post(&fixture, &person, "/ui/tools/fx/list", "variant=read&arguments=").await;
    has(&html, &["This call would run without asking anyone."]);
    let (_, html) = post(&fixture, &person, "/ui/tools/fx/wipe", "variant=read&arguments=").await;
    has(&html, &["The tool is forbidden."]);
    for (fields, expected) in [
        ("variant=read&arguments=%7B", "not valid JSON"),
        ("variant=read&arguments=%7B%7D%7D%2C%22name%22%3A%22fx%3Alist%22", "not valid JSON"),
        ("variant=read&arguments=%7B%7D&agent=nobody", "no agent with that name"),
    ] {
        let (status, html) = post(&fixture, &person, path, fields).await;
        assert_eq!(status, 422, "{fields}");
        has(&html, &[expected]);
    }
    let calls = fixture.get("/api/v1/activity?type=call").await;
    assert_eq!(calls["activities"], json!([]));
    fixture.stop().await;
}

/// Returns the digest in the form of a preview.
fn digest(html: &str) -> &str {
    html.split("name=\"digest\" value=\"").nth(1).and_then(|rest| rest.split('"').next()).unwrap_or_default()
}

#[tokio::test]
async fn a_stricter_contract_is_saved_with_presence() {
    let file = FakeFile::new(Saving::File);
    let (fixture, person) = fixture(file.clone()).await;
    let path = "/ui/tools/fx/send/contract";
    let (status, html) = get(&fixture, &person, path).await;
    assert_eq!(status, 200);
    has(&html, &["contracts/fx.yaml:2", "<option value=\"high\" selected>High", "In force: high"]);
    let (status, html) = post(&fixture, &person, path, "action=preview").await;
    assert_eq!(status, 422);
    has(&html, &["Nothing is changed."]);

    let fields = "riskLevel=critical&permissions=emails%3Asend";
    let (status, html) = post(&fixture, &person, path, &format!("action=preview&{fields}")).await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["riskLevel: critical # others notice", "permissions: [emails:send]", "No call was recorded"]);
    has(&html, &["with this contract: Agents call it with call_tool_destructive. A user approves every call."]);
    has(&html, &["token needs the permission emails:send."]);
    assert!(!html.contains("This allows more than before"));
    assert_eq!(file.text(), CONTRACTS, "a preview writes nothing");

    let save = format!("action=save&digest={}&{fields}", digest(&html));
    let refused = fixture.post_plainly(&person, path, &save).await;
    assert_eq!(refused.status(), 403, "a cookie alone is not enough");
    let (status, html) = post(&fixture, &person, path, &save.replace("critical", "forbidden")).await;
    assert_eq!(status, 409, "another contract than that of the preview");
    has(&html, &["changed after this preview"]);
    assert_eq!(file.text(), CONTRACTS);

    let saved = fixture.post(&person, path, &save).await;
    assert_eq!(saved.status(), 303);
    assert_eq!(saved.headers()["location"], "/ui/tools/fx/send?saved=1");
    has(&file.text(), &["# Ours.\n", "riskLevel: critical # others notice\n", "- tool: fx:wipe\n"]);
    let saved = recorded(&fixture, "contract_saved").await;
    assert_eq!(saved["type"], "settings");
    assert_eq!((&saved["metadata"]["user"], &saved["metadata"]["tool"]), (&json!("anna"), &json!("fx:send")));
    fixture.stop().await;
}

const WIPE: &str = "/ui/tools/fx/wipe/contract";

/// Saves a contract that lifts a prohibition, without a second factor. Returns the fields of the form.
async fn refused_without_factor(fixture: &Fixture, person: &Person) -> String {
    let (status, html) = post(fixture, person, WIPE, "action=preview&riskLevel=low").await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["This allows more than before", "riskLevel forbidden → low", "Code from your authenticator app"]);
    let save = format!("action=save&digest={}&riskLevel=low", digest(&html));
    let (status, html) = post(fixture, person, WIPE, &save).await;
    assert_eq!(status, 403);
    has(&html, &["needs a second factor"]);
    save
}

#[tokio::test]
async fn a_lifted_prohibition_needs_a_second_factor() {
    let file = FakeFile::new(Saving::File);
    let (fixture, person) = fixture(file.clone()).await;
    let save = refused_without_factor(&fixture, &person).await;
    assert_eq!(file.text(), CONTRACTS);
    let (status, _) = post(&fixture, &person, WIPE, &format!("{save}&totp={}", code_at(0))).await;
    assert_eq!(status, 303);
    has(&file.text(), &["- tool: fx:wipe\n  riskLevel: low\n"]);
    fixture.stop().await;
}

/// Starts a gateway whose contracts come from the database.
async fn published() -> (Fixture, Person) {
    let (fixture, person) = fixture(FakeFile::new(Saving::Version)).await;
    fixture.gateway.set_version(0);
    (fixture, person)
}

#[tokio::test]
async fn a_contract_of_the_database_is_published() {
    let (fixture, person) = published().await;
    let path = "/ui/tools/fx/send/contract";
    let fields = "riskLevel=critical";
    let (status, html) = post(&fixture, &person, path, &format!("action=preview&{fields}")).await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["Nothing is published yet.", "Publish as version 1", "riskLevel: critical # others notice</ins>"]);
    has(&html, &["The whole file, for your own folder"]);
    assert!(!html.contains("Save and apply") && !html.contains("This allows more"), "{html}");

    let save = format!("action=save&digest={}&{fields}", digest(&html));
    assert_eq!(fixture.post_plainly(&person, path, &save).await.status(), 403, "a cookie alone is not enough");
    let (status, _) = post(&fixture, &person, path, &save.replace("critical", "low")).await;
    assert_eq!(status, 409, "another contract than that of the preview");
    assert_eq!(fixture.store.newest_version().await.unwrap(), None);
    let response = fixture.post(&person, path, &save).await;
    assert_eq!(response.status(), 303);
    assert_eq!(response.headers()["location"], "/ui/settings/versions/1?done=published");
    let version = fixture.store.find_version(1).await.unwrap().unwrap();
    assert_eq!(
        (version.head.published_by.as_str(), version.head.summary.as_str()),
        ("anna", "contracts/fx.yaml (new)")
    );
    has(&version.files[0].1, &["# Ours.\n", "riskLevel: critical # others notice\n", "- tool: fx:wipe\n"]);
    let recorded = recorded(&fixture, "version_published").await;
    assert_eq!(recorded["metadata"]["user"], "anna");

    // The draft still follows version 0.
    let (status, html) = post(&fixture, &person, path, &save).await;
    assert_eq!(status, 409);
    has(&html, &["Version 1 is newer than the one that this gateway has.", "Nothing was published."]);
    fixture.stop().await;
}

#[tokio::test]
async fn a_weaker_contract_of_the_database_needs_a_second_factor() {
    let (fixture, person) = published().await;
    let save = refused_without_factor(&fixture, &person).await;
    assert_eq!(fixture.store.newest_version().await.unwrap(), None);
    let (status, _) = post(&fixture, &person, WIPE, &format!("{save}&totp={}", code_at(0))).await;
    assert_eq!(status, 303);
    assert_eq!(fixture.store.newest_version().await.unwrap().unwrap().number, 1);
    fixture.stop().await;
}

#[tokio::test]
async fn what_cannot_be_written_is_shown() {
    let file = FakeFile::new(Saving::ByHand);
    let (fixture, person) = fixture(file.clone()).await;
    let path = "/ui/tools/fx/list/contract";
    let (status, html) =
        post(&fixture, &person, path, "action=preview&riskLevel=low&description=%3Cscript%3Ealert(1)").await;
    assert_eq!(status, 200, "{html}");
    has(&html, &["Copy this text into the file yourself", "- tool: fx:list", "riskLevel: low"]);
    assert!(!html.contains("Save and apply"));
    is_harmless(&html);
    for (fields, expected) in [
        ("riskLevel=harmless", "Choose one of the options of “Risk level”."),
        ("riskLevel=critical&confirmation=none", "contradicts risk level"),
        ("rateCalls=x", "Enter the number of calls"),
    ] {
        let (status, html) = post(&fixture, &person, path, &format!("action=preview&{fields}")).await;
        assert_eq!(status, 422, "{fields}");
        has(&html, &[expected]);
    }
    let (_, html) = post(&fixture, &person, path, "action=preview&rateCalls=x").await;
    has(&html, &["<details class=\"more-fields\" open>", "<a href=\"#rateCalls\">Go to the field</a>"]);
    assert_eq!(html.matches("aria-invalid=\"true\"").count(), 1, "{html}");
    assert_eq!(html.matches("Enter the number of calls").count(), 2, "at the top, and at the field");
    fixture.stop().await;
}
