//! Counts the tools of each server that an operator should know about.

use std::collections::BTreeMap;

use mcpproxy_core::decision::{may_be_read_on_trust, may_run_unasked};
use mcpproxy_core::{ServerName, Variant};

use crate::snapshot::Snapshot;

/// The tools of one server that need attention.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct ToolCounts {
    pub(super) destructive: usize,
    /// Destructive tools of which some call runs without an approval, although the operator has not chosen that.
    pub(super) unasked: usize,
    /// Tools that an agent may call as reads, although nothing says that they only read.
    pub(super) unannotated: usize,
}

impl ToolCounts {
    /// Counts in one pass over the catalog. A server without tools has no row.
    pub(super) fn of(snapshot: &Snapshot) -> BTreeMap<&ServerName, Self> {
        let mut counts: BTreeMap<&ServerName, Self> = BTreeMap::new();
        for tool in snapshot.catalog.tools() {
            let count = counts.entry(tool.name.server()).or_default();
            if tool.call_with() == Variant::Destructive {
                count.destructive += 1;
                count.unasked += usize::from(may_run_unasked(&snapshot.settings.contracts, tool));
            }
            count.unannotated += usize::from(may_be_read_on_trust(&snapshot.settings.intent, tool));
        }
        counts
    }
}
