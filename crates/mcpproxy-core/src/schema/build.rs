//! Parses a schema into nodes and conditions, and refuses what is too large or malformed.
//!
//! A mistake in a contract's schema ends the parsing. A mistake in a server's schema, such as `"type": "float"`, does
//! not: the keyword is skipped and the first mistake is kept. So the limits also hold for the rest of such a schema.

use std::collections::HashMap;

use serde_json::{Map, Value};

use super::SchemaError;
use super::compile::Author;
use super::condition::{BranchCondition, Condition, Node, NodeId, ValueCondition, pointer};
use super::draft::Draft;
use super::refs::{NamedSchemas, base_of};
use crate::json::ExactValue;

/// Maximum length of a schema. The longest schema of a real tool has 84 KB.
pub(super) const TEXT_MAX_BYTES: usize = 128 << 10;
/// Maximum nesting of subschemas. Real tools reach 12.
pub(super) const DEPTH_MAX: usize = 32;
/// Maximum number of subschemas. Real tools reach 1,030.
pub(super) const NODES_MAX: usize = 4_096;
/// Maximum number of different patterns and formats. Real tools reach 6.
pub(super) const PATTERNS_MAX: usize = 32;

/// The nodes of a schema. The first is the root.
#[derive(Debug)]
pub(super) struct Graph {
    pub(super) nodes: Vec<Node>,
    pub(super) draft: Draft,
    /// The first mistake of a server's schema. Such a schema is not used to check values.
    pub(super) mistake: Option<SchemaError>,
}

pub(super) struct GraphBuilder<'v> {
    /// The whole schema.
    pub(super) exact: &'v ExactValue,
    pub(super) draft: Draft,
    author: Author,
    pub(super) nodes: Vec<Node>,
    known: HashMap<*const Value, NodeId>,
    references: Vec<Reference<'v>>,
    patterns: std::collections::HashSet<&'v str>,
    first_mistake: Option<SchemaError>,
}

struct Reference<'v> {
    from: NodeId,
    base: &'v Value,
    keyword: &'static str,
    text: &'v str,
}

/// The subschema that is being read.
#[derive(Clone, Copy)]
pub(super) struct SchemaPosition<'v> {
    pub(super) node: NodeId,
    pub(super) schema: &'v Map<String, Value>,
    base: &'v Value,
    depth: usize,
}

impl Graph {
    pub(super) fn build(text: &str, author: Author) -> Result<Self, SchemaError> {
        if text.len() > TEXT_MAX_BYTES {
            return Err(SchemaError::TooLong(text.len()));
        }
        let exact = ExactValue::read(text).ok_or(SchemaError::NotASchema)?;
        let root = exact.value();
        let draft = Draft::of(root);
        let mut builder = GraphBuilder {
            exact: &exact,
            draft,
            author,
            nodes: Vec::new(),
            known: HashMap::new(),
            references: Vec::new(),
            patterns: std::collections::HashSet::new(),
            first_mistake: None,
        };
        builder.read(root, root, None, 1)?;
        builder.link(root)?;
        let (nodes, mistake) = (builder.nodes, builder.first_mistake);
        super::bounds::check(&nodes)?;
        Ok(Self { nodes, draft, mistake })
    }
}

impl<'v> GraphBuilder<'v> {
    fn read(
        &mut self,
        schema: &'v Value,
        base: &'v Value,
        around: Option<(NodeId, String)>,
        depth: usize,
    ) -> Result<NodeId, SchemaError> {
        if depth > DEPTH_MAX {
            return Err(SchemaError::TooDeep);
        }
        if self.nodes.len() >= NODES_MAX {
            return Err(SchemaError::TooManyParts);
        }
        let node = NodeId::try_from(self.nodes.len()).map_err(|_| SchemaError::TooManyParts)?;
        self.nodes.push(Node { around, ..Node::default() });
        self.known.insert(std::ptr::from_ref(schema), node);
        let (conditions, description) = match schema {
            Value::Bool(true) => (Vec::new(), None),
            Value::Bool(false) => (vec![ValueCondition::Never.into()], None),
            Value::Object(members) => {
                let base = base_of(schema, base, self.draft);
                let mut conditions = self.conditions(SchemaPosition { node, schema: members, base, depth })?;
                let is_type = |one: &Condition| matches!(one, Condition::Value(ValueCondition::Type(_)));
                conditions.sort_by_key(|one| (one.is_last(), !is_type(one)));
                (conditions, members.get("description").and_then(Value::as_str).filter(|text| !text.is_empty()))
            }
            _ if node == 0 => return Err(SchemaError::NotASchema),
            _ => {
                let mistake = self.mistake(node, "", "an object, true or false");
                self.tolerate::<()>(Err(mistake))?;
                (Vec::new(), None)
            }
        };
        if let Some(node) = self.nodes.get_mut(node as usize) {
            node.description = description.map(|text| super::messages::description(text).into());
            // References of this node were recorded while its conditions were read.
            node.conditions.extend(conditions);
        }
        Ok(node)
    }

