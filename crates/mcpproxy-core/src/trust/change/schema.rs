//! Compares the schemas of arguments and results, keyword by keyword.
//!
//! A keyword is an assertion, and a schema is all of them together. So if one keyword admits less and the others stay,
//! the schema admits less. That also holds for the schema of a property or of items, wherever it is. It does not hold
//! below `not`, `if`, `oneOf` and the like. There, and for keywords that are not listed here, a difference is told and
//! counts as not stricter.

use std::collections::BTreeSet;

use super::narrower::{self, Bound};
use super::values::{count, name_of, sentence};
use super::{Differences, Gravity, members, text};
use crate::json::{member, members as members_of, string_value};
use crate::trust::pin::normal_keyword;

/// Schemas below this depth are compared as a whole.
const DEPTH_MAX: usize = 12;

/// The direction in which values of a schema go.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    Input,
    Output,
}

impl Side {
    fn kind(self) -> &'static str {
        match self {
            Self::Input => "input_schema",
            Self::Output => "output_schema",
        }
    }

    fn value(self) -> &'static str {
        match self {
            Self::Input => "parameter",
            Self::Output => "result field",
        }
    }
}

pub(super) fn compare(found: &mut Differences, side: Side, old: Option<&str>, new: Option<&str>) {
    let what = match side {
        Side::Input => "The schema of arguments",
        Side::Output => "The schema of results",
    };
    let given = |json: Option<&'_ str>| json.filter(|json| *json != "null").map(str::to_owned);
    let (was, is) = match (given(old), given(new)) {
        (Some(was), Some(is)) => (was, is),
        (Some(_), None) => {
            return found.add(Gravity::Data, side.kind(), format!("{what} is gone, so anything passes."));
        }
        (None, Some(_)) => return found.add(Gravity::Data, side.kind(), format!("{what} is new: models read it.")),
        (None, None) => return found.add(Gravity::Other, side.kind(), format!("{what} is written in another way.")),
    };
    let (was, is) = (was.as_str(), is.as_str());
    let can_narrow = narrower::has_plain_references(was) && narrower::has_plain_references(is);
    let has_plain_dialect = narrower::is_plain(was) && narrower::is_plain(is);
    let mut walk = Walk { found, side, has_plain_dialect };
    walk.schema(&Place { path: String::new(), can_narrow, depth: 0 }, was, is);
}

/// A position in a schema.
struct Place {
    /// Empty for the schema itself, `path` for a parameter, `options.depth` for a nested one.
    path: String,
    /// True if a schema that admits less here makes the whole schema admit less.
    can_narrow: bool,
    depth: usize,
}

impl Place {
    fn below(&self, step: &str) -> Self {
        let path = match self.path.as_str() {
            "" => step.to_owned(),
            path if step.starts_with('[') => format!("{path}{step}"),
            path => format!("{path}.{step}"),
        };
        Self { path, can_narrow: self.can_narrow, depth: self.depth + 1 }
    }

    fn not_narrowing(self) -> Self {
        Self { can_narrow: false, ..self }
    }

    /// Returns the gravity of a difference that narrows this part of the schema.
    fn narrowed(&self) -> Gravity {
        if self.can_narrow { Gravity::Stricter } else { Gravity::Other }
    }
}

struct Walk<'f> {
    found: &'f mut Differences,
    side: Side,
    has_plain_dialect: bool,
}

