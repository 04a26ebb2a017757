//! Tests for the contracts of the demo tools as a client reads them, and for answers that match the declared schemas.

#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test that cannot go on has failed")]

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};

use demo_server::Demo;
use jiff::Timestamp;
use rmcp::model::{CallToolRequestParams, CallToolResult, ReadResourceRequestParams, Tool};
use rmcp::service::RunningService;
use rmcp::{RoleClient, ServiceExt};
use serde_json::{Value, json};

const PIPE_BYTES: usize = 64 * 1024;
const KEY: &str = "mcp-first/contract";

/// Calls that succeed, made one after the other on one server, with their answers.
const EXAMPLES: &str = include_str!("data/examples.jsonl");

type Client = RunningService<RoleClient, ()>;

async fn connect() -> Client {
    connect_to(Demo::new()).await
}

async fn connect_to(demo: Demo) -> Client {
    let (near, far) = tokio::io::duplex(PIPE_BYTES);
    tokio::spawn(async move { demo.serve(far).await.unwrap().waiting().await });
    ().serve(near).await.unwrap()
}

fn contract(tool: &Tool) -> &Value {
    &tool.meta.as_ref().unwrap().0[KEY]
}

async fn find(client: &Client, name: &str) -> Tool {
    client.list_all_tools().await.unwrap().into_iter().find(|tool| tool.name == name).unwrap()
}

/// Calls a tool, and checks arguments and answer against its schemas.
async fn call(client: &Client, tool: &Tool, arguments: &Value) -> CallToolResult {
    assert_matches(&Value::Object((*tool.input_schema).clone()), arguments, &tool.name);
    let arguments = arguments.as_object().cloned().unwrap();
    let result =
        client.call_tool(CallToolRequestParams::new(tool.name.clone()).with_arguments(arguments)).await.unwrap();
    if result.is_error != Some(true) {
        let schema = Value::Object((**tool.output_schema.as_ref().unwrap()).clone());
        assert_matches(&schema, result.structured_content.as_ref().unwrap(), &tool.name);
    }
    result
}

