//! The OpenAPI document matches the routes, and the documentation page matches the document.

use std::collections::BTreeSet;
use std::path::Path;

use http::{Method, StatusCode};
use serde_json::Value;

use super::{Fixture, KEY, refusal, text};
use crate::auth::access::Access;
use crate::rest::endpoint::Endpoint;
use crate::rest::endpoints;
use crate::rest::openapi;
use crate::rest::parameters::path_parameters;

fn document() -> Value {
    serde_json::from_str(&openapi::TEXT).unwrap()
}

fn named(name: &str) -> &'static Endpoint {
    endpoints().find(|endpoint| endpoint.name == name).unwrap()
}

fn operation(document: &Value, endpoint: &Endpoint) -> Value {
    document["paths"][endpoint.path][endpoint.method.method().as_str().to_lowercase()].clone()
}

#[test]
fn routes_and_document_are_the_same() {
    let document = document();
    let described: BTreeSet<(String, String)> = document["paths"]
        .as_object()
        .unwrap()
        .iter()
        .flat_map(|(path, methods)| {
            methods.as_object().unwrap().keys().map(|method| (path.clone(), method.to_uppercase()))
        })
        .collect();
    let served: BTreeSet<(String, String)> =
        endpoints().map(|endpoint| (endpoint.path.to_owned(), endpoint.method.method().to_string())).collect();
    assert_eq!(described, served);
    let mut names = BTreeSet::new();
    for endpoint in endpoints() {
        let operation = operation(&document, endpoint);
        let parameters = operation["parameters"].as_array().cloned().unwrap_or_default();
        let of = |place: &str| -> Vec<String> {
            let placed = parameters.iter().filter(|parameter| parameter["in"] == place);
            placed.map(|parameter| parameter["name"].as_str().unwrap().to_owned()).collect()
        };
        let known: Vec<&str> = endpoint.parameters.iter().map(|parameter| parameter.name).collect();
        assert_eq!(of("query"), known, "{endpoint:?}");
        assert_eq!(of("path"), path_parameters(endpoint.path).collect::<Vec<_>>(), "{endpoint:?}");
        let (is_open, is_login) = (endpoint.access == Access::Everybody, endpoint.name == "log_in");
        assert_eq!(operation.get("security").is_some(), !is_open && !is_login, "{endpoint:?}");
        assert_eq!(operation["responses"].get("401").is_some(), !is_open, "{endpoint:?}");
        assert_eq!(operation.get("requestBody").is_some(), endpoint.body.is_some(), "{endpoint:?}");
        assert!(names.insert(operation["operationId"].as_str().unwrap().to_owned()), "{endpoint:?}");
        for parameter in &parameters {
            let about = parameter["description"].as_str();
            assert!(about.is_some_and(|about| !about.is_empty()), "{endpoint:?} {parameter}");
        }
        let example = endpoint.body.as_ref().map(|body| serde_json::from_str::<Value>(body.example).unwrap());
        assert!(example.is_none_or(|example| example.is_object()), "{endpoint:?}");
        for text in ["summary", "description"] {
            assert!(operation[text].as_str().is_some_and(|text| !text.is_empty()), "{endpoint:?} {text}");
        }
    }
    let intents = operation(&document, named("activity"))["parameters"][0]["schema"]["enum"].clone();
    assert_eq!(intents, serde_json::json!(["read", "write", "destructive"]));
    assert_eq!(document["openapi"], "3.1.0");
    assert_eq!(document["components"]["securitySchemes"]["admin_key"]["name"], "X-API-Key");
}

/// Every reference resolves, and every schema is referenced.
#[test]
fn references_lead_to_schemas() {
    fn references(value: &Value, found: &mut BTreeSet<String>) {
        match value {
            Value::Object(members) => {
                found.extend(members.get("$ref").and_then(Value::as_str).map(str::to_owned));
                members.values().for_each(|value| references(value, found));
            }
            Value::Array(elements) => elements.iter().for_each(|value| references(value, found)),
            _ => {}
        }
    }
    let document = document();
    let mut found = BTreeSet::new();
    references(&document, &mut found);
    let schemas = document["components"]["schemas"].as_object().unwrap();
    let schemas: BTreeSet<String> = schemas.keys().map(|name| format!("#/components/schemas/{name}")).collect();
    assert_eq!(found, schemas);
}

/// `BLESS=1 cargo test -p mcpproxy-web` writes the file.
#[test]
fn the_document_that_is_checked_in_is_this_one() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/openapi.json");
    if std::env::var_os("BLESS").is_some() {
        std::fs::write(&path, openapi::TEXT.as_str()).unwrap();
    }
    let checked_in = std::fs::read_to_string(&path).unwrap_or_default();
    assert!(checked_in == *openapi::TEXT, "docs/openapi.json is old; `BLESS=1 cargo test -p mcpproxy-web` writes it");
}

