//! A form that a signed-in user sent from one of our pages.

use axum::extract::{FromRequest, Request};
use axum::response::{IntoResponse as _, Response};
use http::StatusCode;

use crate::auth::factor::FactorInput;
use crate::auth::identity::{AppState, Identity, SignedInUser};
use crate::auth::origin::{self, CSRF_HEADER};
use crate::auth::presence::PresenceInput;
use crate::problem::Problem;
use crate::ui::form::{Form, FormError};

/// Extracting it verifies the session and the CSRF token. A handler that takes it cannot forget the check.
pub(crate) struct Posted {
    pub(crate) signed: SignedInUser,
    pub(crate) form: Form,
}

impl Posted {
    /// Returns the factor that came with the form, if any. A recovery code is none: it approves nothing.
    pub(crate) fn factor(&self) -> FactorInput<'_> {
        FactorInput {
            totp: self.form.filled("totp"),
            passkey: self.form.filled("passkey"),
            provider: self.form.filled("provider_proof"),
            recovery: None,
        }
    }

    /// Returns the factor that came with a form which replaces a lost factor.
    pub(crate) fn factor_or_recovery_code(&self) -> FactorInput<'_> {
        FactorInput { recovery: self.form.filled("recovery"), ..self.factor() }
    }

    /// Returns the proof of presence that came with the form, if any.
    pub(crate) fn presence(&self) -> PresenceInput<'_> {
        let password = self.form.text("password").filter(|password| !password.is_empty());
        PresenceInput { page_key: self.form.filled("page_key"), password }
    }
}

impl FromRequest<AppState> for Posted {
    type Rejection = Response;

    async fn from_request(request: Request, _site: &AppState) -> Result<Self, Response> {
        let (parts, body) = request.into_parts();
        let Some(Identity::User(signed)) = parts.extensions.get::<Identity>().cloned() else {
            return Err(Problem::NOT_SIGNED_IN.into_response());
        };
        let form = Form::read(&parts.headers, body).await.map_err(refusal)?;
        let header = parts.headers.get(CSRF_HEADER).and_then(|value| value.to_str().ok());
        if !origin::is_token(form.text("csrf").or(header).unwrap_or_default(), &signed.session.csrf) {
            let text = "This form did not come from a page of this gateway, or you signed in again after opening it. Nothing was changed.";
            return Err(super::notice(StatusCode::FORBIDDEN, "Form not accepted", text, ("/ui/approvals", "Back")));
        }
        Ok(Self { signed, form })
    }
}

pub(crate) fn refusal(error: FormError) -> Response {
    let (status, text) = match error {
        FormError::NotAForm => (StatusCode::FORBIDDEN, "The request was not a valid form. Nothing was changed."),
        FormError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "The form is too long. Nothing was changed."),
    };
    super::notice(status, "Form not accepted", text, ("/ui/approvals", "Back"))
}
