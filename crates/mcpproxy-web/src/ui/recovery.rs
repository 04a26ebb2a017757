//! Recovery codes on the account page: made with the first factor, and on demand.

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_store::StoreError;

use super::account::{AccountNotice, FactorChange, Recovery, account, answer, may_change};
use super::page::{Page, PageAccess};
use super::posted::Posted;
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::random_bytes;
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[Page {
    name: "make_recovery_codes",
    method: Verb::Post,
    path: RECOVERY,
    access: PageAccess::User,
    decides: false,
    sent_from: Some("/ui/account"),
    is_stream: false,
    handler: |method| on(method, make),
}];

/// The form, and the purpose of its second factor.
pub(super) const RECOVERY: &str = "/ui/account/recovery";

/// A factor that was just set up.
#[derive(Clone, Copy)]
pub(super) enum Enrolled {
    Totp,
    Passkey,
}

impl Enrolled {
    pub(super) fn words(self) -> &'static str {
        match self {
            Self::Totp => "The authenticator app is set up. You can approve and deny calls now.",
            Self::Passkey => "The passkey was added.",
        }
    }

    fn path(self) -> &'static str {
        match self {
            Self::Totp => "/ui/account?done=totp",
            Self::Passkey => "/ui/account?done=passkey",
        }
    }
}

/// Ends the setup of a factor. Without recovery codes, the user gets some. They stand on this page only, so it must not be
/// a redirect: a page that shows them again would show them to everyone who has the cookie.
pub(super) async fn enrolled(
    app: &AppState,
    signed: &SignedInUser,
    seed: &[u8],
    factor: Enrolled,
) -> Result<Response, StoreError> {
    let recovery_codes = app.recovery_codes_at_enrolment(signed, seed).await?;
    if recovery_codes.is_empty() {
        return Ok(Redirect::to(factor.path()).into_response());
    }
    // The session was read before the factor existed.
    let mut signed = signed.clone();
    signed.session.is_enrolled = true;
    let said = AccountNotice { recovery_codes, done: Some(factor.words()), ..AccountNotice::default() };
    account(app, &signed, StatusCode::OK, said).await
}

async fn make(State(app): State<AppState>, posted: Posted) -> Response {
    answer(make_or_fail(&app, &posted).await)
}

async fn make_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let signed = &posted.signed;
    if let FactorChange::NotAllowed(not) = may_change(app, posted, RECOVERY, Recovery::Refused).await? {
        return account(app, signed, StatusCode::FORBIDDEN, not.said()).await;
    }
    let seed: Option<[u8; 32]> = random_bytes();
    let recovery_codes = app.make_recovery_codes(signed, &seed.unwrap_or_default()).await?;
    account(app, signed, StatusCode::OK, AccountNotice { recovery_codes, ..AccountNotice::default() }).await
}
