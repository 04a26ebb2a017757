//! Changes that weaken contracts, policies and settings, and the rules that hold until a user confirms them.

use super::*;
use crate::catalog::Offered;
use crate::settings::{Channel, PeopleSettings, Settings, TrustSettings, TwoKey, Unannotated, Unclassified, Weakening};
use crate::trust::OnChange;
use crate::{Hints, ServerName, ToolName};

fn rules(contracts: &str, policies: &str, settings: ContractSettings) -> Rules {
    let file = |name: &str, text: &str| vec![(name.to_owned(), text.to_owned())];
    Rules {
        contracts: Arc::new(Contracts::parse(&file("contracts/a.yaml", contracts)).unwrap()),
        policies: Arc::new(Policies::parse(&file("policies/a.cedar", policies)).unwrap()),
        settings,
        intent: IntentSettings::default(),
        channels: Channels::default(),
        trust: TrustRules::default(),
        people: PeopleSettings::default(),
    }
}

fn with_contracts(contracts: &str) -> Rules {
    rules(contracts, "", ContractSettings::default())
}

fn tool(json: &str) -> Arc<Offered> {
    Arc::new(Offered::parse(&ServerName::parse("fx").unwrap(), json).unwrap())
}

/// Returns the lines of what is weaker, and the rules that are in force meanwhile.
fn reload(old: &Rules, new: &Rules, tools: &[Arc<Offered>]) -> (Vec<String>, Rules) {
    let weaker = Weaker::between(old, new, tools);
    let held = new.without(&weaker, old, tools).unwrap();
    assert!(Weaker::between(old, &held, tools).is_empty(), "what is in force is not weaker");
    let again = Weaker::between(&held, new, tools);
    assert_eq!(again.lines().is_empty(), weaker.lines().is_empty(), "the same waits as before");
    let held_again = new.without(&again, &held, tools).unwrap();
    assert_eq!(held_again.contracts, held.contracts, "reading the same files again changes nothing");
    (weaker.lines(), held)
}

fn merged(rules: &Rules, name: &str) -> Effective {
    Effective::of(&rules.contracts.matching(&ToolName::parse(name).unwrap()), None, Hints::default())
}

#[test]
fn what_is_stricter_applies_and_what_is_weaker_waits() {
    let old = with_contracts(
        "- tool: fx:a\n  riskLevel: forbidden\n- tool: fx:b\n  riskLevel: low\n- tool: fx:c\n  riskLevel: critical\n",
    );
    let new = with_contracts("- tool: fx:a\n  riskLevel: low\n  permissions: [a:b]\n- tool: fx:b\n  riskLevel: high\n");
    let (lines, held) = reload(&old, &new, &[]);
    assert_eq!(
        lines,
        [
            "fx:a: riskLevel forbidden → low (contracts/a.yaml:2)",
            "fx:c: contract removed: riskLevel critical → none (contracts/a.yaml:6), needs confirmation, step_up → none \
             (contracts/a.yaml:6)",
        ]
    );
    assert!(Weaker::between(&old, &new, &[]).needs_step_up);
    assert_eq!(merged(&held, "fx:a").risk(), Some(RiskLevel::Forbidden));
    assert_eq!(merged(&held, "fx:a").permissions.value, ["a:b"], "the permission is new, and applies at once");
    assert_eq!(merged(&held, "fx:b").risk(), Some(RiskLevel::High));
    assert_eq!(merged(&held, "fx:c").risk(), Some(RiskLevel::Critical));
}

