//! Changes of servers that are published as a version, for gateways whose files come from the database.
//!
//! A form of another page proposes a change. The answer shows its differences, with the fields of the form and the digest
//! of the files. Sent again, and confirmed, the form publishes exactly these files. Neither page nor gateway keeps anything
//! in between: the files are drafted again, and must have the same digest.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use axum::routing::on;
use http::StatusCode;
use mcpproxy_core::ServerName;
use mcpproxy_gateway::aside;
use mcpproxy_store::StoreError;

use super::account::for_browser;
use super::frame;
use super::page::{Page, PageAccess};
use super::posted::Posted;
use super::versions::{Unproven, proof, published_path, refusal};
use crate::auth::factor::Factors;
use crate::auth::identity::AppState;
use crate::editor::{EditError, Edited, ServersEditor, Written};
use crate::problem::Problem;
use crate::publishing::{Candidate, PublishError, Read};
use crate::ui::pages::settings::versions::{Proposal, PublishForm};
use crate::ui::pages::tools::text_diff::FileDiffs;
use crate::ui::pages::{Frame, page};
use crate::verb::Verb;
use crate::visible::plain;

pub(super) const PAGES: &[Page] = &[Page {
    name: "proposal_challenge",
    method: Verb::Post,
    path: "/ui/settings/publish/passkey/{digest}",
    access: PageAccess::User,
    decides: true,
    sent_from: Some("/ui/settings/versions"),
    is_stream: false,
    handler: |method| on(method, challenge),
}];

/// Fields that belong to the confirmation, and not to the change.
const CONFIRMATION: [&str; 8] =
    ["csrf", "page_key", "password", "totp", "passkey", "provider_proof", "after", "digest"];

/// The form that proposes a change.
pub(super) struct Place {
    /// Its address.
    pub(super) path: String,
    /// The title of its page, such as `Disable time`.
    pub(super) title: String,
}

/// A change of servers that was published.
pub(super) struct Done {
    pub(super) names: Vec<ServerName>,
    /// True if this gateway has the version in force.
    pub(super) in_force: bool,
    pub(super) version: i64,
}

/// The reason why a change is not published.
pub(super) enum NotDone {
    /// The user has to confirm it on this page first.
    Shown(Response),
    /// The input or the files are wrong. The sentence is for the page with the form.
    Refused(StatusCode, String),
}

/// Drafts a change. Shows its differences, or publishes it if the user has confirmed them.
pub(super) async fn confirmed(
    app: &AppState,
    posted: &Posted,
    place: &Place,
    edit: impl FnOnce(&dyn ServersEditor) -> Result<Edited, EditError> + Send + 'static,
) -> Result<Result<Done, NotDone>, StoreError> {
    let web = Arc::clone(&app.web);
    let refused = |status: StatusCode, text: &str| Ok(Err(NotDone::Refused(status, plain(text))));
    let (names, notes, next) = match aside(move || edit(web.servers_editor.as_ref())).await {
        Ok(Edited { names, notes, written: Written::Version(next) }) => (names, notes, next),
        Ok(Edited { written: Written::File(undo), .. }) => {
            undo.run();
            return refused(StatusCode::CONFLICT, "The settings come from the database. Nothing was changed.");
        }
        Err(error @ EditError::Invalid(_)) => return refused(StatusCode::UNPROCESSABLE_ENTITY, &error.to_string()),
        Err(error @ (EditError::ReadOnly { .. } | EditError::Failed(_))) => {
            return refused(StatusCode::CONFLICT, &error.to_string());
        }
    };
    let candidate = match Candidate::of_draft(app, next.after, next.files).await {
        Ok(candidate) => candidate,
        Err(error) => {
            let (status, text) = refusal(error)?;
            return refused(status, &text);
        }
    };
    let draft = Draft { place, candidate, notes };
    Ok(match publish(app, posted, &draft).await? {
        Ok((version, in_force)) => Ok(Done { names, in_force, version }),
        Err(response) => Err(NotDone::Shown(response)),
    })
}

/// A change that is checked.
struct Draft<'p> {
    place: &'p Place,
    candidate: Candidate,
    notes: Vec<String>,
}

async fn publish(
    app: &AppState,
    posted: &Posted,
    draft: &Draft<'_>,
) -> Result<Result<(i64, bool), Response>, StoreError> {
    let Some(digest) = posted.form.filled("digest") else {
        return Ok(Err(shown(app, posted, draft, StatusCode::OK, Said::default()).await?));
    };
    let refuse = async |error: PublishError| {
        let (status, error) = refusal(error)?;
        shown(app, posted, draft, status, Said { error: Some(error), ..Said::default() }).await
    };
    let was_read = Read { after: posted.form.or_empty("after").parse().unwrap_or(-1), digest };
    if !draft.candidate.is(was_read) {
        return refuse(PublishError::Outdated).await.map(Err);
    }
    let (present, fresh) = match proof(app, posted, &draft.candidate).await? {
        Ok(proof) => proof,
        Err(Unproven::Factor(fault)) => {
            let said = Said { error: Some(fault.message()), is_factor_wrong: true, ..Said::default() };
            return shown(app, posted, draft, StatusCode::FORBIDDEN, said).await.map(Err);
        }
        Err(Unproven::Presence(error)) => {
            let said = Said { error: Some(error), asks_password: true, ..Said::default() };
            return shown(app, posted, draft, StatusCode::FORBIDDEN, said).await.map(Err);
        }
    };
    match draft.candidate.publish(app, was_read, &present, fresh.as_ref()).await {
        Ok(published) => Ok(Ok((published.version, published.in_force))),
        Err(error) => refuse(error).await.map(Err),
    }
}

/// The result of the form, shown above the page.
#[derive(Default)]
struct Said {
    error: Option<String>,
    asks_password: bool,
    is_factor_wrong: bool,
}

async fn shown(
    app: &AppState,
    posted: &Posted,
    draft: &Draft<'_>,
    status: StatusCode,
    said: Said,
) -> Result<Response, StoreError> {
    let Draft { place, candidate, notes } = draft;
    let user = app.web.store.find_user(posted.signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    let frame = frame::around(app, &posted.signed, "servers", &place.title).await?;
    let wrong = (said.is_factor_wrong && factors.totp).then_some("publish-totp");
    // The page is the answer to a form, so it cannot be loaded again.
    let frame = Frame { live: None, asks_password: said.asks_password, wrong, ..frame };
    let form = match &candidate.checked {
        Ok(weaker) => PublishForm::new(candidate.newest, &candidate.digest, weaker),
        Err(_) => PublishForm::new(candidate.newest, &candidate.digest, &Default::default()),
    };
    let content = Proposal {
        frame,
        error: said.error,
        title: place.title.clone(),
        path: place.path.clone(),
        notes: notes.iter().map(|note| plain(note)).collect(),
        diffs: FileDiffs::between(&candidate.before, &candidate.files),
        form,
        inputs: posted.form.without(&CONFIRMATION),
        factors,
    };
    Ok(page(status, &content))
}

/// Leads to a page of the change if this gateway has it in force, and else to the version, which says why not.
pub(super) fn onward(done: &Done, path: &str) -> Response {
    let version = published_path(done.version);
    Redirect::to(if done.in_force { path } else { &version }).into_response()
}

/// Creates a passkey challenge for exactly the files of a proposal.
async fn challenge(
    State(app): State<AppState>,
    digest: Result<Path<String>, PathRejection>,
    posted: Posted,
) -> Response {
    let Ok(Path(digest)) = digest else { return Problem::NOT_FOUND.into_response() };
    for_browser(app.challenge(&posted.signed, &digest).await)
}
