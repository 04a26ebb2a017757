//! `include_tools` and `exclude_tools`: the tools of a server that agents may see at all.

use crate::file::Fields;
use crate::settings::read::Reader;

/// The tools of one server that the gateway offers, by their names at the server. By default, all of them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ToolFilter {
    pub include: Option<Vec<String>>,
    pub exclude: Vec<String>,
}

impl ToolFilter {
    /// Returns why a tool is left out, or `None` if it is offered. `exclude_tools` wins, as in Gemini CLI.
    pub fn left_out(&self, tool: &str) -> Option<&'static str> {
        if self.exclude.iter().any(|name| name == tool) {
            return Some("left out by `exclude_tools` in the settings");
        }
        let is_included = self.include.as_ref().is_none_or(|names| names.iter().any(|name| name == tool));
        (!is_included).then_some("not in `include_tools` in the settings")
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> ToolFilter {
    let mut names = |key: &str| {
        let nodes = reader.array(&fields.find(key)?.node)?;
        Some(nodes.iter().filter_map(|node| reader.string(node)).map(str::to_owned).collect::<Vec<_>>())
    };
    let include = names("include_tools");
    ToolFilter { include, exclude: names("exclude_tools").unwrap_or_default() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tools_that_are_left_out() {
        let names = |names: &[&str]| names.iter().map(|name| (*name).to_owned()).collect::<Vec<_>>();
        let offered = |filter: &ToolFilter| {
            ["read", "write"].into_iter().filter(|tool| filter.left_out(tool).is_none()).collect::<Vec<_>>()
        };
        let filter = |include: Option<&[&str]>, exclude: &[&str]| ToolFilter {
            include: include.map(names),
            exclude: names(exclude),
        };
        assert_eq!(offered(&ToolFilter::default()), ["read", "write"]);
        assert_eq!(offered(&filter(Some(&["read"]), &[])), ["read"]);
        assert_eq!(offered(&filter(None, &["write"])), ["read"]);
        assert_eq!(offered(&filter(Some(&["read", "write"]), &["read"])), ["write"]);
        assert!(offered(&filter(Some(&[]), &[])).is_empty());
    }
}
