//! The OpenAPI 3.1 document, generated from the rows of the endpoints and the types of `wire`.

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use axum::routing::on;
use http::StatusCode;
use http::header;
use serde_json::{Value, json};
use utoipa::PartialSchema as _;
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    Components, ComponentsBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Paths, RefOr, Required,
    Response as ApiResponse, ResponseBuilder,
};

use super::endpoint::{Answer, Content, Endpoint, Group, NamedSchema};
use super::parameters::{PATH_PARAMETERS, Parameter, ValueType, path_parameters};
use crate::auth::access::Access;
use crate::verb::Verb;
use crate::wire;

pub(super) const ENDPOINTS: &[Endpoint] = &[Endpoint {
    name: "openapi",
    method: Verb::Get,
    path: "/api/v1/openapi.json",
    access: Access::Everybody,
    decides: false,
    parameters: &[],
    body: None,
    group: Group::Interface,
    summary: "Get this document",
    description: "OpenAPI 3.1, for programs.",
    answers: &[Answer::any_json("The document.", Value::schema)],
    errors: &[],
    handler: |method| on(method, serve),
}];

const ADMIN_KEY: &str = "admin_key";
const SESSION: &str = "session";
const AGENT: &str = "agent_token";
const DESCRIPTION: &str = "The REST interface for operators and their programs. All errors have the same shape: a code for \
    programs, a message, and a hint. Unknown query parameters are errors. Texts that come from agents or servers are \
    passed on unchanged: escape them before you display them.";

/// The document as the gateway serves it. `docs/openapi.json` is a copy.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
});

async fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

pub(crate) fn document() -> OpenApi {
    let mut paths = Paths::new();
    for endpoint in super::endpoints() {
        paths.add_path_operation(endpoint.path, vec![http_method(endpoint.method)], operation(endpoint));
    }
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build();
    let info =
        InfoBuilder::new().title("mcpproxy").version("1").description(Some(DESCRIPTION)).license(Some(license)).build();
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components())).build()
}

fn http_method(method: Verb) -> HttpMethod {
    match method {
        Verb::Get => HttpMethod::Get,
        Verb::Post => HttpMethod::Post,
        Verb::Delete => HttpMethod::Delete,
    }
}

fn operation(endpoint: &Endpoint) -> Operation {
    let mut operation = OperationBuilder::new()
        .operation_id(Some(endpoint.name))
        .tag(endpoint.group.title())
        .summary(Some(endpoint.summary))
        .description(Some(endpoint.description));
    for name in path_parameters(endpoint.path) {
        operation = operation.parameter(path_parameter(name));
    }
    for parameter in endpoint.parameters {
        operation = operation.parameter(query_parameter(parameter));
    }
    for header in endpoint.parameters.iter().filter_map(|parameter| parameter.header) {
        operation = operation.parameter(header_parameter(header));
    }
    if let Some(body) = &endpoint.body {
        let example: Value = serde_json::from_str(body.example).unwrap_or_default();
        let content = ContentBuilder::new().schema(Some((body.schema.reference)())).example(Some(example)).build();
        let body = RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content);
        operation = operation.request_body(Some(body.build()));
    }
    for answer in endpoint.answers {
        operation = operation.response(answer.status.as_str(), response(answer));
    }
    for (status, description) in common_errors(endpoint).into_iter().chain(endpoint.errors.iter().copied()) {
        let schema = (NamedSchema::of::<wire::Error>().reference)();
        let content = ContentBuilder::new().schema(Some(schema)).build();
        let error = ResponseBuilder::new().description(description).content("application/json", content);
        operation = operation.response(status.as_str(), error.build());
    }
    let schemes: &[&str] = match endpoint.access {
        Access::Operator | Access::Metrics => &[ADMIN_KEY, SESSION],
        Access::OwnStatus => &[ADMIN_KEY, SESSION, AGENT],
        Access::User | Access::Session => &[SESSION],
        Access::Everybody | Access::SignIn => &[],
    };
    let needs = |scheme: &&str| SecurityRequirement::new(*scheme, [] as [&str; 0]);
    schemes.iter().map(needs).fold(operation, OperationBuilder::security).build()
}

/// Describes a path parameter. A name that is missing in the table has no description, which fails a test.
fn path_parameter(name: &'static str) -> ParameterBuilder {
    let known = PATH_PARAMETERS.iter().find(|parameter| parameter.name == name);
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Path)
        .required(Required::True)
        .description(known.map(|parameter| parameter.about))
        .example(known.map(|parameter| parameter.example.into()))
        .schema(Some(Object::with_type(Type::String)))
}

fn header_parameter((name, about): (&'static str, &'static str)) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(name)
        .parameter_in(ParameterIn::Header)
        .required(Required::False)
        .description(Some(about))
        .schema(Some(Object::with_type(Type::String)))
}

