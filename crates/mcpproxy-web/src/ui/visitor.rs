//! The signed-in user who looks at a page.

use axum::extract::FromRequestParts;
use axum::response::Response;
use http::request::Parts;

use super::signed_out;
use crate::auth::identity::{AppState, Identity, SignedInUser};

/// Extracts the user that the access check in front of the page has identified.
pub(crate) struct Visitor(pub(crate) SignedInUser);

impl FromRequestParts<AppState> for Visitor {
    type Rejection = Response;

    async fn from_request_parts(parts: &mut Parts, _app: &AppState) -> Result<Self, Response> {
        match parts.extensions.get::<Identity>() {
            Some(Identity::User(signed)) => Ok(Self(signed.clone())),
            Some(Identity::Anonymous | Identity::Agent(_) | Identity::AdminKey) | None => {
                Err(signed_out(parts.uri.path()))
            }
        }
    }
}