fn assert_matches(schema: &Value, instance: &Value, name: &str) {
    let validator = jsonschema::options().should_validate_formats(true).build(schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(instance).map(|error| format!("{} {error}", error.instance_path())).collect();
    assert!(errors.is_empty(), "{name}: {errors:?}");
}

async fn answer(client: &Client, name: &str, arguments: Value) -> Value {
    let tool = find(client, name).await;
    let result = call(client, &tool, &arguments).await;
    assert_ne!(result.is_error, Some(true), "{name}: {result:?}");
    result.structured_content.unwrap()
}

#[tokio::test]
async fn every_contract_has_every_field_the_standard_names() {
    for tool in connect().await.list_all_tools().await.unwrap() {
        let contract = contract(&tool).as_object().unwrap();
        let name = &tool.name;
        for text in ["description", "category", "riskLevel", "operation", "confirmation", "auditEvent"] {
            assert!(contract[text].as_str().is_some_and(|text| !text.is_empty()), "{name} {text}");
        }
        for list in ["permissions", "sideEffects", "failureModes"] {
            assert!(contract[list].as_array().unwrap().iter().all(Value::is_string), "{name} {list}");
        }
        assert!(contract["autonomousExecution"].is_boolean(), "{name}");
        jsonschema::meta::validate(&contract["stepUpAuth"]["when"]).unwrap();
        jsonschema::validator_for(&contract["stepUpAuth"]["when"]).unwrap();
        for mode in ["idempotency", "dryRun"] {
            assert!(contract[mode]["mode"].is_string(), "{name} {mode}");
        }
        // The tool itself has the name and the schemas.
        assert!(!contract.contains_key("tool") && tool.output_schema.is_some(), "{name}");
        assert_eq!(contract["description"], json!(tool.description), "{name}");
        let known = [
            "description",
            "category",
            "riskLevel",
            "operation",
            "autonomousExecution",
            "confirmation",
            "stepUpAuth",
            "permissions",
            "sideEffects",
            "auditEvent",
            "failureModes",
            "idempotency",
            "dryRun",
            "rateLimit",
            "sensitive",
        ];
        assert!(contract.keys().all(|key| known.contains(&key.as_str())), "{name}: {contract:?}");
        let is_read = contract["operation"] == "read";
        assert_eq!(contract["sideEffects"] == json!([]), is_read && contract["riskLevel"] == "low", "{name}");
        for pointer in contract.get("sensitive").and_then(Value::as_array).into_iter().flatten() {
            let field = pointer.as_str().unwrap().split('/').nth(1).unwrap();
            assert!(tool.input_schema["properties"][field].is_object(), "{name} {pointer}");
        }
    }
}

#[tokio::test]
async fn risk_decides_who_may_call_and_hints_agree_with_the_operation() {
    let tools = connect().await.list_all_tools().await.unwrap();
    let seen: Vec<String> = tools
        .iter()
        .map(|tool| {
            let (contract, hints) = (contract(tool), tool.annotations.as_ref().unwrap());
            let operation = match (hints.read_only_hint.unwrap(), hints.destructive_hint.unwrap()) {
                (true, false) => "read",
                (false, false) => "write",
                (false, true) => "destructive",
                (true, true) => "both",
            };
            assert_eq!(contract["operation"], operation, "{}", tool.name);
            let alone = if contract["autonomousExecution"] == true { "alone" } else { "asks" };
            assert_eq!(contract["confirmation"], if alone == "alone" { "none" } else { "required" });
            let word = |value: &Value| value.as_str().unwrap().to_owned();
            let (risk, dry_run) = (word(&contract["riskLevel"]), word(&contract["dryRun"]["mode"]));
            let idempotency = word(&contract["idempotency"]["mode"]);
            format!("{}: {risk} {operation} {alone} {dry_run} {idempotency}", tool.name)
        })
        .collect();
    assert_eq!(
        seen,
        [
            "list_projects: low read alone none none",
            "get_help_article: low read alone none none",
            "create_reminder: low write alone none none",
            "get_current_user: low read alone none none",
            "search_contacts: low read alone none none",
            "create_note: medium write alone none none",
            "update_task_status: medium write alone none none",
            "create_draft: medium write alone none none",
            "create_download_link: medium write alone none natural",
            "generate_summary: medium write alone none none",
            "update_customer_data: high write asks none none",
            "share_file_link: high write asks none none",
            "change_project_status: high write asks none none",
            "invite_calendar_attendee: high write asks none none",
            "delete_user: critical destructive asks supported none",
            "emails.send_external: critical destructive asks none key",
            "emails.bulk_send: critical destructive asks required key",
            "bulk_export: critical write asks supported none",
            "execute_payment: critical destructive asks none key",
            "change_permissions: critical destructive asks none none",
            "send_contract: critical destructive asks none key",
            "export_full_database_without_approval: forbidden write asks none none",
            "read_private_key: forbidden read asks none none",
            "read_password: forbidden read asks none none",
            "read_raw_access_token: forbidden read asks none none",
            "disable_audit_log: forbidden destructive asks none none",
        ]
    );
}

#[tokio::test]
async fn the_contract_of_external_mail_is_the_one_of_the_guide() {
    let client = connect().await;
    let found = find(&client, "emails.send_external").await;
    assert_eq!(
        contract(&found),
        &json!({
            "description": "Sends an external email to one or more recipients.",
            "category": "communication",
            "riskLevel": "critical",
            "operation": "destructive",
            "autonomousExecution": false,
            "confirmation": "required",
            "stepUpAuth": { "when": { "anyOf": [
                { "properties": { "to": { "minItems": 11 } } },
                { "required": ["attachments"] },
            ] } },
            "permissions": ["emails:send", "contacts:read", "files:read"],
            "sideEffects": [
                "External communication is sent.",
                "Email becomes part of the communication history.",
                "Audit event is created.",
                "Repeating the call sends a second email, unless it carries the same idempotency key within 24 hours.",
            ],
            "auditEvent": "email.external.sent",
            "failureModes": [
                "permission_denied", "confirmation_required", "idempotency_conflict", "invalid_arguments",
                "invalid_recipient", "attachment_too_large", "rate_limit_exceeded", "policy_violation", "not_found",
            ],
            "idempotency": { "mode": "key", "ttl": "24h" },
            "dryRun": { "mode": "none" },
            "rateLimit": { "calls": 30, "per": "1m" },
            "sensitive": ["/body", "/to"],
        })
    );
    let found = find(&client, "create_download_link").await;
    let natural = json!({ "mode": "natural", "keyFrom": ["fileId", "expiresAt"], "validUntil": "/expiresAt" });
    assert_eq!(contract(&found)["idempotency"], natural);
    let found = find(&client, "emails.bulk_send").await;
    assert_eq!(contract(&found)["dryRun"], json!({ "mode": "required", "parameter": "dryRun" }));
}

#[tokio::test]
async fn every_property_of_every_schema_is_described() {
    fn check(schema: &Value, at: &str) {
        for (name, property) in schema["properties"].as_object().into_iter().flatten() {
            let at = format!("{at}.{name}");
            assert!(property["description"].as_str().is_some_and(|text| text.ends_with('.')), "{at}: {property}");
            check(property, &at);
        }
        for (name, definition) in schema["$defs"].as_object().into_iter().flatten() {
            check(definition, &format!("{at}#{name}"));
        }
    }
    for tool in connect().await.list_all_tools().await.unwrap() {
        for schema in [&tool.input_schema, tool.output_schema.as_ref().unwrap()] {
            let schema = Value::Object((**schema).clone());
            assert_eq!(schema["type"], "object", "{}", tool.name);
            jsonschema::meta::validate(&schema).unwrap();
            check(&schema, &tool.name);
        }
    }
}

#[tokio::test]
async fn every_tool_works_and_answers_what_its_schema_says() {
    let client = connect().await;
    let mut seen = BTreeSet::from(["list_projects".to_owned(), "export_full_database_without_approval".to_owned()]);
    for line in EXAMPLES.lines() {
        let example: Value = serde_json::from_str(line).unwrap();
        let name = example["tool"].as_str().unwrap();
        assert_eq!(answer(&client, name, example["arguments"].clone()).await, example["answer"], "{name}");
        seen.insert(name.to_owned());
    }
    let projects = answer(&client, "list_projects", json!({})).await;
    assert_eq!(projects["projects"][1]["tasks"][0]["status"], "done");
    assert_eq!(projects["projects"][1]["notes"][0]["id"], "note_2");
    let all = answer(&client, "export_full_database_without_approval", json!({})).await;
    let rows = |dataset: &str, count: usize| json!({ "dataset": dataset, "rowCount": count });
    assert_eq!(all["tables"], json!([rows("contacts", 4), rows("projects", 2), rows("users", 2), rows("emails", 1)]));

    let read = client.read_resource(ReadResourceRequestParams::new("demo://workspace/overview")).await.unwrap();
    let overview = serde_json::to_value(read).unwrap()["contents"][0]["text"].as_str().unwrap().to_owned();
    assert!(overview.contains("tmpl_newsletter_q3 to seg_active_customers: 4821 sent\n"), "{overview}");
    assert!(overview.contains("email.external.sent: 4822\n"), "{overview}");
    let listed = client.list_all_tools().await.unwrap();
    assert_eq!(seen, listed.iter().map(|tool| tool.name.to_string()).collect());
}

#[tokio::test]
async fn the_dry_run_of_a_newsletter_shows_who_gets_what() {
    let client = connect().await;
    let arguments = json!({ "templateId": "tmpl_newsletter_q3", "segmentId": "seg_active_customers", "dryRun": true });
    let preview = answer(&client, "emails.bulk_send", arguments.clone()).await;
    let expected = json!({
        "dryRun": true,
        "recipientCount": 4821,
        "sampleMessages": [
            {
                "to": "anna.1@northwind.example",
                "subject": "Your Q3 update is here",
                "previewText": "Dear Anna, in the third quarter we…",
            },
            {
                "to": "max.2@contoso.example",
                "subject": "Your Q3 update is here",
                "previewText": "Dear Max, in the third quarter we…",
            },
        ],
        "warnings": [
            "43 recipients have no first name, fallback 'Hello' will be used.",
            "12 email addresses are marked as undeliverable and will be skipped.",
        ],
        "missingPermissions": [],
        "expectedSideEffects": [
            "4821 external emails will be sent.",
            "4821 audit events of type email.external.sent will be created.",
            "Campaign status will be set to 'sent'.",
        ],
        "estimatedDurationMs": 18400,
    });
    assert_eq!(preview.to_string(), expected.to_string(), "the order of the fields is part of the shape");
    assert_eq!(answer(&client, "emails.bulk_send", arguments).await, expected);
}

#[tokio::test]
async fn the_other_dry_runs_say_what_would_happen() {
    let client = connect().await;
    let preview = answer(&client, "delete_user", json!({ "userId": "u_max", "dryRun": true })).await;
    assert_eq!(
        preview,
        json!({
            "dryRun": true,
            "user": { "id": "u_max", "name": "Max Lund", "email": "max@acme.example" },
            "unassignedTaskIds": ["t_2", "t_3"],
            "warnings": ["2 tasks will have no assignee."],
            "missingPermissions": [],
            "expectedSideEffects": [
                "Max Lund will be deleted and cannot be restored.",
                "1 audit event of type user.deleted will be created.",
            ],
            "estimatedDurationMs": 40,
        })
    );
    let preview = answer(&client, "bulk_export", json!({ "dataset": "contacts", "dryRun": true })).await;
    assert_eq!(preview["rowCount"], 4);
    assert_eq!(preview["sampleRows"][1]["name"], "Tom Okafor");
    assert_eq!(preview["warnings"], json!(["4 records have email addresses, which are personal data."]));
    let done = answer(&client, "bulk_export", json!({ "dataset": "contacts" })).await;
    let effect = format!("A file of 4 records and {} bytes will be created.", done["bytes"]);
    assert_eq!(preview["expectedSideEffects"][0], effect, "the dry run and the call agree");
}

#[tokio::test]
async fn a_link_lives_as_long_as_it_says() {
    let second = Arc::new(AtomicI64::new(0));
    let clock = Arc::clone(&second);
    let demo = Demo::with_clock(move || Timestamp::from_second(clock.load(Ordering::SeqCst)).unwrap());
    let client = connect_to(demo).await;
    let arguments = json!({ "fileId": "f_abc123", "expiresAt": "1970-01-01T00:00:02Z" });
    let mut links = Vec::new();
    for now in [0, 1, 2] {
        second.store(now, Ordering::SeqCst);
        links.push(answer(&client, "create_download_link", arguments.clone()).await["linkId"].clone());
    }
    assert_eq!(links, ["link_1", "link_1", "link_2"]);
}