/// Returns the members of an object, including those of its parts.
fn members(document: &Value, schema: &Value) -> BTreeSet<String> {
    if let Some(reference) = schema["$ref"].as_str() {
        return members(document, document.pointer(reference.trim_start_matches('#')).unwrap());
    }
    let parts = schema["allOf"].as_array().into_iter().flatten().flat_map(|part| members(document, part));
    let own = schema["properties"].as_object().into_iter().flat_map(|own| own.keys().cloned());
    let all: BTreeSet<String> = parts.chain(own).collect();
    if schema.get("allOf").is_none() {
        let required = schema["required"].as_array().unwrap().iter().map(|name| name.as_str().unwrap().to_owned());
        assert_eq!(all, required.collect(), "an answer has all its members");
    }
    all
}

#[tokio::test]
async fn answers_have_the_members_the_document_says() {
    let fixture = Fixture::new().await;
    let id = fixture.note(refusal(1)).await.to_string();
    let document = document();
    let check = async |name: &str, path: &str, status: StatusCode, headers: &[(&str, &str)]| {
        let endpoint = named(name);
        let (answered, answer) = fixture.ask(endpoint.method.method(), path, headers).await;
        assert_eq!(answered, status, "{path} {answer}");
        let content = &operation(&document, endpoint)["responses"][status.as_str()]["content"]["application/json"];
        let found: BTreeSet<String> = answer.as_object().unwrap().keys().cloned().collect();
        assert_eq!(found, members(&document, &content["schema"]), "{path}");
        answer
    };
    let key = [("x-api-key", KEY)];
    let ok = StatusCode::OK;
    check("health", "/healthz", ok, &[]).await;
    check("ready", "/readyz", ok, &[]).await;
    check("status", "/api/v1/status", ok, &key).await;
    check("cluster", "/api/v1/cluster", ok, &key).await;
    check("servers", "/api/v1/servers", ok, &key).await;
    check("tools", "/api/v1/tools", ok, &key).await;
    check("search_tools", "/api/v1/tools/search?q=x", ok, &key).await;
    check("contracts", "/api/v1/contracts", ok, &key).await;
    check("lint_contracts", "/api/v1/contracts/lint", ok, &key).await;
    check("approvals", "/api/v1/approvals", ok, &key).await;
    check("grants", "/api/v1/grants", ok, &key).await;
    check("activity_record", &format!("/api/v1/activity/{id}"), ok, &key).await;
    check("activity_summary", "/api/v1/activity/summary", ok, &key).await;
    check("activity", "/api/v1/activity", StatusCode::UNAUTHORIZED, &[]).await;
    check("server_log", "/api/v1/servers/demo/logs", StatusCode::NOT_FOUND, &key).await;
    let page = check("activity", "/api/v1/activity", ok, &key).await;
    let record: BTreeSet<String> = page["activities"][0].as_object().unwrap().keys().cloned().collect();
    assert_eq!(record, members(&document, &document["components"]["schemas"]["Activity"]));
    fixture.stop().await;
}

#[tokio::test]
async fn the_page_needs_nothing_from_elsewhere() {
    let fixture = Fixture::new().await;
    let (_, served) = fixture.ask(Method::GET, "/api/v1/openapi.json", &[]).await;
    assert_eq!(served, document());
    let response = fixture.send(Method::GET, "/api/v1/docs", &[]).await;
    let header = |name: &str| response.headers()[name].to_str().unwrap().to_owned();
    let policy = header("content-security-policy");
    assert!(policy.starts_with("default-src 'none'; style-src 'sha256-") && !policy.contains("unsafe"), "{policy}");
    assert_eq!(
        (header("content-type"), header("x-content-type-options")),
        ("text/html; charset=utf-8".into(), "nosniff".into())
    );
    let page = text(response).await;
    for endpoint in endpoints() {
        let operation = operation(&served, endpoint);
        assert!(
            page.contains(&format!("<details id=\"{}\">", operation["operationId"].as_str().unwrap())),
            "{endpoint:?}"
        );
    }
    for loaded in ["<script", "<link", "<img", " src=", "style=\"", "@import", "url(", "onclick", "https://"] {
        assert!(!page.contains(loaded), "{loaded}");
    }
    assert!(page.contains(
        "curl -s -H &quot;X-API-Key: $MCPPROXY_KEY&quot; \\\n  \
         &#39;http://127.0.0.1:8080/api/v1/activity?intent_type=destructive&amp;limit=50&#39;"
    ));
    fixture.stop().await;
}
