//! Words for values and names of a server, escaped and shortened.

use crate::file::shown;

/// Names something of the server: ``Parameter `path` ``.
pub(super) fn name_of(what: &str, name: &str) -> String {
    format!("{what} `{}`", shown(name))
}

/// Says how a value changed.
pub(super) fn sentence(what: &str, old: Option<&str>, new: Option<&str>) -> String {
    format!("{}.", fact(what, old, new))
}

/// As `sentence`, without the full stop.
pub(super) fn fact(what: &str, old: Option<&str>, new: Option<&str>) -> String {
    match (old.map(shown), new.map(shown)) {
        (Some(old), Some(new)) if old == new => format!("{what} changed"),
        (Some(old), Some(new)) => format!("{what} was {old} and is {new}"),
        (Some(old), None) => format!("{what} was {old} and is gone"),
        (None, Some(new)) => format!("{what} is new: {new}"),
        (None, None) => format!("{what} changed"),
    }
}

/// Counts things: `1 new value`, `2 new values`.
pub(super) fn count(number: usize, thing: &str) -> String {
    if number == 1 { format!("1 {thing}") } else { format!("{number} {thing}s") }
}
