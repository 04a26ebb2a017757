//! Tests for the demo server as a client sees it, in process and as a command.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::{Child, Command, Stdio};

use demo_server::{Demo, serve_io};
use rmcp::model::{CallToolRequestParams, CallToolResult, GetPromptRequestParams, ReadResourceRequestParams};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};

const PIPE_BYTES: usize = 64 * 1024;

type Client = RunningService<RoleClient, ()>;

async fn connect() -> Client {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    let (reader, writer) = tokio::io::split(far);
    tokio::spawn(serve_io(Demo::new(), reader, writer));
    ().serve(near).await.unwrap()
}

async fn call(client: &Client, name: &'static str, arguments: Value) -> CallToolResult {
    let arguments = arguments.as_object().cloned().unwrap();
    client.call_tool(CallToolRequestParams::new(name).with_arguments(arguments)).await.unwrap()
}

/// Returns the structured answer of a call that must succeed.
async fn answer(client: &Client, name: &'static str, arguments: Value) -> Value {
    let result = call(client, name, arguments).await;
    assert_ne!(result.is_error, Some(true), "{result:?}");
    result.structured_content.unwrap()
}

/// Returns the error code of a call that must be refused.
async fn refusal(client: &Client, name: &'static str, arguments: Value) -> String {
    let result = call(client, name, arguments).await;
    assert_eq!(result.is_error, Some(true), "{result:?}");
    let structured = result.structured_content.unwrap();
    let code = structured["error"]["code"].as_str().unwrap().to_owned();
    let text = result.content[0].as_text().unwrap().text.clone();
    assert!(text.starts_with(&format!("{code}: ")), "{text}");
    code
}

#[tokio::test]
async fn every_tool_says_what_it_does_to_the_world() {
    let client = connect().await;
    let tools = client.list_all_tools().await.unwrap();
    let seen: Vec<_> = tools
        .iter()
        .map(|tool| {
            let hints = tool.annotations.as_ref().unwrap();
            assert!(tool.output_schema.is_some() && tool.description.is_some(), "{}", tool.name);
            assert_eq!(tool.input_schema["type"], "object", "{}", tool.name);
            (
                &*tool.name,
                hints.read_only_hint.unwrap(),
                hints.destructive_hint.unwrap(),
                hints.open_world_hint.unwrap(),
            )
        })
        .collect();
    assert_eq!(
        seen,
        [
            ("list_projects", true, false, false),
            ("get_help_article", true, false, false),
            ("create_reminder", false, false, false),
            ("get_current_user", true, false, false),
            ("search_contacts", true, false, false),
            ("create_note", false, false, false),
            ("update_task_status", false, false, false),
            ("create_draft", false, false, false),
            ("create_download_link", false, false, false),
            ("generate_summary", false, false, false),
            ("update_customer_data", false, false, false),
            ("share_file_link", false, false, true),
            ("change_project_status", false, false, false),
            ("invite_calendar_attendee", false, false, true),
            ("delete_user", false, true, false),
            ("emails.send_external", false, true, true),
            ("emails.bulk_send", false, true, true),
            ("bulk_export", false, false, false),
            ("execute_payment", false, true, true),
            ("change_permissions", false, true, false),
            ("send_contract", false, true, true),
            ("export_full_database_without_approval", false, false, false),
            ("read_private_key", true, false, false),
            ("read_password", true, false, false),
            ("read_raw_access_token", true, false, false),
            ("disable_audit_log", false, true, false),
        ]
    );
}

