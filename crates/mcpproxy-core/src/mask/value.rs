//! Finds the end of the value that follows a secret's name, and masks it.
//!
//! A value can be a JSON member, a query parameter, a header, an XML element, an option of a command, or prose. Each
//! form has its own function below. When in doubt, prose is left alone: `password: required` is a sentence.

use super::formats::opaque_end;
use super::names::{NameKind, is_option};
use super::text::{Quote, StringBoundary, Text, string_end};
use super::{STARS, SecretScan};

/// Members that describe a secret and are not part of it, as in `"token": {"type": "string"}`.
const TELLING: [&str; 17] = [
    "type",
    "description",
    "title",
    "name",
    "format",
    "required",
    "enum",
    "pattern",
    "$ref",
    "$schema",
    "minLength",
    "maxLength",
    "minimum",
    "maximum",
    "minItems",
    "maxItems",
    "in",
];

/// Words that follow a name and a colon in documentation: `token: the access token`.
const SENTENCE: [&str; 41] = [
    "the",
    "a",
    "an",
    "it",
    "is",
    "your",
    "string",
    "str",
    "required",
    "optional",
    "if",
    "for",
    "to",
    "must",
    "and",
    "or",
    "this",
    "that",
    "use",
    "used",
    "uses",
    "see",
    "set",
    "when",
    "not",
    "no",
    "none",
    "null",
    "true",
    "false",
    "any",
    "only",
    "invalid",
    "missing",
    "expired",
    "please",
    "in",
    "with",
    "e.g.",
    "authentication",
    "number",
];

/// Authorization schemes, which are not masked.
const SCHEMES: [&str; 8] =
    ["bearer", "basic", "digest", "token", "apikey", "negotiate", "sharedkey", "aws4-hmac-sha256"];

/// The extent to which an object or array is masked.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum MaskDepth {
    /// The secret, but not `true`, `false`, or members that describe it.
    Secret,
    /// Everything except `null`, because a contract says so.
    Everything,
}

/// Masks the value after the name that ends at `end`. Returns where the search may continue.
pub(super) fn mask_after(scan: &mut SecretScan<'_, '_>, kind: NameKind, start: usize, end: usize) -> Option<usize> {
    let text = scan.text;
    if kind == NameKind::Parameter {
        return parameter(scan, start, end);
    }
    if let Some(quote) = Quote::at(text, end) {
        let at = text.space(end + quote.len());
        return match text.at(at) {
            b':' => member(scan, kind, quote, text.space(at + 1)),
            b'=' => member(scan, kind, quote, text.space(at + 1 + usize::from(text.at(at + 1) == b'>'))),
            b',' => next_string(scan, kind, quote, start, text.space(at + 1)),
            _ => None,
        };
    }
    if text.at(end) == b'>' {
        return element(scan, start, end + 1);
    }
    let behind = text.skip(end, |b| matches!(b, b'*' | b')' | b']')).min(end + 3);
    let at = text.skip(behind, |b| b == b' ').min(behind + 2);
    match text.at(at) {
        b'=' => {
            let from = at + text.skip(at, |b| matches!(b, b'=' | b'>')).saturating_sub(at).min(3);
            prose(scan, kind, Separator::Equals, text.skip(from, |b| b == b' ').min(from + 4))
        }
        b':' if text.at(at + 1) == b'=' => {
            prose(scan, kind, Separator::Equals, text.skip(at + 2, |b| b == b' ').min(at + 6))
        }
        b':' if matches!(text.at(at + 1), b':' | b'/') => None,
        b':' => {
            // Markdown: `**Name:** value`. More stars are a secret that is masked already.
            let marks = text.skip(at + 1, |b| b == b'*');
            let from = if marks > at + 3 { at + 1 } else { marks };
            let from = text.skip(from, |b| b == b' ').min(from + 4);
            prose(scan, kind, Separator::Colon, from)
        }
        b'%' if text.has(at, "%3D") => prose(scan, kind, Separator::Equals, at + 3),
        b'\'' if at == end + 1 && kind == NameKind::Any => prose(scan, kind, Separator::Equals, at),
        _ if at == end + 1 && is_option(text, start) && text.at(at) != b'-' => prose(scan, kind, Separator::Blank, at),
        _ => None,
    }
}

