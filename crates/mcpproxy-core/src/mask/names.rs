//! Which names say that a secret follows.

use super::text::Text;

/// What a name must be to say so, apart from its last word.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// The last word is enough, also when it is glued to the one before.
    Any,
    /// The last word must stand apart.
    Apart,
    /// The last word must stand apart, and only a string is a secret: `"pass": 12` is a count.
    Text,
    /// Stands apart, and only what looks like a key is a secret: `"auth": "none"` is not.
    Opaque,
    /// All but the tokens that are no secrets.
    Token,
    /// Only with a word before it that says so.
    Key,
    /// Keeps the name of the scheme.
    Authorization,
    /// A header whose value goes on to the end of the line.
    Cookie,
    /// Only as a parameter of an address.
    Parameter,
}

/// The last words of names.
pub(super) const WORDS: [(&str, NameKind); 18] = [
    ("password", NameKind::Any),
    ("passwd", NameKind::Any),
    ("passphrase", NameKind::Any),
    ("passcode", NameKind::Any),
    ("pwd", NameKind::Any),
    ("secret", NameKind::Any),
    ("credential", NameKind::Any),
    ("sessid", NameKind::Any),
    ("jsessionid", NameKind::Any),
    ("token", NameKind::Token),
    ("key", NameKind::Key),
    ("pass", NameKind::Text),
    ("auth", NameKind::Opaque),
    ("otp", NameKind::Apart),
    ("cvv", NameKind::Apart),
    ("authorization", NameKind::Authorization),
    ("cookie", NameKind::Cookie),
    ("sig", NameKind::Parameter),
];

/// Keys that are secrets. Others are names: `primary_key`, `sort_key`, `issue_key`, `public_key`.
const KEYS: [&str; 24] = [
    "api",
    "access",
    "secret",
    "private",
    "signing",
    "encryption",
    "decryption",
    "account",
    "shared",
    "subscription",
    "auth",
    "hmac",
    "master",
    "license",
    "session",
    "application",
    "admin",
    "service",
    "storage",
    "signature",
    "deploy",
    "ssh",
    "role",
    "webhook",
];

/// Tokens that are places in a list, counts, or parts of a text.
const OPEN_TOKENS: [&str; 36] = [
    "page",
    "next",
    "nextpage",
    "continuation",
    "continue",
    "cursor",
    "sync",
    "skip",
    "delta",
    "progress",
    "max",
    "min",
    "num",
    "total",
    "count",
    "per",
    "stop",
    "eos",
    "bos",
    "pad",
    "unk",
    "mask",
    "sep",
    "cls",
    "special",
    "cancellation",
    "cancel",
    "resume",
    "pagination",
    "prev",
    "previous",
    "input",
    "output",
    "prompt",
    "completion",
    "design",
];

/// Tokens that are secrets also when there are several: `tokens` alone is a count or a list of words.
const CLOSED_TOKENS: [&str; 7] = ["access", "refresh", "auth", "api", "bearer", "secret", "session"];

/// What may follow the last word: the name is still that of the secret itself.
const TAILS: [&str; 6] = ["hash", "value", "string", "binary", "base64", "plaintext"];

/// Where the name ends whose last word stands at `start..end`, if it is a name of a secret.
pub(super) fn name_end(text: Text<'_>, kind: NameKind, start: usize, end: usize) -> Option<usize> {
    let (is_plural, after) = behind_word(text, end)?;
    if !may_have_value(text, start, after) {
        return None;
    }
    let is_secret = match kind {
        NameKind::Any | NameKind::Authorization | NameKind::Cookie => true,
        NameKind::Apart | NameKind::Text | NameKind::Opaque | NameKind::Parameter => {
            text.begins_word(start) && !is_plural
        }
        NameKind::Token if is_plural => CLOSED_TOKENS.iter().any(|word| follows(text, start, word)),
        NameKind::Token => !OPEN_TOKENS.iter().any(|word| follows(text, start, word)),
        NameKind::Key => KEYS.iter().any(|word| text.has_before(separator(text, start), word)),
    };
    is_secret.then_some(after)
}

/// Steps over a plural, a number and a tail; `None` if the word goes on into another one.
fn behind_word(text: Text<'_>, end: usize) -> Option<(bool, usize)> {
    let mut at = end;
    let is_plural = matches!(text.at(at), b's' | b'S') && !text.at(at + 1).is_ascii_lowercase();
    at += usize::from(is_plural);
    let digits = text.skip(at, |b| b.is_ascii_digit());
    if digits - at > 2 {
        return None;
    }
    at = digits;
    let tail = at + usize::from(matches!(text.at(at), b'_' | b'-'));
    let is_apart = tail > at || text.at(tail).is_ascii_uppercase();
    at = TAILS.iter().find(|word| is_apart && text.has(tail, word)).map_or(at, |word| tail + word.len());
    let next = text.at(at);
    let goes_on = next.is_ascii_alphanumeric()
        || next == b'_'
        || (next == b'-' && (text.at(at + 1).is_ascii_alphanumeric() || text.at(at + 1) == b'_'));
    (!goes_on).then_some((is_plural, at))
}

/// A quick look at what follows a name: most are words of a sentence.
fn may_have_value(text: Text<'_>, start: usize, end: usize) -> bool {
    let next = text.at(text.skip(end, |b| b == b' ').min(end + 2));
    let is_sign = matches!(next, b':' | b'=' | b'"' | b'\'' | b'`' | b'\\' | b'%' | b'>' | b'*' | b')' | b']');
    is_sign || (text.at(end) == b' ' && is_option(text, start))
}

/// Whether the name that ends in the word at `start` is an option of a command.
pub(super) fn is_option(text: Text<'_>, start: usize) -> bool {
    const NAME_MAX: usize = 32;
    let letters = (1..=NAME_MAX).take_while(|back| {
        start.checked_sub(*back).is_some_and(|at| text.at(at).is_ascii_alphanumeric() || b"_-".contains(&text.at(at)))
    });
    let first = start - letters.count();
    let before = first.checked_sub(1).map_or(b' ', |last| text.at(last));
    let is_first =
        before <= b' ' || matches!(before, b'"' | b'\'' | b'`' | b'[' | b'(' | b',') || text.ends_escape(first);
    is_first && text.slice(first..first + 2) == "--"
}

/// Whether the whole word before the one at `start` is this one.
fn follows(text: Text<'_>, start: usize, word: &str) -> bool {
    let end = separator(text, start);
    text.has_before(end, word) && text.begins_word(end - word.len())
}

/// The end of the word before the one at `start`.
fn separator(text: Text<'_>, start: usize) -> usize {
    match start.checked_sub(1) {
        Some(before) if matches!(text.at(before), b'_' | b'-' | b' ' | b'.') => before,
        _ => start,
    }
}
