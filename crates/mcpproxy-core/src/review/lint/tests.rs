//! Tests of the lint, and the short notation of contracts that they share.

mod levels;
mod table;

use std::collections::BTreeSet;
use std::time::Duration;

use super::*;
use crate::catalog::Offer;
use crate::contract::{
    Confirmation, DRAFT_MARKER, DryRun, Idempotency, RateLimit, Sensitive, StepUp, ToolPattern, Written,
};
use crate::schema::Schema;
use crate::trust::Held;
use crate::{Pointer, Quarantined, RiskLevel, ServerName, Untrusted, Variant};

fn written<T>(value: T) -> Option<Written<T>> {
    Some(Written { value, line: 7, column: 3 })
}

fn schema(text: &str) -> Arc<Schema> {
    Arc::new(Schema::parse(text).unwrap())
}

fn words(text: &str) -> Vec<String> {
    text.split(',').filter(|word| !word.is_empty()).map(str::to_owned).collect()
}

/// Parses a contract such as `risk=high operation=read …`. `quiet` adds the fields that a high level should have.
fn contract(text: &str) -> Contract {
    let mut contract = Contract::default();
    for pair in text.split_whitespace() {
        let (key, value) = pair.split_once('=').unwrap_or((pair, ""));
        match key {
            "risk" => contract.risk = written(RiskLevel::parse(value).unwrap()),
            "operation" => contract.operation = written(Variant::from_operation(value).unwrap()),
            "alone" => contract.autonomous = written(value == "true"),
            "confirmation" => {
                contract.confirmation = written(match value {
                    "none" => Confirmation::None,
                    "when" => Confirmation::When(crate::schema::Schema::parse("{}").unwrap().into()),
                    _ => Confirmation::Required,
                });
            }
            "stepUp" => {
                contract.step_up = written(match value {
                    "never" => StepUp::Never,
                    "when" => StepUp::When(schema("{}")),
                    _ => StepUp::Always,
                });
            }
            "permissions" => contract.permissions = written(words(value)),
            "failures" => contract.failure_modes = written(words(value)),
            "rate" => contract.rate_limit = written(RateLimit { calls: 1, per: Duration::from_secs(1) }),
            "dryRun" => {
                let parameter = (!value.is_empty() && value != "none").then(|| value.to_owned());
                contract.dry_run = written(if value == "none" { DryRun::None } else { DryRun::Required { parameter } });
            }
            "keyFrom" => {
                let ttl = Duration::from_secs(60);
                contract.idempotency = written(Idempotency::Natural { key_from: words(value), ttl, valid_until: None });
            }
            "validUntil" => {
                let (key_from, ttl) = (words("id"), Duration::from_secs(60));
                let valid_until = Some(value.to_owned());
                contract.idempotency = written(Idempotency::Natural { key_from, ttl, valid_until });
            }
            "sensitive" => {
                let pointer = Pointer::parse(value).unwrap();
                contract.sensitive = written(vec![Sensitive { text: value.to_owned(), pointer }]);
            }
            "input" => contract.input_schema = written(schema(&format!("{{\"properties\":{{\"{value}\":{{}}}}}}"))),
            "when" => {
                let needed = schema(&format!("{{\"required\":[\"{value}\"]}}"));
                contract.confirmation = written(Confirmation::When(needed));
            }
            "quiet" => {
                contract.side_effects = written(vec![Untrusted::new("x")]);
                contract.audit_event = written("x".to_owned());
                contract.permissions = written(words("a:b"));
                contract.failure_modes =
                    written(words("permission_denied,confirmation_required,rate_limit_exceeded,dry_run_required"));
            }
            _ => panic!("{key}"),
        }
    }
    contract
}

fn pattern(text: &str) -> ToolPattern {
    let (server, tool) = text.split_once(':').unwrap();
    let prefix = tool.strip_suffix('*');
    ToolPattern {
        server: ServerName::parse(server).unwrap(),
        prefix: prefix.unwrap_or(tool).to_owned(),
        is_exact: prefix.is_none(),
    }
}

