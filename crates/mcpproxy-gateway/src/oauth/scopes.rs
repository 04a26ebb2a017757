//! Scopes that servers and providers name. They are texts from outside, so they are checked before anyone reads them.

use mcpproxy_core::settings::{OAUTH_SCOPES_MAX, is_oauth_scope};

/// Splits a list of scopes. Drops words that are no scopes, repeated ones, and those beyond the limit.
pub(super) fn split(text: &str) -> Vec<String> {
    union([text.split(' ').map(str::to_owned)])
}

/// Joins lists of scopes, in order and without repeating one.
pub(super) fn union<L: IntoIterator<Item = String>>(lists: impl IntoIterator<Item = L>) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for scope in lists.into_iter().flatten() {
        if all.len() < OAUTH_SCOPES_MAX && is_oauth_scope(&scope) && !all.contains(&scope) {
            all.push(scope);
        }
    }
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_scopes_remain() {
        assert_eq!(split("a  b a \u{1b}[2J c:d \"x\""), ["a", "b", "c:d"]);
        assert_eq!(union([vec!["a".to_owned()], vec!["b".to_owned(), "a".to_owned()]]), ["a", "b"]);
        let many: Vec<String> = (0..1000).map(|number| number.to_string()).collect();
        assert_eq!(split(&many.join(" ")).len(), OAUTH_SCOPES_MAX);
    }
}
