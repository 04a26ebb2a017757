//! The hash of a definition: equal for two texts that mean the same to a model and to the gateway.
//!
//! Equal are texts that differ in the order of keys, in white space between values, and in white space inside of
//! titles and descriptions. `_meta` counts only with what the gateway or a client acts on, and icons only with their
//! addresses. All other members count, also those that no revision of the protocol knows: agents get the server's own JSON, so a model may
//! read them.

use std::fmt;

use serde_json::value::RawValue;

use super::DefinitionKind;
use crate::Digest;
use crate::contract::META_KEY;
use crate::json::{SERVER_DEPTH_MAX, canonical, member, members, quote, string_value};

/// The version of the formula. Pins of another formula are computed again from the stored text, so a new formula
/// reports no change by itself.
pub const FORMULA: u16 = 1;

/// The hash of a definition, by [`FORMULA`].
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Pin(Digest);

impl Pin {
    /// Hashes the server's own JSON of a definition.
    pub fn of(kind: DefinitionKind, json: &str) -> Self {
        let mut text = String::with_capacity(json.len() + 32);
        text.push_str(kind.as_str());
        text.push('\n');
        let reduced = match kind {
            DefinitionKind::Instructions => {
                string_value(json).map_or_else(|| json.to_owned(), |text| quote(&one_line(&text)))
            }
            DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => top(json),
        };
        text.push_str(&canonical(&reduced));
        Self(Digest::of(text.as_bytes()))
    }

    pub fn digest(self) -> Digest {
        self.0
    }

    /// Reads the hexadecimal form.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(Digest::from_bytes(bytes)))
    }
}

impl fmt::Display for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Pin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// Writes the members that count.
fn top(json: &str) -> String {
    let Some(fields) = members(json) else { return json.to_owned() };
    let counted = fields.iter().filter_map(|(key, value)| {
        let value = match key.as_ref() {
            "_meta" => acted_on(value)?,
            "icons" => addresses(value),
            key => reduced(key, value, 0),
        };
        Some((key.as_ref(), value))
    });
    object(counted)
}

/// Keeps the members of `_meta` that somebody acts on. Many servers put tags and versions there, which change often.
fn acted_on(meta: &str) -> Option<String> {
    let Some(fields) = members(meta) else { return Some(meta.to_owned()) };
    let mut counted = fields.iter().filter(|(key, _)| is_acted_on(key)).peekable();
    counted.peek()?;
    Some(object(counted.map(|(key, value)| (key.as_ref(), (*value).to_owned()))))
}

/// The contract binds the gateway. The others bind clients: which page they show for a tool, and whether they ask first.
fn is_acted_on(key: &str) -> bool {
    matches!(key, META_KEY | "ui") || ["ui/", "openai/", "anthropic/"].iter().any(|prefix| key.starts_with(prefix))
}

/// Keeps the addresses of icons. Anything else in their place counts as a whole.
fn addresses(icons: &str) -> String {
    let Ok(icons_read) = serde_json::from_str::<Vec<&RawValue>>(icons) else { return icons.to_owned() };
    let address = |icon: &&RawValue| member(icon.get(), "src").unwrap_or(icon.get()).to_owned();
    format!("[{}]", icons_read.iter().map(address).collect::<Vec<_>>().join(","))
}

/// Writes a value with its titles and descriptions on one line each.
fn reduced(key: &str, value: &str, depth: usize) -> String {
    if depth > SERVER_DEPTH_MAX {
        return value.to_owned();
    }
    match value.bytes().next() {
        Some(b'"') if matches!(key, "title" | "description") => {
            string_value(value).map_or_else(|| value.to_owned(), |text| quote(&one_line(&text)))
        }
        Some(b'{') => match members(value) {
            Some(fields) => object(fields.iter().map(|(key, value)| (key.as_ref(), reduced(key, value, depth + 1)))),
            None => value.to_owned(),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(elements) => {
                let elements: Vec<String> =
                    elements.into_iter().map(|element| reduced("", element.get(), depth + 1)).collect();
                format!("[{}]", elements.join(","))
            }
            Err(_) => value.to_owned(),
        },
        _ => value.to_owned(),
    }
}

