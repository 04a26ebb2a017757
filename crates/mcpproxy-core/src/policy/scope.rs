//! The scope of a policy: its agent, its actions and its tools. It rules out most policies without evaluating them.

use cedar_policy::{ActionConstraint, EntityUid, Policy, PrincipalConstraint, ResourceConstraint};

use super::vocabulary::{EntityKind, Vocabulary};
use crate::Variant;

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Scope {
    /// `None` means every agent.
    agent: Option<String>,
    variants: Vec<Variant>,
    pub(super) resource: Resource,
}

/// The tools that a policy can apply to.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(super) enum Resource {
    Any,
    Server(String),
    Category(String),
    Tool(String),
}

impl Scope {
    /// Reads the scope of a policy. Returns `None` if it can match nothing, which validation has already refused.
    pub(super) fn of(policy: &Policy, vocabulary: &Vocabulary) -> Option<Self> {
        let agent = match policy.principal_constraint() {
            PrincipalConstraint::Any | PrincipalConstraint::Is(_) => None,
            PrincipalConstraint::Eq(uid) | PrincipalConstraint::In(uid) | PrincipalConstraint::IsIn(_, uid) => {
                Some(agent(&uid, vocabulary)?)
            }
        };
        let variants = Variant::ALL.into_iter();
        let variants = match policy.action_constraint() {
            ActionConstraint::Any => variants.collect(),
            ActionConstraint::Eq(uid) => variants.filter(|variant| uid == *vocabulary.action(*variant)).collect(),
            ActionConstraint::In(uids) => {
                variants.filter(|variant| uids.iter().any(|uid| vocabulary.is_in(*variant, uid))).collect()
            }
        };
        let resource = match policy.resource_constraint() {
            ResourceConstraint::Any | ResourceConstraint::Is(_) => Resource::Any,
            ResourceConstraint::Eq(uid) | ResourceConstraint::In(uid) | ResourceConstraint::IsIn(_, uid) => {
                resource(&uid, vocabulary)?
            }
        };
        Some(Self { agent, variants, resource })
    }

    pub(super) fn is_about_agent(&self, name: &str) -> bool {
        self.agent.as_ref().is_none_or(|agent| agent == name)
    }

    pub(super) fn is_about(&self, variant: Variant) -> bool {
        self.variants.contains(&variant)
    }
}

fn agent(uid: &EntityUid, vocabulary: &Vocabulary) -> Option<String> {
    match vocabulary.kind_of(uid)? {
        EntityKind::Agent => Some(uid.id().unescaped().to_owned()),
        EntityKind::Server | EntityKind::Category | EntityKind::Tool => None,
    }
}

fn resource(uid: &EntityUid, vocabulary: &Vocabulary) -> Option<Resource> {
    let id = uid.id().unescaped().to_owned();
    match vocabulary.kind_of(uid)? {
        EntityKind::Agent => None,
        EntityKind::Server => Some(Resource::Server(id)),
        EntityKind::Category => Some(Resource::Category(id)),
        EntityKind::Tool => Some(Resource::Tool(id)),
    }
}