const ARGUMENTS: &str = r#""inputSchema":{"properties":{"to":{},"id":{}}},"outputSchema":{"properties":{"link":{}}}"#;

/// Findings that most contracts of these tests have. They have tests of their own.
const USUAL: [&str; 5] = ["C203", "C204", "C205", "C306", "C307"];

/// As `all_findings`, without the usual ones.
fn findings(tool: &str, hints: &str, own: Option<&str>, operator: Option<(&str, &str)>) -> Vec<Finding> {
    let mut findings = all_findings(tool, hints, own, operator);
    findings.retain(|finding| !USUAL.contains(&finding.code));
    findings
}

/// Lints a server `fx` with one tool, its own contract, and the operator's contract for a pattern.
fn all_findings(tool: &str, hints: &str, own: Option<&str>, operator: Option<(&str, &str)>) -> Vec<Finding> {
    let server = ServerName::parse("fx").unwrap();
    let json = format!("{{\"name\":\"{tool}\",{ARGUMENTS},\"annotations\":{{{hints}}}}}");
    let offered = Offered::parse(&server, &json).map(|offered| Offered { contract: own.map(contract), ..offered });
    let catalog = Catalog::new([(server, Arc::new(Offer::new([offered]).0))]);
    let contracts: Contracts = operator
        .into_iter()
        .map(|(tools, text)| (pattern(tools), Contract { file: Some("contracts/fx.yaml".into()), ..contract(text) }))
        .collect();
    let findings = lint(&contracts, &catalog);
    let about_tools = findings.iter().filter(|finding| finding.code == "C002").cloned().collect::<Vec<_>>();
    assert_eq!(unmatched(&contracts, &catalog), about_tools, "the same findings, without the other checks");
    findings
}

fn told(findings: &[Finding]) -> Vec<String> {
    let line = |finding: &Finding| {
        let place = finding.place.as_ref().map(|(file, line)| format!(" {file}:{line}")).unwrap_or_default();
        format!(
            "{} {} {}{place}: {}; {}",
            finding.code,
            finding.severity.as_str(),
            finding.subject,
            finding.message,
            finding.fix
        )
    };
    findings.iter().map(line).collect()
}

const READ_ONLY: &str = "\"readOnlyHint\":true";
const DESTRUCTIVE: &str = "\"destructiveHint\":true";

/// Lints a tool whose schema has patterns that only a backtracking engine can run.
fn unchecked() -> Vec<Finding> {
    let server = ServerName::parse("fx").unwrap();
    let json = r#"{"name":"act","inputSchema":{"properties":{"a":{"pattern":"(?=x)"},"b":{"pattern":"(?!x)"}}}}"#;
    let own = Some(contract("risk=low"));
    let offered = Offered::parse(&server, json).map(|offered| Offered { contract: own, ..offered });
    let mut findings = lint(&Contracts::default(), &Catalog::new([(server, Arc::new(Offer::new([offered]).0))]));
    findings.retain(|finding| !USUAL.contains(&finding.code));
    findings
}

#[test]
fn patterns_that_are_left_to_the_server() {
    assert_eq!(
        told(&unchecked()),
        [
            "C405 hint fx:act: `/properties/a/pattern` of its `inputSchema` and 1 more is left to the server; if it matters, write a simpler `pattern` in the contract's own schema"
        ]
    );
}

fn drafts() -> Vec<(String, String)> {
    let draft = format!("\n{DRAFT_MARKER}: contracts for x\n- tool: x:y\n");
    let with_byte_order_mark = format!("\u{FEFF}{DRAFT_MARKER}\n- tool: x:z\n");
    [("a.yaml", draft.as_str()), ("b.yaml", "- tool: x:y\n"), ("c.yaml", with_byte_order_mark.as_str())]
        .map(|(name, text)| (name.to_owned(), text.to_owned()))
        .to_vec()
}

#[test]
fn a_file_that_is_still_a_draft() {
    assert_eq!(
        told(&lint_files(&drafts())),
        [
            "C019 hint a.yaml a.yaml:2: the file is still marked as a draft; review and correct its contracts, then remove the line",
            "C019 hint c.yaml c.yaml:1: the file is still marked as a draft; review and correct its contracts, then remove the line"
        ]
    );
}

