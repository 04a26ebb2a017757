//! Parts of messages: what somebody wrote, and what they could write instead.

use crate::{SERVER_NAME_MAX_CHARS, ServerName, Untrusted};

const SHOWN_MAX_CHARS: usize = 60;

/// A usable server name that looks like `name`.
pub(super) fn server_name(name: &str) -> Option<ServerName> {
    let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '_' | '-');
    let mut out = String::new();
    for c in name.chars().flat_map(char::to_lowercase).map(|c| if fits(c) { c } else { '-' }) {
        let separator = |c: char| matches!(c, '_' | '-');
        if out.len() < SERVER_NAME_MAX_CHARS && !(separator(c) && (out.is_empty() || out.ends_with(separator))) {
            out.push(c);
        }
    }
    ServerName::parse(out.trim_end_matches(['_', '-'])).ok()
}

/// Text from the file as part of a message: on one line, harmless in a terminal, and not too long.
pub(crate) fn shown(text: &str) -> String {
    let cut: String = text.chars().take(SHOWN_MAX_CHARS).collect();
    let more = if cut.len() < text.len() { "…" } else { "" };
    format!("{}{more}", Untrusted::new(cut).for_terminal())
}

/// Words in backticks, with commas between.
pub(crate) fn list(words: impl IntoIterator<Item = &'static str>) -> String {
    words.into_iter().map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn server_names() {
        let check = |name: &str, expected: Option<&str>| {
            assert_eq!(server_name(name).as_ref().map(ServerName::as_str), expected, "{name}");
        };
        check("GitHub", Some("github"));
        check("@scope/My Server!", Some("scope-my-server"));
        check("a__b", Some("a_b"));
        check("_", None);
        check("", None);
        check("日本", None);
        check(&"A".repeat(100), Some(&"a".repeat(63)));
    }

    #[test]
    fn shown_text() {
        assert_eq!(shown("a\x1b[2J\nb"), "a\\u{1b}[2J\\nb");
        assert_eq!(shown(&"é".repeat(61)), format!("{}…", "é".repeat(60)));
    }
}
