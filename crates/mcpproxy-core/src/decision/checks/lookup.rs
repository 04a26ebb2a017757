//! The refusal for a tool that does not exist, with similar names.

use crate::catalog::{Catalog, Quarantined};
use crate::denial::{Denial, Missing};
use crate::nearest::closest;
use crate::{Agent, ToolName};

/// Limit of similar tools that a refusal names.
const SUGGESTIONS_MAX: usize = 3;

/// Words the refusal for a tool that is not in the catalog.
///
/// A quarantined tool does not exist for an agent, unless the agent may have seen it before its definition changed.
pub(super) fn missing(name: ToolName, agent: &Agent, catalog: &Catalog, session_began_ms: Option<i64>) -> Denial {
    let quarantined = catalog.quarantined(&name).filter(|_| agent.scope.sees(name.server()));
    let was_seen = |one: &Quarantined| one.was_shown && session_began_ms.is_none_or(|began| began < one.since_ms);
    match quarantined.filter(was_seen) {
        Some(_) => Denial::Quarantined { name },
        None => no_such_tool(name, agent, catalog),
    }
}

/// It suggests only tools that the agent may see.
fn no_such_tool(name: ToolName, agent: &Agent, catalog: &Catalog) -> Denial {
    let has_server = agent.scope.sees(name.server()) && catalog.has_server(name.server());
    let missing = if has_server { Missing::Tool } else { Missing::Server };
    let suggestions = suggestions(&name, catalog.visible(&agent.scope).map(|tool| &tool.name));
    Denial::NoSuchTool { name, missing, suggestions }
}

/// Lists tools of the same name on other servers first, then similar names.
fn suggestions<'t>(wanted: &ToolName, visible: impl Iterator<Item = &'t ToolName>) -> Vec<String> {
    let (mut found, others): (Vec<&ToolName>, Vec<&ToolName>) = visible.partition(|name| name.tool() == wanted.tool());
    if found.len() < SUGGESTIONS_MAX {
        // Character by character, so that comparing ten thousand names allocates none of them.
        let letters = |name: &'t ToolName| name.server().as_str().chars().chain([':']).chain(name.tool().chars());
        found.extend(closest(&wanted.to_string(), others, letters, SUGGESTIONS_MAX));
    }
    found.into_iter().take(SUGGESTIONS_MAX).map(ToString::to_string).collect()
}
