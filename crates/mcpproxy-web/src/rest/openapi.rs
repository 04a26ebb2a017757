//! The description of the interface (OpenAPI 3.1), made from the list of routes and the JSON they answer with.

mod about;

use std::sync::LazyLock;

use axum::response::{IntoResponse, Response};
use http::header;
use http::{Method, StatusCode};
use serde_json::{Value, json};
use utoipa::openapi::path::{HttpMethod, Operation, OperationBuilder, ParameterBuilder, ParameterIn};
use utoipa::openapi::request_body::RequestBodyBuilder;
use utoipa::openapi::schema::{
    Components, ComponentsBuilder, KnownFormat, Object, ObjectBuilder, Schema, SchemaFormat, Type,
};
use utoipa::openapi::security::{
    ApiKey, ApiKeyValue, HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme,
};
use utoipa::openapi::{
    ContentBuilder, InfoBuilder, LicenseBuilder, OpenApi, OpenApiBuilder, Paths, Ref, RefOr, Required,
    Response as Answer, ResponseBuilder,
};
use utoipa::{PartialSchema, ToSchema};

use crate::auth::access::Access;
use crate::rest::endpoint::Endpoint;
use crate::rest::parameters::{Form, Need, Parameter};
use crate::wire;
use about::{Body, about};

const ADMIN_KEY: &str = "admin_key";
const SESSION: &str = "session";
const AGENT: &str = "agent_token";
const DESCRIPTION: &str = "What operators and their programs ask a gateway. Every error has the same form, with a code for \
    programs, a message, and a hint at what to do. Parameters that are not listed are errors. A text that agents or \
    servers worded is passed on as it came: escape it before you show it.";

/// The document as it is served and checked in.
pub(crate) static TEXT: LazyLock<String> = LazyLock::new(|| {
    let mut text = document().to_pretty_json().unwrap_or_default();
    text.push('\n');
    text
});

pub(crate) async fn serve() -> Response {
    ([(header::CONTENT_TYPE, "application/json")], TEXT.as_str()).into_response()
}

pub(crate) fn document() -> OpenApi {
    let mut paths = Paths::new();
    for endpoint in Endpoint::ALL {
        paths.add_path_operation(endpoint.path(), vec![http_method(&endpoint.method())], operation(endpoint));
    }
    let license = LicenseBuilder::new().name("Apache-2.0").identifier(Some("Apache-2.0")).build();
    let info =
        InfoBuilder::new().title("mcpproxy").version("1").description(Some(DESCRIPTION)).license(Some(license)).build();
    OpenApiBuilder::new().info(info).paths(paths).components(Some(components())).build()
}

fn http_method(method: &Method) -> HttpMethod {
    match *method {
        Method::POST => HttpMethod::Post,
        Method::DELETE => HttpMethod::Delete,
        _ => HttpMethod::Get,
    }
}

fn operation(endpoint: Endpoint) -> Operation {
    let about = about(endpoint);
    let mut operation = OperationBuilder::new()
        .operation_id(Some(about.name))
        .tag(about.group)
        .summary(Some(about.summary))
        .description(Some(about.description));
    for name in placeholders(endpoint.path()) {
        let parameter = ParameterBuilder::new()
            .name(name)
            .parameter_in(ParameterIn::Path)
            .required(Required::True)
            .description(Some(about::placeholder(name)))
            .example(Some(about::placeholder_example(name).into()))
            .schema(Some(Object::with_type(Type::String)));
        operation = operation.parameter(parameter);
    }
    for parameter in endpoint.parameters() {
        operation = operation.parameter(described(parameter));
    }
    if endpoint == Endpoint::Events {
        let header = ParameterBuilder::new()
            .name("Last-Event-ID")
            .parameter_in(ParameterIn::Header)
            .required(Required::False)
            .description(Some("The `id` of the last event that was seen. Browsers send it by themselves."))
            .schema(Some(Object::with_type(Type::String)));
        operation = operation.parameter(header);
    }
    if let Some((schema, example)) = about::body(endpoint) {
        let content = ContentBuilder::new().schema(Some(schema)).example(Some(example)).build();
        let body = RequestBodyBuilder::new().required(Some(Required::True)).content("application/json", content);
        operation = operation.request_body(Some(body.build()));
    }
    for (status, description, body) in about.answers {
        operation = operation.response(status.as_str(), answer(description, body));
    }
    for (status, description) in refusals(endpoint) {
        let content = ContentBuilder::new().schema(Some(reference::<wire::Error>())).build();
        let refusal = ResponseBuilder::new().description(description).content("application/json", content);
        operation = operation.response(status.as_str(), refusal.build());
    }
    let schemes: &[&str] = match endpoint.access() {
        Access::Operator => &[ADMIN_KEY, SESSION],
        Access::OwnStatus => &[ADMIN_KEY, SESSION, AGENT],
        Access::User | Access::Session => &[SESSION],
        Access::Everybody | Access::SignIn => &[],
    };
    let needs = |scheme: &&str| SecurityRequirement::new(*scheme, [] as [&str; 0]);
    schemes.iter().map(needs).fold(operation, OperationBuilder::security).build()
}

