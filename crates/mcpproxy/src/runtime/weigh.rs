//! Decides which part of changed files takes effect at once, and which part waits for a user.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use mcpproxy_core::review::weakening::{Rules, TooMany, TrustRules, Weaker};
use mcpproxy_core::settings::{ApprovalSettings, Settings, Weakening};
use mcpproxy_core::{Offered, ServerName, ToolName};
use mcpproxy_gateway::{Files, HeldChanges, ToolLists};

/// Tools to remember of one server. A server lists at most as many.
const KNOWN_MAX: usize = 10_000;

/// The part of new files to enforce now, and what waits.
pub(super) struct Weighed {
    pub(super) files: Files,
    pub(super) held: Option<HeldChanges>,
}

/// Compares new files with those in force. The setting in force decides, so that a reload cannot turn the check off.
pub(super) fn weigh(
    in_force: &Files,
    wanted: &Files,
    digest: String,
    tools: &[Arc<Offered>],
) -> Result<Weighed, TooMany> {
    let all = || Weighed { files: wanted.clone(), held: None };
    match in_force.settings.contracts.weakening {
        Weakening::Apply => return Ok(all()),
        Weakening::Confirm => {}
    }
    let (old, new) = (rules(in_force), rules(wanted));
    let weaker = Weaker::between(&old, &new, tools);
    if weaker.is_empty() {
        return Ok(all());
    }
    let Rules { contracts, policies, settings, intent, channels, trust, people } = new.without(&weaker, &old, tools)?;
    let settings = if weaker.settings.is_empty() {
        Arc::clone(&wanted.settings)
    } else {
        let wanted = Settings::clone(&wanted.settings);
        let approvals = ApprovalSettings { channels, ..wanted.approvals };
        let mut held = Settings { contracts: settings, intent, approvals, people, ..wanted };
        trust.apply_to(&mut held);
        Arc::new(held)
    };
    Ok(Weighed { files: Files { settings, contracts, policies }, held: Some(HeldChanges { digest, weaker }) })
}

/// The tools that servers listed last, also those of servers that are disabled, removed or not connected now. Otherwise
/// an agent with a shell could disable a server, weaken the contracts of its tools, and enable it again.
#[derive(Clone)]
pub(crate) struct KnownTools {
    /// The lists of earlier runs.
    lists: ToolLists,
    by_server: Arc<BTreeMap<ServerName, Vec<Arc<Offered>>>>,
}

impl KnownTools {
    pub(super) fn new(lists: ToolLists) -> Self {
        Self { lists, by_server: Arc::default() }
    }

    /// Takes the tools that servers list `now`, and keeps those that they listed before.
    pub(super) fn update(&mut self, now: Vec<Arc<Offered>>, settings: &Settings) {
        let mut by_server: BTreeMap<ServerName, Vec<Arc<Offered>>> = BTreeMap::new();
        for tool in now {
            by_server.entry(tool.name.server().clone()).or_default().push(tool);
        }
        for (server, before) in self.by_server.iter() {
            let tools = by_server.entry(server.clone()).or_default();
            let listed: HashSet<ToolName> = tools.iter().map(|tool| tool.name.clone()).collect();
            let room = KNOWN_MAX.saturating_sub(tools.len());
            tools.extend(before.iter().filter(|tool| !listed.contains(&tool.name)).take(room).cloned());
        }
        for server in &settings.servers {
            by_server.entry(server.name.clone()).or_insert_with(|| match self.lists.load(&server.name) {
                Some(offer) => offer.tools().cloned().collect(),
                None => Vec::new(),
            });
        }
        self.by_server = Arc::new(by_server);
    }

    pub(super) fn all(&self) -> Vec<Arc<Offered>> {
        self.by_server.values().flatten().cloned().collect()
    }
}

pub(super) fn rules(files: &Files) -> Rules {
    Rules {
        contracts: Arc::clone(&files.contracts),
        policies: Arc::clone(&files.policies),
        settings: files.settings.contracts,
        intent: files.settings.intent.clone(),
        channels: files.settings.approvals.channels,
        trust: TrustRules::of(&files.settings),
        people: files.settings.people.clone(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_stay_known_while_their_server_is_disabled() {
        let folder = tempfile::tempdir().unwrap();
        let server = ServerName::parse("fx").unwrap();
        let tool = |name: &str| {
            let json = format!(r#"{{"name":"{name}","inputSchema":{{}}}}"#);
            Arc::new(Offered::parse(&server, &json).unwrap())
        };
        let mut known = KnownTools::new(ToolLists::new(folder.path()));
        let mut check = |now: &[&str], expected: &[&str]| {
            known.update(now.iter().map(|name| tool(name)).collect(), &Settings::default());
            let all = known.all();
            let names: Vec<&str> = all.iter().map(|tool| tool.name.tool()).collect();
            assert_eq!(names, expected);
        };
        check(&[], &[]);
        check(&["pay", "list"], &["pay", "list"]);
        check(&[], &["pay", "list"]);
        check(&["list"], &["list", "pay"]);
    }
}