/// A tool with a contract of its own is not affected by a change of the contract for all tools.
#[test]
fn a_held_field_belongs_to_the_contract_that_has_it() {
    let old =
        "- tool: fx:*\n  riskLevel: high\n- tool: fx:act\n  riskLevel: critical\n- tool: fx:wipe\n  category: a\n";
    let (old, new) = (with_contracts(old), with_contracts(&old.replace("high", "low")));
    let weaker = Weaker::between(&old, &new, &[]);
    let held = new.without(&weaker, &old, &[]).unwrap();
    let check = |tool: &str, field: &str, expected: bool| {
        let found = weaker.holds(&held.contracts, &ToolName::parse(tool).unwrap(), field);
        assert_eq!(found, expected, "{tool} {field}");
    };
    check("fx:any", "riskLevel", true);
    check("fx:wipe", "riskLevel", true);
    check("fx:act", "riskLevel", false);
    check("fx:any", "category", false);
    check("other:any", "riskLevel", false);
    let gone = Weaker::between(&old, &with_contracts(""), &[]);
    assert!(gone.holds(&old.contracts, &ToolName::parse("fx:act").unwrap(), "riskLevel"));
}

#[test]
fn a_file_cut_anywhere_lifts_nothing() {
    let text = "- tool: fx:*\n  riskLevel: high\n  permissions: [a:b]\n- tool: fx:send\n  riskLevel: critical\n  \
                inputSchema: { required: [to] }\n  rateLimit: { calls: 3, per: 1m }\n- tool: fx:wipe\n  riskLevel: \
                forbidden\n";
    let whole = with_contracts(text);
    let mut valid = 0;
    for end in 0..text.len() {
        let file = [("contracts/a.yaml".to_owned(), text.get(..end).unwrap().to_owned())];
        let Ok(contracts) = Contracts::parse(&file) else { continue };
        valid += 1;
        let cut = Rules { contracts: Arc::new(contracts), ..whole.clone() };
        let (_, held) = reload(&whole, &cut, &[]);
        for name in ["fx:send", "fx:wipe", "fx:other"] {
            let (before, after) = (merged(&whole, name), merged(&held, name));
            assert_eq!(before.weaker_fields(&after), [""; 0], "{name} after {end} bytes");
        }
    }
    assert!(valid > 5, "only {valid} cuts are valid YAML");
}

#[test]
fn a_special_contract_cannot_undercut_a_general_one() {
    let old = with_contracts("tool: fx:*\nriskLevel: forbidden\n");
    let new = with_contracts("- tool: fx:*\n  riskLevel: forbidden\n- tool: fx:a\n  riskLevel: low\n");
    let (lines, held) = reload(&old, &new, &[]);
    assert_eq!(lines, ["fx:a: riskLevel forbidden → low (contracts/a.yaml:4)"]);
    assert_eq!(merged(&held, "fx:a").risk(), Some(RiskLevel::Forbidden));
}

#[test]
fn moving_and_describing_changes_nothing() {
    let old = with_contracts("tool: fx:a\nriskLevel: high\n");
    let new = with_contracts("- tool: fx:b\n  riskLevel: low\n- tool: fx:a\n  description: x\n  riskLevel: high\n");
    let (lines, held) = reload(&old, &new, &[]);
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(held.contracts, new.contracts);
}

#[test]
fn a_forbidden_tool_needs_nothing_else() {
    let old = with_contracts("tool: fx:a\nriskLevel: high\ninputSchema: { required: [a] }\n");
    let new = with_contracts("tool: fx:a\nriskLevel: forbidden\n");
    let (lines, held) = reload(&old, &new, &[]);
    assert!(lines.is_empty(), "{lines:?}");
    assert_eq!(held.contracts, new.contracts);
}

