//! `policy check`: reads policies and says what is wrong with them.

use std::path::PathBuf;

use mcpproxy_core::policy::Policies;
use serde::Serialize;

use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files::{self, POLICIES};
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

/// Policies, and where they came from.
pub(super) struct Read {
    pub(super) policies: Policies,
    files: usize,
    place: String,
}

/// The policies of these files, or those of the data folder.
pub(super) fn read(home: &Home, files: &[PathBuf]) -> anyhow::Result<Read> {
    let settings = home.settings();
    if files.is_empty() {
        let place = POLICIES.beside(&settings).display().to_string();
        operator_files::tell_left_out(&settings, &[POLICIES]);
        let files = POLICIES.read(&settings)?.len();
        return Ok(Read { policies: operator_files::read_policies(&settings)?, files, place });
    }
    let texts = operator_files::read_given(files)?;
    let policies = Policies::parse(&texts).map_err(|mistakes| operator_files::bad_given(&mistakes))?;
    let place = texts.iter().map(|(name, _)| line(name)).collect::<Vec<_>>().join(", ");
    Ok(Read { policies, files: texts.len(), place })
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
        return format!(
            "{place}: no policies, so none forbids anything; `mcpproxy policy check --help` has an example\n"
        );
    }
    let rows = all.policies.iter().map(|policy| {
        let message = policy.message.as_deref().map_or("-".to_owned(), |text| shorten(&line(text), MESSAGE_MAX_CHARS));
        vec![line(&policy.policy), format!("{}:{}", line(&policy.file), policy.line), message]
    });
    let table = output::table(&["POLICY", "WHERE", "MESSAGE"], rows);
    let (policies, files) = (output::counted(all.policies.len(), "policy"), output::counted(all.files, "file"));
    format!("{table}\n{place}: good, {policies} in {files}\n")
}