/// The separator between a name and a value in prose.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Separator {
    Equals,
    Colon,
    Blank,
}

/// Masks `"name": value` in JSON at any level of embedding, and in Python or JavaScript that looks like it.
fn member(scan: &mut SecretScan<'_, '_>, kind: NameKind, quote: Quote, at: usize) -> Option<usize> {
    let text = scan.text;
    if let Some(open) = Quote::at(text, at).filter(|open| quote.goes_with(*open)) {
        let from = at + open.len();
        let is_json = (open.mark != b'"' || open != quote) && scan.is_json();
        if ends_outer(open, quote, is_json) {
            return None;
        }
        let end = string_end(
            text,
            from,
            open,
            if open.mark == b'"' { StringBoundary::Text } else { StringBoundary::Line },
            is_json,
        );
        if kind == NameKind::Opaque && (end.content - from < 16 || opaque_end(text, from) != end.content) {
            return None;
        }
        scan.out.replace(from + scheme(text, kind, from)..end.content, STARS);
        return Some(end.after);
    }
    match text.at(at) {
        b'{' | b'[' => {
            (!matches!(kind, NameKind::Text | NameKind::Opaque)).then(|| container(scan, at, quote, MaskDepth::Secret))
        }
        _ if matches!(kind, NameKind::Text | NameKind::Opaque) => None,
        _ => {
            let end = scalar_end(text, at);
            let value = text.slice(at..end);
            if end == at || matches!(value, "true" | "false" | "null" | "True" | "False" | "None") {
                return None;
            }
            if is_word_of_sentence(value) {
                return None;
            }
            if is_number(value) {
                scan.out.replace_quoted(at..end, quote);
            } else {
                scan.out.replace(at..end, STARS);
            }
            Some(end)
        }
    }
}

/// Masks the string after a name that is a string itself: `["--token", "…"]`, `"name": "PASSWORD", "value": "…"`.
fn next_string(scan: &mut SecretScan<'_, '_>, kind: NameKind, quote: Quote, start: usize, at: usize) -> Option<usize> {
    let text = scan.text;
    let open = Quote::at(text, at).filter(|open| *open == quote)?;
    let from = at + open.len();
    if text.has(from, "value") && Quote::at(text, from + 5) == Some(quote) {
        let colon = text.space(from + 5 + quote.len());
        return if text.at(colon) == b':' { member(scan, kind, quote, text.space(colon + 1)) } else { None };
    }
    if !is_option(text, start) || text.at(from) == b'-' {
        return None;
    }
    let end = string_end(text, from, open, StringBoundary::Text, false);
    // A string before a colon is the next key, not the value of an option.
    if text.at(text.space(end.after)) == b':' {
        return None;
    }
    scan.out.replace(from..end.content, STARS);
    Some(end.after)
}

/// Masks `name=value`, `name: value` and `--name value`.
fn prose(scan: &mut SecretScan<'_, '_>, kind: NameKind, before: Separator, at: usize) -> Option<usize> {
    let text = scan.text;
    if let Some(open) = Quote::at(text, at) {
        let from = at + open.len();
        // In JSON, such a quote ends the surrounding string.
        let is_end = matches!(text.at(from), b',' | b'}' | b']' | b':' | b')' | b';') || text.space(from) > from;
        if is_end || from >= text.len() || (open.is_outermost() && scan.is_json()) {
            return None;
        }
        let is_json = scan.is_json();
        let end = string_end(text, from, open, StringBoundary::Line, is_json);
        if kind == NameKind::Opaque && (end.content - from < 16 || opaque_end(text, from) != end.content) {
            return None;
        }
        scan.out.replace(from + scheme(text, kind, from)..end.content, STARS);
        return Some(end.after);
    }
    if matches!(text.at(at), b'{' | b'[' | b'(' | b'<' | b'$') && before != Separator::Equals {
        return None;
    }
    if matches!(kind, NameKind::Text | NameKind::Opaque) && before != Separator::Equals {
        return None;
    }
    // `PWD=/home` in an environment is the current folder.
    let is_folder = text.at(at) == b'/' && text.has_before(at, "PWD=");
    if is_folder || (kind == NameKind::Opaque && !is_opaque(text, at)) {
        return None;
    }
    let kept = scheme(text, kind, at);
    let first = bare_end(text, at);
    let is_header = kept > 0 || (kind == NameKind::Cookie && text.slice(at..first).contains('='));
    let end = if is_header { line_end(text, at + kept) } else { first };
    let value = text.slice(at + kept..end);
    if value.is_empty() || (before != Separator::Equals && is_word_of_sentence(value)) {
        return None;
    }
    scan.out.replace(at + kept..end, STARS);
    Some(end)
}

