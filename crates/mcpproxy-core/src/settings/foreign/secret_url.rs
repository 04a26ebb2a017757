//! Finds secrets in a URL: before `@`, in its path and in its query.
//!
//! Many hosted servers put the whole credential into the path, such as `https://mcp.example.com/s/9f8c…/mcp`. Such a
//! part has no name that marks it as a secret, so it counts as one if it looks random. If the guess is wrong, the server
//! still works: the part is read from a file, and the URL in the settings is harder to read.

use super::relocate::looks_secret;
use crate::settings::reference::has_reference;
use crate::settings::secret::is_secret_name;

/// Shortest run of letters and digits that looks random.
const RANDOM_CHARS: usize = 16;
/// Shortest part with `-` and `_` that looks random, if it has upper and lower case.
const RANDOM_MIXED_CHARS: usize = 24;
const UUID_GROUPS: [usize; 5] = [8, 4, 4, 4, 12];

/// A part of a URL. All parts in a row are the URL.
#[derive(Debug)]
pub(super) struct UrlPart<'u> {
    pub(super) text: &'u str,
    kind: PartKind,
    /// The name of a query parameter that has this value.
    pub(super) parameter: Option<&'u str>,
    pub(super) replacement: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PartKind {
    /// Never a secret: the scheme, the host, separators and names.
    Plain,
    User,
    Password,
    /// A segment of the path, or the value of a query parameter.
    Value,
}

impl<'u> UrlPart<'u> {
    fn new(text: &'u str, kind: PartKind) -> Self {
        Self { text, kind, parameter: None, replacement: None }
    }

    pub(super) fn is_secret(&self) -> bool {
        if self.text.is_empty() || has_reference(self.text) {
            return false;
        }
        match self.kind {
            PartKind::Plain => false,
            PartKind::Password => true,
            PartKind::User | PartKind::Value => {
                self.parameter.is_some_and(is_secret_name) || is_random(self.text) || looks_secret(self.text)
            }
        }
    }

    pub(super) fn shown(&self) -> &str {
        self.replacement.as_deref().unwrap_or(self.text)
    }
}

/// Splits a URL. Returns `None` for a text without `://`.
pub(super) fn parts(url: &str) -> Option<Vec<UrlPart<'_>>> {
    let (at, _) = url.match_indices("://").next()?;
    let (scheme, rest) = url.split_at(at + "://".len());
    let (rest, fragment) = cut(rest, '#');
    let (address, query) = cut(rest, '?');
    let (authority, path) = cut(address, '/');
    let mut parts = vec![UrlPart::new(scheme, PartKind::Plain)];
    push_authority(&mut parts, authority);
    for segment in pieces(path, '/') {
        push_value(&mut parts, segment, 1);
    }
    for pair in pieces(query, '&') {
        let (name, _) = cut(pair, '=');
        push_value(&mut parts, pair, (name.len() + 1).min(pair.len()));
        if let Some(last) = parts.last_mut().filter(|last| last.kind == PartKind::Value) {
            last.parameter = Some(name.trim_start_matches(['?', '&']));
        }
    }
    parts.push(UrlPart::new(fragment, PartKind::Plain));
    Some(parts)
}

/// Adds a text whose first bytes are plain, and whose rest is a value.
fn push_value<'u>(parts: &mut Vec<UrlPart<'u>>, text: &'u str, plain: usize) {
    let Some((plain, value)) = text.split_at_checked(plain) else { return };
    parts.extend([UrlPart::new(plain, PartKind::Plain), UrlPart::new(value, PartKind::Value)]);
}

fn push_authority<'u>(parts: &mut Vec<UrlPart<'u>>, authority: &'u str) {
    let Some(at) = authority.rfind('@') else {
        parts.push(UrlPart::new(authority, PartKind::Plain));
        return;
    };
    let (credentials, host) = authority.split_at(at);
    let (user, password) = cut(credentials, ':');
    parts.push(UrlPart::new(user, PartKind::User));
    if let Some(colon) = password.get(..1) {
        parts.push(UrlPart::new(colon, PartKind::Plain));
        parts.push(UrlPart::new(password.get(1..).unwrap_or_default(), PartKind::Password));
    }
    parts.push(UrlPart::new(host, PartKind::Plain));
}

/// Splits before the first separator outside `${…}`. The second half begins with the separator, or is empty.
fn cut(text: &str, separator: char) -> (&str, &str) {
    let at = outside_references(text).find(|(_, c)| *c == separator).map_or(text.len(), |(at, _)| at);
    text.split_at(at)
}

