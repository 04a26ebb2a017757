//! Turns the names of evaluation sets into valid tool and server names with the same words.

use std::collections::HashSet;

use mcpproxy_core::{SERVER_NAME_MAX_CHARS, ServerName, TOOL_NAME_MAX_CHARS, ToolName};

/// The names in use, so that each is unique.
#[derive(Debug, Default)]
pub(super) struct Given(HashSet<ToolName>);

impl Given {
    /// Returns a unique tool name, and `true` if words were lost. A duplicate gets an underscore, which the search
    /// ignores.
    pub(super) fn tool(&mut self, server: &ServerName, name: &str) -> anyhow::Result<(ToolName, bool)> {
        let mut valid = joined(name, |c| c.is_ascii_alphanumeric() || matches!(c, '_' | '.' | '-'), '_');
        if valid.is_empty() {
            valid.push('_');
        }
        let has_lost = name.chars().any(|c| c.is_alphanumeric() && !c.is_ascii());
        while valid.len() <= TOOL_NAME_MAX_CHARS {
            let tool = ToolName::of(server, &valid)?;
            if self.0.insert(tool.clone()) {
                return Ok((tool, has_lost));
            }
            valid.push('_');
        }
        anyhow::bail!("too many tools of `{server}` have the same name")
    }
}

/// Returns the server name in lower case, with one mark between words.
pub(super) fn server(name: &str) -> anyhow::Result<ServerName> {
    let mut valid = joined(&name.to_lowercase(), |c| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '_', '-');
    while valid.contains("__") {
        valid = valid.replace("__", "_");
    }
    let mut valid = valid.trim_matches(['_', '-']).to_owned();
    valid.truncate(SERVER_NAME_MAX_CHARS);
    let valid = valid.trim_end_matches('_');
    Ok(ServerName::parse(if valid.is_empty() { "server" } else { valid })?)
}

/// Replaces every run of other characters by one mark, and removes them at both ends.
fn joined(name: &str, is_kept: impl Fn(char) -> bool, mark: char) -> String {
    let mut out = String::new();
    let mut is_apart = false;
    for c in name.chars() {
        if !is_kept(c) {
            is_apart = true;
            continue;
        }
        if is_apart && !out.is_empty() {
            out.push(mark);
        }
        is_apart = false;
        out.push(c);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn servers_keep_their_words() {
        let check = |name: &str, expected: &str| assert_eq!(server(name).unwrap().as_str(), expected, "{name}");
        check("github", "github");
        check("12306-mcp", "12306-mcp");
        check("Ant Design Components", "ant-design-components");
        check("a__b_", "a_b");
        check("_-x-_", "x");
        check("长亭", "server");
        check(&"ab_".repeat(40), "ab_".repeat(21).trim_end_matches('_'));
    }

    #[test]
    fn tools_keep_their_words_and_are_told_apart() {
        let mut given = Given::default();
        let server = ServerName::parse("s").unwrap();
        let mut check = |name: &str, expected: &str, has_lost: bool| {
            assert_eq!(given.tool(&server, name).unwrap(), (ToolName::parse(expected).unwrap(), has_lost), "{name}");
        };
        check("AclApi.add_mapping", "s:AclApi.add_mapping", false);
        check("AclApi.add_mapping", "s:AclApi.add_mapping_", false);
        check("AclApi.add_mapping", "s:AclApi.add_mapping__", false);
        check("PDF&URLTool", "s:PDF_URLTool", false);
        check("requestFirst Aid Assistance", "s:requestFirst_Aid_Assistance", false);
        check("!export-data", "s:export-data", false);
        check("长亭 IP 情报查询", "s:IP", true);
        check("情报", "s:_", true);
        check("查询", "s:__", true);
        let long = "a".repeat(TOOL_NAME_MAX_CHARS + 1);
        assert!(given.tool(&server, &long).is_err());
    }
}
