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
use mcpproxy_core::review::weakening::Weaker;
use mcpproxy_gateway::Reloaded;
use mcpproxy_store::{ConfigFiles, Kind, NewRecord, NewVersion, PresenceProof, files_digest};
use serde_json::json;

use super::approvals::{missing_factor, read, signed_in_user, step_up};
use super::endpoint::{
    Answer, BODY_TOO_LARGE, Body, Endpoint, ErrorAnswer, Group, LOG_UNAVAILABLE, LOG_UNREADABLE, TOO_MANY_TRIES,
};
use crate::auth::access::Access;
use crate::auth::identity::{AppState, Identity};
use crate::auth::records;
use crate::problem::Problem;
use crate::verb::Verb;
use crate::wire::{self, ConfigFile};

/// Files in the summary of a version. More are counted.
const SUMMARY_MAX: usize = 4;
/// Weaker rules in a record.
const RECORDED_MAX: usize = 200;
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
    let files = given(&app, asked.files, asked.version).await?;
    let (newest, before) = newest(&app).await?;
    let weaker = weaker(&app, &files).await?;
    Ok(Json(wire::CheckedConfig::new(newest, files_digest(&files), before, files, &weaker)))
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
    let back_to = asked.version;
    let files = given(&app, asked.files, asked.version).await?;
    let (newest, before) = newest(&app).await?;
    if newest != asked.after || files_digest(&files) != asked.digest {
        return Err(Problem::VERSION_OUTDATED);
    }
    let weaker = weaker(&app, &files).await?;
    if weaker.needs_step_up && fresh.is_none() {
        return Err(missing_factor(&app, signed).await?);
    }
    let summary = summary(&before, &files, back_to);
    let new = NewVersion { after: newest, summary: &summary, files: &files };
    let published = app.web.store.publish_version(&new, &present, app.now_ms()).await?;
    let version = published.ok_or(Problem::VERSION_OUTDATED)?;
    record(&app, &present, (version, &new), &weaker).await;
    app.web.gateway.announce_version().await;
    let error = match app.web.reloader.reload().await {
        Reloaded::Refused(reason) => Some(reason),
        Reloaded::Applied | Reloaded::Stopping => None,
    };
    let in_force = app.web.gateway.version() == Some(version);
    // A gateway that reads its folder may have a mistake there, which is none of this version.
    let error = error.filter(|_| !in_force && app.web.gateway.version().is_some());
    Ok(Json(wire::PublishedConfig { version, in_force, error }))
}

/// Returns the files of a request, sorted by name.
async fn given(app: &AppState, files: Option<Vec<ConfigFile>>, version: Option<i64>) -> Result<ConfigFiles, Problem> {
    if !app.web.store.is_shared() {
        return Err(Problem::NO_VERSIONS);
    }
    match (files, version) {
        (Some(files), None) => {
            let mut files: ConfigFiles = files.into_iter().map(|file| (file.name, file.text)).collect();
            files.sort();
            let has_twins = files.windows(2).any(|pair| matches!(pair, [one, other] if one.0 == other.0));
            match has_twins || files.len() > FILES_MAX {
                true => Err(Problem::BAD_BODY.message(format!("send each file once, and at most {FILES_MAX} files"))),
                false => Ok(files),
            }
        }
        (None, Some(number)) => {
            let found = app.web.store.find_version(number).await?;
            found.map(|version| version.files).ok_or(Problem::VERSION_NOT_FOUND)
        }
        (Some(_), Some(_)) | (None, None) => {
            Err(Problem::BAD_BODY.message("send either `files` or `version`".to_owned()))
        }
    }
}

/// Returns number and files of the newest version.
async fn newest(app: &AppState) -> Result<(i64, ConfigFiles), Problem> {
    let Some(head) = app.web.store.newest_version().await? else { return Ok((0, Vec::new())) };
    let version = app.web.store.find_version(head.number).await?;
    Ok((head.number, version.map(|version| version.files).unwrap_or_default()))
}

/// Reads the files as this gateway would, and returns what they weaken.
async fn weaker(app: &AppState, files: &[(String, String)]) -> Result<Weaker, Problem> {
    match app.web.reloader.check(files.to_vec()).await {
        Some(Ok(checked)) => Ok(checked.weaker),
        Some(Err(mistakes)) => Err(Problem::SETTINGS_INVALID.message(mistakes)),
        None => Err(Problem::STOPPING),
    }
}

/// Names the files that differ, in a few words.
fn summary(before: &[(String, String)], files: &[(String, String)], back_to: Option<i64>) -> String {
    let find = |all: &[(String, String)], name: &str| all.iter().find(|file| file.0 == name).map(|file| file.1.clone());
    let changed = files.iter().filter_map(|(name, text)| match find(before, name) {
        None => Some(format!("{name} (new)")),
        Some(old) if old != *text => Some(name.clone()),
        Some(_) => None,
    });
    let removed = before.iter().filter(|(name, _)| find(files, name).is_none());
    let mut all: Vec<String> = changed.chain(removed.map(|(name, _)| format!("{name} (removed)"))).collect();
    let more = all.len().saturating_sub(SUMMARY_MAX);
    all.truncate(SUMMARY_MAX);
    if more > 0 {
        all.push(format!("{more} more"));
    }
    let changes = if all.is_empty() { "no file changed".to_owned() } else { all.join(", ") };
    match back_to {
        Some(number) => format!("back to version {number}: {changes}"),
        None => changes,
    }
}

/// Records who published what. Every gateway records by itself when it takes the version over.
async fn record(app: &AppState, user: &PresenceProof, (version, new): (i64, &NewVersion<'_>), weaker: &Weaker) {
    let metadata = json!({
        "user": user.user().name(),
        "version": version,
        "digest": files_digest(new.files),
        "changes": new.summary,
        "weaker": weaker.lines().into_iter().take(RECORDED_MAX).collect::<Vec<_>>(),
    });
    let done = records::done_with("version_published", &metadata);
    records::write(app, NewRecord { kind: Kind::Settings, ..done }).await;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_version_says_in_a_few_words_what_changed() {
        let files = |names: &[(&str, &str)]| -> ConfigFiles {
            names.iter().map(|(name, text)| ((*name).to_owned(), (*text).to_owned())).collect()
        };
        let before = files(&[("contracts/a.yaml", "1"), ("contracts/b.yaml", "1"), ("mcp_config.json", "{}")]);
        let after = files(&[("contracts/a.yaml", "2"), ("contracts/c.yaml", "1"), ("mcp_config.json", "{}")]);
        let changes = "contracts/a.yaml, contracts/c.yaml (new), contracts/b.yaml (removed)";
        assert_eq!(summary(&before, &after, None), changes);
        assert_eq!(summary(&before, &after, Some(3)), format!("back to version 3: {changes}"));
        assert_eq!(summary(&before, &before, None), "no file changed");
        let many: Vec<String> = (0..9).map(|number| format!("contracts/{number}.yaml")).collect();
        let many: ConfigFiles = many.into_iter().map(|name| (name, String::new())).collect();
        assert!(summary(&[], &many, None).ends_with("contracts/3.yaml (new), 5 more"));
    }
}
