//! The hash of a definition: equal for two texts that mean the same to a model and to the gateway.
//!
//! Equal are texts that differ in the order of keys and of `required`, in white space between values, and in white space
//! inside of titles and descriptions. Icons count only with their addresses. `_meta` counts without the notes of server
//! frameworks. All other members count, also those that no revision of the protocol knows: agents get the server's own
//! JSON, so a model or a client may read them.

use std::fmt;

use serde_json::value::RawValue;

use super::DefinitionKind;
use crate::Digest;
use crate::json::{SERVER_DEPTH_MAX, canonical, member, members, quote, string_value};

/// Members of `_meta` in which server frameworks keep their own notes. No client reads them.
pub(super) const FRAMEWORK_NOTES: [&str; 2] = ["fastmcp", "_fastmcp"];

/// Keywords whose value is data, so that every character in it counts.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];
/// Keywords whose members have names of the server's choice.
const NAMED: [&str; 5] = ["properties", "patternProperties", "$defs", "definitions", "dependentSchemas"];

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
        Digest::parse(text).map(Self)
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
        let value = member_of_top(key, value);
        (!value.is_empty()).then_some((key.as_ref(), value))
    });
    object(counted)
}

/// Writes one member. The text is empty if nothing of it counts.
fn member_of_top(key: &str, value: &str) -> String {
    match key {
        "_meta" => meta(value),
        "icons" => addresses(value),
        key => reduced(Key::Keyword(key), value, 0),
    }
}

/// Returns a text that is equal for equal meanings of a member of a definition.
pub(super) fn normal(key: &str, value: &str) -> String {
    canonical(&member_of_top(key, value))
}

/// Returns a text that is equal for equal meanings of a keyword of a schema.
pub(super) fn normal_keyword(key: &str, value: &str) -> String {
    canonical(&reduced(Key::Keyword(key), value, 0))
}

fn meta(value: &str) -> String {
    let Some(fields) = members(value) else { return value.to_owned() };
    let counted: Vec<_> = fields.iter().filter(|(key, _)| !FRAMEWORK_NOTES.contains(&key.as_ref())).collect();
    if counted.is_empty() {
        return String::new();
    }
    object(counted.into_iter().map(|(key, value)| (key.as_ref(), (*value).to_owned())))
}

/// Keeps the addresses of icons. Anything else in their place counts as a whole.
fn addresses(icons: &str) -> String {
    let Ok(icons_read) = serde_json::from_str::<Vec<&RawValue>>(icons) else { return icons.to_owned() };
    let address = |icon: &&RawValue| member(icon.get(), "src").unwrap_or(icon.get()).to_owned();
    format!("[{}]", icons_read.iter().map(address).collect::<Vec<_>>().join(","))
}

/// A key of an object in a definition.
#[derive(Clone, Copy)]
enum Key<'k> {
    Keyword(&'k str),
    /// A name of the server's choice, such as that of a parameter, or no key at all.
    Name,
}

/// Writes a value with its titles and descriptions on one line each, and with `required` in order.
fn reduced(key: Key<'_>, value: &str, depth: usize) -> String {
    let keyword = match key {
        Key::Keyword(keyword) => keyword,
        Key::Name => "",
    };
    if depth > SERVER_DEPTH_MAX || DATA.contains(&keyword) {
        return value.to_owned();
    }
    match value.bytes().next() {
        Some(b'"') if matches!(keyword, "title" | "description") => {
            string_value(value).map_or_else(|| value.to_owned(), |text| quote(&one_line(&text)))
        }
        Some(b'{') => match members(value) {
            Some(fields) => {
                let are_names = NAMED.contains(&keyword);
                let below = |key: &str, value: &str| {
                    reduced(if are_names { Key::Name } else { Key::Keyword(key) }, value, depth + 1)
                };
                object(fields.iter().map(|(key, value)| (key.as_ref(), below(key, value))))
            }
            None => value.to_owned(),
        },
        Some(b'[') => match serde_json::from_str::<Vec<&RawValue>>(value) {
            Ok(elements) => {
                let elements = elements.into_iter().map(|element| reduced(Key::Name, element.get(), depth + 1));
                let mut elements: Vec<String> = elements.collect();
                if keyword == "required" {
                    elements.sort_by_cached_key(|element| canonical(element));
                }
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
            r#"{"name":"t","description":"Reads a file. Fast.","inputSchema":{"a":1,"b":[{"title":"x y"}]},"_meta":{"fastmcp":{"tags":["v2"]}}}"#,
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
            r#"{"name":"t","description":"Reads a file.","inputSchema":{"properties":{"p":{"enum":["a b"]}}},"_meta":{"ui":{"resourceUri":"https://h"}}}"#,
        ] {
            assert_ne!(pin(other), pin(first), "{other}");
        }
    }

    #[test]
    fn icons_count_with_their_addresses() {
        let with = |icons: &str| pin(&format!(r#"{{"name":"t","icons":{icons}}}"#));
        assert_eq!(with(r#"[{"src":"a","sizes":["1"]}]"#), with(r#"[{"sizes":["2"],"src":"a"}]"#));
        assert_ne!(with(r#"[{"src":"a"}]"#), with(r#"[{"src":"b"}]"#));
    }

    #[test]
    fn the_order_of_required_does_not_count() {
        let with = |schema: &str| pin(&format!(r#"{{"name":"t","inputSchema":{schema}}}"#));
        assert_eq!(with(r#"{"required":["a","b"]}"#), with(r#"{"required":["b","a"]}"#));
        assert_ne!(with(r#"{"required":["a","b"]}"#), with(r#"{"required":["a"]}"#));
        assert_ne!(with(r#"{"enum":["a","b"]}"#), with(r#"{"enum":["b","a"]}"#));
    }

    /// A default is sent as it is, so white space and order in it count.
    #[test]
    fn data_counts_as_written() {
        let with = |schema: &str| pin(&format!(r#"{{"name":"t","inputSchema":{{"properties":{{"p":{schema}}}}}}}"#));
        assert_ne!(with(r#"{"default":{"description":"a b"}}"#), with(r#"{"default":{"description":"a  b"}}"#));
        assert_ne!(with(r#"{"default":{"required":["a","b"]}}"#), with(r#"{"default":{"required":["b","a"]}}"#));
        let named = |text: &str| pin(&format!(r#"{{"name":"t","inputSchema":{{"properties":{{"default":{text}}}}}}}"#));
        assert_eq!(named(r#"{"description":"a b"}"#), named(r#"{"description":"a  b"}"#));
        assert_eq!(named(r#"{"required":["a","b"]}"#), named(r#"{"required":["b","a"]}"#));
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
