//! Finds the accepted definition that a new one resembles. It may be the same tool under another name.
//!
//! Two definitions are alike if they share the words of their descriptions, the names of their parameters and the parts
//! of their names. Words are compared as hashes, so that a list of ten thousand definitions is compared in a moment.

use crate::json::{member, members, string_value};

use super::members::elements;

/// Words of a description that are compared.
const WORDS_MAX: usize = 200;
/// Descriptions with fewer words say too little to recognize a tool by.
const WORDS_MIN: usize = 4;
/// From this value on, a user sees the resemblance at once. Siblings such as `list_pods` and `list_nodes` stay below.
const CLEARLY_ALIKE: f64 = 0.8;

/// The accepted definitions that a new one is compared with.
pub(in crate::trust) struct Candidates<'a>(Vec<(&'a str, Features)>);

/// Sorted hashes of the words of a definition.
struct Features {
    description: Vec<u32>,
    parameters: Vec<u32>,
    name: Vec<u32>,
}

impl<'a> Candidates<'a> {
    /// Each definition comes as name and JSON.
    pub(in crate::trust) fn new(accepted: impl Iterator<Item = (&'a str, &'a str)>) -> Self {
        Self(accepted.map(|(name, json)| (name, Features::of(name, json))).collect())
    }

    pub(in crate::trust) fn most_alike(&self, json: &str) -> Option<String> {
        let name = ["name", "uriTemplate"].into_iter().find_map(|key| member(json, key).and_then(string_value))?;
        let new = Features::of(&name, json);
        let mut best: Option<(f64, &str)> = None;
        for (name, old) in &self.0 {
            let likeness = old.likeness(&new);
            // Of two that are equally alike, the first by name, so that the answer does not depend on the order.
            let is_better = best.is_none_or(|(most, first)| likeness > most || (likeness >= most && *name < first));
            if likeness >= CLEARLY_ALIKE && is_better {
                best = Some((likeness, name));
            }
        }
        best.map(|(_, name)| name.to_owned())
    }
}

impl Features {
    fn of(name: &str, json: &str) -> Self {
        let description = member(json, "description").and_then(string_value).unwrap_or_default();
        let schema = member(json, "inputSchema").and_then(|schema| member(schema, "properties"));
        let parameters = schema.and_then(members).unwrap_or_default();
        let arguments = member(json, "arguments").and_then(elements).unwrap_or_default();
        let arguments = arguments.into_iter().filter_map(|one| member(one, "name").and_then(string_value));
        let parameters = parameters.into_iter().map(|(name, _)| hash(&name)).chain(arguments.map(|name| hash(&name)));
        Self {
            description: sorted(words(&description).take(WORDS_MAX)),
            parameters: sorted(parameters),
            name: sorted(words(name)),
        }
    }

    /// Returns how alike a newer definition is, from 0 to 1.
    fn likeness(&self, new: &Self) -> f64 {
        let name = shared(&self.name, &new.name);
        let description = if self.description.len() < WORDS_MIN || new.description.len() < WORDS_MIN {
            shared(&self.description, &new.description)
        } else {
            // A poisoned copy says everything that the old one said, and more.
            let kept = common(&self.description, &new.description);
            ratio(kept, self.description.len())
        };
        if self.parameters.is_empty() && new.parameters.is_empty() {
            return 0.8 * description + 0.2 * name;
        }
        0.5 * description + 0.3 * shared(&self.parameters, &new.parameters) + 0.2 * name
    }
}

/// Returns the part of all words that both have.
fn shared(one: &[u32], other: &[u32]) -> f64 {
    let common = common(one, other);
    ratio(common, one.len() + other.len() - common)
}

fn ratio(part: usize, whole: usize) -> f64 {
    if whole == 0 {
        return 0.0;
    }
    // Both are at most a few hundred.
    f64::from(u32::try_from(part).unwrap_or(u32::MAX)) / f64::from(u32::try_from(whole).unwrap_or(u32::MAX))
}

/// Counts the hashes that are in both lists.
fn common(one: &[u32], other: &[u32]) -> usize {
    let (mut one, mut other) = (one.iter().peekable(), other.iter().peekable());
    let mut count = 0;
    while let (Some(a), Some(b)) = (one.peek(), other.peek()) {
        match a.cmp(b) {
            std::cmp::Ordering::Less => drop(one.next()),
            std::cmp::Ordering::Greater => drop(other.next()),
            std::cmp::Ordering::Equal => {
                count += 1;
                one.next();
                other.next();
            }
        }
    }
    count
}

fn sorted(hashes: impl Iterator<Item = u32>) -> Vec<u32> {
    let mut hashes: Vec<u32> = hashes.collect();
    hashes.sort_unstable();
    hashes.dedup();
    hashes
}

/// Returns the hashes of words. A capital letter begins a word: `readFile` and `read_file` have the same.
fn words(text: &str) -> impl Iterator<Item = u32> {
    let mut rest = text;
    std::iter::from_fn(move || {
        rest = rest.trim_start_matches(|c: char| !c.is_alphanumeric());
        let mut before = None;
        let end = rest.char_indices().find(|(_, c)| {
            let is_end = !c.is_alphanumeric() || (c.is_uppercase() && before.is_some_and(char::is_lowercase));
            before = Some(*c);
            is_end
        });
        let (word, after) = rest.split_at(end.map_or(rest.len(), |(at, _)| at));
        rest = after;
        (!word.is_empty()).then(|| hash(word))
    })
}

/// FNV-1a over the lower-case letters.
fn hash(word: &str) -> u32 {
    let mut hash: u32 = 0x811c_9dc5;
    let mut buffer = [0; 4];
    for c in word.chars().flat_map(char::to_lowercase) {
        for byte in c.encode_utf8(&mut buffer).bytes() {
            hash = (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193);
        }
    }
    hash
}
