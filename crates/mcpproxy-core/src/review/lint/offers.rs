//! Indexes all tools by server and name, because comparing thousands of tools with thousands of contracts is slow.

use std::collections::HashMap;

use crate::ServerName;
use crate::catalog::Offered;
use crate::contract::ToolPattern;

pub(super) struct Offers<'a> {
    all: &'a [&'a Offered],
    /// The tools of each server, sorted by name, as indexes into `all`.
    by_server: HashMap<&'a ServerName, Vec<(&'a str, usize)>>,
}

impl<'a> Offers<'a> {
    pub(super) fn new(all: &'a [&'a Offered]) -> Self {
        let mut by_server: HashMap<&ServerName, Vec<(&str, usize)>> = HashMap::new();
        for (position, offered) in all.iter().enumerate() {
            by_server.entry(offered.name.server()).or_default().push((offered.name.tool(), position));
        }
        by_server.values_mut().for_each(|tools| tools.sort_unstable());
        Self { all, by_server }
    }

    /// Returns the tools that a contract is for, in the order of `all`.
    pub(super) fn matching(&self, pattern: &ToolPattern) -> Vec<&'a Offered> {
        let prefix = pattern.prefix.as_str();
        let tools = self.of(&pattern.server);
        let rest = tools.get(tools.partition_point(|(name, _)| *name < prefix)..).unwrap_or_default();
        // Names with a common prefix are adjacent, the shortest first.
        let end =
            rest.partition_point(|(name, _)| if pattern.is_exact { *name == prefix } else { name.starts_with(prefix) });
        let mut positions: Vec<usize> = rest.iter().take(end).map(|(_, position)| *position).collect();
        positions.sort_unstable();
        positions.into_iter().filter_map(|position| self.all.get(position).copied()).collect()
    }

    pub(super) fn names(&self, server: &ServerName) -> impl Iterator<Item = &'a str> {
        self.of(server).iter().map(|(name, _)| *name)
    }

    fn of(&self, server: &ServerName) -> &[(&'a str, usize)] {
        self.by_server.get(server).map(Vec::as_slice).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_same_as_looking_at_each() {
        let names =
            ["fx:mail.send", "fx:mail", "fx:a", "other:mail", "fx:mail.", "fx:mai", "fx:mail-", "fx:mail.send2"];
        let tools: Vec<Offered> = names
            .iter()
            .map(|name| {
                let (server, tool) = name.split_once(':').unwrap();
                let json = format!("{{\"name\":\"{tool}\",\"inputSchema\":{{}}}}");
                Offered::parse(&ServerName::parse(server).unwrap(), &json).unwrap()
            })
            .collect();
        let all: Vec<&Offered> = tools.iter().collect();
        let offers = Offers::new(&all);
        for text in ["fx:*", "fx:mail*", "fx:mail", "fx:mail.*", "fx:z*", "fx:b", "other:*", "third:*", "fx:mail.send"]
        {
            let pattern = ToolPattern::parse(text).unwrap();
            let each: Vec<_> = all.iter().map(|tool| &tool.name).filter(|name| pattern.matches(name)).collect();
            let found: Vec<_> = offers.matching(&pattern).into_iter().map(|tool| &tool.name).collect();
            assert_eq!(found, each, "{text}");
        }
    }
}
