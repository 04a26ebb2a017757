//! The Cedar schema for policies, and the names of its types and actions, built once.

use std::str::FromStr;
use std::sync::LazyLock;

use cedar_policy::{Entity, EntityId, EntityTypeName, EntityUid, Schema, Validator};

use crate::Variant;

/// The schema as operators read it, with comments.
pub const SCHEMA: &str = include_str!("../../../../docs/policy.cedarschema");

#[derive(Debug)]
pub(super) struct Vocabulary {
    pub(super) validator: Validator,
    pub(super) action_entities: Vec<Entity>,
    agent: EntityTypeName,
    server: EntityTypeName,
    category: EntityTypeName,
    tool: EntityTypeName,
    actions: [EntityUid; 3],
    call: EntityUid,
}

static VOCABULARY: LazyLock<Result<Vocabulary, String>> = LazyLock::new(Vocabulary::new);

/// Returns the vocabulary. An error would be a bug in the built-in schema, which a test would find.
pub(super) fn vocabulary() -> Result<&'static Vocabulary, &'static str> {
    VOCABULARY.as_ref().map_err(String::as_str)
}

impl Vocabulary {
    fn new() -> Result<Self, String> {
        let schema = Schema::from_str(SCHEMA).map_err(|error| error.to_string())?;
        let kind = |name: &str| EntityTypeName::from_str(name).map_err(|error| error.to_string());
        let action = kind("Action")?;
        let action = |name: &str| EntityUid::from_type_name_and_id(action.clone(), EntityId::new(name));
        let action_entities = schema.action_entities().map_err(|error| error.to_string())?;
        Ok(Self {
            validator: Validator::new(schema),
            action_entities: action_entities.into_iter().collect(),
            agent: kind("Agent")?,
            server: kind("Server")?,
            category: kind("Category")?,
            tool: kind("Tool")?,
            actions: Variant::ALL.map(|variant| action(variant.operation())),
            call: action("call"),
        })
    }

    pub(super) fn agent(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.agent.clone(), EntityId::new(name))
    }

    pub(super) fn server(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.server.clone(), EntityId::new(name))
    }

    pub(super) fn category(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.category.clone(), EntityId::new(name))
    }

    pub(super) fn tool(&self, name: &str) -> EntityUid {
        EntityUid::from_type_name_and_id(self.tool.clone(), EntityId::new(name))
    }

    pub(super) fn action(&self, variant: Variant) -> &EntityUid {
        let [read, write, destructive] = &self.actions;
        match variant {
            Variant::Read => read,
            Variant::Write => write,
            Variant::Destructive => destructive,
        }
    }

    /// Returns true if `action in uid` holds for the variant.
    pub(super) fn is_in(&self, variant: Variant, uid: &EntityUid) -> bool {
        *uid == self.call || uid == self.action(variant)
    }

    pub(super) fn kind_of(&self, uid: &EntityUid) -> Option<EntityKind> {
        let kinds = [
            (&self.agent, EntityKind::Agent),
            (&self.server, EntityKind::Server),
            (&self.category, EntityKind::Category),
            (&self.tool, EntityKind::Tool),
        ];
        kinds.into_iter().find(|(name, _)| *name == uid.type_name()).map(|(_, kind)| kind)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum EntityKind {
    Agent,
    Server,
    Category,
    Tool,
}
