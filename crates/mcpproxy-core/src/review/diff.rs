//! Compares contracts field by field: two sets of files, or the tools before and after a reload.
//!
//! Files are compared by tool and pattern. A pattern such as `mail:*` also applies to a tool with a contract of its own,
//! so both sides are merged before they are compared. A field that moves from `mail:*` to `mail:send` is no change of
//! `mail:send`.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use serde_json::Value;

use crate::catalog::{Catalog, Tool};
use crate::contract::{Contract, Contracts, Effective, FIELDS, Need, Source, ToolPattern};
use crate::{Hints, RiskLevel, ToolName, Untrusted};

/// The name of the steps that a call needs, which follow from several fields.
const NEEDS: &str = "needs";

/// The differences of one tool or pattern.
#[derive(Clone, Debug, PartialEq)]
pub struct ToolChange {
    /// `server:tool`, or a pattern such as `server:*`.
    pub tool: String,
    pub kind: ChangeKind,
    pub fields: Vec<FieldChange>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChangeKind {
    Added,
    Removed,
    Changed,
}

impl ChangeKind {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Added => "added",
            Self::Removed => "removed",
            Self::Changed => "changed",
        }
    }
}

/// One field that differs. `None` means that nobody set it.
#[derive(Clone, Debug, PartialEq)]
pub struct FieldChange {
    pub field: &'static str,
    pub before: Option<Value>,
    pub after: Option<Value>,
    /// File and line of the new value. For a value that is gone, those of the old one.
    pub place: Option<(Arc<str>, usize)>,
}

impl FieldChange {
    /// Words the change, such as `riskLevel low → high (contracts/mail.yaml:4)`. Long values are cut.
    pub fn words(&self) -> String {
        let Self { field, before, after, place } = self;
        let place = place.as_ref().map(|(file, line)| format!(" ({}:{line})", Untrusted::new(&**file).for_terminal()));
        format!("{field} {} → {}{}", value_words(before), value_words(after), place.unwrap_or_default())
    }

    pub fn to_json(&self) -> Value {
        let (file, line) = self.place.as_ref().map(|(file, line)| (&**file, *line)).unzip();
        serde_json::json!({
            "field": self.field,
            "before": self.before,
            "after": self.after,
            "file": file,
            "line": line,
        })
    }
}

/// Words a value of a field on one line. Long values are cut.
fn value_words(value: &Option<Value>) -> String {
    const SHOWN_MAX_CHARS: usize = 80;
    let text = match value {
        None => "none".to_owned(),
        Some(Value::String(text)) => text.clone(),
        Some(Value::Array(values)) if values.is_empty() => "none".to_owned(),
        Some(Value::Array(values)) if values.iter().all(Value::is_string) => {
            values.iter().filter_map(Value::as_str).collect::<Vec<_>>().join(", ")
        }
        Some(other) => other.to_string(),
    };
    Untrusted::shortened(&text, SHOWN_MAX_CHARS).for_terminal().into_owned()
}

/// Key, value and source of a field.
type ShownField<'a> = (&'static str, Value, &'a Source);

/// Compares two sets of contract files, by tool or pattern. Sorted by name.
pub fn of_files(before: &Contracts, after: &Contracts) -> Vec<ToolChange> {
    let patterns: BTreeSet<&ToolPattern> = before.iter().chain(after.iter()).map(|(pattern, _)| pattern).collect();
    patterns.into_iter().filter_map(|pattern| of_pattern(pattern, before, after)).collect()
}

fn of_pattern(pattern: &ToolPattern, before: &Contracts, after: &Contracts) -> Option<ToolChange> {
    let (old, new) = (applying(before, pattern), applying(after, pattern));
    let kind = match (old.as_slice(), new.as_slice()) {
        ([], _) => ChangeKind::Added,
        (_, []) => ChangeKind::Removed,
        _ => ChangeKind::Changed,
    };
    let (old, new) = (of_operator(&old), of_operator(&new));
    let written = (old.fields(), new.fields());
    let changes = FIELDS.iter().filter_map(|field| written_field(field.key, &written.0, &written.1));
    let mut fields: Vec<FieldChange> = changes.collect();
    fields.extend(changed_needs(&old, &new));
    let is_same = kind == ChangeKind::Changed && fields.is_empty();
    (!is_same).then(|| ToolChange { tool: pattern.to_string(), kind, fields })
}

/// Merges contracts without anything that a server says.
pub(super) fn of_operator(contracts: &[&Arc<Contract>]) -> Effective {
    Effective::of(contracts, None, Hints::default())
}

