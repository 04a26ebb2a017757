//! The parsed form of a schema: a numbered node for each subschema, with its conditions.

use serde_json::Value;

use super::equal::is_integer;
use super::keyword_check::CompiledKeyword;
use crate::json::{ExactPart, ExactValue};

/// The index of a node in its graph.
pub(super) type NodeId = u32;

/// One subschema.
#[derive(Debug, Default)]
pub(super) struct Node {
    /// The parent node, and the steps from there as part of a JSON pointer.
    pub(super) around: Option<(NodeId, String)>,
    /// The `description` keyword, shortened.
    pub(super) description: Option<Box<str>>,
    pub(super) conditions: Vec<Condition>,
}

/// One condition of a node, grouped by the values that it concerns. Values of other types meet it.
#[derive(Debug)]
pub(super) enum Condition {
    Value(ValueCondition),
    Object(ObjectCondition),
    Array(ArrayCondition),
    Branch(BranchCondition),
}

/// A condition on the value alone. It needs no other node.
#[derive(Debug)]
pub(super) enum ValueCondition {
    /// The schema `false`, which no value fits.
    Never,
    Type(Types),
    /// The array of the values that are allowed.
    Enum(ExactValue),
    Const(ExactValue),
    /// A bound, which is a number.
    Bound(NumberBound, ExactValue),
    /// A divisor, which is a number.
    MultipleOf(ExactValue),
    Length(CountLimit, u64),
    Pattern(CompiledKeyword),
    Format(CompiledKeyword),
}

/// A condition on the properties of an object.
#[derive(Debug)]
pub(super) enum ObjectCondition {
    Properties(Box<Properties>),
    Count(CountLimit, u64),
    Names(NodeId),
    Required(Vec<Box<str>>),
    DependentRequired(Vec<(Box<str>, Vec<Box<str>>)>),
    DependentSchemas(Vec<(Box<str>, NodeId)>),
    Unevaluated(NodeId),
}

/// A condition on the items of an array.
#[derive(Debug)]
pub(super) enum ArrayCondition {
    Items { first: Vec<NodeId>, rest: Option<NodeId> },
    Count(CountLimit, u64),
    Unique,
    Contains { node: NodeId, min: u64, max: Option<u64> },
    Unevaluated(NodeId),
}

/// A condition that applies other nodes to the same value.
#[derive(Debug)]
pub(super) enum BranchCondition {
    Ref(NodeId),
    All(Vec<NodeId>),
    Any(Vec<NodeId>),
    One(Vec<NodeId>),
    Not(NodeId),
    If { test: NodeId, then: Option<NodeId>, otherwise: Option<NodeId> },
}

#[derive(Debug, Default)]
pub(super) struct Properties {
    pub(super) named: Vec<(Box<str>, NodeId)>,
    /// Positions in `named` by name, when there are many.
    pub(super) positions: Option<std::collections::HashMap<Box<str>, usize>>,
    pub(super) patterns: Vec<(CompiledKeyword, NodeId)>,
    pub(super) rest: Option<NodeId>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum NumberBound {
    Least,
    Most,
    Above,
    Below,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CountLimit {
    Least,
    Most,
}

/// The types a value may have, in the order of `TYPES`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Types(u8);

/// The type names of JSON Schema, and their names in messages.
pub(super) const TYPES: [(&str, &str); 7] = [
    ("string", "a string"),
    ("integer", "an integer"),
    ("number", "a number"),
    ("boolean", "true or false"),
    ("object", "an object"),
    ("array", "an array"),
    ("null", "null"),
];

/// The bit after those of the types: integers must be written without a decimal point.
const LITERAL: u8 = 7;

/// Objects with at least this many properties look names up in a hash map.
const MANY_NAMES: usize = 16;

impl Types {
    pub(super) fn with(self, word: &str) -> Option<Self> {
        let position = TYPES.iter().position(|(known, _)| *known == word)?;
        Some(Self(self.0 | 1 << position))
    }

    /// Accepts integers without a decimal point only, as draft 4 does.
    pub(super) fn literal(self) -> Self {
        Self(self.0 | 1 << LITERAL)
    }

    fn has(self, position: u8) -> bool {
        self.0 & (1 << position) != 0
    }

    pub(super) fn admit(self, part: ExactPart<'_>) -> bool {
        match part.value {
            Value::String(_) => self.has(0),
            Value::Number(_) if self.has(2) => true,
            Value::Number(number) => {
                self.has(1)
                    && match part.long(number) {
                        Some(long) if self.has(LITERAL) => !long.text.contains(['.', 'e', 'E']),
                        Some(long) => long.decimal.is_integer(),
                        None => !number.is_f64() || (!self.has(LITERAL) && is_integer(number)),
                    }
            }
            Value::Bool(_) => self.has(3),
            Value::Object(_) => self.has(4),
            Value::Array(_) => self.has(5),
            Value::Null => self.has(6),
        }
    }

    pub(super) fn words(self) -> impl Iterator<Item = &'static str> {
        TYPES.iter().zip(0..).filter(move |(_, position)| self.has(*position)).map(|((_, words), _)| *words)
    }
}

impl Properties {
    pub(super) fn index(&mut self) {
        if self.named.len() > MANY_NAMES {
            self.positions =
                Some(self.named.iter().enumerate().map(|(position, (name, _))| (name.clone(), position)).collect());
        }
    }