/// The names in braces.
pub(crate) fn placeholders(path: &'static str) -> impl Iterator<Item = &'static str> {
    path.split('/').filter_map(|part| part.strip_prefix('{')?.strip_suffix('}'))
}

fn described(parameter: &Parameter) -> ParameterBuilder {
    let required = match parameter.need {
        Need::Required => Required::True,
        Need::Optional => Required::False,
    };
    ParameterBuilder::new()
        .name(parameter.name)
        .parameter_in(ParameterIn::Query)
        .required(required)
        .description(Some(parameter.about))
        .example(parameter.example.map(Value::from))
        .schema(Some(form(parameter.form)))
}

fn form(form: Form) -> Object {
    let text = ObjectBuilder::new().schema_type(Type::String);
    match form {
        Form::Text | Form::Query | Form::Time | Form::Cursor | Form::Place => text.build(),
        Form::Choice(choices) => text.enum_values(Some(choices())).build(),
        Form::Number { max, default } => ObjectBuilder::new()
            .schema_type(Type::Integer)
            .format(Some(SchemaFormat::KnownFormat(KnownFormat::Int32)))
            .minimum(Some(1))
            .maximum(Some(max))
            .default(Some(json!(default)))
            .build(),
        Form::Switch => ObjectBuilder::new().schema_type(Type::Boolean).default(Some(json!(false))).build(),
    }
}

fn answer(description: &str, body: Body) -> Answer {
    let response = ResponseBuilder::new().description(description);
    let content = |schema: RefOr<Schema>| ContentBuilder::new().schema(Some(schema)).build();
    let text = || RefOr::T(Schema::Object(Object::with_type(Type::String)));
    match body {
        Body::Json(schema) => response.content("application/json", content(schema())),
        Body::Text(types) => types.iter().fold(response, |response, kind| response.content(*kind, content(text()))),
    }
    .build()
}

/// What can be wrong with a request, beside what the route itself says.
fn refusals(endpoint: Endpoint) -> Vec<(StatusCode, &'static str)> {
    let mut refusals = Vec::new();
    if !endpoint.parameters().is_empty() || endpoint.takes_body() {
        refusals.push((StatusCode::BAD_REQUEST, "A parameter or the body is wrong. Nothing is ignored."));
    } else if endpoint != Endpoint::ActivityRecord {
        refusals.push((StatusCode::BAD_REQUEST, "There is a parameter, and none is known."));
    }
    match endpoint.access() {
        Access::Everybody => {}
        Access::Operator => {
            refusals.push((StatusCode::UNAUTHORIZED, "The admin key is missing or wrong, and nobody is signed in."));
        }
        Access::OwnStatus => {
            refusals.push((StatusCode::UNAUTHORIZED, "The token or key is missing or wrong, and nobody is signed in."));
        }
        Access::User | Access::Session => refusals.push((StatusCode::UNAUTHORIZED, "Nobody is signed in.")),
        Access::SignIn => refusals.push((StatusCode::UNAUTHORIZED, "Name or password is wrong.")),
    }
    refusals.push((StatusCode::FORBIDDEN, forbidden(endpoint)));
    refusals.extend(about::own_refusals(endpoint));
    refusals
}

fn forbidden(endpoint: Endpoint) -> &'static str {
    match endpoint.access() {
        Access::User => {
            "An agent's token or the admin key was sent, the CSRF token is missing, a fresh factor is missing or wrong, or \
             the host or origin is not allowed."
        }
        Access::Session | Access::SignIn => {
            "An agent's token or the admin key was sent, the CSRF token is missing, or the host or origin is not allowed."
        }
        Access::OwnStatus => "The host or origin is not allowed.",
        Access::Operator if endpoint.method() != Method::GET => {
            "An agent's token was sent, a session without its CSRF token, or the host or origin is not allowed."
        }
        Access::Operator | Access::Everybody => "An agent's token was sent, or the host or origin is not allowed.",
    }
}