/// Returns the contracts that apply to every tool of a pattern, the most specific first.
pub(super) fn applying<'a>(contracts: &'a Contracts, pattern: &ToolPattern) -> Vec<&'a Arc<Contract>> {
    if pattern.is_exact {
        return ToolName::of(&pattern.server, &pattern.prefix)
            .map_or_else(|_| Vec::new(), |name| contracts.matching(&name));
    }
    let is_wider = |other: &ToolPattern| {
        other.server == pattern.server && !other.is_exact && pattern.prefix.starts_with(&other.prefix)
    };
    let mut wider: Vec<_> = contracts.iter().filter(|(other, _)| is_wider(other)).collect();
    wider.sort_by_key(|(other, _)| std::cmp::Reverse(other.prefix.len()));
    wider.into_iter().map(|(_, contract)| contract).collect()
}

/// Compares a field as the operator wrote it. What follows from the risk level is left out, because the level is listed.
fn written_field(key: &'static str, old: &[ShownField<'_>], new: &[ShownField<'_>]) -> Option<FieldChange> {
    let find = |fields: &[ShownField<'_>]| {
        let field = fields.iter().find(|(field, _, source)| *field == key && source.is_operator());
        field.map(|(_, value, source)| (value.clone(), source.place()))
    };
    let (before, before_place) = find(old).unzip();
    let (after, after_place) = find(new).unzip();
    let place = after_place.or(before_place).flatten();
    (before != after).then_some(FieldChange { field: key, before, after, place })
}

/// Compares the tools of two catalogs: level, permissions and needs of each tool that both have. Sorted by name.
pub fn of_tools(before: &Catalog, after: &Catalog) -> Vec<ToolChange> {
    fn all(catalog: &Catalog) -> impl Iterator<Item = &Arc<Tool>> {
        catalog.tools().chain(catalog.forbidden())
    }
    let old: HashMap<&ToolName, &Arc<Tool>> = all(before).map(|tool| (&tool.name, tool)).collect();
    let mut changes: Vec<ToolChange> = all(after)
        .filter_map(|tool| {
            let fields = decisive(&old.get(&tool.name)?.contract, &tool.contract);
            let tool = tool.name.to_string();
            (!fields.is_empty()).then_some(ToolChange { tool, kind: ChangeKind::Changed, fields })
        })
        .collect();
    changes.sort_by(|a, b| a.tool.cmp(&b.tool));
    changes
}

/// Compares the fields that decide who may call a tool, and how.
fn decisive(old: &Effective, new: &Effective) -> Vec<FieldChange> {
    let risk = |effective: &Effective| effective.risk().map(|risk| Value::from(risk.as_str()));
    let permissions = |effective: &Effective| Some(effective.permissions.value.clone().into());
    let risk_place = |effective: &Effective| effective.risk.as_ref().and_then(|risk| risk.source.place());
    let permissions_place = |effective: &Effective| effective.permissions.source.place();
    let change = |field, before, after, place| (before != after).then_some(FieldChange { field, before, after, place });
    let changes = [
        change("riskLevel", risk(old), risk(new), risk_place(new).or_else(|| risk_place(old))),
        change(
            "permissions",
            permissions(old),
            permissions(new),
            permissions_place(new).or_else(|| permissions_place(old)),
        ),
        changed_needs(old, new),
    ];
    changes.into_iter().flatten().collect()
}

pub(super) fn changed_needs(old: &Effective, new: &Effective) -> Option<FieldChange> {
    let needs = |effective: &Effective| -> Option<Value> {
        // A forbidden tool is never called, so nothing leads to a call.
        let is_forbidden = effective.risk() == Some(RiskLevel::Forbidden);
        let needs = if is_forbidden { Vec::new() } else { effective.needs() };
        Some(needs.into_iter().map(Need::as_str).collect::<Vec<_>>().into())
    };
    let (before, after) = (needs(old), needs(new));
    (before != after).then(|| FieldChange { field: NEEDS, before, after, place: place_of_needs(old, new) })
}

