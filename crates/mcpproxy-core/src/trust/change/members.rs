//! Pairs the members of two objects.

use std::borrow::Cow;
use std::collections::BTreeMap;

use crate::json::members;

/// A member that differs. `None` if the object does not have it.
pub(super) struct Pair<'a> {
    pub(super) key: Cow<'a, str>,
    pub(super) old: Option<&'a str>,
    pub(super) new: Option<&'a str>,
}

/// Returns the members that differ, by key. `normal` writes equal meanings the same way. Returns `None` if one of the
/// texts is not an object.
pub(super) fn differing<'a>(old: &'a str, new: &'a str, normal: fn(&str, &str) -> String) -> Option<Vec<Pair<'a>>> {
    let mut pairs: BTreeMap<Cow<'a, str>, (Option<&'a str>, Option<&'a str>)> = BTreeMap::new();
    for (key, value) in members(old)? {
        pairs.entry(key).or_default().0 = Some(value);
    }
    for (key, value) in members(new)? {
        pairs.entry(key).or_default().1 = Some(value);
    }
    let pairs = pairs.into_iter().map(|(key, (old, new))| Pair { key, old, new });
    let differs = |pair: &Pair<'_>| match (pair.old, pair.new) {
        (Some(old), Some(new)) => old != new && normal(&pair.key, old) != normal(&pair.key, new),
        (Some(_), None) | (None, Some(_)) | (None, None) => true,
    };
    Some(pairs.filter(differs).collect())
}

/// Returns the elements of an array.
pub(super) fn elements(array: &str) -> Option<Vec<&str>> {
    let elements: Vec<&serde_json::value::RawValue> = serde_json::from_str(array).ok()?;
    Some(elements.into_iter().map(serde_json::value::RawValue::get).collect())
}
