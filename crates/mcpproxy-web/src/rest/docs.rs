//! The OpenAPI document as an HTML page, without scripts or external resources.

mod example;
mod fields;

use std::sync::{Arc, LazyLock};

use axum::extract::State;
use axum::response::{Html, IntoResponse, Response};
use axum::routing::on;
use base64::Engine as _;
use base64::engine::general_purpose::STANDARD as BASE64;
use http::header;
use serde_json::{Map, Value};
use sha2::{Digest as _, Sha256};

use super::endpoint::{Answer, Endpoint, Group};
use super::openapi;
use crate::Web;
use crate::auth::access::Access;
use crate::verb::Verb;

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "docs",
    method: Verb::Get,
    path: "/api/v1/docs",
    access: Access::Everybody,
    decides: false,
    parameters: &[],
    body: None,
    group: Group::Interface,
    summary: "Read this document as a page",
    description: "A single HTML page that loads nothing else.",
    answers: &[Answer::text("The page.", &["text/html"])],
    errors: &[],
    handler: |method| on(method, page),
}];

const STYLE: &str = include_str!("docs/style.css");
/// A placeholder for the address of the gateway, with its scheme.
const ADDRESS: &str = "{address}";

static PAGE: LazyLock<String> = LazyLock::new(|| {
    let document = serde_json::from_str(&openapi::TEXT).unwrap_or_default();
    render(&document)
});

/// The Content-Security-Policy of the page: its own style and nothing else.
static POLICY: LazyLock<String> = LazyLock::new(|| {
    let digest = BASE64.encode(Sha256::digest(STYLE));
    format!(
        "default-src 'none'; style-src 'sha256-{digest}'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
});

async fn page(State(web): State<Arc<Web>>) -> Response {
    let headers = [(header::CONTENT_SECURITY_POLICY, POLICY.as_str()), (header::REFERRER_POLICY, "no-referrer")];
    (headers, Html(PAGE.replace(ADDRESS, &escape(&web.facts.origin())))).into_response()
}

/// An operation of the document.
struct Route<'a> {
    method: String,
    path: &'a str,
    operation: &'a Value,
}

impl<'a> Route<'a> {
    fn all(document: &'a Value) -> Vec<Self> {
        let paths = members(document.get("paths"));
        let routes = paths.flat_map(|(path, methods)| {
            members(Some(methods)).map(move |(method, operation)| Self {
                method: method.to_uppercase(),
                path,
                operation,
            })
        });
        routes.collect()
    }

    fn text(&self, name: &str) -> &'a str {
        text(self.operation, name)
    }

    fn group(&self) -> &'a str {
        self.operation.pointer("/tags/0").and_then(Value::as_str).unwrap_or_default()
    }

    fn parameters(&self) -> impl Iterator<Item = &'a Value> + use<'a> {
        elements(self.operation.get("parameters"))
    }
}

fn render(document: &Value) -> String {
    let routes = Route::all(document);
    let mut groups: Vec<&str> = Vec::new();
    for route in &routes {
        if !groups.contains(&route.group()) {
            groups.push(route.group());
        }
    }
    let links: String =
        groups.iter().map(|group| format!("<a href=\"#{}\">{}</a>", anchor(group), escape(group))).collect();
    let sections: String = groups.iter().map(|group| section(document, group, &routes)).collect();
    let description = document.pointer("/info/description").and_then(Value::as_str).unwrap_or_default();
    let key = document.pointer("/components/securitySchemes/admin_key/description").and_then(Value::as_str);
    let key = key.unwrap_or_default();
    format!(
        "<!doctype html>\n<html lang=\"en\">\n<head>\n<meta charset=\"utf-8\">\n\
         <meta name=\"viewport\" content=\"width=device-width, initial-scale=1\">\n\
         <meta name=\"color-scheme\" content=\"light dark\">\n<title>mcpproxy REST</title>\n<style>{STYLE}</style>\n\
         </head>\n<body>\n<header>\n<h1>mcpproxy REST</h1>\n<p>{}</p>\n\
         <p>Endpoints marked <span class=\"key\">key</span> need the header <code>X-API-Key</code>. {} The examples read it \
         from a variable:</p>\n<pre tabindex=\"0\"><code>export MCPPROXY_KEY=\"$(cat ~/.mcpproxy/admin.key)\"</code></pre>\n\
         <p>For programs: <a href=\"openapi.json\">openapi.json</a> (OpenAPI 3.1)</p>\n\
         <nav aria-label=\"Groups\">{links}</nav>\n</header>\n<main>\n{sections}</main>\n</body>\n</html>\n",
        prose(description),
        prose(key),
    )
}

