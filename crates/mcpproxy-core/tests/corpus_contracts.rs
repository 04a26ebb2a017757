//! Drafts, lints and counts contracts for the tools of real servers.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]

use std::sync::{Arc, LazyLock};
use std::time::{Duration, Instant};

use mcpproxy_core::contract::{Contracts, Effective};
use mcpproxy_core::review::coverage::coverage;
use mcpproxy_core::review::draft::draft;
use mcpproxy_core::review::lint::{Finding, Severity, lint, lint_files};
use mcpproxy_core::{Catalog, Index, Offer, Offered, RiskLevel, ServerName};
use proptest::prelude::*;

#[path = "data/tools.rs"]
mod tools;

/// Far more than any list takes, even in a debug build on a busy machine.
const LIST_MAX: Duration = Duration::from_secs(20);

static OFFERS: LazyLock<Vec<(ServerName, Arc<Offer>)>> = LazyLock::new(|| {
    let offers = tools::lists().into_iter().map(|list| {
        let server = ServerName::parse(&list.server.replace('.', "-")).unwrap();
        let (offer, hidden) = Offer::new(list.tools.iter().map(|json| Offered::parse(&server, json)));
        // No real tool is refused.
        assert_eq!(hidden, [], "{server}");
        (server, Arc::new(offer))
    });
    offers.collect()
});

#[test]
fn every_real_list_can_be_drafted_and_looked_over() {
    let (mut all, mut slowest) = (0, (Duration::ZERO, String::new()));
    for (server, offer) in OFFERS.iter() {
        let begun = Instant::now();
        let catalog = Catalog::new([(server.clone(), Arc::clone(offer))]);
        let index = Index::build(&catalog);
        let text = draft(server, offer);
        assert_eq!(draft(server, offer), text, "{server}");
        let found = lint(&Contracts::default(), &catalog);
        assert_eq!(found, lint(&Contracts::default(), &catalog), "{server}");
        let covered = coverage(&catalog);
        assert_eq!((covered.tools.len(), text.matches("\n- tool: ").count()), (offer.len(), offer.len()), "{server}");
        drop(index);
        all += offer.len();
        slowest = slowest.max((begun.elapsed(), server.to_string()));
    }
    println!("{all} tools; the slowest list: {slowest:?}");
    assert!(all > 2_900, "{all}");
    assert!(slowest.0 < LIST_MAX, "{slowest:?}");
}

/// A draft is valid as it is, has no lint errors, and is at least as strict as the server's own contract.
#[test]
fn every_draft_is_a_contract_file() {
    let mut levels = std::collections::BTreeMap::new();
    for (server, offer) in OFFERS.iter() {
        let files = [(format!("contracts/{server}.yaml"), draft(server, offer))];
        let contracts = Contracts::parse(&files).unwrap_or_else(|mistakes| panic!("{server}: {mistakes:?}"));
        assert_eq!(contracts.iter().count(), offer.len(), "{server}");
        let contracts = Arc::new(contracts);
        let offers = [(server.clone(), Arc::clone(offer))];
        let catalog = Catalog::default().next(offers, &contracts, &Arc::default());
        // C203: a draft rates no tool lower than the definition of its level.
        let is_wrong = |finding: &Finding| finding.severity == Severity::Error || finding.code == "C203";
        let wrong: Vec<_> = lint(&contracts, &catalog).into_iter().filter(is_wrong).collect();
        assert_eq!(wrong, [], "{server}");
        assert_eq!(lint_files(&files).len(), 1, "{server}");
        assert!(coverage(&catalog).tools.iter().all(|tool| !tool.needs_draft()), "{server}");
        for offered in offer.tools() {
            let without = Effective::of(&[], offered.contract.as_ref(), offered.hints);
            let with = Effective::of(&contracts.matching(&offered.name), offered.contract.as_ref(), offered.hints);
            let operation = |effective: &Effective| effective.operation.as_ref().map(|operation| operation.value);
            assert!(operation(&with) >= operation(&without), "{}", offered.name);
            assert!(with.risk() >= without.risk(), "{}", offered.name);
            assert!(with.risk() < Some(RiskLevel::Forbidden), "{} is forbidden by a draft", offered.name);
            *levels.entry(with.risk()).or_insert(0) += 1;
        }
    }
    println!("{levels:?}");
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 512, failure_persistence: None, ..ProptestConfig::default() })]

    /// Whatever a server writes, its draft is one contract, and the server's text appears only in comments.
    #[test]
    fn words_of_a_server_stay_words(
        description in "([\\PC\\pC]|[-:#{}\\[\\]&*!|>'\"%@`,?\\\\\n\r\t \u{85}\u{2028}\u{feff}]|riskLevel: low\n){0,40}",
        parameter in "(secret|password)?[\\PC\\pC]{0,6}",
        category in "\\PC{0,6}",
    ) {
        let server = ServerName::parse("fx").unwrap();
        let json = serde_json::json!({
            "name": "delete_all",
            "description": description,
            "inputSchema": {"type": "object", "properties": {parameter: {"type": "string"}}},
            "annotations": {"category": category, "destructiveHint": true},
            "_meta": {"grafana.com/requiredPermissions": [description]},
        });
        let (offer, hidden) = Offer::new([Offered::parse(&server, &json.to_string())]);
        prop_assert_eq!(hidden, []);
        let text = draft(&server, &offer);
        let contracts = Contracts::parse(&[("fx.yaml".to_owned(), text.clone())]);
        let contracts = contracts.map_err(|mistakes| TestCaseError::fail(format!("{mistakes:?}\n{text}")))?;
        let written: Vec<_> = contracts.iter().collect();
        prop_assert_eq!(written.len(), 1, "{}", text);
        let (_, contract) = written[0];
        prop_assert_eq!(contract.risk.as_ref().map(|risk| risk.value), Some(RiskLevel::Critical));
        prop_assert!(contract.description.is_none(), "{}", text);
        let said = contract.side_effects.as_ref().map_or(0, |effects| effects.value.len());
        prop_assert_eq!(said, 1, "only the sentence of the draft itself: {}", text);
    }
}
