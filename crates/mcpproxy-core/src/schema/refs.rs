//! Resolves references inside a schema document. A reference to anything else is refused, never fetched.

use std::collections::HashMap;

use serde_json::Value;

use super::SchemaError;
use super::draft::Draft;
use super::messages::quoted;

/// The target of a reference: the subschema, and the schema with an `$id` that contains it.
pub(super) type Target<'v> = (&'v Value, &'v Value);

/// The identifiers and anchors of a schema document. `None` marks a name that occurs twice.
pub(super) struct NamedSchemas<'v> {
    documents: HashMap<&'v str, Option<&'v Value>>,
    anchors: HashMap<(*const Value, &'v str), Option<&'v Value>>,
    /// Number of `$dynamicAnchor`s with each name.
    dynamic: HashMap<&'v str, usize>,
    draft: Draft,
}

/// Keywords whose values are data and contain no schemas.
const DATA: [&str; 4] = ["const", "default", "enum", "examples"];

impl<'v> NamedSchemas<'v> {
    pub(super) fn of(root: &'v Value, draft: Draft) -> Self {
        let mut names = Self { documents: HashMap::new(), anchors: HashMap::new(), dynamic: HashMap::new(), draft };
        names.visit(root, root);
        names
    }

    fn visit(&mut self, value: &'v Value, base: &'v Value) {
        match value {
            Value::Object(members) => {
                let base = document(value, self.draft).map_or(base, |id| {
                    self.documents.entry(id).and_modify(|known| *known = None).or_insert(Some(value));
                    value
                });
                for (key, member) in members {
                    let name = member.as_str().and_then(|text| match key.as_str() {
                        "$anchor" | "$dynamicAnchor" => Some(text),
                        key if key == self.draft.id_keyword() => text.strip_prefix('#'),
                        _ => None,
                    });
                    if let Some(name) = name {
                        let place = (std::ptr::from_ref(base), name);
                        self.anchors.entry(place).and_modify(|known| *known = None).or_insert(Some(value));
                        *self.dynamic.entry(name).or_default() += usize::from(key == "$dynamicAnchor");
                    }
                    if !DATA.contains(&key.as_str()) {
                        self.visit(member, base);
                    }
                }
            }
            Value::Array(items) => items.iter().for_each(|item| self.visit(item, base)),
            _ => {}
        }
    }

    /// Resolves a reference in the schema `base`.
    pub(super) fn find(&self, base: &'v Value, keyword: &str, text: &str) -> Result<Target<'v>, SchemaError> {
        let (document, fragment) = text.split_once('#').unwrap_or((text, ""));
        let base = match document {
            "" => base,
            name => match self.documents.get(name) {
                Some(found) => found.ok_or_else(|| SchemaError::DanglingReference(quoted(text)))?,
                None => return Err(SchemaError::ExternalReference(quoted(text))),
            },
        };
        // With several candidates, a dynamic reference depends on the path by which it was reached.
        let is_ambiguous = match keyword {
            "$recursiveRef" => self.documents.len() > 1,
            "$dynamicRef" => self.dynamic.get(fragment).is_some_and(|count| *count > 1),
            _ => false,
        };
        let found = match fragment {
            _ if is_ambiguous => None,
            "" => Some((base, base)),
            pointer if pointer.starts_with('/') => follow(base, pointer, self.draft),
            name => self.anchors.get(&(std::ptr::from_ref(base), name)).copied().flatten().map(|found| (found, base)),
        };
        found.ok_or_else(|| SchemaError::DanglingReference(quoted(text)))
    }
}

/// Returns the identifier of a subschema that is a document of its own.
fn document(schema: &Value, draft: Draft) -> Option<&str> {
    let id = schema.get(draft.id_keyword())?.as_str()?;
    (!id.starts_with('#') && !id.is_empty()).then(|| id.trim_end_matches('#'))
}

/// Returns the schema against which references of a subschema are resolved.
pub(super) fn base_of<'v>(schema: &'v Value, around: &'v Value, draft: Draft) -> &'v Value {
    if document(schema, draft).is_some() { schema } else { around }
}

fn follow<'v>(base: &'v Value, pointer: &str, draft: Draft) -> Option<Target<'v>> {
    let pointer = percent_decoded(pointer)?;
    let (mut at, mut base) = (base, base);
    for step in pointer.split('/').skip(1) {
        at = match at {
            Value::Object(members) => members.get(&step.replace("~1", "/").replace("~0", "~"))?,
            Value::Array(items) => items.get(step.parse::<usize>().ok()?)?,
            _ => return None,
        };
        base = base_of(at, base, draft);
    }
    Some((at, base))
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut bytes = text.bytes();
    let mut outcome = Vec::with_capacity(text.len());
    while let Some(byte) = bytes.next() {
        outcome.push(match byte {
            b'%' => {
                let digit = |byte: u8| char::from(byte).to_digit(16);
                u8::try_from(digit(bytes.next()?)? * 16 + digit(bytes.next()?)?).ok()?
            }
            byte => byte,
        });
    }
    String::from_utf8(outcome).ok()
}
