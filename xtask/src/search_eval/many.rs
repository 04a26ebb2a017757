//! Generates servers with any number of tools: real ones first, then new ones made of their words.

use std::collections::HashSet;
use std::path::Path;

use mcpproxy_core::{ServerName, TOOL_NAME_MAX_CHARS};
use serde_json::{Map, Value, json};

use super::names;
use super::sets::{BESIDE, MEASURED, Tools};

/// Sets with real servers. The others have one server with thousands of tools, which is unrealistic.
const TOOLS_OF_A_SERVER_MAX: usize = 60;

/// Distance in the list between the two real servers that a generated one is built from.
const STRIDE: usize = 37;

pub(super) type Listed = (ServerName, Vec<Map<String, Value>>);

/// Returns servers with this many tools in total. The result is always the same.
pub(super) fn servers(root: &Path, tools: usize) -> anyhow::Result<Vec<Listed>> {
    let mut taken = HashSet::new();
    let mut real = Vec::new();
    for set in MEASURED.into_iter().chain([BESIDE]) {
        for (server, tools) in Tools::read(root, set)?.listed {
            for tools in tools.chunks(TOOLS_OF_A_SERVER_MAX) {
                real.push((free(&mut taken, server.as_str())?, tools.to_vec()));
            }
        }
    }
    // Small catalogs contain tools of every set, too.
    real.sort_by_cached_key(|(server, _)| hash(server.as_str()));
    let mut all = Vec::new();
    let mut left = tools;
    for round in 0.. {
        for (at, own) in real.iter().enumerate() {
            if left == 0 || real.is_empty() {
                return Ok(all);
            }
            let partner = real.get((at + round * STRIDE) % real.len()).unwrap_or(own);
            let (server, mut tools) = if round == 0 { own.clone() } else { mixed(&mut taken, own, partner, round)? };
            tools.truncate(left);
            left -= tools.len();
            all.push((server, tools));
        }
    }
    Ok(all)
}

/// Mixes two servers: most words come from the first, the parameters from the second.
fn mixed(taken: &mut HashSet<ServerName>, own: &Listed, other: &Listed, round: usize) -> anyhow::Result<Listed> {
    let server = free(taken, &format!("{}-{}", half(own.0.as_str(), Half::First), half(other.0.as_str(), Half::Last)))?;
    let mut given = names::Given::default();
    let mut tools = Vec::new();
    for (tool, partner) in own.1.iter().zip(other.1.iter().cycle()) {
        let text = |tool: &Map<String, Value>, field: &str| {
            tool.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let (name, partners_name) = (text(tool, "name"), text(partner, "name"));
        let mut name = format!("{}_{}", half(&name, Half::First), half(&partners_name, Half::Last));
        name.truncate(TOOL_NAME_MAX_CHARS / 2);
        let (name, _) = given.tool(&server, &name)?;
        let description = turned(&text(tool, "description"), &text(partner, "description"), round);
        let mut made = Map::new();
        made.insert("name".to_owned(), json!(name.tool()));
        made.insert("description".to_owned(), json!(description));
        made.insert("inputSchema".to_owned(), partner.get("inputSchema").cloned().unwrap_or_else(|| json!({})));
        tools.push(made);
    }
    Ok((server, tools))
}

/// Replaces every third word by one of the other text, starting elsewhere each round.
fn turned(own: &str, other: &str, round: usize) -> String {
    let mut others = other.split_whitespace().skip(round % 7);
    let words = own.split_whitespace().enumerate().map(|(at, word)| match others.next() {
        Some(other) if at % 3 == round % 3 => other,
        _ => word,
    });
    words.collect::<Vec<_>>().join(" ")
}

#[derive(Clone, Copy, PartialEq)]
enum Half {
    First,
    Last,
}

/// Returns half of the words of a name. A single word is returned whole.
fn half(name: &str, which: Half) -> String {
    let words: Vec<&str> = name.split(['_', '-', '.']).filter(|word| !word.is_empty()).collect();
    let middle = words.len().div_ceil(2);
    let kept = match which {
        Half::First => words.get(..middle),
        Half::Last => words.get(words.len() - middle..),
    };
    kept.unwrap_or_default().join("_")
}

/// Returns the name, with a number appended if it is taken.
fn free(taken: &mut HashSet<ServerName>, name: &str) -> anyhow::Result<ServerName> {
    // Room for the number.
    let name: String = name.chars().take(54).collect();
    for number in 1..100_000 {
        let tried = names::server(&if number == 1 { name.clone() } else { format!("{name}-{number}") })?;
        if taken.insert(tried.clone()) {
            return Ok(tried);
        }
    }
    anyhow::bail!("no name is left for another `{name}`")
}

/// Computes FNV-1a, for an arbitrary but fixed order.
fn hash(text: &str) -> u64 {
    text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn there_are_as_many_tools_as_wanted() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).parent().unwrap();
        let all = servers(root, 14_000).unwrap();
        assert_eq!(all.iter().map(|(_, tools)| tools.len()).sum::<usize>(), 14_000);
        assert!(all.iter().all(|(_, tools)| (1..=TOOLS_OF_A_SERVER_MAX).contains(&tools.len())));
        assert_eq!(all.iter().map(|(server, _)| server).collect::<HashSet<_>>().len(), all.len());
        // Generated servers must be accepted like real ones.
        for (server, tools) in all.iter().rev().take(20) {
            crate::search_eval::sets::offer(server, tools).unwrap();
        }
    }

    #[test]
    fn new_servers_are_made_of_the_words_of_real_ones() {
        let server = |name: &str, tools: &[(&str, &str)]| {
            let tool = |(name, description): &(&str, &str)| {
                let tool = json!({"name": name, "description": description, "inputSchema": {"title": name}});
                tool.as_object().unwrap().clone()
            };
            (ServerName::parse(name).unwrap(), tools.iter().map(tool).collect::<Vec<_>>())
        };
        let own = server("git-hub", &[("list_issues", "Lists all issues of a repository"), ("list-all", "All")]);
        let other = server("mail", &[("sendMail", "Sends a mail to many people at once")]);
        let mut taken = HashSet::from([ServerName::parse("git-mail").unwrap()]);
        let (name, tools) = mixed(&mut taken, &own, &other, 1).unwrap();
        assert_eq!(name.as_str(), "git-mail-2");
        assert_eq!(
            json!(tools),
            json!([
                {"name": "list_sendMail", "description": "Lists mail issues of people repository", "inputSchema": {"title": "sendMail"}},
                {"name": "list_sendMail_", "description": "All", "inputSchema": {"title": "sendMail"}},
            ])
        );
    }
}
