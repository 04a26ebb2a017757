//! The names of the other servers and of their tools, to find text and names that reach across servers.

use std::collections::{HashMap, HashSet};

use super::fold::look_alike;

/// The other servers that agents reach beside the scanned one. [`Neighbours::default`] knows none.
#[derive(Clone, Debug, Default)]
pub struct Neighbours {
    servers: HashSet<String>,
    /// Names of tools in lower case.
    tools: HashSet<String>,
    /// The tool as its server wrote it, by its skeleton.
    skeletons: HashMap<String, String>,
}

/// How a name relates to a tool of another server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Likeness {
    Same,
    LooksAlike,
}

impl Neighbours {
    /// Takes the name of each other server with the names of its tools.
    pub fn new<'a>(servers: impl IntoIterator<Item = (&'a str, impl IntoIterator<Item = &'a str>)>) -> Self {
        let mut all = Self::default();
        for (server, tools) in servers {
            all.servers.insert(server.to_lowercase());
            for tool in tools {
                all.tools.insert(tool.to_lowercase());
                all.skeletons.entry(skeleton(tool)).or_insert_with(|| tool.to_owned());
            }
        }
        all
    }

    /// Returns whether a word of a text names a tool or server. Plain words such as `search` count only as code.
    pub(super) fn mentions(&self, name: &str, is_code: bool) -> bool {
        if self.tools.is_empty() && self.servers.is_empty() {
            return false;
        }
        let is_distinct = is_code || name.contains(['_', '-', ':']);
        let tool = name.rsplit(':').next().unwrap_or(name);
        is_distinct && (self.tools.contains(tool) || self.servers.contains(name))
    }

    /// Returns the tool of another server whose name is the same or looks the same.
    pub(super) fn resembling(&self, name: &str) -> Option<(Likeness, &str)> {
        let tool = self.skeletons.get(&skeleton(name)).map(String::as_str);
        if self.tools.contains(&name.to_lowercase()) {
            return Some((Likeness::Same, tool.unwrap_or_default()));
        }
        let near =
            || self.skeletons.iter().find(|(other, _)| is_one_edit(&skeleton(name), other)).map(|(_, tool)| tool);
        tool.or_else(|| near().map(String::as_str)).map(|tool| (Likeness::LooksAlike, tool))
    }
}

/// Returns whether two different names look the same.
pub(super) fn looks_like(name: &str, other: &str) -> bool {
    let (a, b) = (skeleton(name), skeleton(other));
    a == b || is_one_edit(&a, &b)
}

/// Reduces a name to its look: look-alike letters and digits become one letter, and separators disappear.
pub(super) fn skeleton(name: &str) -> String {
    let mut out = String::with_capacity(name.len());
    for c in name.chars() {
        match c {
            '_' | '-' | '.' | ' ' | '/' => {}
            '0' => out.push('o'),
            '1' | '|' | 'I' | 'i' | 'l' | 'L' => out.push('l'),
            '3' => out.push('e'),
            '5' => out.push('s'),
            c if c.is_ascii() => out.push(c.to_ascii_lowercase()),
            // Full-width and mathematical letters have an ASCII compatibility form.
            c => match look_alike(c) {
                Some('i') => out.push('l'),
                Some(latin) => out.push(latin),
                None => unicode_normalization::char::decompose_compatible(c, |part| {
                    if part.is_alphanumeric() {
                        out.extend(if part == 'i' { 'l' } else { part }.to_lowercase());
                    }
                }),
            },
        }
    }
    out.replace("rn", "m").replace("vv", "w")
}

/// Returns whether one letter was added, removed, changed, or exchanged with its neighbour. Short names differ by one
/// letter too often.
fn is_one_edit(a: &str, b: &str) -> bool {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len().min(b.len()) < 8 || a.len().abs_diff(b.len()) > 1 {
        return false;
    }
    let prefix = a.iter().zip(b).take_while(|(a, b)| a == b).count();
    let suffix = a.iter().rev().zip(b.iter().rev()).take_while(|(a, b)| a == b).count();
    let longer = a.len().max(b.len());
    let middle = longer.saturating_sub(prefix + suffix);
    let is_swap =
        middle == 2 && a.len() == b.len() && a.get(prefix) == b.get(prefix + 1) && a.get(prefix + 1) == b.get(prefix);
    // A plural or a number is another tool, not a look-alike.
    let is_ending = suffix == 0 && middle == 1;
    (middle <= 1 && !is_ending) || is_swap
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skeletons_of_names_that_look_alike_are_equal() {
        for (a, b) in [("read_file", "read-fi1e"), ("get_weather", "get_vveather"), ("send", "ѕеnd"), ("hset", "hｓet")]
        {
            assert_eq!(skeleton(a), skeleton(b), "{a} {b}");
        }
        assert_ne!(skeleton("read_file"), skeleton("read_files"));
    }

    #[test]
    fn plain_words_are_mentions_only_as_code() {
        let neighbours = Neighbours::new([("slack", ["post_message", "search"])]);
        assert!(neighbours.mentions("post_message", false));
        assert!(neighbours.mentions("slack:post_message", false));
        assert!(neighbours.mentions("search", true));
        assert!(!neighbours.mentions("search", false));
        assert!(!Neighbours::default().mentions("post_message", true));
    }
}
