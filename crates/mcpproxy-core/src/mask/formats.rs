//! Recognizes secrets by their format, whatever they are called: GitHub tokens, JWTs, private keys, URL passwords.

use std::ops::Range;

use super::text::{Quote, Text};

/// A token format with a fixed prefix, such as `ghp_`.
pub(super) struct SecretFormat {
    pub(super) prefix: &'static str,
    /// Minimum number of characters after the prefix.
    least: usize,
    alphabet: Alphabet,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Alphabet {
    Hex,
    Alphanumeric,
    /// Also `_`.
    Word,
    /// Also `_` and `-`.
    Url,
    /// Also `.`, `/`, `+` and `=`.
    Base64,
    /// As `Url`, but the token must look random: short prefixes such as `sk-` also begin names in kebab case.
    Random,
}

impl Alphabet {
    fn has(self, byte: u8) -> bool {
        match self {
            Self::Hex => byte.is_ascii_hexdigit(),
            Self::Alphanumeric => byte.is_ascii_alphanumeric(),
            Self::Word => byte.is_ascii_alphanumeric() || byte == b'_',
            Self::Url | Self::Random => byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-'),
            Self::Base64 => {
                byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b'/' | b'+' | b'=' | b'~')
            }
        }
    }
}

const fn form(prefix: &'static str, least: usize, alphabet: Alphabet) -> SecretFormat {
    SecretFormat { prefix, least, alphabet }
}

/// Well-known token formats. The prefix is not masked, so that an operator sees which token it was.
pub(super) const FORMATS: [SecretFormat; 60] = [
    form("AKIA", 16, Alphabet::Alphanumeric),
    form("ASIA", 16, Alphabet::Alphanumeric),
    form("ghp_", 30, Alphabet::Alphanumeric),
    form("gho_", 30, Alphabet::Alphanumeric),
    form("ghu_", 30, Alphabet::Alphanumeric),
    form("ghs_", 30, Alphabet::Base64),
    form("ghr_", 30, Alphabet::Alphanumeric),
    form("github_pat_", 22, Alphabet::Word),
    form("glpat-", 16, Alphabet::Base64),
    form("glptt-", 16, Alphabet::Url),
    form("gldt-", 16, Alphabet::Url),
    form("glrt-", 16, Alphabet::Base64),
    form("glcbt-", 16, Alphabet::Url),
    form("gloas-", 16, Alphabet::Url),
    form("xoxa-", 10, Alphabet::Url),
    form("xoxb-", 10, Alphabet::Url),
    form("xoxe-", 10, Alphabet::Url),
    form("xoxo-", 10, Alphabet::Url),
    form("xoxp-", 10, Alphabet::Url),
    form("xoxr-", 10, Alphabet::Url),
    form("xoxs-", 10, Alphabet::Url),
    form("xapp-", 20, Alphabet::Random),
    form("hooks.slack.com/services/", 16, Alphabet::Base64),
    form("sk_live_", 10, Alphabet::Alphanumeric),
    form("sk_test_", 10, Alphabet::Alphanumeric),
    form("rk_live_", 10, Alphabet::Alphanumeric),
    form("rk_test_", 10, Alphabet::Alphanumeric),
    form("whsec_", 16, Alphabet::Base64),
    form("sk-ant-", 16, Alphabet::Url),
    form("sk-proj-", 16, Alphabet::Url),
    form("sk-", 20, Alphabet::Random),
    form("xai-", 40, Alphabet::Random),
    form("gsk_", 40, Alphabet::Alphanumeric),
    form("AIza", 35, Alphabet::Url),
    form("ya29.", 20, Alphabet::Url),
    form("GOCSPX-", 20, Alphabet::Url),
    form("npm_", 36, Alphabet::Alphanumeric),
    form("pypi-AgE", 16, Alphabet::Url),
    form("hf_", 30, Alphabet::Alphanumeric),
    form("dop_v1_", 64, Alphabet::Hex),
    form("doo_v1_", 64, Alphabet::Hex),
    form("dor_v1_", 64, Alphabet::Hex),
    form("shpat_", 32, Alphabet::Hex),
    form("shpss_", 32, Alphabet::Hex),
    form("shpca_", 32, Alphabet::Hex),
    form("lin_api_", 32, Alphabet::Alphanumeric),
    form("ntn_", 40, Alphabet::Alphanumeric),
    form("figd_", 36, Alphabet::Url),
    form("glsa_", 32, Alphabet::Word),
    form("sntrys_", 32, Alphabet::Base64),
    form("sntryu_", 32, Alphabet::Hex),
    form("dckr_pat_", 20, Alphabet::Url),
    form("hvs.", 24, Alphabet::Url),
    form("hvb.", 24, Alphabet::Url),
    form("tvly-", 20, Alphabet::Random),
    form("ATATT3", 60, Alphabet::Base64),
    form("dapi", 32, Alphabet::Hex),
    form("PMAK-", 40, Alphabet::Url),
    form("AGE-SECRET-KEY-1", 50, Alphabet::Alphanumeric),
    form("mcp_", 64, Alphabet::Hex),
];