#[test]
fn the_words_of_a_server_count_for_the_tools_it_lists() {
    let wipe = tool(r#"{"name":"wipe","inputSchema":{},"annotations":{"readOnlyHint":false,"destructiveHint":true}}"#);
    let pay = tool(r#"{"name":"pay","inputSchema":{},"_meta":{"mcp-first/contract":{"riskLevel":"critical"}}}"#);
    let old = with_contracts("[]");
    let new = with_contracts("- tool: fx:wipe\n  operation: read\n- tool: fx:pay\n  riskLevel: low\n");
    let (lines, held) = reload(&old, &new, &[wipe, pay]);
    assert_eq!(lines.len(), 2, "{lines:?}");
    assert!(lines[0].starts_with("fx:pay: riskLevel critical → low (contracts/a.yaml:4)"), "{lines:?}");
    assert!(lines[1].starts_with("fx:wipe: operation destructive → read (contracts/a.yaml:2)"), "{lines:?}");
    assert!(held.contracts.is_empty());
    assert!(reload(&old, &new, &[]).0.is_empty(), "nothing is known about them");
}

#[test]
fn a_level_can_lift_what_the_settings_ask_for() {
    let check = |unclassified: Unclassified, level: &str, is_weaker: bool| {
        let settings = ContractSettings { unclassified, ..ContractSettings::default() };
        let old = rules("[]", "", settings);
        let new = rules(&format!("tool: fx:a\nriskLevel: {level}\n"), "", settings);
        assert_eq!(!reload(&old, &new, &[]).0.is_empty(), is_weaker, "{unclassified:?} {level}");
    };
    check(Unclassified::Allow, "low", false);
    check(Unclassified::ConfirmDestructive, "low", true);
    check(Unclassified::ConfirmDestructive, "high", false);
    check(Unclassified::Deny, "high", true);
    check(Unclassified::Deny, "forbidden", false);
}

#[test]
fn a_dry_run_at_the_server_is_no_way_around_an_approval() {
    let check = |settings: ContractSettings, fields: &str, is_weaker: bool| {
        let old = rules(&format!("tool: fx:a\n{fields}\n"), "", settings);
        let dry_run = "dryRun: { mode: supported, parameter: x }";
        let new = rules(&format!("tool: fx:a\n{fields}\n{dry_run}\n"), "", settings);
        let (lines, held) = reload(&old, &new, &[]);
        assert_eq!(!lines.is_empty(), is_weaker, "{fields} {lines:?}");
        assert_eq!(merged(&held, "fx:a").native_dry_run().is_none(), is_weaker, "{fields}");
    };
    let asking = ContractSettings { unclassified: Unclassified::ConfirmDestructive, ..ContractSettings::default() };
    check(ContractSettings::default(), "riskLevel: high", true);
    check(ContractSettings::default(), "riskLevel: medium\nstepUpAuth: true", true);
    check(ContractSettings::default(), "riskLevel: medium", false);
    check(asking, "category: x", true);
    check(asking, "riskLevel: medium", false);
}

#[test]
fn a_policy_stays_until_a_user_confirms() {
    const NIGHT: &str = "@id(\"night\")\nforbid (principal, action, resource in Server::\"fx\");\n";
    const OTHER: &str = "@id(\"other\")\nforbid (principal, action, resource in Server::\"b\");\n";
    let with_policies = |policies: &str| rules("[]", policies, ContractSettings::default());
    let (lines, held) = reload(&with_policies(NIGHT), &with_policies(OTHER), &[]);
    assert_eq!(lines, ["policy night removed or changed (policies/a.cedar:1)"]);
    let ids: Vec<&str> = held.policies.iter().map(|policy| policy.id.as_str()).collect();
    assert_eq!(ids, ["other", "night"], "the new one applies at once, and the old one stays");
    let renamed = NIGHT.replace("night", "nights");
    assert!(reload(&with_policies(NIGHT), &with_policies(&renamed), &[]).0.is_empty());
}

#[test]
fn a_category_counts_if_a_policy_asks_for_it() {
    const POLICY: &str = "forbid (principal, action, resource in Category::\"pay\");\n";
    let check = |policies: &str, is_weaker: bool| {
        let old = rules("tool: fx:a\ncategory: pay\n", policies, ContractSettings::default());
        let new = rules("tool: fx:a\ncategory: play\n", policies, ContractSettings::default());
        assert_eq!(!reload(&old, &new, &[]).0.is_empty(), is_weaker);
    };
    check("", false);
    check(POLICY, true);
}

#[test]
fn a_contract_cannot_lift_a_policy_that_depends_on_it() {
    let check = |condition: &str, before: &str, after: &str, is_weaker: bool| {
        let policy = format!("forbid (principal, action, resource) when {{ {condition} }};\n");
        let old = rules(before, &policy, ContractSettings::default());
        let new = rules(after, &policy, ContractSettings::default());
        let (lines, held) = reload(&old, &new, &[]);
        assert_eq!(!lines.is_empty(), is_weaker, "{condition} {lines:?}");
        assert_eq!(held.contracts == old.contracts, is_weaker, "{condition}");
    };
    check("!resource.hasContract", "[]", "tool: fx:a\ndescription: x\n", true);
    check("!resource.hasContract", "[]", "tool: fx:a\nriskLevel: forbidden\n", false);
    check("resource.risk == \"unclassified\"", "[]", "tool: fx:a\nriskLevel: high\n", true);
    check("resource.riskRank == 0", "[]", "tool: fx:a\nriskLevel: high\n", true);
    check("resource.riskRank >= 3", "[]", "tool: fx:a\nriskLevel: high\n", false);
    check("resource.operation == \"unknown\"", "[]", "tool: fx:a\noperation: write\n", true);
    check("resource.auditEvent == \"a\"", "tool: fx:a\nauditEvent: a\n", "tool: fx:a\nauditEvent: b\n", true);
    check(
        "resource.sideEffects.contains(\"a\")",
        "tool: fx:a\nsideEffects: [a]\n",
        "tool: fx:a\nsideEffects: [b]\n",
        true,
    );
}

#[test]
fn settings_keep_the_stricter_value() {
    let with = |unclassified, weakening| rules("[]", "", ContractSettings { unclassified, weakening });
    let old = with(Unclassified::Deny, Weakening::Confirm);
    let (lines, held) = reload(&old, &with(Unclassified::Allow, Weakening::Apply), &[]);
    assert_eq!(lines, ["setting contracts.unclassified deny → allow", "setting contracts.weakening confirm → apply"]);
    assert_eq!(held.settings, old.settings);

    let with = |strict_server_validation, two_key, unannotated| Rules {
        intent: IntentSettings { strict_server_validation, two_key, unannotated },
        ..with_contracts("[]")
    };
    let old = with(true, TwoKey::Optional, Unannotated::RequireWrite);
    let (lines, held) = reload(&old, &with(false, TwoKey::Required, Unannotated::Trust), &[]);
    assert_eq!(
        lines,
        [
            "setting intent_declaration.strict_server_validation true → false",
            "setting intent_declaration.unannotated require_write → trust",
        ]
    );
    assert_eq!(held.intent, with(true, TwoKey::Required, Unannotated::RequireWrite).intent);
    let warning = with(true, TwoKey::Required, Unannotated::Warn);
    assert!(reload(&warning, &with(true, TwoKey::Required, Unannotated::Trust), &[]).0.is_empty());
    assert_eq!(reload(&warning, &with(true, TwoKey::Optional, Unannotated::Warn), &[]).0.len(), 1);

    let with = |medium, high| Rules { channels: Channels { medium, high }, ..with_contracts("[]") };
    let old = with(Channel::Form, Channel::Page);
    let (lines, held) = reload(&old, &with(Channel::Page, Channel::Form), &[]);
    assert_eq!(lines, ["setting approvals.channels.high page → form"]);
    assert_eq!(held.channels, Channels { medium: Channel::Page, high: Channel::Page });

    let with = |changes| {
        let trust = TrustSettings { changes, ..TrustSettings::default() };
        Rules { trust: TrustRules::of(&Settings { trust, ..Settings::default() }), ..with_contracts("[]") }
    };
    let (lines, held) = reload(&with(OnChange::Review), &with(OnChange::Warn), &[]);
    assert_eq!(lines, ["setting trust.changes review → warn"]);
    assert_eq!(held.trust, with(OnChange::Review).trust);
}

#[test]
fn what_waits_has_a_bound() {
    let contracts = |name: &str| {
        let one = |number: usize| format!("- tool: fx:{name}{number}\n  riskLevel: high\n");
        with_contracts(&(0..CONTRACTS_MAX).map(one).collect::<String>())
    };
    let (old, new) = (contracts("a"), contracts("b"));
    let weaker = Weaker::between(&old, &new, &[]);
    assert_eq!(new.without(&weaker, &old, &[]).unwrap_err(), TooMany);
}
