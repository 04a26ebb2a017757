//! `policy test`: runs test cases against policies.

use std::path::PathBuf;

use clap::Args;
use mcpproxy_core::policy::cases::{self, Case, Verdict};
use serde::Serialize;

use super::check;
use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files;
use crate::terminal::output::{Format, counted, line};

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Test cases, in YAML or JSON
    file: PathBuf,
    /// Policy file to test; repeatable [default: all files of policies/ in the data folder]
    #[arg(long = "policies", visible_alias = "rules", value_name = "FILE")]
    policies: Vec<PathBuf>,
}

pub(super) fn run(home: &Home, format: Format, test: &Test) -> anyhow::Result<Exit> {
    let policies = check::read(home, &test.policies)?.policies;
    let mut cases = Vec::new();
    for (name, text) in operator_files::read_given(std::slice::from_ref(&test.file))? {
        let read = cases::parse(&name, &text);
        cases.extend(read.map_err(|mistakes| {
            let placed: Vec<_> = mistakes.into_iter().map(|mistake| (name.clone(), mistake)).collect();
            operator_files::bad_given(&placed)
        })?);
    }
    let file = test.file.display().to_string();
    let results: Vec<CaseResult> =
        cases.iter().map(|case| CaseResult::new(case, cases::run(&policies, case))).collect();
    let failed = results.iter().filter(|ran| !ran.ok).count();
    let all = All { passed: results.len() - failed, failed, cases: results };
    format.print(&all, || told(&all, &file))?;
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

#[derive(Serialize)]
struct All {
    cases: Vec<CaseResult>,
    passed: usize,
    failed: usize,
}

/// The result of one test case.
#[derive(Serialize)]
struct CaseResult {
    name: String,
    line: usize,
    ok: bool,
    /// The difference from the expected decision.
    failure: Option<String>,
    /// The policies that forbid the call.
    deciding: Vec<Deciding>,
}

#[derive(Serialize)]
struct Deciding {
    #[serde(rename = "rule")]
    policy: String,
    file: String,
    line: usize,
    message: Option<String>,
}

impl CaseResult {
    fn new(case: &Case, verdict: Verdict) -> Self {
        let deciding = verdict.deciding.into_iter().map(|violation| Deciding {
            policy: violation.policy,
            file: violation.file.to_string(),
            line: violation.line,
            message: violation.message,
        });
        Self {
            name: case.name.clone(),
            line: case.line,
            ok: verdict.failure.is_none(),
            failure: verdict.failure,
            deciding: deciding.collect(),
        }
    }
}

fn told(all: &All, file: &str) -> String {
    if all.cases.is_empty() {
        return format!("{}: no cases\n", line(file));
    }
    let mut text = String::new();
    for ran in &all.cases {
        let policies: Vec<String> = ran.deciding.iter().map(|one| line(&one.policy)).collect();
        let decided = match policies.as_slice() {
            [] => "no policy forbids it".to_owned(),
            policies => format!("forbidden by {}", policies.join(", ")),
        };
        match &ran.failure {
            None => text.push_str(&format!("ok      {} ({decided})\n", line(&ran.name))),
            Some(failure) => text.push_str(&format!(
                "FAILED  {}\n        {}:{}: {}\n",
                line(&ran.name),
                line(file),
                ran.line,
                line(failure)
            )),
        }
    }
    let cases = counted(all.cases.len(), "case");
    text + &format!("\n{cases}: {} ok, {} failed\n", all.passed, all.failed)
}