impl SecretFormat {
    /// Returns the range of the secret after the prefix at `start..end`.
    pub(super) fn secret(&self, text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
        if text.slice(start..end) != self.prefix || !begins_secret(text, start) {
            return None;
        }
        // A format with a longer prefix is more precise, and has its own match.
        let is_longer =
            |other: &SecretFormat| other.prefix.len() > self.prefix.len() && other.prefix.starts_with(self.prefix);
        if FORMATS.iter().any(|other| is_longer(other) && text.slice(start..start + other.prefix.len()) == other.prefix)
        {
            return None;
        }
        let is_inside = |last: usize| matches!(text.at(last), b'-' | b'_');
        if self.alphabet == Alphabet::Random && start.checked_sub(1).is_some_and(is_inside) {
            return None;
        }
        if (end..end + self.least).any(|at| !self.alphabet.has(text.at(at))) {
            return None;
        }
        let stop = text.skip(end, |b| self.alphabet.has(b) || b.is_ascii_alphanumeric());
        let is_secret = match self.alphabet {
            Alphabet::Random => is_random(text.slice(end..stop)),
            // An AWS access key ID has exactly 16 characters. In longer base64, `AKIA` occurs by chance.
            Alphabet::Alphanumeric if self.least == 16 => stop - end == 16,
            Alphabet::Hex | Alphabet::Alphanumeric | Alphabet::Word | Alphabet::Url | Alphabet::Base64 => true,
        };
        is_secret.then_some(end..stop)
    }
}

/// Returns `true` if no letter or digit is before `start`, except as part of an escape.
fn begins_secret(text: Text<'_>, start: usize) -> bool {
    let before = start.checked_sub(1).map_or(0, |last| text.at(last));
    !before.is_ascii_alphanumeric() || text.ends_escape(start)
}

/// Tells random text from kebab case, which has short words and few digits.
fn is_random(text: &str) -> bool {
    let longest = text.split(['-', '_']).map(str::len).max().unwrap_or(0);
    text.bytes().any(|b| b.is_ascii_digit()) && (longest >= 16 || text.len() >= 40)
}

/// A JSON Web Token: `eyJ…`, a dot, and a second part. The signature may be missing.
pub(super) fn jwt(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    if text.slice(start..end) != "eyJ" || !begins_secret(text, start) {
        return None;
    }
    // Only the start of a run counts. Otherwise `-eyJ-eyJ-eyJ` would be scanned once for each `eyJ`.
    if start.checked_sub(1).is_some_and(|last| matches!(text.at(last), b'-' | b'_')) {
        return None;
    }
    let in_part = |b| Alphabet::Url.has(b);
    let head = text.skip(end, in_part);
    let second = text.skip(head + 1, in_part);
    let is_token =
        head - end >= 8 && text.at(head) == b'.' && (second - head > 10 || text.slice(head + 1..head + 4) == "eyJ");
    is_token.then(|| end..text.skip(second, |b| in_part(b) || b == b'.'))
}

/// A SendGrid key: `SG.`, 22 characters, a dot, 43 characters.
pub(super) fn sendgrid(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let fits = |from: usize, count: usize| (from..from + count).all(|at| Alphabet::Url.has(text.at(at)));
    let is_key = text.slice(start..end) == "SG."
        && begins_secret(text, start)
        && fits(end, 22)
        && text.at(end + 22) == b'.'
        && fits(end + 23, 43);
    is_key.then(|| end..text.skip(end + 23, |b| Alphabet::Url.has(b)))
}

/// A Telegram bot token: the ID of the bot, `:AA`, and at least 32 characters.
pub(super) fn telegram(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let digits = (1..=11).take_while(|back| start.checked_sub(*back).is_some_and(|at| text.at(at).is_ascii_digit()));
    let is_token = text.slice(start..end) == ":AA"
        && (8..=10).contains(&digits.count())
        && (end..end + 32).all(|at| Alphabet::Url.has(text.at(at)));
    is_token.then(|| start + 1..text.skip(end, |b| Alphabet::Url.has(b)))
}

/// The token after `Bearer `, unless it looks like a word of a sentence.
pub(super) fn bearer(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let from = text.skip(end, |b| b == b' ').min(end + 4);
    let stop = opaque_end(text, from);
    let found = text.slice(from..stop);
    let is_token = found.len() >= 24 || (found.len() >= 8 && found.bytes().any(|b| b.is_ascii_digit()));
    (is_token && text.begins_word(start)).then_some(from..stop)
}

/// The credentials after `Basic `, if they are `user:password` in base64.
pub(super) fn basic(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let from = text.skip(end, |b| b == b' ').min(end + 4);
    let stop = opaque_end(text, from);
    let plain = text.slice(from..stop).replace("\\/", "/");
    (stop - from >= 4 && text.begins_word(start) && holds_colon(&plain)).then_some(from..stop)
}

