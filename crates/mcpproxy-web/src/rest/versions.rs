//! The endpoints for versions of settings, contracts and policies, which users publish for all gateways of a database.
//!
//! Publishing takes two requests. The first one checks the files, and answers with the changes. The second one has the
//! digest of the files that the user has read, and the number of the version that they were compared with. If either is
//! another one meanwhile, nothing is published.

use axum::body::Bytes;
use axum::extract::State;
use axum::extract::rejection::BytesRejection;
use axum::routing::on;
use axum::{Extension, Json};
use http::StatusCode;
use mcpproxy_store::ConfigFiles;

use super::approvals::{missing_factor, read, signed_in_user, step_up};
use super::endpoint::{
    Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, LOG_UNREADABLE, TOO_MANY_TRIES,
};
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::problem::Problem;
use crate::publishing::{Candidate, PublishError, Published, Read, has_versions};
use crate::verb::Verb;
use crate::wire::{self, ConfigFile};

const FILES_MAX: usize = 1001;

pub(super) const ENDPOINTS: &[Endpoint] = &[
    Endpoint {
        name: "config_versions",
        method: Verb::Get,
        path: "/api/v1/config/versions",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: None,
        group: Group::Contracts,
        summary: "List the published versions of settings, contracts and policies",
        description: "Newest first: number, time, user and changed files. Gateways with `operator_files: \"database\"` take the newest version over within a second. With SQLite, the list is empty.",
        answers: &[Answer::json::<wire::ConfigVersions>(StatusCode::OK, "The versions.")],
        errors: &[LOG_UNREADABLE],
        handler: |method| on(method, list),
    },
    Endpoint {
        name: "check_config",
        method: Verb::Post,
        path: "/api/v1/config/check",
        access: Access::Operator,
        decides: false,
        parameters: &[],
        body: Some(Body::json::<wire::CheckConfig>(r#"{"version": 3}"#)),
        group: Group::Contracts,
        summary: "Check settings, contracts and policies before you publish them",
        description: "Reads the files as every gateway reads them, and answers with the files of the newest version and with what the new files allow more. Send all files of a folder, or the number of an earlier version. Changes nothing.",
        answers: &[Answer::json::<wire::CheckedConfig>(StatusCode::OK, "The files are valid.")],
        errors: &[NO_VERSION, NOT_PUBLISHED, BODY_TOO_LARGE, LOG_UNREADABLE],
        handler: |method| on(method, check),
    },
    Endpoint {
        name: "publish_config",
        method: Verb::Post,
        path: "/api/v1/config/publish",
        access: Access::User,
        decides: true,
        parameters: &[],
        body: Some(Body::json::<wire::PublishConfig>(
            r#"{"after": 7, "digest": "9f86d081884c7d65", "version": 3, "totp": "123456"}"#,
        )),
        group: Group::Contracts,
        summary: "Publish settings, contracts and policies for all gateways",
        description: "Stores the files as the newest version. All gateways with `operator_files: \"database\"` take it over within a second, also what is weaker. Check the files first, and send `digest` and `newest` of that answer. Needs a user session, and a fresh code if the check says `needs_step_up`. Agents and the admin key cannot publish. A refused attempt is recorded.",
        answers: &[Answer::json::<wire::PublishedConfig>(StatusCode::OK, "The version is published.")],
        errors: &[NO_VERSION, NOT_PUBLISHED, BODY_TOO_LARGE, TOO_MANY_TRIES, LOG_UNAVAILABLE],
        handler: |method| on(method, publish),
    },
];

const NO_VERSION: ErrorAnswer = (StatusCode::NOT_FOUND, "No such version.");
const NOT_PUBLISHED: ErrorAnswer =
    (StatusCode::CONFLICT, "A file is invalid, another version came first, or the gateway uses SQLite.");

async fn list(State(app): State<AppState>) -> Result<Json<wire::ConfigVersions>, Problem> {
    let in_force = app.web.gateway.version();
    let heads = app.web.store.list_versions().await?;
    let versions = heads.iter().map(|head| wire::ConfigVersion::new(head, in_force)).collect();
    Ok(Json(wire::ConfigVersions { versions }))
}

async fn check(
    State(app): State<AppState>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::CheckedConfig>, Problem> {
    let asked: wire::CheckConfig = read(&body?)?;
    let Candidate { newest, before, files, digest, checked, .. } = given(&app, asked.files, asked.version).await?;
    let weaker = checked.map_err(|mistakes| Problem::SETTINGS_INVALID.message(mistakes))?;
    Ok(Json(wire::CheckedConfig::new(newest, digest, before, files, &weaker)))
}

async fn publish(
    State(app): State<AppState>,
    Extension(identity): Extension<Identity>,
    body: Result<Bytes, BytesRejection>,
) -> Result<Json<wire::PublishedConfig>, Problem> {
    let signed = signed_in_user(&identity)?;
    let asked: wire::PublishConfig = read(&body?)?;
    let fresh = match asked.totp.as_deref() {
        Some(code) => Some(step_up(&app, signed, Some(code), &asked.digest).await?),
        None => None,
    };
    let present = match &fresh {
        Some(fresh) => fresh.present(),
        None => {
            asked.page_key.as_deref().and_then(|key| signed.session.present(key)).ok_or(Problem::PAGE_KEY_REQUIRED)?
        }
    };
    let candidate = given(&app, asked.files, asked.version).await?;
    let was_read = Read { after: asked.after, digest: &asked.digest };
    match candidate.publish(&app, was_read, &present, fresh.as_ref()).await {
        Ok(Published { version, in_force, error }) => Ok(Json(wire::PublishedConfig { version, in_force, error })),
        Err(PublishError::StepUpRequired) => Err(missing_factor(&app, signed).await?),
        Err(error) => Err(error.into()),
    }
}

impl From<PublishError> for Problem {
    fn from(error: PublishError) -> Self {
        match error {
            PublishError::NotShared => Self::NO_VERSIONS,
            PublishError::NoVersion => Self::VERSION_NOT_FOUND,
            PublishError::Outdated | PublishError::Behind { .. } => Self::VERSION_OUTDATED,
            PublishError::StepUpRequired => Self::STEP_UP_REQUIRED,
            PublishError::Invalid(mistakes) => Self::SETTINGS_INVALID.message(mistakes),
            PublishError::Stopping => Self::STOPPING,
            PublishError::Store(error) => error.into(),
        }
    }
}

/// Returns the files of a request, checked.
async fn given(app: &AppState, files: Option<Vec<ConfigFile>>, version: Option<i64>) -> Result<Candidate, Problem> {
    match (files, version) {
        (Some(files), None) => {
            let mut files: ConfigFiles = files.into_iter().map(|file| (file.name, file.text)).collect();
            files.sort();
            let has_twins = files.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0));
            match has_twins || files.len() > FILES_MAX {
                true => Err(Problem::BAD_BODY.message(format!("send each file once, and at most {FILES_MAX} files"))),
                false => Ok(Candidate::of_files(app, files).await?),
            }
        }
        (None, Some(number)) => Ok(Candidate::of_version(app, number).await?),
        (Some(_), Some(_)) | (None, None) if !has_versions(app) => Err(Problem::NO_VERSIONS),
        (Some(_), Some(_)) | (None, None) => {
            Err(Problem::BAD_BODY.message("send either `files` or `version`".to_owned()))
        }
    }
}
