//! Definitions of REST endpoints: one row per endpoint.
//!
//! A row describes an endpoint completely: method, path, access, query parameters, body, answers, errors, texts and
//! handler. Everything else is made from the rows:
//!
//! - the router and the access check in front of each handler ([`super::router`]),
//! - the parser of query parameters, which rejects every parameter that is not in the row ([`super::parameters`]),
//! - the OpenAPI document at `/api/v1/openapi.json` and the page at `/api/v1/docs` ([`super::openapi`],
//!   [`super::docs`]),
//! - the tests that send every credential to every endpoint (`tests/matrix.rs`).
//!
//! Each file of handlers has its rows at the top, as `ENDPOINTS`. [`super::endpoints`] concatenates them. The order of
//! the rows is the order in the document.
//!
//! ```text
//! Endpoint {
//!     name: "restart_server",
//!     method: Verb::Post,
//!     path: "/api/v1/servers/{name}/restart",
//!     access: Access::Operator,
//!     …
//!     handler: |method| on(method, restart_server),
//! }
//! ```
//!
//! There are no defaults: a row without `access` does not compile. The alternative, an enum of endpoints with one
//! `match` per property, needs an edit in every `match` for each new endpoint, and a `_ =>` in one of them hides a
//! mistake.

use std::fmt;

use axum::routing::{MethodFilter, MethodRouter};
use http::StatusCode;
use utoipa::openapi::schema::Schema;
use utoipa::openapi::{Ref, RefOr};
use utoipa::{PartialSchema, ToSchema};

use super::parameters::Parameter;
use crate::auth::access::Access;
use crate::auth::identity::AppState;
use crate::verb::Verb;

pub(crate) struct Endpoint {
    /// The `operationId` in the OpenAPI document.
    pub(crate) name: &'static str,
    pub(crate) method: Verb,
    /// Names in braces are listed in [`super::parameters::PATH_PARAMETERS`].
    pub(crate) path: &'static str,
    pub(crate) access: Access,
    /// True if the endpoint approves or denies calls. A refused attempt to use it is recorded.
    pub(crate) decides: bool,
    /// The query parameters. Any other parameter is an error.
    pub(crate) parameters: &'static [Parameter],
    pub(crate) body: Option<Body>,
    pub(crate) group: Group,
    pub(crate) summary: &'static str,
    pub(crate) description: &'static str,
    pub(crate) answers: &'static [Answer],
    /// Errors besides those that every endpoint with this access and these parameters has.
    pub(crate) errors: &'static [ErrorAnswer],
    pub(crate) handler: fn(MethodFilter) -> MethodRouter<AppState>,
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name)
    }
}

/// The sections of the document.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Group {
    Health,
    Servers,
    Contracts,
    Activity,
    Approvals,
    SigningIn,
    Interface,
}

impl Group {
    pub(crate) fn title(self) -> &'static str {
        match self {
            Self::Health => "Health",
            Self::Servers => "Servers and tools",
            Self::Contracts => "Contracts",
            Self::Activity => "Activity log",
            Self::Approvals => "Approvals",
            Self::SigningIn => "Signing in",
            Self::Interface => "This interface",
        }
    }
}

/// A JSON request body.
#[derive(Debug)]
pub(crate) struct Body {
    pub(crate) schema: NamedSchema,
    /// JSON.
    pub(crate) example: &'static str,
}

impl Body {
    pub(crate) const fn json<T: ToSchema>(example: &'static str) -> Self {
        Self { schema: NamedSchema::of::<T>(), example }
    }
}

/// A successful response.
#[derive(Debug)]
pub(crate) struct Answer {
    pub(crate) status: StatusCode,
    pub(crate) description: &'static str,
    pub(crate) content: Content,
}

#[derive(Debug)]
pub(crate) enum Content {
    /// A type of `wire`, listed among the document's schemas.
    Json(NamedSchema),
    /// JSON of any shape that this schema describes.
    AnyJson(fn() -> RefOr<Schema>),
    /// One of these media types.
    Text(&'static [&'static str]),
}

impl Answer {
    pub(crate) const fn json<T: ToSchema>(status: StatusCode, description: &'static str) -> Self {
        Self { status, description, content: Content::Json(NamedSchema::of::<T>()) }
    }

    pub(crate) const fn any_json(description: &'static str, schema: fn() -> RefOr<Schema>) -> Self {
        Self { status: StatusCode::OK, description, content: Content::AnyJson(schema) }
    }

    pub(crate) const fn text(description: &'static str, media_types: &'static [&'static str]) -> Self {
        Self { status: StatusCode::OK, description, content: Content::Text(media_types) }
    }
}

/// An error response: its status, and when it happens.
pub(crate) type ErrorAnswer = (StatusCode, &'static str);

pub(crate) const NO_SERVER: ErrorAnswer = (StatusCode::NOT_FOUND, "No such server.");
pub(crate) const BAD_SETTINGS: ErrorAnswer =
    (StatusCode::CONFLICT, "A file is invalid. The previous settings, contracts and policies remain active.");
pub(crate) const NO_TOOL: ErrorAnswer = (StatusCode::NOT_FOUND, "No such tool.");
pub(crate) const LOG_UNREADABLE: ErrorAnswer =
    (StatusCode::SERVICE_UNAVAILABLE, "The activity log cannot be read right now.");
pub(crate) const LOG_UNAVAILABLE: ErrorAnswer =
    (StatusCode::SERVICE_UNAVAILABLE, "The activity log cannot be read or written right now.");
pub(crate) const BODY_TOO_LARGE: ErrorAnswer = (StatusCode::PAYLOAD_TOO_LARGE, "The body is too large.");
pub(crate) const TOO_MANY_TRIES: ErrorAnswer =
    (StatusCode::TOO_MANY_REQUESTS, "Too many failed attempts. `Retry-After` says how many seconds to wait.");

/// A type of `wire` as the document refers to it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct NamedSchema {
    pub(crate) reference: fn() -> RefOr<Schema>,
    /// Adds the type and all types in it to the list of schemas.
    pub(crate) collect: fn(&mut Vec<(String, RefOr<Schema>)>),
}

impl NamedSchema {
    pub(crate) const fn of<T: ToSchema>() -> Self {
        Self { reference: reference::<T>, collect: collect::<T> }
    }
}

fn reference<T: ToSchema>() -> RefOr<Schema> {
    RefOr::Ref(Ref::from_schema_name(T::name()))
}

fn collect<T: ToSchema>(schemas: &mut Vec<(String, RefOr<Schema>)>) {
    schemas.push((T::name().into_owned(), <T as PartialSchema>::schema()));
    T::schemas(schemas);
}
