//! Tests the decisions on contracts, users and permissions: against a second implementation, and by their invariants.

use std::collections::HashMap;
use std::sync::{Arc, LazyLock};

use mcpproxy_core::contract::{Contract, Contracts, ToolPattern, Written};
use mcpproxy_core::policy::Clock;
use mcpproxy_core::settings::{ContractSettings, IntentSettings};
use mcpproxy_core::{
    Agent, Catalog, Decision, DecisionInputs, Index, Limits, Moment, Offer, Offered, PriorState, RiskLevel, Scope,
    ServerName, Variant, decide, declare,
};

use super::generator::{self, Section};

const NAMES: [&str; 3] = ["read", "write", "destructive"];
const LEVELS: [&str; 6] = ["-", "low", "medium", "high", "critical", "forbidden"];

static CONTRACT: LazyLock<Section> = LazyLock::new(generator::contract::section);
static USER: LazyLock<Section> = LazyLock::new(generator::user::section);
static PERMISSIONS: LazyLock<Section> = LazyLock::new(generator::permissions::section);

/// A row whose cells are looked up by column name.
struct Row<'s> {
    section: &'s Section,
    cells: Vec<&'s str>,
}

impl<'s> Row<'s> {
    fn all(section: &'s Section) -> impl Iterator<Item = Row<'s>> {
        section.rows.iter().map(move |cells| Row { section, cells: cells.iter().map(String::as_str).collect() })
    }

    fn at(&self, column: &str) -> &'s str {
        let at = self.section.columns.iter().position(|name| *name == column).unwrap();
        self.cells[at]
    }

    fn rung(&self, column: &str) -> Option<usize> {
        NAMES.iter().position(|name| *name == self.at(column))
    }

    fn outcome(&self) -> &'s str {
        self.at("outcome")
    }

    fn is_refused(&self) -> bool {
        self.outcome().starts_with("deny")
    }

    fn is_allowed(&self) -> bool {
        self.outcome().starts_with("allow")
    }

    /// Returns the key of the row in which only this cell is different.
    fn with(&self, column: &str, cell: &'s str) -> Vec<&'s str> {
        let at = self.section.columns.iter().position(|name| *name == column).unwrap();
        let mut key = self.key();
        key[at] = cell;
        key
    }

    fn key(&self) -> Vec<&'s str> {
        self.cells[..self.cells.len() - 1].to_vec()
    }
}

fn outcomes(section: &Section) -> HashMap<Vec<&str>, &str> {
    Row::all(section).map(|row| (row.key(), row.outcome())).collect()
}

/// Returns the rung that the annotations need, the refusal or warning, and whether they confirm the variant.
fn hints(row: &Row<'_>, stands: usize) -> (Option<usize>, Result<&'static str, String>, bool) {
    let (read_only, destructive) = (row.at("readOnly"), row.at("destructive"));
    let needs = match (destructive, read_only) {
        ("true", _) => Some(2),
        (_, "true") => Some(0),
        (_, "false") => Some(1),
        _ => None,
    };
    let said = match needs {
        Some(needed) if stands < needed && row.at("strict") == "true" => {
            Err(format!("deny SERVER_MISMATCH, use call_tool_{}", NAMES[needed]))
        }
        Some(needed) if stands < needed => Ok(" warn SERVER_MISMATCH"),
        Some(0) if stands == 1 => Ok(" warn overly_cautious"),
        _ => Ok(""),
    };
    let borne_out = match stands {
        0 => needs == Some(0),
        1 => destructive == "false" || needs.is_some_and(|needed| needed < 2),
        _ => true,
    };
    (needs, said, borne_out)
}

/// A second implementation of the contract checks, as a ladder.
fn contract_reading(row: &Row<'_>) -> String {
    let stands = row.rung("variant").unwrap();
    let (written, risk) = (row.rung("operation"), row.at("risk"));
    let is_operators = row.at("by") == "operator";
    if risk == "forbidden" {
        return "deny tool_not_found".to_owned();
    }
    let (hinted, said, borne_out) = hints(row, stands);
    let needs = if is_operators { written } else { written.max(hinted) };
    let warned = match said {
        _ if is_operators => "",
        Err(refused) => return refused,
        Ok(warned) => warned,
    };
    if risk == "-" && row.at("unclassified") == "deny" {
        return "deny contract_required".to_owned();
    }
    if let Some(needed) = written.filter(|needed| stands < *needed) {
        return format!("deny contract_mismatch, use call_tool_{}", NAMES[needed]);
    }
    let destroys = stands == 2 || needs == Some(2);
    match risk {
        "critical" => "ask confirmation + step_up".to_owned(),
        "high" => "ask confirmation".to_owned(),
        "-" if destroys && row.at("unclassified") == "confirm_destructive" => "ask confirmation".to_owned(),
        _ => {
            let borne_out = if is_operators { stands == 2 || needs == Some(stands) } else { borne_out };
            format!("allow{warned}{}", if borne_out { "" } else { " unverified" })
        }
    }
}

