//! Compares titles, descriptions and instructions.

use super::values::{count, sentence};
use super::{Differences, Gravity};
use crate::json::string_value;
use crate::untrusted::is_hidden;

/// Compares two texts, given as JSON. Another text is never stricter.
pub(super) fn compare(found: &mut Differences, kind: &'static str, what: &str, old: Option<&str>, new: Option<&str>) {
    let read = |json: Option<&str>| json.map_or(Some(String::new()), |json| string_value(json).map(Into::into));
    let (Some(was), Some(is)) = (read(old), read(new)) else {
        found.add(Gravity::Text, kind, sentence(what, old, new));
        return;
    };
    let (removed, added) = middle(&was, &is);
    let hidden = added.chars().filter(|c| is_hidden(*c) && !c.is_ascii_whitespace()).count();
    let (lost, gained) = (removed.chars().count(), added.chars().count());
    let mut meaning = match (old.is_some(), new.is_some(), lost, gained) {
        (false, ..) => format!("{what} is new and has {}.", count(gained, "character")),
        (_, false, ..) => format!("{what} is gone. It had {}.", count(lost, "character")),
        (_, _, 0, _) => format!("{what} has {}.", count(gained, "new character")),
        (_, _, _, 0) => format!("{what} lost {}.", count(lost, "character")),
        (_, _, _, _) => format!("{what} has {} in place of {lost}.", count(gained, "new character")),
    };
    let gravity = if hidden == 0 { Gravity::Text } else { Gravity::Severe };
    if hidden > 0 {
        meaning.push_str(&format!(" {hidden} of them cannot be seen."));
    }
    found.add(gravity, kind, meaning);
}

/// Returns the parts of both texts that are left without their common beginning and end.
fn middle<'a>(old: &'a str, new: &'a str) -> (&'a str, &'a str) {
    let begin: usize = old.chars().zip(new.chars()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let (old, new) = (old.get(begin..).unwrap_or_default(), new.get(begin..).unwrap_or_default());
    let end: usize =
        old.chars().rev().zip(new.chars().rev()).take_while(|(a, b)| a == b).map(|(c, _)| c.len_utf8()).sum();
    let cut = |text: &'a str| text.get(..text.len() - end).unwrap_or_default();
    (cut(old), cut(new))
}