impl Walk<'_> {
    fn add(&mut self, gravity: Gravity, meaning: impl Into<String>) {
        self.found.add(gravity, self.side.kind(), meaning);
    }

    /// Names what a part of the schema is about, at the beginning of a sentence.
    fn subject(&self, place: &Place) -> String {
        match (self.side, place.path.as_str()) {
            (Side::Input, "") => "The schema of arguments".to_owned(),
            (Side::Output, "") => "The schema of results".to_owned(),
            (Side::Input, path) => name_of("Parameter", path),
            (Side::Output, path) => name_of("Result field", path),
        }
    }

    /// As `subject`, inside of a sentence.
    fn object(&self, place: &Place) -> String {
        match (self.side, place.path.as_str()) {
            (Side::Input, "") => "the schema of arguments".to_owned(),
            (Side::Output, "") => "the schema of results".to_owned(),
            (side, path) => name_of(side.value(), path),
        }
    }

    fn schema(&mut self, place: &Place, old: &str, new: &str) {
        let pairs = (place.depth <= DEPTH_MAX).then(|| members::differing(old, new, normal_keyword)).flatten();
        let Some(pairs) = pairs else {
            let meaning = sentence(&self.subject(place), Some(old), Some(new));
            self.add(Gravity::Data, meaning);
            return;
        };
        for pair in pairs {
            self.keyword(place, (old, new), &pair);
        }
    }

    fn keyword(&mut self, place: &Place, schemas: (&str, &str), pair: &members::Pair<'_>) {
        let members::Pair { key, old, new } = pair;
        let (old, new) = (*old, *new);
        match (key.as_ref(), old, new) {
            ("title" | "description", ..) => {
                let what = format!("The {key} of {}", self.object(place));
                text::compare(self.found, self.side.kind(), &what, old, new);
            }
            ("properties", ..) => self.properties(place, schemas, (old, new)),
            ("required", ..) => self.required(place, schemas, (old, new)),
            ("additionalProperties", ..) => self.additional(place, (old, new)),
            ("enum", ..) => self.values(place, (old, new)),
            ("type", ..) => {
                let gravity = if narrower::has_fewer_types(old, new) { place.narrowed() } else { Gravity::Data };
                self.told(gravity, place, pair);
            }
            ("items", Some(old), Some(new)) if old.starts_with('{') && new.starts_with('{') => {
                self.schema(&place.below("[]"), old, new);
            }
            ("anyOf" | "oneOf" | "allOf", Some(was), Some(is)) => self.alternatives(place, pair, (was, is)),
            ("$defs" | "definitions", Some(was), Some(is)) => self.definitions(place, pair, (was, is)),
            ("$schema", None, Some(dialect)) if self.has_plain_dialect && narrower::is_dialect(dialect) => {
                self.add(place.narrowed(), "The schema names its dialect.");
            }
            (keyword, ..) => {
                let is_narrower = Bound::find(keyword).is_some_and(|bound| bound.is_narrower(old, new));
                let gravity = if is_narrower { place.narrowed() } else { Gravity::Data };
                self.told(gravity, place, pair);
            }
        }
    }

    /// Tells both values of a keyword.
    fn told(&mut self, gravity: Gravity, place: &Place, pair: &members::Pair<'_>) {
        let what = match pair.key.as_ref() {
            "default" => format!("The default of {}", self.object(place)),
            key => format!("{} of {}", name_of("Keyword", key), self.object(place)),
        };
        self.add(gravity, sentence(&what, pair.old, pair.new));
    }

    fn properties(&mut self, place: &Place, schemas: (&str, &str), (old, new): (Option<&str>, Option<&str>)) {
        let pairs =
            members::differing(old.unwrap_or("{}"), new.unwrap_or("{}"), |_, schema| normal_keyword("", schema));
        let Some(pairs) = pairs else {
            self.add(Gravity::Data, sentence(&format!("`properties` of {}", self.object(place)), old, new));
            return;
        };
        let required = names(member(schemas.1, "required")).unwrap_or_default();
        for members::Pair { key, old, new } in pairs {
            let below = place.below(&key);
            let value = name_of(self.side.value(), &below.path);
            match (old, new) {
                (Some(old), Some(new)) => self.schema(&below, old, new),
                (None, _) => {
                    let meaning = match (self.side, required.contains(key.as_ref())) {
                        (Side::Input, true) => format!("New required {value}: agents must send data in it."),
                        (Side::Input, false) => format!("New optional {value}: agents may send data in it."),
                        (Side::Output, _) => format!("New {value}: models read it."),
                    };
                    self.add(Gravity::Data, meaning);
                }
                (Some(_), None) => {
                    let is_narrower = narrower::is_removable(&key, schemas);
                    let is_open = member(schemas.1, "additionalProperties") != Some("false");
                    let more = match (is_open, self.side) {
                        (true, Side::Input) => ", and agents may still send anything in it",
                        (true, Side::Output) | (false, Side::Input | Side::Output) => "",
                    };
                    let gravity = if is_narrower { place.narrowed() } else { Gravity::Data };
                    let subject = self.subject(&below);
                    self.add(gravity, format!("{subject} is gone{more}."));
                }
            }
        }
    }

    fn required(&mut self, place: &Place, schemas: (&str, &str), (old, new): (Option<&str>, Option<&str>)) {
        let (Some(was), Some(is)) = (names(old), names(new)) else {
            self.add(Gravity::Data, sentence(&format!("`required` of {}", self.object(place)), old, new));
            return;
        };
        let properties = |schema: &str| -> BTreeSet<String> {
            let named = member(schema, "properties").and_then(members_of).unwrap_or_default();
            named.into_iter().map(|(name, _)| name.into_owned()).collect()
        };
        let (known, kept) = (properties(schemas.0), properties(schemas.1));
        for name in is.difference(&was) {
            let below = place.below(name);
            match (known.contains(name), kept.contains(name)) {
                (true, _) => {
                    let subject = self.subject(&below);
                    self.add(place.narrowed(), format!("{subject} is now required."));
                }
                // `properties` tells it.
                (false, true) => {}
                (false, false) => {
                    let value = name_of(self.side.value(), &below.path);
                    self.add(Gravity::Data, format!("New required {value}: agents must send data in it."));
                }
            }
        }
        for name in was.difference(&is) {
            // For a property that is gone, `properties` tells it, and that it was required.
            if kept.contains(name) || !known.contains(name) {
                let subject = self.subject(&place.below(name));
                self.add(Gravity::Data, format!("{subject} is no longer required."));
            }
        }
        if was == is {
            self.add(Gravity::Other, "`required` is written in another way.");
        }
    }

    fn additional(&mut self, place: &Place, (old, new): (Option<&str>, Option<&str>)) {
        let inside = match place.path.as_str() {
            "" => String::new(),
            path => format!(" in {}", name_of(self.side.value(), path)),
        };
        let value = self.side.value();
        match (old, new) {
            (old, Some("false")) if old != Some("false") => {
                let meaning = format!("A {value} that the schema does not name is now refused{inside}.");
                self.add(place.narrowed(), meaning);
            }
            (Some("false"), _) => {
                let meaning = format!("A {value} that the schema does not name is no longer refused{inside}.");
                self.add(Gravity::Data, meaning);
            }
            (Some(old), Some(new)) if old.starts_with('{') && new.starts_with('{') => {
                self.schema(&place.below("*"), old, new);
            }
            (_, _) => {
                let what = format!("`additionalProperties` of {}", self.object(place));
                self.add(Gravity::Data, sentence(&what, old, new));
            }
        }
    }

    /// Compares lists of allowed values. A new value is a new text, even where there was no list before.
    fn values(&mut self, place: &Place, (old, new): (Option<&str>, Option<&str>)) {
        let subject = self.subject(place);
        let (gravity, meaning) = match (narrower::set(old), narrower::set(new)) {
            (None, Some(_)) => (Gravity::Data, format!("{subject} now has a list of allowed values.")),
            (Some(_), None) => {
                (Gravity::Data, format!("{subject} takes any value now: its list of allowed values is gone."))
            }
            (Some(was), Some(is)) if is.is_subset(&was) && is != was => {
                let fewer = was.len() - is.len();
                (place.narrowed(), format!("{subject} takes {}.", count(fewer, "fewer value")))
            }
            (Some(was), Some(is)) if is != was => {
                let more = is.difference(&was).count();
                (Gravity::Data, format!("{subject} takes {}.", count(more, "new value")))
            }
            (_, _) => (Gravity::Other, format!("The allowed values of {} have another order.", self.object(place))),
        };
        self.add(gravity, meaning);
    }

    fn alternatives(&mut self, place: &Place, pair: &members::Pair<'_>, (was, is): (&str, &str)) {
        let (before, after) = (members::elements(was), members::elements(is));
        let sets = (narrower::set(Some(was)), narrower::set(Some(is)));
        if pair.key == "anyOf"
            && let (Some(was), Some(is)) = &sets
            && is.is_subset(was)
            && is != was
            && !is.is_empty()
        {
            let subject = self.subject(place);
            self.add(place.narrowed(), format!("{subject} takes fewer forms."));
            return;
        }
        match (before, after) {
            (Some(before), Some(after)) if before.len() == after.len() => {
                let count = self.found.0.len();
                for (old, new) in before.iter().zip(&after).filter(|(old, new)| old != new) {
                    let below = Place { path: place.path.clone(), can_narrow: false, depth: place.depth + 1 };
                    self.schema(&below, old, new);
                }
                if self.found.0.len() == count {
                    self.told(Gravity::Data, place, pair);
                }
            }
            (_, _) => self.told(Gravity::Data, place, pair),
        }
    }

    /// Compares definitions that references point to, from wherever. So they never count as narrower.
    fn definitions(&mut self, place: &Place, pair: &members::Pair<'_>, (was, is): (&str, &str)) {
        let Some(pairs) = members::differing(was, is, |_, schema| normal_keyword("", schema)) else {
            self.told(Gravity::Data, place, pair);
            return;
        };
        for members::Pair { key, old, new } in pairs {
            let below = place.below(&pair.key).below(&key).not_narrowing();
            match (old, new) {
                (Some(old), Some(new)) => self.schema(&below, old, new),
                (old, new) => {
                    let meaning = sentence(&name_of("Part", &below.path), old, new);
                    self.add(Gravity::Data, meaning);
                }
            }
        }
    }
}

/// Reads a list of names. Returns `None` if it is none.
fn names(json: Option<&str>) -> Option<BTreeSet<String>> {
    let Some(json) = json else { return Some(BTreeSet::new()) };
    members::elements(json)?.into_iter().map(|name| Some(string_value(name)?.into_owned())).collect()
}
