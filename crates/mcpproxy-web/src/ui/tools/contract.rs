//! The contract editor: a form, a preview with the replay of last week, and saving.
//!
//! A change is saved in this order. Every step uses the digest of the files that the preview showed, so that the user
//! confirms what they have read and nothing else.
//!
//! 1. Draft the change again. If the digest differs, a file changed meanwhile, and the new preview is shown.
//! 2. Prove presence. If the change lifts something that needs a second factor, prove that too.
//! 3. Write the file, record it with the user's name, and reload.
//! 4. If the change weakens a contract, it waits for a user. This user has just confirmed it, so it is applied.
//!
//! If the files come from the database, step 3 publishes them as a version instead, and all gateways take it over. A version
//! that another user published meanwhile is like a file that changed: nothing is published.

use std::sync::Arc;

use axum::extract::rejection::PathRejection;
use axum::extract::{Path, State};
use axum::response::{IntoResponse as _, Redirect, Response};
use http::StatusCode;
use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_core::{Tool, ToolName};
use mcpproxy_gateway::{Confirmation, Confirmed, Period, Reloaded, ReplayError, WhatIf, aside};
use mcpproxy_store::{Kind, NewRecord, PresenceProof, StepUpProof, StoreError};
use serde_json::json;

use super::not_found;
use super::one::{ToolPath, missing, tool_name};
use crate::auth::factor::{FactorError, Factors, StepUpResult};
use crate::auth::identity::{AppState, SignedInUser};
use crate::auth::presence::PresenceResult;
use crate::auth::records;
use crate::editor::{ContractDraft, Destination, EditError, NextVersion, WrittenContract};
use crate::publishing::{Candidate, Read};
use crate::ui::account::for_browser;
use crate::ui::pages::tools::change::{Preview, Replayed};
use crate::ui::pages::tools::contract::ContractForm;
use crate::ui::pages::tools::typed::{FieldError, Typed};
use crate::ui::pages::{Frame, page};
use crate::ui::posted::Posted;
use crate::ui::versions::{Unproven, proof, published_path, refusal};
use crate::ui::visitor::Visitor;
use crate::ui::{frame, notice, unavailable};
use crate::visible::Visible;

const WEEK_MS: i64 = 7 * 24 * 60 * 60 * 1000;
/// Records that one preview reads, at most. That takes a few seconds.
const REPLAY_MAX: usize = 100_000;

const STALE: &str =
    "A file of yours changed after this preview. Nothing was saved. Read the new preview, then save again.";
const OTHERS_WAIT: &str = "Other changes of your files wait for a user. Run `mcpproxy config apply`, or undo them, \
    before you save here. Nothing was saved.";

/// The tool, the contract in its file, and the texts of the form.
struct Edited {
    tool: Arc<Tool>,
    written: WrittenContract,
    of_file: Typed,
    typed: Typed,
}

