//! Masks the values that a contract's `sensitive` list names by JSON pointer.

use std::borrow::Cow;

use serde_json::Value;
use thiserror::Error;

use super::text::{Quote, StringBoundary, Text, string_end};
use super::value::{MaskDepth, container};
use super::{MaskedOutput, STARS, SecretScan};
use crate::json::string_value;

/// A JSON pointer (RFC 6901) of a contract's `sensitive` list. The segment `*` stands for any member or element.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Pointer {
    segments: Vec<Segment>,
}

/// One segment of a pointer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Segment {
    /// Any member or element.
    Any,
    /// The member with this name, or the element with this index.
    Named(String),
}

/// An error in the text of a JSON pointer.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
pub enum PointerError {
    /// A pointer that is not empty begins with a slash.
    #[error("a JSON pointer must begin with `/`")]
    NoSlash,
    /// A tilde occurs only in `~0` and `~1`.
    #[error("a JSON pointer writes `~` as `~0`, and `/` within a name as `~1`")]
    Tilde,
}

impl Pointer {
    /// Parses a pointer. The empty pointer denotes the whole text.
    pub fn parse(text: &str) -> Result<Self, PointerError> {
        if text.is_empty() {
            return Ok(Self { segments: Vec::new() });
        }
        let rest = text.strip_prefix('/').ok_or(PointerError::NoSlash)?;
        let segments = rest.split('/').map(Segment::parse).collect::<Result<_, _>>()?;
        Ok(Self { segments })
    }

    /// Prefixes the pointer with a member name.
    pub fn under(&self, member: &str) -> Self {
        let outer = Segment::Named(member.to_owned());
        Self { segments: std::iter::once(outer).chain(self.segments.iter().cloned()).collect() }
    }

    /// Prefixes the pointer with `*`.
    pub fn under_any(&self) -> Self {
        Self { segments: std::iter::once(Segment::Any).chain(self.segments.iter().cloned()).collect() }
    }

    /// Returns `true` if a plain JSON pointer leads to this value, into it, or to something that contains it.
    pub fn touches(&self, place: &str) -> bool {
        let Ok(place) = Self::parse(place) else { return true };
        self.segments.iter().zip(&place.segments).all(|(own, other)| match other {
            Segment::Any => true,
            Segment::Named(name) => own.admits(name),
        })
    }

    /// Returns every string at this pointer or below it.
    pub fn strings<'v>(&self, value: &'v Value) -> Vec<&'v str> {
        let mut places = vec![value];
        for segment in &self.segments {
            places = places.into_iter().flat_map(|place| segment.steps(place)).collect();
        }
        let mut found = Vec::new();
        while let Some(place) = places.pop() {
            match place {
                Value::String(text) => found.push(text.as_str()),
                Value::Array(elements) => places.extend(elements),
                Value::Object(members) => places.extend(members.values()),
                Value::Null | Value::Bool(_) | Value::Number(_) => {}
            }
        }
        found
    }

    pub(super) fn segments(&self) -> &[Segment] {
        &self.segments
    }
}

impl Segment {
    fn parse(text: &str) -> Result<Self, PointerError> {
        if text == "*" {
            return Ok(Self::Any);
        }
        let mut name = String::with_capacity(text.len());
        let mut rest = text.chars();
        while let Some(next) = rest.next() {
            match next {
                '~' => match rest.next() {
                    Some('0') => name.push('~'),
                    Some('1') => name.push('/'),
                    _ => return Err(PointerError::Tilde),
                },
                plain => name.push(plain),
            }
        }
        Ok(Self::Named(name))
    }

    /// Returns the values to which this segment leads.
    fn steps<'v>(&self, value: &'v Value) -> Vec<&'v Value> {
        match value {
            Value::Object(members) => {
                members.iter().filter(|(name, _)| self.admits(name)).map(|(_, value)| value).collect()
            }
            Value::Array(elements) => {
                let numbered = elements.iter().enumerate();
                numbered.filter(|(at, _)| self.admits(&at.to_string())).map(|(_, value)| value).collect()
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => Vec::new(),
        }
    }

    pub(super) fn admits(&self, name: &str) -> bool {
        match self {
            Self::Any => true,
            Self::Named(own) => own == name,
        }
    }
}

