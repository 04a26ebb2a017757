//! Tells in a record which tools a reload changed: level, permissions and needs, before and after, with file and line.

use std::sync::Arc;

use mcpproxy_core::decision::needs_under;
use mcpproxy_core::review::diff::{ChangeKind, FieldChange, ToolChange, of_tools};
use serde_json::{Map, Value, json};

use crate::snapshot::Snapshot;

/// Tools in the metadata of a record. The rest is counted.
const RECORDED_MAX: usize = 200;
/// Tools in the message of a record, which people read in one line.
const TOLD_MAX: usize = 3;

/// The field of a change that contracts and settings decide together.
const NEEDS: &str = "needs";

/// Lists the tools that new contracts or a new `contracts.unclassified` changed, sorted by name.
pub(crate) fn of_snapshots(before: &Snapshot, after: &Snapshot) -> Vec<ToolChange> {
    let mut changes = if Arc::ptr_eq(&before.contracts, &after.contracts) {
        Vec::new()
    } else {
        of_tools(&before.catalog, &after.catalog)
    };
    let (was, is) = (before.settings.contracts, after.settings.contracts);
    if was == is {
        return changes;
    }
    let mut more = Vec::new();
    for tool in after.catalog.tools() {
        let Some(old) = before.catalog.resolve(&tool.name) else { continue };
        let (needed, needs) = (needs_under(was, old), needs_under(is, tool));
        let by_setting = (needed != needs).then(|| FieldChange {
            field: NEEDS,
            before: Some(needed.into()),
            after: Some(needs.into()),
            place: None,
        });
        let name = tool.name.to_string();
        let known = changes.binary_search_by(|change| change.tool.cmp(&name)).ok();
        match (known.and_then(|index| changes.get_mut(index)), by_setting) {
            (Some(change), by_setting) => {
                change.fields.retain(|field| field.field != NEEDS);
                change.fields.extend(by_setting);
            }
            (None, Some(field)) => {
                more.push(ToolChange { tool: name, kind: ChangeKind::Changed, fields: vec![field] });
            }
            (None, None) => {}
        }
    }
    changes.extend(more);
    changes.retain(|change| !change.fields.is_empty());
    changes.sort_by(|a, b| a.tool.cmp(&b.tool));
    changes
}

/// The changes of a reload.
pub(crate) struct Reload {
    /// The parts that changed, such as `added time; contracts`.
    pub(crate) summary: String,
    pub(crate) tools: Vec<ToolChange>,
    /// The user who confirmed changes that weaken contracts or policies.
    pub(crate) confirmed_by: Option<String>,
    /// The published version that the files are of.
    pub(crate) version: Option<i64>,
}

impl Reload {
    /// Words the changes: `reloaded: contracts; demo:send: riskLevel low → high (contracts/demo.yaml:3)`.
    pub(crate) fn message(&self) -> String {
        let told = self.tools.iter().take(TOLD_MAX).map(|change| {
            let fields: Vec<String> = change.fields.iter().map(FieldChange::words).collect();
            format!("; {}: {}", change.tool, fields.join(", "))
        });
        let mut text = format!("reloaded: {}", self.summary);
        if let Some(version) = self.version {
            text.push_str(&format!("; version {version}"));
        }
        if let Some(user) = &self.confirmed_by {
            text.push_str(&format!("; confirmed by {user}"));
        }
        text.extend(told);
        let more = self.tools.len().saturating_sub(TOLD_MAX);
        if more > 0 {
            text.push_str(&format!("; {more} more tools changed"));
        }
        text
    }

    /// Lists the changes as JSON: `tools_changed`, and `tools_changed_left_out` if there are too many for one record.
    pub(crate) fn metadata(&self) -> String {
        let mut metadata = Map::new();
        if let Some(user) = &self.confirmed_by {
            metadata.insert("confirmed_by".to_owned(), user.as_str().into());
        }
        if let Some(version) = self.version {
            metadata.insert("version".to_owned(), version.into());
        }
        if self.tools.is_empty() {
            return Value::Object(metadata).to_string();
        }
        let recorded = self.tools.iter().take(RECORDED_MAX).map(|change| {
            let fields = change.fields.iter().map(FieldChange::to_json).collect::<Vec<_>>();
            json!({ "tool": change.tool, "changes": fields })
        });
        metadata.insert("tools_changed".to_owned(), recorded.collect());
        let left_out = self.tools.len().saturating_sub(RECORDED_MAX);
        if left_out > 0 {
            metadata.insert("tools_changed_left_out".to_owned(), left_out.into());
        }
        Value::Object(metadata).to_string()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn change(tool: &str) -> ToolChange {
        let place = Some(("contracts/fx.yaml".into(), 2));
        let (before, after) = (Some("low".into()), Some("high".into()));
        let fields = vec![FieldChange { field: "riskLevel", before, after, place }];
        ToolChange { tool: tool.to_owned(), kind: ChangeKind::Changed, fields }
    }

    #[test]
    fn a_record_names_tools_and_counts_the_rest() {
        let reload = |count: usize| {
            let tools = (0..count).map(|number| change(&format!("fx:{number}"))).collect();
            Reload { summary: "contracts".to_owned(), tools, confirmed_by: None, version: None }
        };
        let none = reload(0);
        assert_eq!((none.message().as_str(), none.metadata().as_str()), ("reloaded: contracts", "{}"));
        let one = reload(1);
        assert_eq!(one.message(), "reloaded: contracts; fx:0: riskLevel low → high (contracts/fx.yaml:2)");
        assert_eq!(
            one.metadata(),
            r#"{"tools_changed":[{"tool":"fx:0","changes":[{"field":"riskLevel","before":"low","after":"high","file":"contracts/fx.yaml","line":2}]}]}"#
        );
        let confirmed = Reload { confirmed_by: Some("anna".to_owned()), ..reload(0) };
        assert_eq!(confirmed.message(), "reloaded: contracts; confirmed by anna");
        assert_eq!(confirmed.metadata(), r#"{"confirmed_by":"anna"}"#);
        let published = Reload { version: Some(7), confirmed_by: Some("anna".to_owned()), ..reload(0) };
        assert_eq!(published.message(), "reloaded: contracts; version 7; confirmed by anna");
        assert_eq!(published.metadata(), r#"{"confirmed_by":"anna","version":7}"#);
        let many = reload(250);
        assert!(many.message().ends_with("; 247 more tools changed"), "{}", many.message());
        assert!(many.metadata().ends_with("\"tools_changed_left_out\":50}"));
    }
}