#[test]
fn both_readings_agree_on_contracts() {
    let section = &*CONTRACT;
    assert_eq!(section.rows.len(), 3 * 9 * 7 * 6 * 2 * 3);
    for row in Row::all(section) {
        assert_eq!(row.outcome(), contract_reading(&row), "{:?}", row.cells);
    }
}

fn user_reading(row: &Row<'_>) -> &'static str {
    let level = LEVELS.iter().position(|level| *level == row.at("risk")).unwrap();
    let step_up = match (row.at("stepUp"), row.at("risk")) {
        ("-", "critical") => "always",
        (written, _) => written,
    };
    let steps_up = step_up == "always" || step_up == "when" && row.at("arguments") == "match";
    let confirms = match row.at("confirmation") {
        "required" => true,
        "when" => row.at("arguments") == "match",
        _ => false,
    };
    let asks = level >= 3 || row.at("autonomous") == "false" || confirms;
    match () {
        () if level == 5 => "deny tool_not_found",
        () if row.at("dryRun") == "required" => "deny dry_run_required",
        () if steps_up => "ask confirmation + step_up",
        () if asks => "ask confirmation",
        () => "allow unverified",
    }
}

#[test]
fn both_readings_agree_on_users() {
    let section = &*USER;
    assert_eq!(section.rows.len(), 2 * 6 * 3 * (3 * 5 + 4 * 2) * 3);
    for row in Row::all(section) {
        assert_eq!(row.outcome(), user_reading(&row), "{:?}", row.cells);
    }
}

#[test]
fn both_readings_agree_on_permissions() {
    let section = &*PERMISSIONS;
    assert_eq!(section.rows.len(), 3 * 2 * 3 * 6 * 3);
    for row in Row::all(section) {
        let grants: Vec<&str> = row.at("grants").split(' ').collect();
        let covers = |permission: &&str| match *permission {
            "mail:send" => ["mail:send", "mail:*", "*"].iter().any(|grant| grants.contains(grant)),
            _ => ["files:read", "*"].iter().any(|grant| grants.contains(grant)),
        };
        let wanted: Vec<&str> = row.at("wanted").split(' ').filter(|word| *word != "-").collect();
        let missing: Vec<&str> = wanted.into_iter().filter(|permission| !covers(permission)).collect();
        let may = row.at("operations").split(' ').any(|operation| operation == row.at("variant"));
        let only_reads = row.at("operations") == "read";
        let expected = match row.at("variant") {
            _ if !may || only_reads && row.at("readOnly") != "true" => "deny permission_denied".to_owned(),
            _ if !missing.is_empty() => format!("deny permission_denied, lacks {}", missing.join(" ")),
            "read" if row.at("readOnly") == "true" => "allow".to_owned(),
            "read" => "allow unverified".to_owned(),
            "write" if row.at("readOnly") == "true" => "allow warn overly_cautious".to_owned(),
            "write" => "allow unverified".to_owned(),
            _ => "allow".to_owned(),
        };
        assert_eq!(row.outcome(), expected, "{:?}", row.cells);
    }
}

#[test]
fn forbidden_is_not_there_and_critical_is_never_alone() {
    let mut counted = [0, 0];
    for section in [&*CONTRACT, &*USER] {
        for row in Row::all(section) {
            match row.at("risk") {
                "forbidden" => {
                    assert_eq!(row.outcome(), "deny tool_not_found", "{:?}", row.cells);
                    counted[0] += 1;
                }
                "critical" => {
                    assert!(!row.is_allowed(), "{:?}", row.cells);
                    counted[1] += 1;
                }
                _ => assert_ne!(row.outcome(), "deny tool_not_found", "{:?}", row.cells),
            }
        }
    }
    assert!(counted.iter().all(|count| *count > 1_000), "{counted:?}");
}

/// Returns everything that an agent can learn about a server by searching, listing and calling.
fn all_it_can_see(catalog: &Catalog) -> Vec<String> {
    let agent = Agent { name: "agent".to_owned(), scope: Scope::everything() };
    let intent = IntentSettings::default();
    let contracts = ContractSettings::default();
    let inputs = DecisionInputs { intent: &intent, contracts: &contracts, catalog };
    let mut seen: Vec<String> = catalog.visible(&agent.scope).map(|tool| tool.name.to_string()).collect();
    let index = Index::build(catalog);
    for query in ["read", "private key", "read_private_key", "read_file"] {
        let hits = index.find(query, &agent.scope, None, 50).hits;
        seen.extend(hits.iter().map(|hit| format!("{query}: {} {}", hit.tool.name, hit.score)));
    }
    for variant in Variant::ALL {
        for name in ["fx:read_private_key", "fx:read_private_keys", "fx:read", "other:read_private_key", "fx:x"] {
            for rest in ["", ",\"args\":{\"a\":1}", ",\"intent\":{\"operation_type\":\"read\"}"] {
                let parameters = format!("{{\"name\":\"{name}\"{rest}}}");
                let Ok(declared) = declare(variant, &parameters, intent.two_key) else { continue };
                let tool = catalog.resolve(&declared.name);
                let moment = Moment {
                    clock: Clock::default(),
                    limits: &Limits::default(),
                    prior: PriorState::default(),
                    session_began_ms: None,
                };
                let Decision::Deny(denial) = decide(inputs, &agent, declared, tool, moment) else {
                    panic!("{parameters} was not refused");
                };
                seen.push(format!("{} {} {}", denial.code(), denial.message(), denial.details()));
            }
        }
    }
    seen
}

/// An agent cannot tell a forbidden tool from one that does not exist, whoever forbids it.
#[test]
fn a_forbidden_tool_looks_like_none() {
    let server = ServerName::parse("fx").unwrap();
    let offered = |name: &str, contract: Option<Contract>| {
        let json = format!(r#"{{"name":"{name}","description":"Read a private key","inputSchema":{{}}}}"#);
        Offered::parse(&server, &json).map(|offered| Offered { contract, ..offered })
    };
    let catalog = |tools: Vec<_>, contracts: Contracts| {
        let offers = [(server.clone(), Arc::new(Offer::new(tools).0))];
        Catalog::default().next(offers, &Arc::new(contracts), &Arc::default())
    };
    let forbidden =
        || Contract { risk: Some(Written { value: RiskLevel::Forbidden, line: 1, column: 1 }), ..Contract::default() };
    let pattern = ToolPattern { server: server.clone(), prefix: "read_private".to_owned(), is_exact: false };
    let by_operator = || [(pattern.clone(), forbidden())].into_iter().collect::<Contracts>();
    let both = |own| vec![offered("read_file", None), offered("read_private_key", own)];
    let without = all_it_can_see(&catalog(vec![offered("read_file", None)], Contracts::default()));
    assert_eq!(all_it_can_see(&catalog(both(None), by_operator())), without);
    assert_eq!(all_it_can_see(&catalog(both(Some(forbidden())), Contracts::default())), without);
    assert_eq!(all_it_can_see(&catalog(both(Some(forbidden())), by_operator())), without);
    let nothing = all_it_can_see(&catalog(Vec::new(), Contracts::default()));
    assert_eq!(all_it_can_see(&catalog(vec![offered("read_private_key", None)], by_operator())), nothing);
}

/// A stricter contract of the server never makes an outcome weaker.
#[test]
fn a_stricter_contract_of_a_server_never_allows_more() {
    let weight = |outcome: &str| match outcome {
        outcome if outcome.starts_with("allow") => 0,
        "ask confirmation" => 1,
        "ask confirmation + step_up" => 2,
        _ => 3,
    };
    let contract = &*CONTRACT;
    let known = outcomes(contract);
    for row in Row::all(contract).filter(|row| row.at("by") == "server" && row.at("operation") != "destructive") {
        let stricter = NAMES[row.rung("operation").unwrap() + 1];
        let after = known[&row.with("operation", stricter)];
        assert!(weight(after) >= weight(row.outcome()), "{:?} -> {stricter}: {after}", row.cells);
    }
    let user = &*USER;
    let known = outcomes(user);
    let ladders: [(&str, &[&str]); 5] = [
        ("risk", &LEVELS),
        ("autonomous", &["true", "false"]),
        ("confirmation", &["none", "required"]),
        ("stepUp", &["never", "always"]),
        ("dryRun", &["-", "supported", "required"]),
    ];
    for row in Row::all(user).filter(|row| row.at("by") == "server" && row.at("risk") != "forbidden") {
        for (column, ladder) in ladders {
            let Some(at) = ladder.iter().position(|word| *word == row.at(column)) else { continue };
            let Some(stricter) = ladder.get(at + 1) else { continue };
            let after = known[&row.with(column, stricter)];
            assert!(weight(after) >= weight(row.outcome()), "{:?} -> {column} {stricter}: {after}", row.cells);
        }
    }
}

#[test]
fn lenient_annotations_never_loosen_a_contract() {
    let section = &*CONTRACT;
    let known = outcomes(section);
    let mut count = 0;
    for row in Row::all(section).filter(|row| row.at("strict") == "false") {
        let (stands, written) = (row.rung("variant"), row.rung("operation"));
        if written.is_some() && stands < written {
            assert!(row.is_refused(), "{:?}", row.cells);
            count += 1;
        }
        // If the strict outcome comes from the contract, the lenient one is the same.
        let strict = known[&row.with("strict", "true")];
        if !strict.starts_with("deny SERVER_MISMATCH") {
            assert_eq!(row.outcome(), strict, "{:?}", row.cells);
        }
    }
    assert!(count > 500, "{count}");
}
