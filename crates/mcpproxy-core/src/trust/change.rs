//! Says what the difference between two versions of a definition means.
//!
//! [`compare`] walks both versions side by side, member by member. Each difference becomes a [`Difference`]: a sentence
//! for the user, and its [`Gravity`]. A user reads the gravest first.
//!
//! A change is *stricter* if every difference is proven to make things stricter, and then no user is asked. The proof is
//! made of small steps, each of which only narrows:
//!
//! - a hint moves away from "only reads" or towards "destructive" (`hints`),
//! - a schema admits fewer values, and contains no new text (`schema`),
//! - the server's contract asks for more (`contract`).
//!
//! Everything else is not stricter: any other text, default or example, any unknown member, and any keyword that this
//! module does not know. Each step is strict, so a change and its way back are never both stricter.
//!
//! The texts come from a server. Names and values in sentences are escaped and shortened.

mod alike;
mod arguments;
mod contract;
mod hints;
mod members;
mod narrower;
mod schema;
mod text;
mod values;

use super::{DefinitionKind, Pin};
use schema::Side;

pub(super) use alike::Candidates;

/// Sentences about one change. A schema of ten thousand parameters can change ten thousand times.
const MEANINGS_MAX: usize = 50;

/// The difference between an accepted definition and the one that a server lists now.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Change {
    /// One sentence for each difference, the gravest first.
    pub meanings: Vec<String>,
    /// The kinds of difference, each once: `description`, `input_schema`, `hints` and so on.
    pub kinds: Vec<&'static str>,
    /// True if the new version only admits less than the old one.
    pub is_stricter: bool,
}

/// How much a user should care. From the gravest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Gravity {
    /// More calls run without a user, or text is hidden from users.
    Severe,
    /// Agents can send other data, or the server does something else by default.
    Data,
    /// Models read another text.
    Text,
    Other,
    /// The difference only makes things stricter.
    Stricter,
}

struct Difference {
    gravity: Gravity,
    kind: &'static str,
    meaning: String,
}

/// The differences found so far.
#[derive(Default)]
struct Differences(Vec<Difference>);

impl Differences {
    fn add(&mut self, gravity: Gravity, kind: &'static str, meaning: impl Into<String>) {
        self.0.push(Difference { gravity, kind, meaning: meaning.into() });
    }

    fn into_change(mut self) -> Change {
        self.0.sort_by_key(|one| one.gravity);
        let is_stricter = self.0.iter().all(|one| one.gravity == Gravity::Stricter);
        let mut kinds: Vec<&'static str> = Vec::new();
        for one in &self.0 {
            if !kinds.contains(&one.kind) {
                kinds.push(one.kind);
            }
        }
        let more = self.0.len().saturating_sub(MEANINGS_MAX);
        let mut meanings: Vec<String> = self.0.into_iter().take(MEANINGS_MAX).map(|one| one.meaning).collect();
        if more > 0 {
            meanings.push(format!("There are {more} more differences."));
        }
        Change { meanings, kinds, is_stricter }
    }
}

/// Compares two versions of a definition, as the server's own JSON. The result is empty if they mean the same.
pub fn compare(kind: DefinitionKind, old: &str, new: &str) -> Change {
    if old == new || Pin::of(kind, old) == Pin::of(kind, new) {
        return Change::default();
    }
    let mut found = Differences::default();
    match kind {
        DefinitionKind::Instructions => {
            text::compare(&mut found, "instructions", "The text of the instructions", Some(old), Some(new));
        }
        DefinitionKind::Tool | DefinitionKind::Prompt | DefinitionKind::Template => {
            object(&mut found, kind, old, new);
        }
    }
    if found.0.is_empty() {
        // Another pin must never look like no difference.
        found.add(Gravity::Other, "other", "The definition is written in another way.");
    }
    found.into_change()
}

/// Returns the name of the accepted definition that a new one resembles. Each accepted one comes as name and JSON.
pub fn most_alike<'a>(json: &str, accepted: impl Iterator<Item = (&'a str, &'a str)>) -> Option<String> {
    Candidates::new(accepted).most_alike(json)
}

fn object(found: &mut Differences, kind: DefinitionKind, old: &str, new: &str) {
    let Some(pairs) = members::differing(old, new, super::pin::normal) else {
        found.add(Gravity::Other, "other", "The definition has another form.");
        return;
    };
    let is_tool = kind == DefinitionKind::Tool;
    for members::Pair { key, old, new } in pairs {
        match key.as_ref() {
            "title" => text::compare(found, "title", "The title", old, new),
            "description" => text::compare(found, "description", "The description", old, new),
            "inputSchema" if is_tool => schema::compare(found, Side::Input, old, new),
            "outputSchema" if is_tool => schema::compare(found, Side::Output, old, new),
            "annotations" if is_tool => hints::compare(found, old, new),
            "arguments" if kind == DefinitionKind::Prompt => arguments::compare(found, old, new),
            "_meta" => contract::compare_meta(found, old, new),
            "icons" => {
                found.add(Gravity::Other, "icons", "Its icons come from other addresses.");
            }
            "execution" => {
                found.add(Gravity::Other, "execution", values::sentence("`execution`", old, new));
            }
            name => {
                let what = values::name_of("Member", name);
                found.add(Gravity::Other, "other", values::sentence(&what, old, new));
            }
        }
    }
}

#[cfg(test)]
mod tests;
