//! The page `/ui/settings`, and its forms: apply held changes, verify the log, end a session.

mod sessions;

use axum::extract::State;
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::{HeaderValue, StatusCode, Uri};
use mcpproxy_gateway::{Confirmation, Confirmed};
use mcpproxy_store::{Filter, Kind, SessionId, StoreError, VerifyExtent};

use super::account::for_browser;
use super::events::Topic;
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::visitor::Visitor;
use super::{frame, unavailable};
use crate::auth::factor::{FactorError, Factors, StepUpResult};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::problem::Problem;
use crate::publishing::has_versions;
use crate::ui::pages::settings::effective::{Running, groups};
use crate::ui::pages::settings::gateways::Gateways;
use crate::ui::pages::settings::log::{Storage, VerifyView};
use crate::ui::pages::settings::reloads::Reloads;
use crate::ui::pages::settings::sessions::{ASKED_INPUT, Looking, Sessions};
use crate::ui::pages::settings::versions::ActiveVersion;
use crate::ui::pages::settings::{HeldView, Settings, SettingsParts, UserRow};
use crate::ui::pages::{Confirmed as ConfirmedByProvider, Frame, page};
use crate::verb::Verb;

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "settings",
        method: Verb::Get,
        path: "/ui/settings",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "apply_held",
        method: Verb::Post,
        path: "/ui/settings/apply",
        access: PageAccess::User,
        decides: true,
        sent_from: Some("/ui/settings"),
        is_stream: false,
        handler: |method| on(method, apply),
    },
    Page {
        name: "apply_challenge",
        method: Verb::Post,
        path: "/ui/settings/apply/passkey",
        access: PageAccess::User,
        decides: true,
        sent_from: Some("/ui/settings"),
        is_stream: false,
        handler: |method| on(method, challenge),
    },
    Page {
        name: "verify_log",
        method: Verb::Post,
        path: "/ui/settings/verify",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/settings"),
        is_stream: false,
        handler: |method| on(method, verify),
    },
    Page {
        name: "end_session",
        method: Verb::Post,
        path: "/ui/settings/sessions/end",
        access: PageAccess::User,
        decides: false,
        sent_from: Some("/ui/settings"),
        is_stream: false,
        handler: |method| on(method, sessions::end),
    },
];

/// Records to read for the history of reloads.
const RECORDS_MAX: usize = 40;
/// Seconds until the page reloads itself while a verification runs, with or without JavaScript.
const REFRESH: HeaderValue = HeaderValue::from_static("2");

/// The result of a form, shown above the page.
#[derive(Default)]
struct Said {
    error: Option<String>,
    done: Option<&'static str>,
    asks_password: bool,
    confirmed: Option<ConfirmedByProvider>,
    /// True if the error is about the second factor.
    is_factor_wrong: bool,
    /// The session whose form needs the password.
    session: Option<String>,
}

async fn show(State(app): State<AppState>, Visitor(signed): Visitor, uri: Uri) -> Response {
    let done = match uri.query() {
        Some("done=applied") => Some("The changes are in force."),
        Some("done=session") => Some("The session has ended."),
        _ => None,
    };
    let said = Said { done, confirmed: ConfirmedByProvider::of(&uri), ..Said::default() };
    render(&app, &signed, StatusCode::OK, said).await.unwrap_or_else(|error| unavailable(&error))
}

async fn render(app: &AppState, signed: &SignedInUser, status: StatusCode, said: Said) -> Result<Response, StoreError> {
    let parts = parts(app, signed, said.session.as_deref()).await?;
    // A reload would lose a code that is being typed.
    let reloads_itself = parts.verify.is_running() && parts.held.is_none();
    let frame = frame::around(app, signed, "settings", "Settings").await?;
    let frame = Frame { live: Some(Topic::Calls), asks_password: said.asks_password, ..frame };
    let wrong = (said.is_factor_wrong && parts.factors.totp).then_some("apply-totp");
    let wrong = if said.session.is_some() { Some(ASKED_INPUT) } else { wrong };
    let frame = Frame { here: "/ui/settings".to_owned(), confirmed: said.confirmed, wrong, ..frame };
    let mut response = page(status, &Settings::new(frame, parts, said.error, said.done));
    if reloads_itself && status == StatusCode::OK {
        response.headers_mut().insert("refresh", REFRESH);
    }
    Ok(response)
}