fn object<'a>(fields: impl Iterator<Item = (&'a str, String)>) -> String {
    let fields: Vec<String> = fields.map(|(key, value)| format!("{}:{value}", quote(key))).collect();
    format!("{{{}}}", fields.join(","))
}

/// Joins words with single spaces. Only ASCII white space counts: other kinds look like spaces and can carry a message.
fn one_line(text: &str) -> String {
    text.split_ascii_whitespace().collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pin(json: &str) -> Pin {
        Pin::of(DefinitionKind::Tool, json)
    }

    #[test]
    fn form_does_not_count() {
        let first =
            pin(r#"{"name":"t","description":"Reads a file.\n\nFast.","inputSchema":{"a":1,"b":[{"title":"x y"}]}}"#);
        for same in [
            r#"{"inputSchema":{"b":[{"title":" x  y"}],"a":1},"name":"t","description":"Reads a file. Fast."}"#,
            r#"{ "name" : "t", "description":"Reads  a\tfile.\r\nFast. ","inputSchema":{"a":1,"b":[{"title":"x y"}]}}"#,
            r#"{"name":"t","description":"Reads a file. Fast.","inputSchema":{"a":1,"b":[{"title":"x y"}]},"_meta":{"v":2}}"#,
        ] {
            assert_eq!(pin(same), first, "{same}");
        }
    }

    #[test]
    fn meaning_counts() {
        let first = r#"{"name":"t","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}}}"#;
        for other in [
            r#"{"name":"u","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}}}"#,
            r#"{"name":"t","description":"Reads a file!","inputSchema":{"properties":{"p":{"enum":["a b"]}}}}"#,
            r#"{"name":"t","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a  b"]}}}}"#,
            r#"{"name":"t","description":"Reads a\u00a0file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}}}"#,
            r#"{"name":"t","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}},"x":1}"#,
            r#"{"name":"t","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}},"_meta":{"mcp-first/contract":{}}}"#,
        ] {
            assert_ne!(pin(other), pin(first), "{other}");
        }
    }

    #[test]
    fn meta_counts_with_what_somebody_acts_on() {
        let with = |meta: &str| pin(&format!(r#"{{"name":"t","_meta":{meta}}}"#));
        assert_eq!(with(r#"{"fastmcp":{"tags":["v1"]}}"#), pin(r#"{"name":"t"}"#));
        assert_eq!(with(r#"{"v":1,"ui":{"a":1,"b":2}}"#), with(r#"{"ui":{"b":2,"a":1},"v":2}"#));
        for (old, new) in [
            (r#"{"ui":{"resourceUri":"ui://a"}}"#, r#"{"ui":{"resourceUri":"https://a.example"}}"#),
            (r#"{"ui/resourceUri":"ui://a"}"#, r#"{"ui/resourceUri":"ui://b"}"#),
            (r#"{"openai/outputTemplate":"ui://a"}"#, r#"{}"#),
            (r#"{"anthropic/requiresUserInteraction":true}"#, r#"{"anthropic/requiresUserInteraction":false}"#),
            (r#"{"mcp-first/contract":{"riskLevel":"high"}}"#, r#"{"mcp-first/contract":{"riskLevel":"low"}}"#),
            ("1", "2"),
        ] {
            assert_ne!(with(old), with(new), "{old} {new}");
        }
    }

    #[test]
    fn icons_count_with_their_addresses() {
        let with = |icons: &str| pin(&format!(r#"{{"name":"t","icons":{icons}}}"#));
        assert_eq!(with(r#"[{"src":"a","sizes":["1"]}]"#), with(r#"[{"sizes":["2"],"src":"a"}]"#));
        assert_ne!(with(r#"[{"src":"a"}]"#), with(r#"[{"src":"b"}]"#));
    }

    #[test]
    fn the_same_text_of_another_kind_differs() {
        let json = r#"{"name":"t"}"#;
        assert_ne!(Pin::of(DefinitionKind::Tool, json), Pin::of(DefinitionKind::Prompt, json));
    }

    /// A changed formula must get a new version, or every stored pin would look changed.
    #[test]
    fn the_formula_is_stable() {
        let text = pin(r#"{"name":"t","inputSchema":{"type":"object"}}"#).to_string();
        assert_eq!((FORMULA, Pin::parse(&text).map(|pin| pin.to_string())), (1, Some(text)));
    }
}