/// Splits before every separator outside `${…}`.
fn pieces(text: &str, separator: char) -> Vec<&str> {
    let starts: Vec<usize> =
        outside_references(text).filter(|(at, c)| *at > 0 && *c == separator).map(|(at, _)| at).collect();
    let ends = starts.iter().copied().chain([text.len()]);
    let starts = [0].into_iter().chain(starts.iter().copied());
    starts.zip(ends).filter_map(|(start, end)| text.get(start..end)).filter(|piece| !piece.is_empty()).collect()
}

/// Returns the characters that belong to no reference.
fn outside_references(text: &str) -> impl Iterator<Item = (usize, char)> {
    let mut is_inside = false;
    text.char_indices().filter(move |(at, c)| {
        let begins = text.get(*at..).is_some_and(|rest| rest.starts_with("${"));
        let is_outside = !is_inside && !begins;
        is_inside = begins || (is_inside && *c != '}');
        is_outside
    })
}

fn is_random(text: &str) -> bool {
    let count = |text: &str, fits: fn(&char) -> bool| text.chars().filter(fits).count();
    let is_run = |run: &str| {
        run.len() >= RANDOM_CHARS && count(run, char::is_ascii_digit) >= 2 && count(run, char::is_ascii_alphabetic) >= 2
    };
    let is_mixed = text.len() >= RANDOM_MIXED_CHARS
        && text.chars().all(|c| c.is_ascii_alphanumeric() || matches!(c, '-' | '_'))
        && count(text, char::is_ascii_digit) >= 2
        && count(text, char::is_ascii_uppercase) >= 2
        && count(text, char::is_ascii_lowercase) >= 2;
    is_uuid(text) || is_mixed || text.split(|c: char| !c.is_ascii_alphanumeric()).any(is_run)
}

fn is_uuid(text: &str) -> bool {
    let groups: Vec<&str> = text.split('-').collect();
    groups.len() == UUID_GROUPS.len()
        && groups
            .iter()
            .zip(UUID_GROUPS)
            .all(|(group, length)| group.len() == length && group.bytes().all(|byte| byte.is_ascii_hexdigit()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_found_by_name_format_and_look() {
        let check = |url: &str, expected: &[&str]| {
            let parts = parts(url).unwrap();
            assert_eq!(parts.iter().map(|part| part.text).collect::<String>(), url, "nothing is lost");
            let found: Vec<&str> = parts.iter().filter(|part| part.is_secret()).map(|part| part.text).collect();
            assert_eq!(found, expected, "{url}");
        };
        check("https://mcp.example.com/mcp", &[]);
        check("https://mcp.example.com/v1/projects/12345678901234567890/mcp-server-everything", &[]);
        check("https://h/s/N2E5ZjQ0YzItM2Q0/mcp", &["N2E5ZjQ0YzItM2Q0"]);
        check("https://h/1f0c2f5e-8b1d-4c55-9a75-0e6a1a2b3c4d/mcp", &["1f0c2f5e-8b1d-4c55-9a75-0e6a1a2b3c4d"]);
        check("https://h/aB3-xY9_kLm2-Qr5tU-vW8xZ", &["aB3-xY9_kLm2-Qr5tU-vW8xZ"]);
        check(
            "https://h/mcp?api_key=a&page=2&x=ghp_0123456789abcdefghijABCDEFGHIJ012345#f",
            &["a", "ghp_0123456789abcdefghijABCDEFGHIJ012345"],
        );
        check("https://h?token=a", &["a"]);
        check("https://h/mcp?token", &[]);
        check("https://h/mcp?token=&a&=b", &[]);
        check("postgres://ann:pw@db:5432/x", &["pw"]);
        check("https://git@h/x", &[]);
        check("https://ghp_0123456789abcdefghijABCDEFGHIJ012345@h/x", &["ghp_0123456789abcdefghijABCDEFGHIJ012345"]);
        check("https://${env:HOST}/${file:/a/b?c&token=d}/x?key=${env:K}&token=e", &["e"]);
        check("--url=https://h/0123456789abcdef/mcp", &["0123456789abcdef"]);
        check("https://h//0123456789abcdef//", &["0123456789abcdef"]);
        check("://", &[]);
        check("https://h/ü/€?ü=€", &[]);
        assert!(parts("no url").is_none());
    }
}