/// Returns `true` if a value without quotes looks like a key: at least 16 characters of base64.
fn is_opaque(text: Text<'_>, at: usize) -> bool {
    let end = opaque_end(text, at);
    end - at >= 16 && (text.at(end) <= b' ' || matches!(text.at(end), b'"' | b'\'' | b'`' | b'\\' | b'&' | b';' | b','))
}

/// Masks `?sig=…` and `&X-Amz-Signature=…`.
fn parameter(scan: &mut SecretScan<'_, '_>, start: usize, end: usize) -> Option<usize> {
    let text = scan.text;
    let is_parameter = start.checked_sub(1).is_some_and(|last| matches!(text.at(last), b'?' | b'&' | b'-' | b';'))
        || text.ends_escape(start);
    if !is_parameter || text.at(end) != b'=' {
        return None;
    }
    let stop = bare_end(text, end + 1);
    scan.out.replace(end + 1..stop, STARS);
    Some(stop)
}

/// Masks `<name>value</name>`.
fn element(scan: &mut SecretScan<'_, '_>, start: usize, from: usize) -> Option<usize> {
    let text = scan.text;
    let is_open = (0..=24).any(|back| {
        start.checked_sub(back + 1).is_some_and(|at| {
            text.at(at) == b'<' && text.skip(at + 1, |b| b.is_ascii_alphanumeric() || b"_-:.".contains(&b)) >= start
        })
    });
    let end = text.skip(from, |b| !matches!(b, b'<' | b'>' | b'"' | b'\'' | b'`'));
    if !is_open || end == from || text.slice(end..end + 2) != "</" {
        return None;
    }
    scan.out.replace(from..end, STARS);
    Some(end)
}

/// Masks the values in an object or array. Returns its end.
pub(super) fn container(scan: &mut SecretScan<'_, '_>, start: usize, quote: Quote, depth: MaskDepth) -> usize {
    let text = scan.text;
    let is_json = quote.mark != b'"' && scan.is_json();
    let (mut at, mut open) = (start, 0usize);
    // Set while values describe the secret: the next value, or those of the list at this nesting level.
    let (mut is_telling, mut telling_list) = (false, None);
    loop {
        at = text.space(at);
        if at >= text.len() {
            return at;
        }
        let keeps = is_telling || telling_list == Some(open);
        match text.at(at) {
            bracket @ (b'{' | b'[') => {
                open += 1;
                telling_list = (is_telling && bracket == b'[').then_some(open).or(telling_list);
                is_telling = false;
                at += 1;
            }
            b'}' | b']' => {
                telling_list = telling_list.filter(|list| *list < open);
                is_telling = false;
                open -= 1;
                at += 1;
                if open == 0 {
                    return at;
                }
            }
            b',' => {
                is_telling = false;
                at += 1;
            }
            b':' => at += 1,
            _ => match Quote::at(text, at) {
                Some(found) if quote.goes_with(found) && !ends_outer(found, quote, is_json) => {
                    let from = at + found.len();
                    let end = string_end(text, from, found, StringBoundary::Text, is_json);
                    let is_key = end.is_closed && text.at(text.space(end.after)) == b':';
                    if is_key {
                        let key = text.slice(from..end.content);
                        is_telling = depth == MaskDepth::Secret && TELLING.contains(&key);
                    }
                    if is_key || keeps {
                        scan.within(from..end.content);
                    } else {
                        scan.out.replace(from..end.content, STARS);
                    }
                    if !end.is_closed {
                        return end.after;
                    }
                    at = end.after;
                }
                Some(_) => return at,
                None => {
                    let end = scalar_end(text, at).max(next_char(text, at));
                    let is_open = match text.slice(at..end) {
                        "null" | "None" => true,
                        "true" | "false" | "True" | "False" => depth == MaskDepth::Secret,
                        _ => keeps,
                    };
                    if !is_open {
                        scan.out.replace_quoted(at..end, quote);
                    }
                    at = end;
                }
            },
        }
    }
}