/// Returns the place of the first field that changed the needs. A level decides on confirmation and step-up, so it comes
/// before the fields that may say the same.
fn place_of_needs(old: &Effective, new: &Effective) -> Option<(Arc<str>, usize)> {
    let sources = |one: &Effective| -> [Option<Source>; 5] {
        let risk = one.risk.as_ref().map(|risk| risk.source.clone());
        let others = [&one.step_up.source, &one.confirmation.source, &one.autonomous.source, &one.dry_run.source];
        let [step_up, confirmation, autonomous, dry_run] = others.map(|source| Some(source.clone()));
        [risk, step_up, confirmation, autonomous, dry_run]
    };
    let has_changed = [
        old.risk() != new.risk(),
        old.step_up.value != new.step_up.value,
        old.confirmation.value != new.confirmation.value,
        old.autonomous.value != new.autonomous.value,
        old.dry_run.value != new.dry_run.value,
    ];
    let place = |one: &Effective| {
        let mut changed = sources(one).into_iter().zip(has_changed).filter(|(_, has_changed)| *has_changed);
        changed.find_map(|(source, _)| source?.place())
    };
    place(new).or_else(|| place(old))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ServerName;
    use crate::catalog::{Offer, Offered};

    fn contracts(file: &str, text: &str) -> Contracts {
        Contracts::parse(&[(file.to_owned(), text.to_owned())]).unwrap()
    }

    fn told(changes: &[ToolChange]) -> Vec<String> {
        let told = |change: &ToolChange| {
            let fields: Vec<String> = change.fields.iter().map(FieldChange::words).collect();
            format!("{} {}: {}", change.tool, change.kind.as_str(), fields.join("; "))
        };
        changes.iter().map(told).collect()
    }

    #[test]
    fn files_are_compared_by_tool() {
        let check = |before: &str, after: &str, expected: &[&str]| {
            let changes = of_files(&contracts("a.yaml", before), &contracts("b.yaml", after));
            assert_eq!(told(&changes), expected, "{before} {after}");
        };
        let low = "tool: mail:send\nriskLevel: low\n";
        check(low, low, &[]);
        check(
            low,
            "tool: mail:send\ncategory: post\nriskLevel: critical\n",
            &["mail:send changed: category none → post (b.yaml:2); riskLevel low → critical (b.yaml:3); \
               needs none → confirmation, step_up (b.yaml:3)"],
        );
        check(low, "[]", &["mail:send removed: riskLevel low → none (a.yaml:2)"]);
        check("[]", low, &["mail:send added: riskLevel none → low (b.yaml:2)"]);
        check(
            "tool: mail:send\npermissions: [a:b, a:c]\nconfirmation: required\n",
            "tool: mail:send\npermissions: [a:b]\n",
            &["mail:send changed: confirmation required → none (a.yaml:3); permissions a:b, a:c → a:b (b.yaml:2); \
               needs confirmation → none (a.yaml:3)"],
        );
        // A pattern applies to the tool before and after.
        check(
            "tool: mail:*\nriskLevel: low\n",
            "- tool: mail:*\n  riskLevel: low\n- tool: mail:send\n  riskLevel: low\n",
            &[],
        );
        check(
            "tool: mail:*\nriskLevel: low\n",
            "tool: mail:*\nriskLevel: high\n",
            &["mail:* changed: riskLevel low → high (b.yaml:2); needs none → confirmation (b.yaml:2)"],
        );
        let long = format!("tool: mail:send\ninputSchema: {{ required: [\"{}\"] }}\n", "x".repeat(100));
        let changes = of_files(&contracts("a.yaml", "tool: mail:send\n"), &contracts("b.yaml", &long));
        assert!(told(&changes)[0].chars().count() < 150, "{changes:?}");
    }

    #[test]
    fn a_reload_names_the_tools_that_it_changed() {
        let server = ServerName::parse("fx").unwrap();
        let offered = |name: &str| {
            let json = format!(
                r#"{{"name":"{name}","inputSchema":{{}},"_meta":{{"mcp-first/contract":{{"riskLevel":"low"}}}}}}"#
            );
            Offered::parse(&server, &json)
        };
        let catalog = |text: &str| {
            let offers = [(server.clone(), Arc::new(Offer::new([offered("a"), offered("b"), offered("c")]).0))];
            let contracts = Arc::new(contracts("contracts/fx.yaml", text));
            Catalog::default().next(offers, &contracts, &Arc::default())
        };
        let before = catalog("- tool: fx:a\n  riskLevel: medium\n- tool: fx:c\n  description: x\n");
        let after = catalog(
            "- tool: fx:b\n  riskLevel: forbidden\n- tool: fx:c\n  description: y\n  permissions: [a:b]\n  dryRun: required\n",
        );
        assert_eq!(
            told(&of_tools(&before, &after)),
            [
                "fx:a changed: riskLevel medium → low (contracts/fx.yaml:2)",
                "fx:b changed: riskLevel low → forbidden (contracts/fx.yaml:2)",
                "fx:c changed: permissions none → a:b (contracts/fx.yaml:5); needs none → dry_run (contracts/fx.yaml:6)",
            ]
        );
        assert_eq!(of_tools(&before, &before), []);
    }
}
