//! `policy check`: reads policies and reports their errors.

use std::path::PathBuf;

use mcpproxy_core::policy::Policies;
use serde::Serialize;

use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files::{self, POLICIES, published};
use crate::terminal::output::{self, Format, line, shorten};

const MESSAGE_MAX_CHARS: usize = 60;

pub(super) fn run(home: &Home, format: Format, files: &[PathBuf]) -> anyhow::Result<Exit> {
    let read = read(home, files)?;
    let policies: Vec<Checked> = read
        .policies
        .iter()
        .map(|policy| Checked {
            policy: policy.id.clone(),
            file: policy.file.to_string(),
            line: policy.line,
            message: policy.message.clone(),
        })
        .collect();
    let all = All { files: read.files, policies };
    format.print(&all, || told(&all, &read.place))?;
    Ok(Exit::Done)
}

/// Policies and their source.
pub(super) struct ReadPolicies {
    pub(super) policies: Policies,
    files: usize,
    place: String,
}

/// Reads the policies of these files, or those of the data folder.
pub(super) fn read(home: &Home, files: &[PathBuf]) -> anyhow::Result<ReadPolicies> {
    let settings = home.settings();
    if files.is_empty() {
        published::check_readable(home)?;
        let place = POLICIES.beside(&settings).display().to_string();
        operator_files::tell_ignored(&settings, &[POLICIES]);
        let files = POLICIES.read(&settings)?.len();
        return Ok(ReadPolicies { policies: operator_files::read_policies(&settings)?, files, place });
    }
    let texts = operator_files::read_given(files)?;
    let policies = Policies::parse(&texts).map_err(|mistakes| operator_files::bad_given(&mistakes))?;
    let place = texts.iter().map(|(name, _)| line(name)).collect::<Vec<_>>().join(", ");
    Ok(ReadPolicies { policies, files: texts.len(), place })
}

#[derive(Serialize)]
struct All {
    files: usize,
    #[serde(rename = "rules")]
    policies: Vec<Checked>,
}

#[derive(Serialize)]
struct Checked {
    #[serde(rename = "rule")]
    policy: String,
    file: String,
    line: usize,
    message: Option<String>,
}

fn told(all: &All, place: &str) -> String {
    if all.files == 0 {
        return format!("{place}: no policies\nSee an example with `mcpproxy policy check --help`.\n");
    }
    let rows = all.policies.iter().map(|policy| {
        let message = policy.message.as_deref().map_or("-".to_owned(), |text| shorten(&line(text), MESSAGE_MAX_CHARS));
        vec![line(&policy.policy), format!("{}:{}", line(&policy.file), policy.line), message]
    });
    let table = output::table(&["POLICY", "FILE", "MESSAGE"], rows);
    let (policies, files) =
        (output::counted_as(all.policies.len(), "policy", "policies"), output::counted(all.files, "file"));
    format!("{table}\n{place}: valid\n  {policies} in {files}\n")
}
