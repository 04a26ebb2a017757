//! The pages of published versions: the list, and one version with its differences and the form that publishes it again.
//!
//! Publishing again needs the same proof as `mcpproxy config apply --version N`: the user is present, and confirms the
//! differences that the page showed. What lifts a strict rule needs a second factor too.

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::{StatusCode, Uri};
use mcpproxy_store::{ConfigFiles, ConfigVersion, PresenceProof, StepUpProof, StoreError};

use super::account::for_browser;
use super::events::Topic;
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::visitor::Visitor;
use super::{frame, notice, unavailable};
use crate::auth::factor::{FactorError, Factors, StepUpResult};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::problem::Problem;
use crate::publishing::{Candidate, PublishError, Read, has_versions};
use crate::ui::pages::settings::versions::{
    Against, PublishForm, Publishing, VersionPage, VersionRow, Versions, WholeFile,
};
use crate::ui::pages::tools::text_diff::FileDiffs;
use crate::ui::pages::{Confirmed as ConfirmedByProvider, Frame, page};
use crate::verb::Verb;

const LIST: &str = "/ui/settings/versions";

pub(super) const PAGES: &[Page] = &[
    Page {
        name: "versions",
        method: Verb::Get,
        path: LIST,
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, list),
    },
    Page {
        name: "version",
        method: Verb::Get,
        path: "/ui/settings/versions/{version}",
        access: PageAccess::User,
        decides: false,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, show),
    },
    Page {
        name: "publish_version",
        method: Verb::Post,
        path: "/ui/settings/versions/{version}",
        access: PageAccess::User,
        decides: true,
        sent_from: None,
        is_stream: false,
        handler: |method| on(method, publish),
    },
    Page {
        name: "publish_challenge",
        method: Verb::Post,
        path: "/ui/settings/versions/{version}/passkey",
        access: PageAccess::User,
        decides: true,
        sent_from: Some(LIST),
        is_stream: false,
        handler: |method| on(method, challenge),
    },
];

/// The result of a form, shown above the page.
#[derive(Default)]
struct Said {
    error: Option<String>,
    done: Option<&'static str>,
    asks_password: bool,
    is_factor_wrong: bool,
    confirmed: Option<ConfirmedByProvider>,
}

async fn list(State(app): State<AppState>, Visitor(signed): Visitor) -> Response {
    let shown = async || -> Result<Response, StoreError> {
        let frame = frame::around(&app, &signed, "settings", "Versions").await?;
        let frame = Frame { live: Some(Topic::Calls), ..frame };
        let in_force = app.web.gateway.version();
        let heads = app.web.store.list_versions().await?;
        let newest = heads.first().map(|head| head.number);
        let row = |head| VersionRow::new(head, in_force, newest, app.now_ms());
        let rows = heads.iter().map(row).collect();
        Ok(page(StatusCode::OK, &Versions::new(frame, rows, has_versions(&app), in_force.is_some())))
    };
    shown().await.unwrap_or_else(|error| unavailable(&error))
}

async fn show(
    State(app): State<AppState>,
    Visitor(signed): Visitor,
    number: Result<Path<i64>, PathRejection>,
    uri: Uri,
) -> Response {
    let done = (uri.query() == Some("done=published")).then_some("This version is published for all gateways.");
    let said = Said { done, confirmed: ConfirmedByProvider::of(&uri), ..Said::default() };
    let shown = async || -> Result<Response, StoreError> {
        match Found::of(&app, number).await? {
            Ok(found) => render(&app, &signed, &found, StatusCode::OK, said).await,
            Err(response) => Ok(response),
        }
    };
    shown().await.unwrap_or_else(|error| failed(&error))
}

async fn publish(State(app): State<AppState>, number: Result<Path<i64>, PathRejection>, posted: Posted) -> Response {
    let published = async || -> Result<Response, StoreError> {
        match Found::of(&app, number).await? {
            Ok(found) => publish_again(&app, &posted, &found).await,
            Err(response) => Ok(response),
        }
    };
    published().await.unwrap_or_else(|error| failed(&error))
}