fn components() -> Components {
    let mut schemas = Vec::new();
    collect::<wire::Error>(&mut schemas);
    collect::<wire::Health>(&mut schemas);
    collect::<wire::Readiness>(&mut schemas);
    collect::<wire::Status>(&mut schemas);
    collect::<wire::Servers>(&mut schemas);
    collect::<wire::Log>(&mut schemas);
    collect::<wire::Restart>(&mut schemas);
    collect::<wire::Tools>(&mut schemas);
    collect::<wire::FoundTools>(&mut schemas);
    collect::<wire::Contracts>(&mut schemas);
    collect::<wire::Contract>(&mut schemas);
    collect::<wire::Lint>(&mut schemas);
    collect::<wire::Draft>(&mut schemas);
    collect::<wire::ExplainCall>(&mut schemas);
    collect::<wire::Explanation>(&mut schemas);
    collect::<wire::Activities>(&mut schemas);
    collect::<wire::WholeActivity>(&mut schemas);
    collect::<wire::Summary>(&mut schemas);
    collect::<wire::Approvals>(&mut schemas);
    collect::<wire::WholeApproval>(&mut schemas);
    collect::<wire::ApprovalStatus>(&mut schemas);
    collect::<wire::Grants>(&mut schemas);
    collect::<wire::LoggedIn>(&mut schemas);
    collect::<wire::Signed>(&mut schemas);
    collect::<wire::Approve>(&mut schemas);
    collect::<wire::Deny>(&mut schemas);
    collect::<wire::MakeGrant>(&mut schemas);
    collect::<wire::LogIn>(&mut schemas);
    let asked = [
        wire::ExplainCall::name(),
        wire::Approve::name(),
        wire::Deny::name(),
        wire::MakeGrant::name(),
        wire::LogIn::name(),
        "ErrorBody".into(),
    ];
    for (name, schema) in &mut schemas {
        // What we answer has every member, null or not; what we are sent may leave some out, and errors leave out details.
        if !asked.contains(&name.as_str().into()) {
            require_all(schema);
        }
    }
    let about = "The admin key is in `admin.key` in the data folder of the gateway, `~/.mcpproxy` unless it was told otherwise.";
    let key = SecurityScheme::ApiKey(ApiKey::Header(ApiKeyValue::with_description("X-API-Key", about)));
    let about = "A person's session: the cookie that POST /api/v1/login sets, and with everything but GET its `csrf` as \
        X-CSRF-Token.";
    let session = SecurityScheme::ApiKey(ApiKey::Cookie(ApiKeyValue::with_description("mcpproxy_session", about)));
    let agent = SecurityScheme::Http(HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build());
    ComponentsBuilder::new()
        .schemas_from_iter(schemas)
        .security_scheme(ADMIN_KEY, key)
        .security_scheme(SESSION, session)
        .security_scheme(AGENT, agent)
        .build()
}

type Named = (String, RefOr<Schema>);

fn collect<T: ToSchema>(schemas: &mut Vec<Named>) {
    schemas.push((T::name().into_owned(), T::schema()));
    T::schemas(schemas);
}

fn require_all(schema: &mut RefOr<Schema>) {
    match schema {
        RefOr::T(Schema::Object(object)) => object.required = object.properties.keys().cloned().collect(),
        RefOr::T(Schema::AllOf(parts)) => parts.items.iter_mut().for_each(require_all),
        _ => {}
    }
}

fn reference<T: ToSchema + PartialSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::name()))
}
