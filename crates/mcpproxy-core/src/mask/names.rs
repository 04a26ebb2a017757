//! Recognizes names after which a secret follows, such as `DB_PASSWORD` or `apiKey`.
//!
//! The last word of a name decides. Some last words are enough (`password`). Some need a word before them (`key` in
//! `api_key`, but not in `primary_key`). Some are innocent after certain words (`token` in `next_page_token`).

use super::text::Text;

/// The condition under which a name with a certain last word announces a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NameKind {
    /// The last word is enough, even without a separator before it: `dbpassword`.
    Any,
    /// The last word must be a word of its own.
    Apart,
    /// As `Apart`, and only strings are secrets: `"pass": 12` is a count.
    Text,
    /// As `Apart`, and only values that look like a key are secrets: `"auth": "none"` is not.
    Opaque,
    /// Every token is a secret, except those after `OPEN_TOKENS`.
    Token,
    /// Only after one of `KEYS`.
    Key,
    /// The value begins with the name of a scheme, which stays: `Bearer ***`.
    Authorization,
    /// A header whose value extends to the end of the line.
    Cookie,
    /// Only as a URL parameter: `?sig=`.
    Parameter,
}

/// Last words of names, and the kind of each.
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

/// Words that make a `key` a secret. Other keys are identifiers: `primary_key`, `sort_key`, `public_key`.
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

/// Words that make a `token` a page cursor, a count, or a unit of text.
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

/// Words that make `tokens` secrets. `tokens` alone is a count or a list of words.
const CLOSED_TOKENS: [&str; 7] = ["access", "refresh", "auth", "api", "bearer", "secret", "session"];

/// Suffixes after which the name still denotes the secret itself: `password_hash`.
const TAILS: [&str; 6] = ["hash", "value", "string", "binary", "base64", "plaintext"];

/// Returns the end of the name whose last word is at `start..end`, if it announces a secret.
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

/// Steps over a plural `s`, up to two digits and a suffix. Returns `None` if the name continues with another word.
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

/// Checks quickly whether a value can follow. Most names occur in sentences.
fn may_have_value(text: Text<'_>, start: usize, end: usize) -> bool {
    let next = text.at(text.skip(end, |b| b == b' ').min(end + 2));
    let is_sign = matches!(next, b':' | b'=' | b'"' | b'\'' | b'`' | b'\\' | b'%' | b'>' | b'*' | b')' | b']');
    is_sign || (text.at(end) == b' ' && is_option(text, start))
}

/// Returns `true` if the name that ends in the word at `start` is a command-line option such as `--api-token`.
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

/// Returns `true` if `word` is the whole word before the one at `start`.
fn follows(text: Text<'_>, start: usize, word: &str) -> bool {
    let end = separator(text, start);
    text.has_before(end, word) && text.begins_word(end - word.len())
}

/// Returns the end of the word before the one at `start`.
fn separator(text: Text<'_>, start: usize) -> usize {
    match start.checked_sub(1) {
        Some(before) if matches!(text.at(before), b'_' | b'-' | b' ' | b'.') => before,
        _ => start,
    }
}
