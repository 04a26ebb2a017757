//! `policy test`: runs test cases against contracts and policies.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::sync::Arc;

use clap::Args;
use mcpproxy_core::Catalog;
use mcpproxy_core::cases::{self, Case, Verdict};
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::policy::Policies;
use mcpproxy_core::replay::Rules;
use mcpproxy_core::settings;
use mcpproxy_gateway::Files;
use serde::Serialize;

use crate::exit::{Exit, Failure};
use crate::home::Home;
use crate::known_tools;
use crate::operator_files::{self, CONTRACTS, POLICIES};
use crate::terminal::output::{Format, counted, line, warn};

/// The name of the built-in cases in messages.
const DEMO: &str = "demo-cases.yaml";

#[derive(Debug, Args)]
pub(crate) struct Test {
    /// Test cases, in YAML or JSON
    #[arg(required_unless_present = "demo")]
    file: Option<PathBuf>,
    /// Run the test cases of the demo server
    #[arg(long, conflicts_with_all = ["file", "contracts", "policies", "tools"])]
    demo: bool,
    /// Contracts to test: a folder or a file [default: contracts/ in the data folder]
    #[arg(long, value_name = "DIR")]
    contracts: Option<PathBuf>,
    /// Policies to test: a folder or a file; repeatable [default: policies/ in the data folder]
    #[arg(long = "policies", visible_alias = "rules", value_name = "DIR")]
    policies: Vec<PathBuf>,
    /// Folder with lists of tools [default: tools/ in the data folder]
    #[arg(long, value_name = "DIR")]
    tools: Option<PathBuf>,
}

pub(super) fn run(home: &Home, format: Format, test: &Test) -> anyhow::Result<Exit> {
    let (file, cases) = read_cases(test)?;
    let files = files(home, test)?;
    if cases.is_empty() {
        return Err(Failure::new(Exit::Failed, format!("{}: no cases, so nothing was tested", line(&file))).into());
    }
    if let Some(folder) = test.tools.as_deref().filter(|folder| !folder.is_dir()) {
        let message = format!("--tools {}: there is no such folder", folder.display());
        return Err(Failure::new(Exit::Usage, message).hint("copy `tools/` of a data folder there").into());
    }
    let folder = test.tools.clone().unwrap_or_else(|| home.tools());
    let offers = known_tools::offers(&folder, &[&files.settings]);
    let known: BTreeMap<_, _> = offers.into_iter().filter(|(_, offer)| !offer.is_empty()).collect();
    let offers = cases::with_bare_tools(&known, &cases);
    let catalog = Catalog::default().next(offers, &files.contracts, &files.policies);
    let rules = Rules { settings: Arc::clone(&files.settings), catalog };
    let results: Vec<CaseResult> =
        cases.iter().map(|case| CaseResult::new(case, cases::run(&rules, &files.policies, case))).collect();
    let failed = results.iter().filter(|ran| !ran.ok).count();
    let all = All { passed: results.len() - failed, failed, cases: results };
    format.print(&all, || told(&all, &file))?;
    for name in cases::unnamed_tools(&known, &files.contracts, &cases) {
        warn(&format!(
            "No list of tools and no contract has {name}. Its case was decided without a schema and a level."
        ));
    }
    Ok(if failed == 0 { Exit::Done } else { Exit::Failed })
}

/// Returns the cases, and the name of their file.
fn read_cases(test: &Test) -> Result<(String, Vec<Case>), Failure> {
    let texts = match &test.file {
        Some(file) => operator_files::read_given(std::slice::from_ref(file))?,
        None => vec![(DEMO.to_owned(), demo_server::CASES.to_owned())],
    };
    let mut all = Vec::new();
    let mut file = String::new();
    for (name, text) in texts {
        let read = cases::parse(&name, &text);
        all.extend(read.map_err(|mistakes| {
            let placed: Vec<_> = mistakes.into_iter().map(|mistake| (name.clone(), mistake)).collect();
            operator_files::bad_given(&placed)
        })?);
        file = name;
    }
    Ok((file, all))
}

/// Reads the contracts and policies to test. The cases of the demo server use only its own contracts.
fn files(home: &Home, test: &Test) -> Result<Files, Failure> {
    if test.demo {
        return Ok(Files::from(settings::demo()));
    }
    let mut files = known_tools::files(home)?;
    if let Some(path) = &test.contracts {
        let contracts = Contracts::parse(&CONTRACTS.read_given(path)?);
        files.contracts = Arc::new(contracts.map_err(|mistakes| operator_files::bad_given(&mistakes))?);
    }
    if !test.policies.is_empty() {
        let texts: Result<Vec<_>, Failure> = test.policies.iter().map(|path| POLICIES.read_given(path)).collect();
        let policies = Policies::parse(&texts?.concat());
        files.policies = Arc::new(policies.map_err(|mistakes| operator_files::bad_given(&mistakes))?);
    }
    Ok(files)
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
    expected: String,
    /// The decision.
    found: String,
    /// The difference from the expected decision.
    failure: Option<String>,
    /// The refusal, or the fields of the contract that decide on approvals.
    why: Vec<String>,
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
            expected: case.expect.to_string(),
            found: verdict.found.to_string(),
            failure: verdict.failure,
            why: verdict.why,
            deciding: deciding.collect(),
        }
    }
}

fn told(all: &All, file: &str) -> String {
    let mut text = String::new();
    for ran in &all.cases {
        let policies: Vec<String> = ran.deciding.iter().map(|one| line(&one.policy)).collect();
        let by = if policies.is_empty() { String::new() } else { format!(" by {}", policies.join(", ")) };
        let Some(failure) = &ran.failure else {
            text.push_str(&format!("ok      {} ({}{by})\n", line(&ran.name), ran.found));
            continue;
        };
        text.push_str(&format!("FAILED  {}\n        {}:{}\n", line(&ran.name), line(file), ran.line));
        text.push_str(&format!("        - expected  {}\n        + found     {}{by}\n", ran.expected, ran.found));
        if *failure != format!("expected {}, found {}", ran.expected, ran.found) {
            text.push_str(&format!("          {}\n", line(failure)));
        }
        for why in &ran.why {
            text.push_str(&format!("          {}\n", line(why)));
        }
    }
    let cases = counted(all.cases.len(), "case");
    text + &format!("\n{cases}: {} ok, {} failed\n", all.passed, all.failed)
}