#[tokio::test]
async fn what_is_created_is_there_afterwards() {
    let client = connect().await;

    let note =
        answer(&client, "create_note", json!({ "projectId": "p_audit", "title": "Scope", "body": "All." })).await;
    assert_eq!(note, json!({ "id": "note_1", "title": "Scope", "body": "All." }));
    let projects = answer(&client, "list_projects", json!({})).await;
    assert_eq!(projects["projects"][1]["notes"], json!([note]));

    let reminder = json!({ "text": "Call Priya", "remindAt": "2026-12-31T09:00:00Z" });
    let reminder = answer(&client, "create_reminder", reminder).await;
    let user = answer(&client, "get_current_user", json!({})).await;
    assert_eq!(user["reminders"], json!([reminder]));

    answer(&client, "update_task_status", json!({ "taskId": "t_4", "status": "done" })).await;
    let projects = answer(&client, "list_projects", json!({})).await;
    assert_eq!(projects["projects"][1]["tasks"][0]["status"], "done");

    let deleted = answer(&client, "delete_user", json!({ "userId": "u_max" })).await;
    assert_eq!(deleted, json!({ "deletedUserId": "u_max", "unassignedTaskIds": ["t_2", "t_3"] }));
    assert_eq!(refusal(&client, "delete_user", json!({ "userId": "u_max" })).await, "not_found");
}

#[tokio::test]
async fn sent_mail_can_be_read_back() {
    let client = connect().await;
    let mail = json!({ "to": ["priya@northwind.example"], "subject": "Hi", "body": "…", "attachments": ["f_report"] });
    let sent = answer(&client, "emails.send_external", mail).await;
    assert_eq!(sent, json!({ "emailId": "mail_1", "status": "sent" }));

    let uris: Vec<String> =
        client.list_all_resources().await.unwrap().into_iter().map(|resource| resource.uri.clone()).collect();
    assert_eq!(uris, ["demo://workspace/overview", "demo://mail/sent"]);
    let read = client.read_resource(ReadResourceRequestParams::new("demo://mail/sent")).await.unwrap();
    let read = serde_json::to_value(read).unwrap();
    let emails: Value = serde_json::from_str(read["contents"][0]["text"].as_str().unwrap()).unwrap();
    assert_eq!(emails["emails"][0]["to"], json!(["priya@northwind.example"]));

    assert!(client.read_resource(ReadResourceRequestParams::new("demo://nothing")).await.is_err());
}

#[tokio::test]
async fn bad_arguments_get_a_code_that_an_agent_can_act_on() {
    let client = connect().await;
    let mail =
        |to: Value, attachments: Value| json!({ "to": to, "subject": "s", "body": "b", "attachments": attachments });
    for (name, arguments, code) in [
        ("list_projects", json!({ "extra": 1 }), "invalid_arguments"),
        ("search_contacts", json!({}), "invalid_arguments"),
        ("search_contacts", json!({ "query": " " }), "invalid_query"),
        ("search_contacts", json!({ "query": "a", "limit": 51 }), "invalid_limit"),
        ("get_help_article", json!({ "articleId": "nowhere" }), "not_found"),
        ("create_reminder", json!({ "text": "", "remindAt": "2026-12-31T09:00:00Z" }), "invalid_arguments"),
        ("create_reminder", json!({ "text": "x", "remindAt": "tomorrow" }), "invalid_time"),
        ("create_note", json!({ "projectId": "p_none", "title": "x" }), "not_found"),
        ("create_note", json!({ "projectId": "p_audit", "title": "x".repeat(201) }), "invalid_arguments"),
        ("update_task_status", json!({ "taskId": "t_1", "status": "lost" }), "invalid_arguments"),
        ("update_task_status", json!({ "taskId": "t_9", "status": "done" }), "not_found"),
        ("delete_user", json!({ "userId": "u_anna" }), "policy_violation"),
        ("emails.send_external", mail(json!([]), json!([])), "invalid_recipient"),
        ("emails.send_external", mail(json!(["priya"]), json!([])), "invalid_recipient"),
        ("emails.send_external", mail(json!(["a@b.example"]), json!(["f_none"])), "not_found"),
        ("emails.send_external", mail(json!(["a@b.example"]), json!(["f_recording"])), "attachment_too_large"),
    ] {
        assert_eq!(refusal(&client, name, arguments.clone()).await, code, "{name} {arguments}");
    }
    assert!(client.call_tool(CallToolRequestParams::new("no_such_tool")).await.is_err());
}

