//! The settings `contracts`: tools without a contract, and reloads that weaken contracts.

use super::keys;
use super::read::Reader;
use crate::file::Fields;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct ContractSettings {
    pub unclassified: Unclassified,
    pub weakening: Weakening,
}

/// The setting `weakening`, for a reload that removes or weakens contracts or policies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Weakening {
    /// Waits until a user confirms it, or until the gateway restarts.
    #[default]
    Confirm,
    /// Takes effect at once, for setups that replace all files atomically.
    Apply,
}

impl Weakening {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Confirm => "confirm",
            Self::Apply => "apply",
        }
    }
}

/// The setting `unclassified`, for tools without a risk level from the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unclassified {
    /// Follows the tool's annotations and requires nothing more.
    #[default]
    Allow,
    ConfirmDestructive,
    Deny,
}

impl Unclassified {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::ConfirmDestructive => "confirm_destructive",
            Self::Deny => "deny",
        }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<ContractSettings> {
    let fields = reader.fields(&fields.find("contracts")?.node, &keys::CONTRACTS)?;
    Some(ContractSettings {
        unclassified: reader.choice_of(&fields, "unclassified", keys::UNCLASSIFIED).unwrap_or_default(),
        weakening: reader.choice_of(&fields, "weakening", keys::WEAKENING).unwrap_or_default(),
    })
}