/// `asked` is the session whose form needs the password.
async fn parts(app: &AppState, signed: &SignedInUser, asked: Option<&str>) -> Result<SettingsParts, StoreError> {
    let (gateway, store, now_ms) = (&app.web.gateway, &app.web.store, app.now_ms());
    let user = store.find_user(signed.name()).await?;
    let settings = gateway.settings();
    let filter = Filter { kind: Some(Kind::Settings), ..Filter::default() };
    let records = store.list(&filter, None, RECORDS_MAX).await?.records;
    let (path, error) = (&app.web.facts.settings_path, gateway.reload_error());
    let last = gateway.last_verification().await?;
    let chains = (store.chains().await?, app.web.ledger.verifier().chain().to_owned());
    let accounts =
        store.list_accounts(now_ms, settings.people.session.idle_ms(), settings.people.session.max_ms()).await?;
    let open = sessions::visible(app, signed).await?;
    let looking = Looking { name: signed.name(), session: &SessionId::of(&signed.secret), asked, now_ms };
    let place = |id: &SessionId| app.auth.session_places.find(id);
    let published = match has_versions(app) {
        true => Some(ActiveVersion::new(&store.list_versions().await?, gateway.version(), now_ms)),
        false => None,
    };
    // A file that cannot be looked at is there: the reload says what is wrong with it.
    let has_file = tokio::fs::try_exists(path).await.unwrap_or(true);
    let file = path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default();
    Ok(SettingsParts {
        held: gateway.held().map(|held| HeldView::new(&held)),
        factors: user.map(|user| Factors::of(&user)).unwrap_or_default(),
        published,
        reloads: Reloads::new(
            (&path.display().to_string(), has_file),
            error.as_deref(),
            &gateway.settings_warnings(),
            &records,
            now_ms,
        ),
        verify: VerifyView::new(&gateway.verification(), last.as_ref(), now_ms),
        storage: Storage::new(
            store.size().await?,
            settings.limits.disk,
            &app.web.ledger.health(),
            (&chains.0, &chains.1),
            now_ms,
        ),
        gateways: Gateways::new(&gateway.cluster().await?, now_ms),
        groups: groups(
            &settings.effective(),
            &Running {
                file: &file,
                version: gateway.version(),
                address: &app.web.facts.address,
                overridden: &app.web.facts.overridden,
            },
        ),
        sessions: Sessions::new(&open, &looking, place),
        users: accounts.iter().map(|account| UserRow::new(account, signed.name(), now_ms)).collect(),
    })
}

/// Verifies the log in the background. If a verification is running already, the page shows that one.
async fn verify(State(app): State<AppState>, posted: Posted) -> Response {
    let extent = match posted.form.filled("extent") {
        None => VerifyExtent::SinceLast,
        // In doubt, everything is verified.
        Some(_) => VerifyExtent::Everything,
    };
    app.web.gateway.verify_log(posted.signed.name(), extent);
    Redirect::to("/ui/settings#verify").into_response()
}

async fn apply(State(app): State<AppState>, posted: Posted) -> Response {
    apply_or_fail(&app, &posted).await.unwrap_or_else(|error| unavailable(&error))
}

async fn apply_or_fail(app: &AppState, posted: &Posted) -> Result<Response, StoreError> {
    let digest = posted.form.or_empty("digest");
    // A factor is optional unless the changes require one. But a wrong one is always an error.
    let fresh = match app.step_up(&posted.signed, posted.factor(), digest).await? {
        StepUpResult::Verified(fresh) => Some(fresh),
        StepUpResult::NotVerified(FactorError::Missing) => None,
        StepUpResult::NotVerified(fault) => return refused_factor(app, posted, fault).await,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match app.prove_presence(&posted.signed, posted.presence()).await? {
            PresenceResult::Present(present) => present,
            PresenceResult::Absent(absent) => {
                let said = Said { error: Some(absent.message()), asks_password: true, ..Said::default() };
                return render(app, &posted.signed, StatusCode::FORBIDDEN, said).await;
            }
        },
    };
    let (status, error) = match app.web.reloader.apply(Confirmation::new(digest, &present, fresh.as_ref())).await {
        Confirmed::Applied => return Ok(Redirect::to("/ui/settings?done=applied").into_response()),
        Confirmed::NothingWaits => (StatusCode::CONFLICT, "No changes wait any more. Nothing was changed.".to_owned()),
        Confirmed::Changed => {
            let text = "The files changed after you opened this page. Read the changes again. Nothing was changed.";
            (StatusCode::CONFLICT, text.to_owned())
        }
        Confirmed::StepUpRequired => return refused_factor(app, posted, FactorError::Missing).await,
        Confirmed::Refused(reason) => {
            (StatusCode::CONFLICT, format!("A file is invalid. Nothing was changed. {reason}"))
        }
        Confirmed::Stopping => {
            (StatusCode::SERVICE_UNAVAILABLE, "The gateway is stopping. Nothing was changed.".to_owned())
        }
    };
    refused(app, posted, status, error).await
}

async fn refused(app: &AppState, posted: &Posted, status: StatusCode, error: String) -> Result<Response, StoreError> {
    render(app, &posted.signed, status, Said { error: Some(error), ..Said::default() }).await
}

/// Shows the page again after a missing or wrong factor. The input for the code gets the focus.
async fn refused_factor(app: &AppState, posted: &Posted, fault: FactorError) -> Result<Response, StoreError> {
    let said = Said { error: Some(fault.message()), is_factor_wrong: true, ..Said::default() };
    render(app, &posted.signed, StatusCode::FORBIDDEN, said).await
}

/// Creates a passkey challenge for exactly the changes that wait now.
async fn challenge(State(app): State<AppState>, posted: Posted) -> Response {
    let Some(held) = app.web.gateway.held() else { return Problem::NOTHING_HELD.into_response() };
    for_browser(app.challenge(&posted.signed, &held.digest).await)
}