/// Returns the end of a run of base64. JSON may escape its `/` as `\/` and its `+` as `\u002B`.
pub(super) fn opaque_end(text: Text<'_>, from: usize) -> usize {
    let mut at = from;
    loop {
        at = text.skip(at, |b| Alphabet::Base64.has(b) || b == b'|' || b == b'%');
        let behind = text.backslashes(at);
        if behind == at {
            return at;
        }
        at = match (text.at(behind), text.coded(behind)) {
            (b'/', _) => behind + 1,
            (_, Some(b'+' | b'=' | b'/')) => behind + 5,
            _ => return at,
        };
    }
}

/// Returns `true` if base64 decodes to printable text with a colon.
fn holds_colon(text: &str) -> bool {
    let mut has_colon = false;
    let (mut bits, mut count) = (0u32, 0u32);
    for byte in text.trim_end_matches('=').bytes() {
        let six = match byte {
            b'A'..=b'Z' => byte - b'A',
            b'a'..=b'z' => byte - b'a' + 26,
            b'0'..=b'9' => byte - b'0' + 52,
            b'+' | b'-' => 62,
            b'/' | b'_' => 63,
            _ => return has_colon,
        };
        (bits, count) = ((bits << 6 | u32::from(six)) & 0xffff, count + 6);
        if count >= 8 {
            count -= 8;
            let decoded = bits >> count & 0xff;
            if decoded < 0x20 {
                return false;
            }
            has_colon |= decoded == u32::from(b':');
        }
    }
    has_colon
}

/// The body of a private key in PEM format, found by the `PRIVATE KEY` of its first line.
pub(super) fn private_key(text: Text<'_>, start: usize, end: usize) -> Option<Range<usize>> {
    let end = if text.has(end, " BLOCK") { end + 6 } else { end };
    let kind = (1..=24).take_while(|back| {
        let before = start.checked_sub(*back).map_or(0, |at| text.at(at));
        before.is_ascii_uppercase() || before.is_ascii_digit() || before == b' '
    });
    let begin = start - kind.count();
    let is_begin = text.has_before(begin, "-----") && text.has(begin, "BEGIN ");
    if !is_begin || !text.has(end, "-----") {
        return None;
    }
    let from = text.space(end + 5);
    let is_body = text.has(from, "Proc-Type") || (from..from + 16).all(|at| Alphabet::Base64.has(text.at(at)));
    if !is_body {
        return None;
    }
    let mut at = from;
    let mut last = from;
    loop {
        let in_line = |b: u8| Alphabet::Base64.has(b) && b != b'-' || matches!(b, b':' | b',');
        let next = text.skip(at, in_line);
        last = if next > at { next } else { last };
        let behind = text.backslashes(next);
        at = match text.at(behind) {
            b'-' if text.has(behind, "-----") => break,
            b'-' | b'/' => behind + 1,
            b' ' | b'\n' | b'\r' | b'\t' => behind + 1,
            b'n' | b'r' if behind > next => behind + 1,
            b'u' if behind > next && text.coded(behind).is_some() && Quote::at(text, next).is_none() => behind + 5,
            _ => break,
        };
    }
    Some(from..last)
}

/// Follows the colon of the scheme in a URL with a masked token.
const MASKED_NEXT: &str = "//***";

/// The password in `scheme://user:password@host`, or the token in `scheme://token@host`.
pub(super) fn address(text: Text<'_>, end: usize) -> Option<Range<usize>> {
    let in_name = |b: u8| b > b' ' && !matches!(b, b'"' | b'\'' | b'`' | b'\\' | b'<' | b'>' | b'|');
    let in_host = |b: u8| in_name(b) && !matches!(b, b'/' | b'?' | b'#');
    if text.at(end) == b'[' {
        return None;
    }
    let host = text.skip(end, in_host);
    let authority = text.slice(end..host);
    let colon = authority.find(':');
    let at_sign = authority.rfind('@').map(|at| end + at).or_else(|| {
        let port = authority.get(colon? + 1..)?;
        if port.bytes().all(|b| b.is_ascii_digit()) {
            return None;
        }
        // An unescaped slash in a password is invalid but common. Stop before the next URL.
        let stop = text.skip(host, |b| in_name(b) && !matches!(b, b'@' | b':' | b'=' | b'&'));
        // What looks like the rest of the password is the next URL, whose own secret is masked already.
        if authority.ends_with(':') && text.slice(host..stop) == MASKED_NEXT {
            return None;
        }
        let rest = text.slice(stop..text.skip(stop, in_host));
        rest.starts_with('@').then(|| stop + rest.rfind('@').unwrap_or(0))
    })?;
    let from = match colon.map(|colon| end + colon + 1) {
        Some(from) if from <= at_sign => from,
        _ if at_sign - end >= 20 => end,
        _ => return None,
    };
    (from < at_sign).then_some(from..at_sign)
}