pub(super) async fn show(State(app): State<AppState>, Visitor(signed): Visitor, names: ToolPath) -> Response {
    let Some(name) = tool_name(names) else { return not_found() };
    let Some(tool) = app.web.gateway.contract(&name) else { return missing(&app, &name) };
    let written = match written(&app, &name).await {
        Ok(written) => written,
        Err(error) => return not_editable(&name, &error),
    };
    let of_file = Typed::of_file(&written);
    let edited = Edited { tool, written, typed: of_file.clone(), of_file };
    form(&app, &signed, &edited, StatusCode::OK, None).await.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn change(State(app): State<AppState>, names: ToolPath, posted: Posted) -> Response {
    let Some(name) = tool_name(names) else { return not_found() };
    let Some(tool) = app.web.gateway.contract(&name) else { return missing(&app, &name) };
    let written = match written(&app, &name).await {
        Ok(written) => written,
        Err(error) => return not_editable(&name, &error),
    };
    let of_file = Typed::of_file(&written);
    let typed = Typed::of_form(&posted.form, &of_file);
    let edited = Edited { tool, written, of_file, typed };
    let answer = match posted.form.or_empty("action") {
        "save" => save(&app, &posted, &edited).await,
        "preview" => preview(&app, &posted, &edited).await,
        _ => form(&app, &posted.signed, &edited, StatusCode::OK, None).await,
    };
    answer.unwrap_or_else(|error| unavailable(&error))
}

pub(super) async fn challenge(
    State(app): State<AppState>,
    path: Result<Path<(String, String, String)>, PathRejection>,
    posted: Posted,
) -> Response {
    let Ok(Path((_, _, digest))) = path else { return not_found() };
    for_browser(app.challenge(&posted.signed, &digest).await)
}

async fn written(app: &AppState, name: &ToolName) -> Result<WrittenContract, EditError> {
    let (web, name) = (Arc::clone(&app.web), name.clone());
    aside(move || web.contracts_editor.written(&name)).await
}

fn not_editable(name: &ToolName, error: &EditError) -> Response {
    let link = format!("/ui/tools/{}/{}", name.server(), name.tool());
    notice(StatusCode::CONFLICT, "The contract cannot be changed here", &error.to_string(), (&link, "Back to the tool"))
}

async fn form(
    app: &AppState,
    signed: &SignedInUser,
    edited: &Edited,
    status: StatusCode,
    error: Option<FieldError>,
) -> Result<Response, StoreError> {
    let frame = framed(app, signed, edited).await?;
    Ok(page(status, &ContractForm::new(frame, &edited.tool, &edited.written, &edited.typed, error)))
}

async fn framed(app: &AppState, signed: &SignedInUser, edited: &Edited) -> Result<Frame, StoreError> {
    frame::around(app, signed, "tools", &format!("Contract of {}", edited.tool.name)).await
}

/// Drafts the change that the form asks for, or shows the form again.
async fn draft(
    app: &AppState,
    posted: &Posted,
    edited: &Edited,
) -> Result<Result<ContractDraft, Response>, StoreError> {
    let again = async |error: FieldError| {
        form(app, &posted.signed, edited, StatusCode::UNPROCESSABLE_ENTITY, Some(error)).await
    };
    let change = match edited.typed.change(&edited.of_file) {
        Ok(change) => change,
        Err(error) => return again(error).await.map(Err),
    };
    if change.fields.is_empty() {
        let sentence = "Nothing is changed. Change a field first.".to_owned();
        return again(FieldError { input: None, sentence }).await.map(Err);
    }
    let (web, name) = (Arc::clone(&app.web), edited.tool.name.clone());
    Ok(match aside(move || web.contracts_editor.draft(&name, &change)).await {
        Ok(draft) => Ok(draft),
        Err(EditError::ReadOnly { file, text }) => {
            let frame = framed(app, &posted.signed, edited).await?;
            let sentence = format!("{file} cannot be edited here without loss. Change it by hand.");
            let error = Some(FieldError { input: None, sentence });
            let form = ContractForm::new(frame, &edited.tool, &edited.written, &edited.typed, error);
            let paste = Some((Visible::of(&file), Visible::lines(&text)));
            Err(page(StatusCode::CONFLICT, &ContractForm { paste, ..form }))
        }
        Err(error) => Err(again(FieldError::of_file(error.to_string())).await?),
    })
}

async fn preview(app: &AppState, posted: &Posted, edited: &Edited) -> Result<Response, StoreError> {
    let draft = match draft(app, posted, edited).await? {
        Ok(draft) => draft,
        Err(response) => return Ok(response),
    };
    let error = app.web.gateway.held().map(|_| OTHERS_WAIT.to_owned());
    previewed(app, posted, edited, &draft, StatusCode::OK, error).await
}

async fn previewed(
    app: &AppState,
    posted: &Posted,
    edited: &Edited,
    draft: &ContractDraft,
    status: StatusCode,
    error: Option<String>,
) -> Result<Response, StoreError> {
    let (weaker, mistake) = match weaker(app, draft).await? {
        Ok(weaker) => (weaker, None),
        Err(mistake) => (Weaker::default(), Some(mistake)),
    };
    let error = error.or(mistake);
    let replay = replay(app, draft).await;
    let user = app.web.store.find_user(posted.signed.name()).await?;
    let factors = user.map(|user| Factors::of(&user)).unwrap_or_default();
    let asks_password = status == StatusCode::FORBIDDEN && !weaker.needs_step_up;
    // Nothing else is forbidden where a factor is needed.
    let is_factor_wrong = status == StatusCode::FORBIDDEN && weaker.needs_step_up && factors.totp;
    let wrong = is_factor_wrong.then_some("save-totp");
    let frame = Frame { asks_password, wrong, ..framed(app, &posted.signed, edited).await? };
    let about = (&*edited.tool, app.web.gateway.contract_settings());
    let preview = Preview::new(frame, about, draft, &weaker, replay, &edited.typed);
    Ok(page(status, &Preview { factors, error, ..preview }))
}

/// Finds what the draft weakens, or says why it cannot be published.
async fn weaker(app: &AppState, draft: &ContractDraft) -> Result<Result<Weaker, String>, StoreError> {
    match &draft.destination {
        Destination::File | Destination::ByHand => {
            let (web, contracts) = (Arc::clone(&app.web), Arc::clone(&draft.contracts));
            Ok(Ok(aside(move || web.gateway.weaker_with(&contracts)).await))
        }
        Destination::Version(next) => match Candidate::of_draft(app, next.after, next.files.clone()).await {
            Ok(candidate) => Ok(candidate.checked),
            Err(error) => Ok(Err(refusal(error)?.1)),
        },
    }
}

/// Decides the calls of last week with the drafted contracts.
async fn replay(app: &AppState, draft: &ContractDraft) -> Replayed {
    let now_ms = app.now_ms();
    let what_if = WhatIf { contracts: Some(Arc::clone(&draft.contracts)), ..WhatIf::default() };
    let period = Period { since_ms: Some(now_ms - WEEK_MS), until_ms: Some(now_ms), records_max: Some(REPLAY_MAX) };
    match app.web.gateway.replay(what_if, period).await {
        Ok((report, unlisted)) => Replayed::new(&report, &unlisted),
        Err(ReplayError::Busy) => Replayed::failed("Another replay is running. Preview again in a moment."),
        Err(ReplayError::Store(error)) => {
            tracing::warn!(error = &error as &dyn std::error::Error, "could not replay recorded calls");
            Replayed::failed("The recorded calls cannot be read right now.")
        }
    }
}

async fn save(app: &AppState, posted: &Posted, edited: &Edited) -> Result<Response, StoreError> {
    let draft = match draft(app, posted, edited).await? {
        Ok(draft) => draft,
        Err(response) => return Ok(response),
    };
    let refuse =
        async |status: StatusCode, error: String| previewed(app, posted, edited, &draft, status, Some(error)).await;
    if posted.form.or_empty("digest") != draft.digest {
        return refuse(StatusCode::CONFLICT, STALE.to_owned()).await;
    }
    if app.web.gateway.held().is_some() {
        return refuse(StatusCode::CONFLICT, OTHERS_WAIT.to_owned()).await;
    }
    if let Destination::Version(next) = &draft.destination {
        return publish(app, posted, edited, &draft, next).await;
    }
    let needs_step_up = weaker(app, &draft).await?.is_ok_and(|weaker| weaker.needs_step_up);
    let fresh = match app.step_up(&posted.signed, posted.factor(), &draft.digest).await? {
        StepUpResult::Verified(fresh) => Some(fresh),
        StepUpResult::NotVerified(FactorError::Missing) if !needs_step_up => None,
        StepUpResult::NotVerified(fault) => return refuse(StatusCode::FORBIDDEN, fault.message()).await,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => match app.prove_presence(&posted.signed, posted.presence()).await? {
            PresenceResult::Present(present) => present,
            PresenceResult::Absent(absent) => return refuse(StatusCode::FORBIDDEN, absent.message()).await,
        },
    };
    let (web, to_write) = (Arc::clone(&app.web), draft.clone());
    match aside(move || web.contracts_editor.write(&to_write)).await {
        Ok(()) => {}
        Err(EditError::ReadOnly { .. }) => {
            let read_only = ContractDraft { destination: Destination::ByHand, ..draft };
            let error = Some(format!("{} cannot be written. Nothing was saved. Copy the text.", read_only.file));
            return previewed(app, posted, edited, &read_only, StatusCode::CONFLICT, error).await;
        }
        Err(error) => return refuse(StatusCode::CONFLICT, error.to_string()).await,
    }
    record(app, &posted.signed, edited, &draft).await;
    Ok(applied(app, &edited.tool.name, &draft, &present, fresh.as_ref()).await)
}

/// Publishes the draft as the next version.
async fn publish(
    app: &AppState,
    posted: &Posted,
    edited: &Edited,
    draft: &ContractDraft,
    next: &NextVersion,
) -> Result<Response, StoreError> {
    let refuse =
        async |status: StatusCode, error: String| previewed(app, posted, edited, draft, status, Some(error)).await;
    let candidate = match Candidate::of_draft(app, next.after, next.files.clone()).await {
        Ok(candidate) => candidate,
        Err(error) => {
            let (status, error) = refusal(error)?;
            return refuse(status, error).await;
        }
    };
    let (present, fresh) = match proof(app, posted, &candidate).await? {
        Ok(proof) => proof,
        Err(Unproven::Factor(fault)) => return refuse(StatusCode::FORBIDDEN, fault.message()).await,
        Err(Unproven::Presence(error)) => return refuse(StatusCode::FORBIDDEN, error).await,
    };
    let was_read = Read { after: next.after, digest: &draft.digest };
    match candidate.publish(app, was_read, &present, fresh.as_ref()).await {
        Ok(published) => Ok(Redirect::to(&published_path(published.version)).into_response()),
        Err(error) => {
            let (status, error) = refusal(error)?;
            refuse(status, error).await
        }
    }
}

/// Records the saved file, with the user's name and the changed fields.
async fn record(app: &AppState, signed: &SignedInUser, edited: &Edited, draft: &ContractDraft) {
    let change = edited.typed.change(&edited.of_file).unwrap_or_default();
    let fields: Vec<&str> = change.fields.iter().map(|(key, _)| *key).collect();
    let metadata = json!({
        "user": signed.name(),
        "tool": edited.tool.name.to_string(),
        "file": draft.file,
        "fields": fields,
        "files_digest": draft.digest,
    });
    let done = records::done_with("contract_saved", &metadata);
    records::write(app, NewRecord { kind: Kind::Settings, ..done }).await;
}

/// Reloads the files, and applies the part that waits for a user: this one.
async fn applied(
    app: &AppState,
    tool: &ToolName,
    draft: &ContractDraft,
    present: &PresenceProof,
    fresh: Option<&StepUpProof>,
) -> Response {
    let path = format!("/ui/tools/{}/{}", tool.server(), tool.tool());
    let waits = |reason: &str| {
        let text = format!("{} was saved, but the change is not in force: {reason}", draft.file);
        notice(StatusCode::CONFLICT, "Saved, not in force", &text, (&path, "Back to the tool"))
    };
    match app.web.reloader.reload().await {
        Reloaded::Applied => {}
        Reloaded::Refused(reason) => return waits(&reason),
        Reloaded::Stopping => return waits("The gateway is stopping."),
    }
    if app.web.gateway.held().is_some() {
        match app.web.reloader.apply(Confirmation::new(&draft.digest, present, fresh)).await {
            Confirmed::Applied | Confirmed::NothingWaits => {}
            Confirmed::Changed => {
                return waits("Other files changed too. Read the changes with `mcpproxy config apply`.");
            }
            Confirmed::StepUpRequired => return waits("It needs a second factor. Run `mcpproxy config apply`."),
            Confirmed::Refused(reason) => return waits(&reason),
            Confirmed::Stopping => return waits("The gateway is stopping."),
        }
    }
    Redirect::to(&format!("{path}?saved=1")).into_response()
}