/// Returns `true` if a quote ends the JSON string that surrounds a value with other quotes.
fn ends_outer(found: Quote, quote: Quote, is_json: bool) -> bool {
    is_json && found != quote && found.is_outermost()
}

fn next_char(text: Text<'_>, at: usize) -> usize {
    text.skip(at + 1, |b| !b.is_ascii() && b & 0xc0 == 0x80)
}

/// Returns the end of a number or literal in JSON.
fn scalar_end(text: Text<'_>, at: usize) -> usize {
    text.skip(at, |b| b > b' ' && !matches!(b, b',' | b':' | b'{' | b'}' | b'[' | b']' | b'"' | b'\'' | b'`' | b'\\'))
}

fn is_number(text: &str) -> bool {
    text.bytes().all(|b| b.is_ascii_digit() || matches!(b, b'+' | b'-' | b'.' | b'e' | b'E'))
}

/// Returns the end of a value without quotes: a space, a quote, or a separator such as `&`.
fn bare_end(text: Text<'_>, from: usize) -> usize {
    let mut at = from;
    loop {
        at = text.skip(at, |b| {
            b > b' ' && !matches!(b, b'"' | b'\'' | b'`' | b'\\' | b'&' | b';' | b',' | b'<' | b'>' | b'%' | b'|')
        });
        let next = text.at(at + 1);
        at = match text.at(at) {
            b',' if next > b' ' && !matches!(next, b'"' | b'\'' | b'`' | b'\\') => at + 1,
            b'%' if !text.has(at, "%26") => at + 1,
            b'\\' => match escape(text, at) {
                Escape::Char(behind) => behind,
                Escape::Quote | Escape::Space | Escape::Markup => return at,
            },
            _ => return at,
        };
    }
}

/// Returns the end of the line, or of the surrounding string.
fn line_end(text: Text<'_>, from: usize) -> usize {
    let mut at = from;
    loop {
        at = text.skip(at, |b| !matches!(b, b'"' | b'\'' | b'`' | b'\\' | b'\n' | b'\r'));
        if text.at(at) != b'\\' {
            return at;
        }
        at = match escape(text, at) {
            Escape::Char(behind) => behind,
            Escape::Markup => text.backslashes(at) + 5,
            Escape::Quote | Escape::Space => return at,
        };
    }
}

/// The meaning of backslashes and the character after them, at any level of embedding.
enum Escape {
    Quote,
    /// A space, tab or line break.
    Space,
    /// One of `&`, `<` and `>`.
    Markup,
    /// Part of the value, which continues at this offset.
    Char(usize),
}

fn escape(text: Text<'_>, at: usize) -> Escape {
    let behind = text.backslashes(at);
    match (text.at(behind), text.coded(behind)) {
        (b'"' | b'\'' | b'`', _) | (_, Some(b'"' | b'\'' | b'`')) => Escape::Quote,
        (b'n' | b'r' | b't', _) | (_, Some(0..=0x20)) => Escape::Space,
        (_, Some(b'&' | b'<' | b'>')) => Escape::Markup,
        (_, Some(_)) => Escape::Char(behind + 5),
        _ => Escape::Char(behind),
    }
}

/// Returns the length of the authorization scheme at the start of a value, with its space.
fn scheme(text: Text<'_>, kind: NameKind, at: usize) -> usize {
    if kind != NameKind::Authorization {
        return 0;
    }
    let found = SCHEMES.iter().find(|word| text.has(at, word) && text.at(at + word.len()) == b' ');
    found.map_or(0, |word| word.len() + 1)
}

fn is_word_of_sentence(value: &str) -> bool {
    let word = value.trim_end_matches(['.', ',', ':', ')', '!', '?']);
    SENTENCE.iter().any(|known| known.eq_ignore_ascii_case(word)) || word.is_empty()
}