    pub(super) fn find(&self, name: &str) -> Option<NodeId> {
        match &self.positions {
            Some(positions) => positions.get(name).and_then(|position| self.named.get(*position)),
            None => self.named.iter().find(|(known, _)| **known == *name),
        }
        .map(|(_, node)| *node)
    }
}

impl From<ValueCondition> for Condition {
    fn from(condition: ValueCondition) -> Self {
        Self::Value(condition)
    }
}

impl From<ObjectCondition> for Condition {
    fn from(condition: ObjectCondition) -> Self {
        Self::Object(condition)
    }
}

impl From<ArrayCondition> for Condition {
    fn from(condition: ArrayCondition) -> Self {
        Self::Array(condition)
    }
}

impl From<BranchCondition> for Condition {
    fn from(condition: BranchCondition) -> Self {
        Self::Branch(condition)
    }
}

impl Condition {
    /// Visits the nodes that this condition applies to the same value.
    pub(super) fn in_place(&self, mut each: impl FnMut(NodeId)) {
        match self {
            Self::Branch(branch) => branch.nodes(each),
            Self::Object(ObjectCondition::DependentSchemas(nodes)) => nodes.iter().for_each(|(_, node)| each(*node)),
            Self::Value(_) | Self::Object(_) | Self::Array(_) => {}
        }
    }

    /// Visits the nodes that this condition applies to parts of the value.
    pub(super) fn within(&self, each: impl FnMut(NodeId)) {
        match self {
            Self::Object(object) => object.within(each),
            Self::Array(array) => array.within(each),
            Self::Value(_) | Self::Branch(_) => {}
        }
    }

    /// Returns `true` for conditions on unevaluated parts, which must run after all others.
    pub(super) fn is_last(&self) -> bool {
        matches!(self, Self::Object(ObjectCondition::Unevaluated(_)) | Self::Array(ArrayCondition::Unevaluated(_)))
    }
}

impl BranchCondition {
    fn nodes(&self, mut each: impl FnMut(NodeId)) {
        match self {
            Self::Ref(node) | Self::Not(node) => each(*node),
            Self::All(nodes) | Self::Any(nodes) | Self::One(nodes) => nodes.iter().copied().for_each(each),
            Self::If { test, then, otherwise } => {
                each(*test);
                then.iter().chain(otherwise).copied().for_each(each);
            }
        }
    }
}

impl ObjectCondition {
    fn within(&self, mut each: impl FnMut(NodeId)) {
        match self {
            Self::Names(node) | Self::Unevaluated(node) => each(*node),
            Self::Properties(properties) => {
                properties.named.iter().for_each(|(_, node)| each(*node));
                properties.patterns.iter().for_each(|(_, node)| each(*node));
                properties.rest.iter().copied().for_each(each);
            }
            Self::Count(..) | Self::Required(_) | Self::DependentRequired(_) | Self::DependentSchemas(_) => {}
        }
    }
}

impl ArrayCondition {
    fn within(&self, mut each: impl FnMut(NodeId)) {
        match self {
            Self::Items { first, rest } => first.iter().chain(rest).copied().for_each(each),
            Self::Contains { node, .. } | Self::Unevaluated(node) => each(*node),
            Self::Count(..) | Self::Unique => {}
        }
    }
}

/// Returns the JSON pointer of a node in its schema.
pub(super) fn pointer(nodes: &[Node], node: NodeId) -> String {
    let mut steps = Vec::new();
    let mut at = nodes.get(node as usize);
    while let Some((around, step)) = at.and_then(|node| node.around.as_ref()) {
        steps.push(step.as_str());
        at = nodes.get(*around as usize);
    }
    steps.iter().rev().flat_map(|step| ["/", step]).collect()
}