fn section(document: &Value, group: &str, routes: &[Route<'_>]) -> String {
    let routes: String =
        routes.iter().filter(|route| route.group() == group).map(|route| article(document, route)).collect();
    format!(
        "<section aria-labelledby=\"{0}\">\n<h2 id=\"{0}\">{1}</h2>\n{routes}</section>\n",
        anchor(group),
        escape(group)
    )
}

fn article(document: &Value, route: &Route<'_>) -> String {
    let key = if route.operation.get("security").is_some() { " <span class=\"key\">key</span>" } else { "" };
    let method = escape(&route.method);
    format!(
        "<details id=\"{}\">\n<summary><span class=\"route\"><b class=\"{}\">{method}</b> <code>{}</code>{key}</span> \
         <span class=\"about\">{}</span></summary>\n<p>{}</p>\n{}<h3>Example</h3>\n<pre tabindex=\"0\"><code>{}</code></pre>\n{}{}</details>\n",
        escape(route.text("operationId")),
        method.to_lowercase(),
        breakable(route.path),
        prose(route.text("summary")),
        prose(route.text("description")),
        parameters(route),
        escape(&example::curl(route)),
        body(document, route),
        answers(document, route),
    )
}

fn parameters(route: &Route<'_>) -> String {
    let rows: String = route.parameters().map(parameter).collect();
    if rows.is_empty() { String::new() } else { format!("<h3>Parameters</h3>\n<dl>\n{rows}</dl>\n") }
}

fn parameter(parameter: &Value) -> String {
    let schema = parameter.get("schema").unwrap_or(&Value::Null);
    let is_required = parameter.get("required").and_then(Value::as_bool).unwrap_or_default();
    let place = match text(parameter, "in") {
        "path" => "path",
        "header" => "header",
        _ if is_required => "required",
        _ => "",
    };
    format!(
        "<dt><code>{}</code> <span class=\"type\">{} {place}</span></dt><dd>{}{}</dd>\n",
        escape(text(parameter, "name")),
        escape(&fields::kind(schema)),
        prose(text(parameter, "description")),
        fields::limits(schema),
    )
}

fn body(document: &Value, route: &Route<'_>) -> String {
    match route.operation.pointer("/requestBody/content/application~1json/schema") {
        Some(schema) => format!("<h3>Body</h3>\n{}", fields::list(document, schema)),
        None => String::new(),
    }
}

fn answers(document: &Value, route: &Route<'_>) -> String {
    let mut shown = String::new();
    let mut refusals = String::new();
    for (status, answer) in members(route.operation.get("responses")) {
        let description = prose(text(answer, "description"));
        let schema = answer.pointer("/content/application~1json/schema");
        let is_error = schema.is_some_and(|schema| text(schema, "$ref").ends_with("/Error"));
        if is_error {
            refusals.push_str(&format!("<dt><code>{}</code></dt><dd>{description}</dd>\n", escape(status)));
            continue;
        }
        let types: Vec<&str> = members(answer.get("content")).map(|(kind, _)| kind).collect();
        shown.push_str(&format!(
            "<h3>Response {}</h3>\n<p>{description} <span class=\"type\">{}</span></p>\n{}",
            escape(status),
            escape(&types.join(" or ")),
            schema.map(|schema| fields::list(document, schema)).unwrap_or_default()
        ));
    }
    if !refusals.is_empty() {
        shown.push_str(&format!("<h3>Errors</h3>\n<dl class=\"errors\">\n{refusals}</dl>\n"));
    }
    shown
}

fn members(value: Option<&Value>) -> impl Iterator<Item = (&str, &Value)> {
    value.and_then(Value::as_object).into_iter().flat_map(Map::iter).map(|(name, value)| (name.as_str(), value))
}

fn elements(value: Option<&Value>) -> impl Iterator<Item = &Value> {
    value.and_then(Value::as_array).into_iter().flatten()
}

fn text<'a>(value: &'a Value, name: &str) -> &'a str {
    value.get(name).and_then(Value::as_str).unwrap_or_default()
}

fn anchor(group: &str) -> String {
    group.to_lowercase().chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect()
}

/// Allows line breaks after slashes.
fn breakable(path: &str) -> String {
    escape(path).replace('/', "/<wbr>")
}

/// Renders backticks as code.
fn prose(words: &str) -> String {
    let parts = words.split('`').enumerate();
    parts.map(|(at, part)| if at % 2 == 1 { format!("<code>{}</code>", escape(part)) } else { escape(part) }).collect()
}

fn escape(words: &str) -> String {
    let mut escaped = String::with_capacity(words.len());
    for c in words.chars() {
        match c {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            c => escaped.push(c),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_are_no_markup() {
        assert_eq!(escape("<a href=\"x\">&'"), "&lt;a href=&quot;x&quot;&gt;&amp;&#39;");
        assert_eq!(prose("a `<b>` c"), "a <code>&lt;b&gt;</code> c");
        let document = serde_json::json!({"paths": {"/<x>": {"get": {
            "operationId": "\"><script>", "tags": ["<t>"], "summary": "<s>", "description": "<d>",
            "parameters": [{"name": "<n>", "in": "query", "description": "<q>", "example": "<e>"}],
            "responses": {"<1>": {"description": "<r>", "content": {"<c>": {}}}}
        }}}});
        let page = render(&document);
        for raw in ["<script", "<x>", "<t>", "<s>", "<d>", "<n>", "<q>", "<e>", "<1>", "<r>", "<c>"] {
            assert!(!page.contains(raw), "{raw}");
        }
    }
}
