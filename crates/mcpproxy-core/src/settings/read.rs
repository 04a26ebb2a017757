//! Takes values out of the tree, and collects what is wrong with them.

use std::collections::HashMap;
use std::ops::RangeInclusive;

use jsonc_parser::ast::{Object, ObjectPropName, Value};
use jsonc_parser::common::Ranged;

use super::keys::{self, Keys};
use super::reference::{Expanded, Outside, expand};
use super::suggest::{list, shown};
use super::{FILE_MAX_BYTES, Mistake};
use crate::nearest;

/// Nobody reads more than this, and a hostile file cannot make us write more.
const ERRORS_MAX: usize = 100;

pub(super) struct Reader<'t> {
    text: &'t str,
    line_starts: Vec<usize>,
    outside: &'t dyn Outside,
    errors: Vec<Mistake>,
    left_out: usize,
}

/// The known keys of an object that are there.
pub(super) struct Fields<'v, 'a>(Vec<(&'v str, Field<'v, 'a>)>);

#[derive(Clone, Copy)]
pub(super) struct Field<'v, 'a> {
    /// The byte offset of the key.
    pub(super) key_at: usize,
    pub(super) value: &'v Value<'a>,
}

impl<'v, 'a> Fields<'v, 'a> {
    pub(super) fn find(&self, key: &str) -> Option<Field<'v, 'a>> {
        self.0.iter().find(|(name, _)| *name == key).map(|(_, field)| *field)
    }
}

impl<'t> Reader<'t> {
    pub(super) fn new(text: &'t str, outside: &'t dyn Outside) -> Self {
        let bytes = text.as_bytes();
        let ends_line = |(at, byte): &(usize, &u8)| match byte {
            b'\n' => true,
            b'\r' => bytes.get(at + 1) != Some(&b'\n'),
            _ => false,
        };
        let line_starts = bytes.iter().enumerate().filter(ends_line).map(|(at, _)| at + 1);
        let line_starts = std::iter::once(0).chain(line_starts).collect();
        Self { text, line_starts, outside, errors: Vec::new(), left_out: 0 }
    }

    pub(super) fn outside(&self) -> &'t dyn Outside {
        self.outside
    }

    pub(super) fn error(&mut self, at: usize, message: impl Into<String>) {
        if self.errors.len() < ERRORS_MAX {
            let (line, column) = self.position(at);
            self.errors.push(Mistake { line, column, message: message.into() });
        } else {
            self.left_out += 1;
        }
    }

    pub(super) fn error_at(&mut self, value: &Value<'_>, message: impl Into<String>) {
        self.error(value.range().start, message);
    }

    pub(super) fn position(&self, at: usize) -> (usize, usize) {
        let line = self.line_starts.partition_point(|start| *start <= at);
        let start = self.line_starts.get(line.saturating_sub(1)).copied().unwrap_or(0);
        let before = self.text.get(start..at).unwrap_or_default();
        (line, before.chars().count() + 1)
    }

    /// Everything that was wrong, in the order of the file.
    pub(super) fn into_errors(mut self) -> Vec<Mistake> {
        self.errors.sort_by_key(|error| (error.line, error.column));
        if let Some(&Mistake { line, column, .. }) = self.errors.last()
            && self.left_out > 0
        {
            let message = format!("and {} more errors", self.left_out);
            self.errors.push(Mistake { line, column, message });
        }
        self.errors
    }

    /// Which of two equal keys counts differs from parser to parser, so neither does here.
    pub(super) fn refuse_duplicate_keys(&mut self, root: &Value<'_>) {
        let mut open = vec![root];
        while let Some(value) = open.pop() {
            match value {
                Value::Array(array) => open.extend(&array.elements),
                Value::Object(object) => {
                    open.extend(object.properties.iter().map(|property| &property.value));
                    let mut seen = HashMap::new();
                    for (name, field) in properties(object) {
                        let Some(first_at) = seen.get(name).copied() else {
                            seen.insert(name, field.key_at);
                            continue;
                        };
                        let (line, column) = self.position(first_at);
                        let name = shown(name);
                        let message = format!(
                            "duplicate key `{name}`, first used at line {line}, column {column}; keep one of them"
                        );
                        self.error(field.key_at, message);
                    }
                }
                Value::StringLit(_) | Value::NumberLit(_) | Value::BooleanLit(_) | Value::NullKeyword(_) => {}
            }
        }
    }

    /// Every key of an object, whatever its name; of equal keys the first.
    pub(super) fn object<'v, 'a>(&mut self, value: &'v Value<'a>) -> Option<Vec<(&'v str, Field<'v, 'a>)>> {
        let Value::Object(object) = value else { return self.wrong_type(value, "object") };
        let mut seen = std::collections::HashSet::new();
        Some(properties(object).filter(|(name, _)| seen.insert(*name)).collect())
    }

    /// The keys of an object that we know; the others are errors.
    pub(super) fn fields<'v, 'a>(&mut self, value: &'v Value<'a>, keys: &Keys) -> Option<Fields<'v, 'a>> {
        let mut fields = self.object(value)?;
        fields.retain(|(name, field)| {
            let is_known = keys.known.contains(name);
            if !is_known {
                self.error(field.key_at, format!("unknown key `{}`; {}", shown(name), advice(name, keys)));
            }
            is_known
        });
        Some(Fields(fields))
    }

    pub(super) fn string<'v>(&mut self, value: &'v Value<'_>) -> Option<&'v str> {
        match value {
            Value::StringLit(literal) => Some(literal.value.as_ref()),
            Value::NumberLit(_) | Value::BooleanLit(_) => {
                self.wrong_type_but(value, "string", "; put it in double quotes")
            }
            _ => self.wrong_type(value, "string"),
        }
    }

    /// A string with its references replaced.
    pub(super) fn expanded(&mut self, value: &Value<'_>) -> Option<Expanded> {
        let text = self.string(value)?;
        let range = value.range();
        // Escapes make the text shorter than its source; then the place inside is not known, only the string.
        let inside =
            |at: usize| if range.end - range.start == text.len() + 2 { range.start + 1 + at } else { range.start };
        match expand(text, self.outside) {
            Ok(expanded) if expanded.text.len() > FILE_MAX_BYTES => {
                self.error(range.start, "longer than 1 MiB with its references replaced");
                None
            }
            Ok(expanded) if expanded.text.contains('\0') => {
                self.error(range.start, "contains a NUL character; remove it");
                None
            }
            Ok(expanded) => Some(expanded),
            Err(errors) => {
                for (at, message) in errors {
                    self.error(inside(at), message);
                }
                None
            }
        }
    }

    /// A program, file or folder, which no shell will rewrite.
    pub(super) fn path(&mut self, value: &Value<'_>, key: &str) -> Option<String> {
        let path = self.expanded(value)?.text;
        if path.trim().is_empty() {
            self.error_at(value, format!("`{key}` is empty"));
            return None;
        }
        if path == "~" || path.starts_with("~/") {
            self.error_at(value, "`~` means nothing without a shell; write the whole path, or `${env:HOME}` for `~`");
            return None;
        }
        Some(path)
    }

    pub(super) fn boolean(&mut self, value: &Value<'_>) -> Option<bool> {
        match value {
            Value::BooleanLit(literal) => Some(literal.value),
            Value::StringLit(literal) if matches!(literal.value.as_ref(), "true" | "false") => {
                self.wrong_type_but(value, "boolean", "; remove the quotes")
            }
            _ => self.wrong_type(value, "boolean"),
        }
    }

    pub(super) fn boolean_or(&mut self, fields: &Fields<'_, '_>, key: &str, default: bool) -> bool {
        fields.find(key).and_then(|field| self.boolean(field.value)).unwrap_or(default)
    }

    pub(super) fn choice<T: Copy>(&mut self, value: &Value<'_>, choices: &'static [(&'static str, T)]) -> Option<T> {
        let word = self.string(value)?;
        let chosen = choices.iter().find(|(name, _)| *name == word).map(|(_, choice)| *choice);
        if chosen.is_none() {
            let known = list(keys::words(choices));
            self.error_at(value, format!("unknown value `{}`; write one of {known}", shown(word)));
        }
        chosen
    }

    pub(super) fn choice_or<T: Copy>(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        choices: &'static [(&'static str, T)],
        default: T,
    ) -> T {
        fields.find(key).and_then(|field| self.choice(field.value, choices)).unwrap_or(default)
    }

    /// A string that means something, without references.
    pub(super) fn parsed<T>(&mut self, value: &Value<'_>, parse: fn(&str) -> Result<T, String>) -> Option<T> {
        let parsed = parse(self.string(value)?);
        self.or_error(value, parsed)
    }

    /// What was made of a value, or the complaint about it.
    pub(super) fn or_error<T>(&mut self, value: &Value<'_>, made: Result<T, String>) -> Option<T> {
        match made {
            Ok(made) => Some(made),
            Err(message) => {
                self.error_at(value, message);
                None
            }
        }
    }

    pub(super) fn parsed_list<T>(
        &mut self,
        fields: &Fields<'_, '_>,
        key: &str,
        parse: fn(&str) -> Result<T, String>,
    ) -> Vec<T> {
        let values = fields.find(key).and_then(|field| self.array(field.value)).unwrap_or_default();
        values.iter().filter_map(|value| self.parsed(value, parse)).collect()
    }

    pub(super) fn array<'v, 'a>(&mut self, value: &'v Value<'a>) -> Option<&'v [Value<'a>]> {
        match value {
            Value::Array(array) => Some(&array.elements),
            _ => self.wrong_type(value, "array"),
        }
    }

    pub(super) fn whole_number(&mut self, value: &Value<'_>, range: RangeInclusive<usize>) -> Option<usize> {
        let Value::NumberLit(literal) = value else { return self.wrong_type(value, "number") };
        let number = literal.value.parse().ok().filter(|number| range.contains(number));
        if number.is_none() {
            self.error_at(value, format!("expected a whole number from {} to {}", range.start(), range.end()));
        }
        number
    }

    pub(super) fn wrong_type<T>(&mut self, value: &Value<'_>, expected: &str) -> Option<T> {
        let hint = if matches!(value, Value::NullKeyword(_)) { "; remove the key for its default" } else { "" };
        self.wrong_type_but(value, expected, hint)
    }

    pub(super) fn wrong_type_but<T>(&mut self, value: &Value<'_>, expected: &str, hint: &str) -> Option<T> {
        let found = match value {
            Value::StringLit(_) => "string",
            Value::NumberLit(_) => "number",
            Value::BooleanLit(_) => "boolean",
            Value::Object(_) => "object",
            Value::Array(_) => "array",
            Value::NullKeyword(_) => "null",
        };
        self.error_at(value, format!("expected {expected}, found {found}{hint}"));
        None
    }
}

fn properties<'v, 'a>(object: &'v Object<'a>) -> impl Iterator<Item = (&'v str, Field<'v, 'a>)> {
    object.properties.iter().map(|property| {
        let name = match &property.name {
            ObjectPropName::String(literal) => literal.value.as_ref(),
            ObjectPropName::Word(literal) => literal.value,
        };
        (name, Field { key_at: property.name.range().start, value: &property.value })
    })
}

fn advice(name: &str, keys: &Keys) -> String {
    if let Some((_, advice)) = keys.advice.iter().find(|(foreign, _)| *foreign == name) {
        return (*advice).to_owned();
    }
    // A long key is no slip, and comparing it would take long.
    match Some(name).filter(|name| name.len() <= 64).and_then(|name| nearest(name, keys.known.iter().copied())) {
        Some(known) => format!("did you mean `{known}`?"),
        None => format!("known keys: {}", list(keys.known.iter().copied())),
    }
}