/// Creates a passkey challenge for exactly the files of this version.
async fn challenge(State(app): State<AppState>, number: Result<Path<i64>, PathRejection>, posted: Posted) -> Response {
    let digest = async || -> Result<Option<String>, StoreError> {
        let Ok(Path(number)) = number else { return Ok(None) };
        Ok(app.web.store.find_version(number).await?.map(|version| version.head.digest))
    };
    match digest().await {
        Ok(Some(digest)) => for_browser(app.challenge(&posted.signed, &digest).await),
        Ok(None) => Problem::VERSION_NOT_FOUND.into_response(),
        Err(error) => Problem::from(error).into_response(),
    }
}

/// A version, and what publishing it again would do.
struct Found {
    version: ConfigVersion,
    candidate: Candidate,
    /// The files of the version before. `None` if it is not kept any more.
    before: Option<ConfigFiles>,
}

impl Found {
    async fn of(
        app: &AppState,
        number: Result<Path<i64>, PathRejection>,
    ) -> Result<Result<Self, Response>, StoreError> {
        let Ok(Path(number)) = number else { return Ok(Err(not_found())) };
        let Some(version) = app.web.store.find_version(number).await? else { return Ok(Err(not_found())) };
        let candidate = match Candidate::of_version(app, number).await {
            Ok(candidate) => candidate,
            Err(PublishError::NotShared | PublishError::NoVersion) => return Ok(Err(not_found())),
            Err(error) => {
                let (status, text) = refusal(error)?;
                return Ok(Err(notice(status, "Temporarily unavailable", &text, (LIST, "All versions"))));
            }
        };
        let before = match number {
            ..=1 => Some(Vec::new()),
            // One that was changed in the database cannot be compared with.
            2.. => app.web.store.find_version(number - 1).await.ok().flatten().map(|version| version.files),
        };
        Ok(Ok(Self { version, candidate, before }))
    }

    /// Returns true if its files are those of the newest version.
    fn is_same(&self) -> bool {
        self.candidate.files == self.candidate.before
    }
}