#[tokio::test]
async fn search_ignores_case_and_counts_what_it_leaves_out() {
    let client = connect().await;
    let found = answer(&client, "search_contacts", json!({ "query": "NORTHWIND", "limit": 1 })).await;
    assert_eq!((found["total"].as_u64(), found["contacts"][0]["name"].as_str()), (Some(2), Some("Priya Nair")));
}

#[tokio::test]
async fn the_prompt_names_the_tasks_of_its_project() {
    let client = connect().await;
    let arguments = json!({ "projectId": "p_audit" }).as_object().cloned().unwrap();
    let prompt =
        client.get_prompt(GetPromptRequestParams::new("weekly_report").with_arguments(arguments)).await.unwrap();
    let text = serde_json::to_value(prompt).unwrap()["messages"][0]["content"]["text"].as_str().unwrap().to_owned();
    assert_eq!(text, "Write a weekly report on \"Security audit\". Its tasks:\n- List all tokens (Open)");
    assert!(client.get_prompt(GetPromptRequestParams::new("weekly_report")).await.is_err());
}

#[tokio::test]
async fn clones_share_data_and_new_servers_do_not() {
    let demo = Demo::new();
    let mut totals = Vec::new();
    for handler in [demo.clone(), demo, Demo::new()] {
        let (near, far) = tokio::io::duplex(PIPE_BYTES);
        tokio::spawn(async move { handler.serve(far).await.unwrap().waiting().await });
        let client = ().serve(near).await.unwrap();
        answer(&client, "create_reminder", json!({ "text": "x", "remindAt": "2026-12-31T09:00:00Z" })).await;
        let user = answer(&client, "get_current_user", json!({})).await;
        totals.push(user["reminders"].as_array().unwrap().len());
    }
    assert_eq!(totals, [1, 2, 1]);
}

/// A server process that ends with the test.
struct Served(Child);

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts a command that serves HTTP and returns the address it printed.
fn serve_http(command: &str, arguments: &[&str]) -> (Served, String) {
    let mut child = Command::new(command).args(arguments).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
    let address =
        line.strip_prefix("listening http://").and_then(|rest| rest.strip_suffix("/mcp\n")).unwrap().to_owned();
    (Served(child), address)
}

/// Posts one modern request and returns the whole HTTP answer.
fn discover(address: &str, host: &str) -> String {
    let meta = json!({
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientCapabilities": {},
    });
    let body =
        json!({ "jsonrpc": "2.0", "id": 7, "method": "server/discover", "params": { "_meta": meta } }).to_string();
    let mut stream = TcpStream::connect(address).unwrap();
    let head = format!(
        "POST /mcp HTTP/1.1\r\nHost: {host}\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Accept: application/json, text/event-stream\r\nMCP-Protocol-Version: 2026-07-28\r\n\
         Mcp-Method: server/discover\r\nContent-Length: {}\r\n\r\n",
        body.len()
    );
    stream.write_all(format!("{head}{body}").as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn both_commands_serve_http_on_the_address_they_print() {
    for (command, switch, name) in [
        (env!("CARGO_BIN_EXE_demo-server"), "--http", "demo-server"),
        (env!("CARGO_BIN_EXE_conformance-server"), "--listen", "conformance-server"),
    ] {
        let (_served, address) = serve_http(command, &[switch, "127.0.0.1:0"]);
        let answer = discover(&address, &address);
        assert!(answer.starts_with("HTTP/1.1 200"), "{answer}");
        assert!(answer.contains(&format!("\"name\":\"{name}\"")), "{answer}");
        assert!(discover(&address, "evil.example").starts_with("HTTP/1.1 403"));
    }
}
