//! The refusal for a tool that does not exist, with similar names.

use crate::catalog::Catalog;
use crate::denial::{Denial, Missing};
use crate::nearest::closest;
use crate::{Agent, ToolName};

/// Limit of similar tools that a refusal names.
const SUGGESTIONS_MAX: usize = 3;

/// Words the refusal. It suggests only tools that the agent may see.
pub(super) fn no_such_tool(name: ToolName, agent: &Agent, catalog: &Catalog) -> Denial {
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
