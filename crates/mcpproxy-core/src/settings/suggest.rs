//! Suggests a valid name for a server.

use crate::{SERVER_NAME_MAX_CHARS, ServerName};

/// Returns a valid server name that is similar to `name`.
pub fn server_name(name: &str) -> Option<ServerName> {
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
}