fn query_parameter(parameter: &Parameter) -> ParameterBuilder {
    ParameterBuilder::new()
        .name(parameter.name)
        .parameter_in(ParameterIn::Query)
        .required(if parameter.is_required { Required::True } else { Required::False })
        .description(Some(parameter.about))
        .example(parameter.example.map(Value::from))
        .schema(Some(value_schema(parameter.value)))
}

fn value_schema(value: ValueType) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    match value {
        ValueType::Text | ValueType::Query | ValueType::Time | ValueType::Cursor | ValueType::EventId => text.build(),
        ValueType::Choice(choices) => text.enum_values(Some(choices())).build(),
        ValueType::Number { max, default } => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
            .minimum(Some(1))
            .maximum(Some(max))
            .default(Some(json!(default)))
            .build(),
        ValueType::Switch => ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false))).build(),
    }
}

fn response(answer: &Answer) -> ApiResponse {
    let response = ResponseBuilder::new().description(answer.description);
    let content = |schema: RefOr<Schema>| ContentBuilder::new().schema(Some(schema)).build();
    let text = || RefOr::T(Schema::Object(Object::with_type(Type::String)));
    match answer.content {
        Content::Json(schema) => response.content("application/json", content((schema.reference)())),
        Content::AnyJson(schema) => response.content("application/json", content(schema())),
        Content::Text(types) => types.iter().fold(response, |response, kind| response.content(*kind, content(text()))),
    }
    .build()
}

/// Errors that follow from the access, the parameters and the body of an endpoint.
fn common_errors(endpoint: &Endpoint) -> Vec<(StatusCode, &'static str)> {
    let takes_input = !endpoint.parameters.is_empty() || endpoint.body.is_some();
    let bad_request = match takes_input {
        true => "A parameter or the body is invalid. Unknown parameters are errors.",
        false => "The request has a query parameter, and this path takes none.",
    };
    let unauthorized = match endpoint.access {
        Access::Everybody => None,
        Access::Operator | Access::Metrics => Some("The admin key is missing or wrong, and no user is signed in."),
        Access::OwnStatus => Some("The token or the admin key is missing or wrong, and no user is signed in."),
        Access::User | Access::Session => Some("No user is signed in."),
        Access::SignIn => Some("The name or the password is wrong."),
    };
    let mut errors = vec![(StatusCode::BAD_REQUEST, bad_request)];
    errors.extend(unauthorized.map(|about| (StatusCode::UNAUTHORIZED, about)));
    errors.push((StatusCode::FORBIDDEN, forbidden(endpoint)));
    errors
}

fn forbidden(endpoint: &Endpoint) -> &'static str {
    match endpoint.access {
        Access::User => {
            "The request has an agent token or the admin key, the CSRF token is missing, a second factor is missing or \
             wrong, or the host or origin is not allowed."
        }
        Access::Session | Access::SignIn => {
            "The request has an agent token or the admin key, the CSRF token is missing, or the host or origin is not \
             allowed."
        }
        Access::OwnStatus => "The host or origin is not allowed.",
        Access::Operator if !endpoint.method.is_safe() => {
            "The request has an agent token, or a session without its CSRF token, or the host or origin is not allowed."
        }
        Access::Operator | Access::Metrics | Access::Everybody => {
            "The request has an agent token, or the host or origin is not allowed."
        }
    }
}

fn components() -> Components {
    let mut answers = Vec::new();
    (NamedSchema::of::<wire::Error>().collect)(&mut answers);
    let mut bodies = Vec::new();
    for endpoint in super::endpoints() {
        for answer in endpoint.answers {
            match answer.content {
                Content::Json(schema) => (schema.collect)(&mut answers),
                Content::AnyJson(_) | Content::Text(_) => {}
            }
        }
        if let Some(body) = &endpoint.body {
            (body.schema.collect)(&mut bodies);
        }
    }
    for (name, schema) in &mut answers {
        // Answers have every member, null or not. Request bodies may omit some, and errors may omit `details`.
        if name != "ErrorBody" {
            require_all(schema);
        }
    }
    let about = "The content of `admin.key` in the data folder of the gateway, `~/.mcpproxy` by default.";
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("X-API-Key", about)));
    let about = "The session cookie that POST /api/v1/login sets. All methods except GET also need `csrf` from its answer as \
        the `X-CSRF-Token` header.";
    let session = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description("mcpproxy_session", about)));
    let agent = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    ComponentsBuilder::new()
        .schemas_from_iter(answers.into_iter().chain(bodies))
        .security_scheme(ADMIN_KEY, key)
        .security_scheme(SESSION, session)
        .security_scheme(AGENT, agent)
        .build()
}

fn require_all(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => object.required = object.properties.keys().cloned().collect(),
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(require_all),
        _ => {}
    }
}