    /// Resolves the references. A target may be a part of the document that was not read yet.
    fn link(&mut self, root: &'v Value) -> Result<(), SchemaError> {
        if self.references.is_empty() {
            return Ok(());
        }
        let names = NamedSchemas::of(root, self.draft);
        while let Some(Reference { from, base, keyword, text }) = self.references.pop() {
            let found = names.find(base, keyword, text);
            let Some((target, base)) = self.tolerate(found)? else { continue };
            let to = match self.known.get(&std::ptr::from_ref(target)) {
                Some(known) => *known,
                None => self.read(target, base, Some((0, text.trim_start_matches(['#', '/']).to_owned())), 1)?,
            };
            if let Some(node) = self.nodes.get_mut(from as usize) {
                node.conditions.insert(0, BranchCondition::Ref(to).into());
            }
        }
        Ok(())
    }

    /// Skips a part of a server's schema that is not valid JSON Schema, and remembers the first mistake.
    pub(super) fn tolerate<T>(&mut self, part: Result<T, SchemaError>) -> Result<Option<T>, SchemaError> {
        match (part, self.author) {
            (Err(mistake), Author::Server) if mistake.is_invalid() => {
                self.first_mistake.get_or_insert(mistake);
                Ok(None)
            }
            (part, Author::Server | Author::Contract) => part.map(Some),
        }
    }

    pub(super) fn mistake(&self, node: NodeId, keyword: &str, expected: &'static str) -> SchemaError {
        // `tolerate` keeps the first mistake only. The path of each would cost as much as the longest name, every time.
        if self.author == Author::Server && self.first_mistake.is_some() {
            return SchemaError::Keyword { pointer: String::new(), expected };
        }
        let slash = if keyword.is_empty() { "" } else { "/" };
        let pointer = format!("{}{slash}{keyword}", pointer(&self.nodes, node));
        SchemaError::Keyword { pointer: super::messages::shortened(&pointer), expected }
    }

    /// Refuses a misspelled keyword in a contract. JSON Schema ignores unknown keywords, so the mistake would be
    /// silent.
    pub(super) fn doubt(&self, here: SchemaPosition<'v>, word: &str) -> Result<(), SchemaError> {
        let meant = if self.author == Author::Contract { super::strict::meant(word) } else { None };
        meant.map_or(Ok(()), |meant| {
            let pointer = format!("{}/{word}", pointer(&self.nodes, here.node));
            Err(SchemaError::UnknownKeyword { pointer: super::messages::shortened(&pointer), meant })
        })
    }

    pub(super) fn refer(&mut self, here: SchemaPosition<'v>, keyword: &'static str) -> Result<(), SchemaError> {
        let Some(value) = here.schema.get(keyword) else { return Ok(()) };
        let text = value.as_str().ok_or_else(|| self.mistake(here.node, keyword, "a string"))?;
        self.references.push(Reference { from: here.node, base: here.base, keyword, text });
        Ok(())
    }

    /// Reads the subschema under a keyword.
    pub(super) fn sub(
        &mut self,
        here: SchemaPosition<'v>,
        keyword: &str,
        value: &'v Value,
    ) -> Result<NodeId, SchemaError> {
        self.read(value, here.base, Some((here.node, keyword.to_owned())), here.depth + 1)
    }

    pub(super) fn sub_of(&mut self, here: SchemaPosition<'v>, keyword: &str) -> Result<Option<NodeId>, SchemaError> {
        here.schema.get(keyword).map(|value| self.sub(here, keyword, value)).transpose()
    }

    /// Reads the array of subschemas under a keyword.
    pub(super) fn list(
        &mut self,
        here: SchemaPosition<'v>,
        keyword: &str,
        value: &'v Value,
    ) -> Result<Vec<NodeId>, SchemaError> {
        let items = value.as_array().filter(|items| !items.is_empty());
        let items = items.ok_or_else(|| self.mistake(here.node, keyword, "a non-empty array of schemas"))?;
        let subs = items.iter().enumerate();
        subs.map(|(position, item)| self.sub(here, &format!("{keyword}/{position}"), item)).collect()
    }

    /// Reads the object of subschemas under a keyword.
    pub(super) fn map(
        &mut self,
        here: SchemaPosition<'v>,
        keyword: &str,
        value: &'v Value,
    ) -> Result<Vec<(&'v str, NodeId)>, SchemaError> {
        let members = value.as_object().ok_or_else(|| self.mistake(here.node, keyword, "an object of schemas"))?;
        let subs = members.iter();
        subs.map(|(name, member)| {
            let step = format!("{keyword}/{}", name.replace('~', "~0").replace('/', "~1"));
            Ok((name.as_str(), self.sub(here, &step, member)?))
        })
        .collect()
    }

    pub(super) fn count_pattern(&mut self, pattern: &'v str) -> Result<(), SchemaError> {
        self.patterns.insert(pattern);
        if self.patterns.len() > PATTERNS_MAX { Err(SchemaError::TooManyPatterns) } else { Ok(()) }
    }
}