/// Masks the values at the pointers. Returns `None` if they lead nowhere in this text.
///
/// Works on text that was cut off, too: everything up to the cut is masked, the last value included.
pub(super) fn mask(text: &str, pointers: &[Pointer]) -> Option<String> {
    let mut out = MaskedOutput::new(text);
    let alive: Vec<&[Segment]> = pointers.iter().map(Pointer::segments).collect();
    let mut scan = SecretScan::new(text, &mut out);
    let start = scan.text.space(0);
    descend(&mut scan, start, &alive);
    out.finish()
}

const QUOTE: Quote = Quote { backslashes: 0, mark: b'"', coded: false };

/// Follows the pointers into the value at `at` and returns its end. Recursion is as deep as the longest pointer.
fn descend(scan: &mut SecretScan<'_, '_>, at: usize, alive: &[&[Segment]]) -> usize {
    let text = scan.text;
    if alive.iter().any(|rest| rest.is_empty()) {
        return mask_value(scan, at);
    }
    let bracket = text.at(at);
    if alive.is_empty() || !matches!(bracket, b'{' | b'[') {
        return value_end(text, at);
    }
    let mut at = text.space(at + 1);
    for index in 0usize.. {
        if at >= text.len() || matches!(text.at(at), b'}' | b']') {
            break;
        }
        let name = if bracket == b'{' {
            let key = at;
            at = text.space(value_end(text, at));
            if text.at(at) != b':' {
                return text.len();
            }
            let name = string_value(text.slice(key..at).trim_end());
            at = text.space(at + 1);
            name.unwrap_or_default()
        } else {
            Cow::Owned(index.to_string())
        };
        let next: Vec<&[Segment]> = alive
            .iter()
            .filter_map(|rest| rest.split_first())
            .filter(|(first, _)| first.admits(&name))
            .map(|(_, rest)| rest)
            .collect();
        let behind = descend(scan, at, &next);
        at = text.space(behind);
        match text.at(at) {
            b',' => at = text.space(at + 1),
            b'}' | b']' => break,
            // Not JSON from here on.
            _ => return text.len(),
        }
    }
    at + 1
}

/// Masks a whole value.
fn mask_value(scan: &mut SecretScan<'_, '_>, at: usize) -> usize {
    let text = scan.text;
    match text.at(at) {
        b'{' | b'[' => container(scan, at, QUOTE, MaskDepth::Everything),
        b'"' => {
            let end = string_end(text, at + 1, QUOTE, StringBoundary::Text, false);
            scan.out.replace(at + 1..end.content, STARS);
            end.after
        }
        _ => {
            let end = value_end(text, at);
            if text.slice(at..end) != "null" {
                scan.out.replace_quoted(at..end, QUOTE);
            }
            end
        }
    }
}

/// Returns the end of the value at `at`.
fn value_end(text: Text<'_>, at: usize) -> usize {
    let (mut at, mut open) = (at, 0usize);
    loop {
        match text.at(at) {
            b'"' => at = string_end(text, at + 1, QUOTE, StringBoundary::Text, false).after,
            b'{' | b'[' => (open, at) = (open + 1, at + 1),
            b'}' | b']' if open > 0 => (open, at) = (open - 1, at + 1),
            _ if open > 0 => at = text.skip(at + 1, |b| !matches!(b, b'"' | b'{' | b'}' | b'[' | b']')),
            _ => return text.skip(at, |b| !matches!(b, b',' | b'}' | b']' | b':' | b' ' | b'\t' | b'\n' | b'\r')),
        }
        if open == 0 || at >= text.len() {
            return at;
        }
    }
}
