//! `contract lint`: reports errors and questionable choices in contracts.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use http::Method;
use mcpproxy_core::contract::Contracts;
use mcpproxy_core::json::quote;
use mcpproxy_core::review::lint::{lint, lint_files};
use mcpproxy_core::{Catalog, Offer, Offered};
use mcpproxy_gateway::version;
use serde::Deserialize;

use super::report::{Finding, Report};
use crate::client::Rest;
use crate::exit::Exit;
use crate::home::Home;
use crate::operator_files::{self, CONTRACTS, MISTAKES_MAX, published};
use crate::terminal::output::{Format, tell};
use crate::terminal::size;

/// Codes of findings that need only the contract. All other codes need the tool as well.
const ALONE: [&str; 11] = ["C003", "C105", "C106", "C203", "C301", "C302", "C303", "C304", "C305", "C306", "C501"];
/// Time for a running gateway to reload changed files.
const TAKE_OVER: Duration = Duration::from_secs(3);
const PAUSE: Duration = Duration::from_millis(100);

pub(super) async fn run(home: &Home, format: Format, files: &[PathBuf], is_strict: bool) -> anyhow::Result<Exit> {
    let mut report = Report::default();
    if files.is_empty() {
        published::check_readable(home)?;
        operator_files::tell_ignored(&home.settings(), &[CONTRACTS]);
    }
    let texts = if files.is_empty() { CONTRACTS.read(&home.settings()) } else { operator_files::read_given(files) };
    match texts {
        Err(failure) => report.add([Finding::of_failure(CONTRACTS.name().to_owned(), failure.to_string())]),
        Ok(texts) => {
            match Contracts::parse(&texts) {
                Err(mistakes) => {
                    let more = mistakes.len().saturating_sub(MISTAKES_MAX);
                    let shown = mistakes.into_iter().take(MISTAKES_MAX);
                    report.add(shown.map(|(file, mistake)| Finding::of_mistake(file, mistake)));
                    if more > 0 {
                        tell(&format!("note: {more} more errors are not shown."));
                    }
                    if files.is_empty() {
                        tell(
                            "note: Because of these errors, the contracts were not compared with the tools of the servers.",
                        );
                    }
                }
                Ok(contracts) if files.is_empty() && home.running()?.is_some() => {
                    let (findings, is_same) = of_gateway(&Rest::connect(home)?, &contracts).await?;
                    report.add(findings);
                    if is_same {
                        report.with_servers();
                    } else {
                        tell(
                            "warning: The running gateway still uses its previous contracts, and these findings are \
                             about them. Find the reason with `mcpproxy config check`.",
                        );
                    }
                }
                Ok(contracts) => {
                    report.add(alone(&contracts));
                    if files.is_empty() {
                        tell(
                            "note: No gateway is running, so the contracts were not compared with the tools of the servers.",
                        );
                    }
                }
            }
            report.add(lint_files(&texts).into_iter().map(Finding::from));
        }
    }
    report.sort();
    format.print(&report, || report.told(size::columns()))?;
    Ok(report.exit(is_strict))
}

/// Checks each contract on its own, against a tool that has nothing but a name.
fn alone(contracts: &Contracts) -> Vec<Finding> {
    let named = contracts.iter().filter(|(pattern, _)| pattern.is_exact);
    let offers = named.map(|(pattern, _)| {
        let json = format!("{{\"name\":{},\"inputSchema\":{{}}}}", quote(&pattern.prefix));
        (pattern.server.clone(), Offered::parse(&pattern.server, &json))
    });
    let mut by_server = std::collections::BTreeMap::<_, Vec<_>>::new();
    for (server, offered) in offers {
        by_server.entry(server).or_default().push(offered);
    }
    let offers = by_server.into_iter().map(|(server, offered)| (server, Arc::new(Offer::new(offered).0)));
    let findings = lint(contracts, &Catalog::new(offers)).into_iter();
    findings.filter(|finding| ALONE.contains(&finding.code)).map(Finding::from).collect()
}

#[derive(Deserialize)]
struct Answer {
    findings: Vec<Finding>,
    version: String,
}

/// Returns the findings of the gateway, and whether it uses the contracts that this command read.
pub(super) async fn of_gateway(rest: &Rest, contracts: &Contracts) -> anyhow::Result<(Vec<Finding>, bool)> {
    let ours = version(contracts);
    let start = Instant::now();
    loop {
        let answer: Answer = serde_json::from_value(rest.ask(Method::GET, "/api/v1/contracts/lint").await?)?;
        let is_same = answer.version == ours;
        if is_same || start.elapsed() > TAKE_OVER {
            return Ok((answer.findings, is_same));
        }
        tokio::time::sleep(PAUSE).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contracts_by_themselves() {
        let check = |text: &str, expected: &[&str]| {
            let contracts = Contracts::parse(&[("a.yaml".to_owned(), text.to_owned())]).unwrap();
            let mut report = Report::default();
            report.add(alone(&contracts));
            let json = serde_json::to_value(&report).unwrap();
            let found = json["findings"].as_array().unwrap().iter();
            let found: Vec<String> = found.map(|f| format!("{} {} {}", f["code"], f["subject"], f["line"])).collect();
            assert_eq!(found, expected, "{text}");
        };
        check("tool: fx:list\nriskLevel: low\n", &[]);
        check("tool: fx:list\ncategory: x\n", &["\"C003\" \"fx:list\" 2"]);
        check(
            "tool: fx:drop\nriskLevel: critical\nauditEvent: a.b\n\
             failureModes: [permission_denied, confirmation_required]\npermissions: [a:b]\n\
             dryRun: { mode: supported, parameter: nobodyKnows }\n",
            &["\"C301\" \"fx:drop\" 2"],
        );
        check("tool: fx:*\nriskLevel: critical\n", &[]);
    }
}
