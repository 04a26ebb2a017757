//! `config apply --from` and `--version`: publishes settings, contracts and policies for all gateways of the database.
//! `config versions`: lists what was published.
//!
//! The user signs in at a terminal, as for `config apply`. The gateway publishes exactly the files whose differences were
//! shown, and only if no other version came first.

use std::collections::BTreeSet;
use std::path::Path;

use http::Method;
use serde_json::{Value, json};
use similar::TextDiff;

use super::apply::listed;
use super::confirm::{Question, answered};
use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files::{self, CONTRACTS, POLICIES, published};
use crate::terminal::output::{Format, counted, line, member, table, tell};
use crate::terminal::time::local_time;

const CONTEXT_LINES: usize = 3;
/// Lines of differences at the terminal. More are counted.
const SHOWN_MAX: usize = 2_000;

/// The files to publish.
pub(super) enum What<'w> {
    Folder(&'w Path),
    Version(i64),
}

pub(super) async fn run(home: &Home, format: Format, what: What<'_>) -> anyhow::Result<Exit> {
    let mut body = match what {
        What::Folder(folder) => {
            operator_files::tell_ignored(&folder.join(published::SETTINGS), &[CONTRACTS, POLICIES]);
            let files = published::read_folder(folder)?;
            let files: Vec<Value> = files.iter().map(|(name, text)| json!({"name": name, "text": text})).collect();
            json!({"files": files})
        }
        What::Version(number) => json!({"version": number}),
    };
    let checked = Rest::connect(home)?.post("/api/v1/config/check", body.to_string()).await?;
    let newest = checked.get("newest").and_then(Value::as_i64).unwrap_or_default();
    let changes = differences(&checked);
    if changes.is_empty() && newest > 0 {
        let same = json!({"version": newest, "published": false});
        format.print(&same, || format!("Nothing to publish. Version {newest} has the same files.\n"))?;
        return Ok(Exit::Done);
    }
    if let Some(members) = body.as_object_mut() {
        members.insert("after".to_owned(), newest.into());
        members.insert("digest".to_owned(), member(&checked, "digest").into());
    }
    let weaker = listed(&checked, "weaker");
    let weaker = match weaker.is_empty() {
        true => String::new(),
        false => format!("\nThis allows more than what is in force:\n{}\n", weaker.join("\n")),
    };
    let question = Question {
        title: "not published",
        shown: format!("{changes}{weaker}"),
        unattended: format!(
            "a user factor is required; settings, contracts and policies cannot be published non-interactively{}",
            weaker.trim_end()
        ),
        otherwise: "keep the version that is in force",
        invitation: "Sign in to publish these changes for all gateways. Press Ctrl-C to keep what is in force.",
        word: "apply",
        undecided: "You made no decision. Nothing was published.",
        path: "/api/v1/config/publish",
        body,
        needs_step_up: checked.get("needs_step_up") == Some(&Value::Bool(true)),
    };
    let answer = answered(home, &question).await?;
    format.print(&answer, || said(&answer))?;
    if let Some(error) = answer.get("error").and_then(Value::as_str) {
        tell(&format!("! This gateway did not take it over: {}", line(error)));
        return Ok(Exit::Failed);
    }
    Ok(Exit::Done)
}

fn said(answer: &Value) -> String {
    let version = answer.get("version").and_then(Value::as_i64).unwrap_or_default();
    match answer.get("in_force") == Some(&Value::Bool(true)) {
        true => format!("Published version {version}. All gateways take it over within a second.\n"),
        false => format!(
            "Published version {version}. This gateway still reads its folder: set \"operator_files\": \"database\" in its \
             mcp_config.json, and restart it.\n"
        ),
    }
}

/// Returns a unified difference between the newest version and the new files.
fn differences(checked: &Value) -> String {
    let (before, after) = (files(checked, "before"), files(checked, "files"));
    let names: BTreeSet<&str> = before.iter().chain(&after).map(|(name, _)| *name).collect();
    let find = |all: &[(&str, &str)], name: &str| all.iter().find(|file| file.0 == name).map(|file| file.1.to_owned());
    let mut lines: Vec<String> = Vec::new();
    for name in names {
        let (old, new) = (find(&before, name), find(&after, name));
        if old == new {
            continue;
        }
        let title = |text: &Option<String>| if text.is_some() { name } else { "/dev/null" };
        let diff = TextDiff::from_lines(old.as_deref().unwrap_or_default(), new.as_deref().unwrap_or_default())
            .unified_diff()
            .context_radius(CONTEXT_LINES)
            .header(title(&old), title(&new))
            .to_string();
        lines.extend(diff.lines().map(line));
        if diff.is_empty() {
            lines.push(format!("{}: an empty file", line(name)));
        }
    }
    let more = lines.len().saturating_sub(SHOWN_MAX);
    lines.truncate(SHOWN_MAX);
    lines.extend((more > 0).then(|| format!("… {}", counted(more, "more line"))));
    lines.iter().map(|text| format!("{text}\n")).collect()
}

fn files<'a>(checked: &'a Value, name: &str) -> Vec<(&'a str, &'a str)> {
    let all = checked.get(name).and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let word = |file: &'a Value, name: &str| file.get(name).and_then(Value::as_str).unwrap_or_default();
    all.iter().map(|file| (word(file, "name"), word(file, "text"))).collect()
}

/// Lists the published versions, newest first.
pub(super) async fn list(home: &Home, format: Format) -> anyhow::Result<()> {
    let answer = Rest::connect(home)?.ask(Method::GET, "/api/v1/config/versions").await?;
    format.print(&answer, || {
        let versions = answer.get("versions").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
        if versions.is_empty() {
            return "No version yet. Publish one with `mcpproxy config apply --from FOLDER`.\n".to_owned();
        }
        let rows = versions.iter().map(|version| {
            let is_in_force = version.get("in_force") == Some(&Value::Bool(true));
            let published: Option<jiff::Timestamp> = member(version, "published").parse().ok();
            vec![
                version.get("number").and_then(Value::as_i64).unwrap_or_default().to_string(),
                published.map(|time| local_time(time.as_millisecond())).unwrap_or_default(),
                line(&member(version, "published_by")),
                line(&member(version, "changes")),
                if is_in_force { "in force" } else { "" }.to_owned(),
            ]
        });
        table(&["VERSION", "PUBLISHED", "BY", "CHANGES", "HERE"], rows)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_name_every_file_that_changes() {
        let file = |name: &str, text: &str| json!({"name": name, "text": text});
        let checked = json!({
            "before": [file("contracts/a.yaml", "tool: a:b\n"), file("mcp_config.json", "{}\n"), file("policies/x.cedar", "")],
            "files": [file("contracts/a.yaml", "tool: a:c\n"), file("contracts/b.yaml", "x\u{1b}\n"), file("mcp_config.json", "{}\n")],
        });
        let expected = "--- contracts/a.yaml\n+++ contracts/a.yaml\n@@ -1 +1 @@\n-tool: a:b\n+tool: a:c\n\
                        --- /dev/null\n+++ contracts/b.yaml\n@@ -0,0 +1 @@\n+x\\u{1b}\npolicies/x.cedar: an empty file\n";
        assert_eq!(differences(&checked), expected);
        let same = json!({"before": checked["files"], "files": checked["files"]});
        assert_eq!(differences(&same), "");
    }
}
