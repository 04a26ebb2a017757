//! Compares the arguments of a prompt.

use std::collections::BTreeMap;

use super::values::{name_of, sentence};
use super::{Differences, Gravity, members, text};
use crate::json::{member, string_value};
use crate::trust::pin::normal_keyword;

const KIND: &str = "arguments";

pub(super) fn compare(found: &mut Differences, old: Option<&str>, new: Option<&str>) {
    let (Some(was), Some(is)) = (by_name(old), by_name(new)) else {
        found.add(Gravity::Data, KIND, "The arguments have another form.");
        return;
    };
    for (name, json) in &is {
        let argument = name_of("argument", name);
        match was.get(name) {
            Some(before) => compare_one(found, name, before, json),
            None if member(json, "required") == Some("true") => {
                found.add(Gravity::Data, KIND, format!("New required {argument}: agents must send data in it."));
            }
            None => found.add(Gravity::Data, KIND, format!("New optional {argument}: agents may send data in it.")),
        }
    }
    for name in was.keys().filter(|name| !is.contains_key(*name)) {
        found.add(Gravity::Other, KIND, format!("{} is gone.", name_of("Argument", name)));
    }
}

fn compare_one(found: &mut Differences, name: &str, old: &str, new: &str) {
    let argument = name_of("Argument", name);
    let Some(pairs) = members::differing(old, new, normal_keyword) else {
        found.add(Gravity::Data, KIND, format!("{argument} has another form."));
        return;
    };
    for members::Pair { key, old, new } in pairs {
        match (key.as_ref(), old, new) {
            ("title" | "description", ..) => {
                text::compare(found, KIND, &format!("The {key} of {}", name_of("argument", name)), old, new);
            }
            ("required", None | Some("false"), Some("true")) => {
                found.add(Gravity::Stricter, KIND, format!("{argument} is now required."));
            }
            ("required", Some("true"), None | Some("false")) => {
                found.add(Gravity::Data, KIND, format!("{argument} is no longer required."));
            }
            (_, _, _) => {
                let what = format!("{} of {}", name_of("Member", &key), name_of("argument", name));
                found.add(Gravity::Data, KIND, sentence(&what, old, new));
            }
        }
    }
}

/// Returns `None` if an argument has no name, or the name of another one.
fn by_name(arguments: Option<&str>) -> Option<BTreeMap<String, &str>> {
    let Some(arguments) = arguments.filter(|json| *json != "null") else { return Some(BTreeMap::new()) };
    let elements = members::elements(arguments)?;
    let count = elements.len();
    let named = elements.into_iter().map(|json| Some((string_value(member(json, "name")?)?.into_owned(), json)));
    let named: BTreeMap<String, &str> = named.collect::<Option<_>>()?;
    (named.len() == count).then_some(named)
}