async fn render(
    app: &AppState,
    signed: &SignedInUser,
    found: &Found,
    status: StatusCode,
    said: Said,
) -> Result<Response, StoreError> {
    let Found { version, candidate, before } = found;
    let number = version.head.number;
    let user = app.web.store.find_user(signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    let frame = frame::around(app, signed, "settings", &format!("Version {number}")).await?;
    let wrong = (said.is_factor_wrong && factors.totp).then_some("publish-totp");
    let Said { error, done, asks_password, confirmed, .. } = said;
    let frame = Frame { here: format!("{LIST}/{number}"), asks_password, confirmed, wrong, ..frame };
    let newest = candidate.newest;
    let in_force = app.web.gateway.version();
    let own = before.as_ref().map(|before| FileDiffs::between(before, &version.files));
    let against = (number != newest).then(|| Against {
        number: newest,
        is_active: in_force == Some(newest),
        diffs: FileDiffs::between(&candidate.before, &version.files),
    });
    let publishing = match &candidate.checked {
        _ if number == newest => Publishing::Newest,
        _ if found.is_same() => Publishing::Same,
        Err(mistakes) => Publishing::invalid(mistakes),
        Ok(weaker) => Publishing::Possible(PublishForm::new(newest, &candidate.digest, weaker)),
    };
    // The reason for which this gateway has not taken over the newest version.
    let is_behind = number == newest && in_force.is_some_and(|active| active != newest);
    let not_taken_over = app.web.gateway.reload_error().filter(|_| is_behind);
    let row = VersionRow::new(&version.head, in_force, Some(newest), app.now_ms());
    let content = VersionPage::new(frame, row, against, own, publishing);
    let files = WholeFile::all(&version.files);
    let content = VersionPage { error, done, factors, files, ..content.not_taken_over(not_taken_over.as_deref()) };
    Ok(page(status, &content))
}

async fn publish_again(app: &AppState, posted: &Posted, found: &Found) -> Result<Response, StoreError> {
    let again = async |status: StatusCode, said: Said| render(app, &posted.signed, found, status, said).await;
    let refuse = async |error: PublishError| match refusal(error) {
        Ok((status, error)) => again(status, Said { error: Some(error), ..Said::default() }).await,
        Err(error) => Err(error),
    };
    let candidate = &found.candidate;
    let after = posted.form.or_empty("after").parse().unwrap_or(-1);
    let was_read = Read { after, digest: posted.form.or_empty("digest") };
    match &candidate.checked {
        _ if !candidate.is(was_read) => return refuse(PublishError::Outdated).await,
        Err(mistakes) => return refuse(PublishError::Invalid(mistakes.clone())).await,
        Ok(_) => {}
    }
    let (present, fresh) = match proof(app, posted, candidate).await? {
        Ok(proof) => proof,
        Err(Unproven::Factor(fault)) => {
            let said = Said { error: Some(fault.message()), is_factor_wrong: true, ..Said::default() };
            return again(StatusCode::FORBIDDEN, said).await;
        }
        Err(Unproven::Presence(error)) => {
            let said = Said { error: Some(error), asks_password: true, ..Said::default() };
            return again(StatusCode::FORBIDDEN, said).await;
        }
    };
    match candidate.publish(app, was_read, &present, fresh.as_ref()).await {
        Ok(published) => Ok(Redirect::to(&published_path(published.version)).into_response()),
        Err(error) => refuse(error).await,
    }
}

/// Returns the page of a version that was just published.
pub(super) fn published_path(number: i64) -> String {
    format!("{LIST}/{number}?done=published")
}

/// The proof that is missing or wrong.
pub(super) enum Unproven {
    Factor(FactorError),
    Presence(String),
}

/// Reads the proof that came with a form: a factor where the files need one, and else that the user is present.
pub(super) async fn proof(
    app: &AppState,
    posted: &Posted,
    candidate: &Candidate,
) -> Result<Result<(PresenceProof, Option<StepUpProof>), Unproven>, StoreError> {
    let needs_step_up = candidate.checked.as_ref().is_ok_and(|weaker| weaker.needs_step_up);
    // A factor is optional unless the files require one. But a wrong one is always an error.
    let fresh = match app.step_up(&posted.signed, posted.factor(), &candidate.digest).await? {
        StepUpResult::Verified(fresh) => return Ok(Ok((fresh.present(), Some(fresh)))),
        StepUpResult::NotVerified(FactorError::Missing) if !needs_step_up => None,
        StepUpResult::NotVerified(fault) => return Ok(Err(Unproven::Factor(fault))),
    };
    Ok(match app.prove_presence(&posted.signed, posted.presence()).await? {
        PresenceResult::Present(present) => Ok((present, fresh)),
        PresenceResult::Absent(absent) => Err(Unproven::Presence(absent.message())),
    })
}

/// Says why nothing was published, and what to do.
pub(super) fn refusal(error: PublishError) -> Result<(StatusCode, String), StoreError> {
    let (status, text) = match error {
        PublishError::NotShared => (
            StatusCode::CONFLICT,
            "This gateway uses SQLite, which serves one gateway. Edit the files in its data folder.".to_owned(),
        ),
        PublishError::NoVersion => (StatusCode::NOT_FOUND, "This version is not kept any more.".to_owned()),
        PublishError::Outdated => (
            StatusCode::CONFLICT,
            "Another version was published after you opened this page. Read the new differences, then confirm them."
                .to_owned(),
        ),
        PublishError::Behind { newest } => (
            StatusCode::CONFLICT,
            format!(
                "Version {newest} is newer than the one that this gateway has. Try again in a second. If that does not help, \
                 the settings page says why this gateway does not take it over."
            ),
        ),
        PublishError::StepUpRequired => (StatusCode::FORBIDDEN, FactorError::Missing.message()),
        PublishError::Invalid(mistakes) => (StatusCode::CONFLICT, format!("A file is not valid here. {mistakes}")),
        PublishError::Stopping => (StatusCode::SERVICE_UNAVAILABLE, "The gateway is stopping.".to_owned()),
        PublishError::Store(error) => return Err(error),
    };
    Ok((status, format!("{text} Nothing was published.")))
}

fn not_found() -> Response {
    let text = "There is no version with this number. The database keeps the newest 100.";
    notice(StatusCode::NOT_FOUND, "Version not found", text, (LIST, "All versions"))
}

/// Shows the page for an error of the store. A damaged version is none of the connection.
fn failed(error: &StoreError) -> Response {
    let StoreError::Corrupt { .. } = error else { return unavailable(error) };
    tracing::warn!(error = error as &dyn std::error::Error, "a published version cannot be read");
    let text = "The files of this version were changed in the database after a user published them, so no gateway uses it. \
                Publish another version. Find out who can write to the database.";
    notice(StatusCode::CONFLICT, "This version is damaged", text, (LIST, "All versions"))
}