#[test]
fn words_of_strangers_are_shown_escaped() {
    let found = findings("act", "", Some("risk=low keyFrom=\u{1b}[2J"), None);
    assert_eq!(
        told(&found),
        [
            "C402 error fx:act: `idempotency.keyFrom` names `\\u{1b}[2J`, which is not an argument of the tool; known arguments: `to`, `id`"
        ]
    );
}

/// Lints a server `fx` with tools of these names, and contracts from a file.
fn found_in(file: &str, names: impl IntoIterator<Item = String>) -> Vec<String> {
    let server = ServerName::parse("fx").unwrap();
    let tool = |name: String| Offered::parse(&server, &format!("{{\"name\":\"{name}\",\"inputSchema\":{{}}}}"));
    let catalog = Catalog::new([(server.clone(), Arc::new(Offer::new(names.into_iter().map(tool)).0))]);
    told(&lint(&Contracts::parse(&[("a.yaml".to_owned(), file.to_owned())]).unwrap(), &catalog))
}

#[test]
fn every_doubt_about_a_contract_has_a_line() {
    let file = "- tool: fx:act\n- category: x\n  tool: fx:other\n- tool: fx:gone\n";
    let found = found_in(file, ["act".to_owned(), "other".to_owned()]);
    let begin: Vec<&str> = found.iter().filter_map(|line| line.split_once(": ")).map(|(begin, _)| begin).collect();
    assert_eq!(
        begin,
        [
            "C004 hint fx",
            "C003 warning fx:act a.yaml:1",
            "C307 warning fx:act a.yaml:1",
            "C002 warning fx:gone a.yaml:4",
            "C003 warning fx:other a.yaml:2",
            "C307 warning fx:other a.yaml:2"
        ]
    );
}

/// A tool that waits for a review exists, and one that no agent sees needs no other finding.
#[test]
fn a_contract_for_a_tool_that_waits_has_an_effect() {
    let server = ServerName::parse("fx").unwrap();
    let tool = |name: &str| Offered::parse(&server, &format!("{{\"name\":\"{name}\",\"inputSchema\":{{}}}}"));
    let quarantined = Quarantined { reason: Held::FirstSight, since_ms: 0, was_shown: false };
    let offer = Offer::new([tool("act"), tool("later")]).0.admit(&[("later".to_owned(), quarantined)].into());
    let catalog = Catalog::new([(server.clone(), Arc::new(offer))]);
    let text = "- tool: fx:late*\n  category: x\n- tool: fx:gone\n  category: x\n";
    let contracts = Contracts::parse(&[("a.yaml".to_owned(), text.to_owned())]).unwrap();
    let found = |catalog: &Catalog| {
        let all = lint(&contracts, catalog).into_iter().chain(unmatched(&contracts, catalog));
        all.map(|finding| format!("{} {}", finding.code, finding.subject)).collect::<Vec<_>>()
    };
    assert_eq!(found(&catalog), ["C004 fx", "C002 fx:gone", "C002 fx:gone"]);
    // Nothing is known about a server that has not listed its tools.
    assert_eq!(found(&catalog.only(|_| false)), ["C001 fx:gone", "C001 fx:late*"]);
}

/// Names are compared for the first contracts only, because thousands would take minutes.
#[test]
fn many_contracts_for_nothing() {
    let file: String = (0..300).map(|n| format!("- {{ tool: \"fx:tool_{n}x\", riskLevel: low }}\n")).collect();
    let begun = std::time::Instant::now();
    let found = found_in(&file, (0..3_000).map(|n| format!("tool_{n}")));
    let count = |text: &str| found.iter().filter(|line| line.starts_with("C002") && line.contains(text)).count();
    assert_eq!(
        (count("did you mean `fx:tool_"), count("run `mcpproxy tools list --server fx` to see its tools")),
        (20, 280)
    );
    assert!(begun.elapsed() < Duration::from_secs(20), "{:?}", begun.elapsed());
}
