//! The settings `intent_declaration`: what a call must declare, and which claims of servers count.

use super::keys;
use super::read::Reader;
use crate::file::Fields;

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct IntentSettings {
    pub strict_server_validation: bool,
    pub two_key: TwoKey,
    pub unannotated: Unannotated,
}

/// The setting `two_key`: must an agent repeat the operation in `intent.operation_type`?
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TwoKey {
    Optional,
    Required,
}

impl TwoKey {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Optional => "optional",
            Self::Required => "required",
        }
    }
}

/// The setting `unannotated`, for read calls on tools without annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unannotated {
    Trust,
    Warn,
    RequireWrite,
}

impl Unannotated {
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Trust => "trust",
            Self::Warn => "warn",
            Self::RequireWrite => "require_write",
        }
    }
}

impl Default for IntentSettings {
    fn default() -> Self {
        Self { strict_server_validation: true, two_key: TwoKey::Optional, unannotated: Unannotated::Trust }
    }
}

pub(super) fn read(reader: &mut Reader<'_>, fields: &Fields<'_>) -> Option<IntentSettings> {
    let fields = reader.fields(&fields.find("intent_declaration")?.node, &keys::INTENT)?;
    let default = IntentSettings::default();
    Some(IntentSettings {
        strict_server_validation: reader
            .boolean_of(&fields, "strict_server_validation")
            .unwrap_or(default.strict_server_validation),
        two_key: reader.choice_of(&fields, "two_key", keys::TWO_KEY).unwrap_or(default.two_key),
        unannotated: reader.choice_of(&fields, "unannotated", keys::UNANNOTATED).unwrap_or(default.unannotated),
    })
}
