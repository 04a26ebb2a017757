//! Drafts give each tool a risk level. These tests compare the levels with the examples of the risk model, and with the
//! levels that tools of real servers had before.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::collections::BTreeMap;
use std::path::Path;

use mcpproxy_core::contract::Contracts;
use mcpproxy_core::review::draft::draft;
use mcpproxy_core::{Offer, Offered, RiskLevel, ServerName};

#[path = "data/tools.rs"]
mod tools;

const EXAMPLES: &str = include_str!("data/risk_levels.txt");
const REAL: &str = "tests/data/drafted_levels.txt";

/// Returns the drafted level of each tool.
fn levels(server: &ServerName, offer: &Offer) -> BTreeMap<String, RiskLevel> {
    let contracts = Contracts::parse(&[(format!("{server}.yaml"), draft(server, offer))]).unwrap();
    let level = |(pattern, contract): (&mcpproxy_core::contract::ToolPattern, &std::sync::Arc<_>)| {
        let contract: &mcpproxy_core::contract::Contract = contract;
        (pattern.prefix.clone(), contract.risk.as_ref().unwrap().value)
    };
    contracts.iter().map(level).collect()
}

#[test]
fn the_examples_of_the_risk_model_get_their_level() {
    let server = ServerName::parse("fx").unwrap();
    let mut count = 0;
    for line in EXAMPLES.lines().filter(|line| !line.starts_with('#')) {
        let (level, name) = line.split_once(' ').unwrap();
        let json = format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#);
        let (offer, _) = Offer::new([Offered::parse(&server, &json)]);
        let found = levels(&server, &offer)[name];
        match RiskLevel::parse(level).unwrap() {
            // Only an operator forbids a tool. The draft asks for it.
            RiskLevel::Forbidden => {
                assert!(found >= RiskLevel::High, "{name}: {}", found.as_str());
                assert!(draft(&server, &offer).contains("Consider `riskLevel: forbidden`"), "{name}");
            }
            expected => assert_eq!(found.as_str(), expected.as_str(), "{name}"),
        }
        count += 1;
    }
    assert_eq!(count, 24);
}

/// A better guess may raise the level of a real tool, but never lower it. Tools of level low are not in the file.
/// `BLESS=1` adds what rose, and keeps what fell.
#[test]
fn no_real_tool_becomes_lower() {
    let path = Path::new(env!("CARGO_MANIFEST_DIR")).join(REAL);
    let known = std::fs::read_to_string(&path).unwrap_or_default();
    let mut before = BTreeMap::new();
    for (name, level) in known.lines().map(|line| line.split_once(' ').unwrap()) {
        before.insert(name.to_owned(), RiskLevel::parse(level).unwrap());
    }
    let mut all = before.clone();
    let mut lower = Vec::new();
    for list in tools::lists() {
        let server = ServerName::parse(&list.server.replace('.', "-")).unwrap();
        let (offer, _) = Offer::new(list.tools.iter().map(|json| Offered::parse(&server, json)));
        for (tool, now) in levels(&server, &offer) {
            let name = format!("{server}:{tool}");
            let least = before.get(&name).copied().unwrap_or(RiskLevel::Low);
            if now < least {
                lower.push(format!("{name}: {} → {}", least.as_str(), now.as_str()));
            }
            if now.max(least) > RiskLevel::Low {
                all.insert(name, now.max(least));
            }
        }
    }
    if std::env::var_os("BLESS").is_some() {
        let lines: Vec<String> = all.iter().map(|(name, level)| format!("{name} {}\n", level.as_str())).collect();
        std::fs::write(&path, lines.concat()).unwrap();
    }
    assert_eq!(lower, Vec::<String>::new());
    assert!(before.len() > 1_000 || before.is_empty(), "{}", before.len());
    assert!(std::env::var_os("BLESS").is_some() || !before.is_empty(), "write the file with BLESS=1");
}
