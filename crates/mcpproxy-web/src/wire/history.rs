//! The JSON of the versions of one definition: who decided about each, and when.

use mcpproxy_core::trust::{DefinitionKey, DefinitionKind};
use mcpproxy_gateway::History;
use mcpproxy_store::{AcceptedPin, PastPin, PastState};
use serde::Serialize;
use serde_json::value::RawValue;
use utoipa::ToSchema;
use utoipa::openapi::schema::Object;

use super::review::{definition_kinds, raw};
use super::words;

/// The versions of a definition that the gateway remembers, the latest first.
#[derive(Serialize, ToSchema)]
pub(crate) struct DefinitionHistory {
    server: String,
    #[schema(schema_with = definition_kinds)]
    kind: &'static str,
    /// The server's own name for it. Empty for the instructions.
    name: String,
    versions: Vec<DefinitionVersion>,
}

/// A version of a definition.
#[derive(Serialize, ToSchema)]
struct DefinitionVersion {
    #[schema(schema_with = version_states)]
    state: &'static str,
    /// The hash of everything in it that matters to a model or to the gateway.
    pin: String,
    /// The definition as the server wrote it. `null` if the server had too many versions to keep all texts.
    #[schema(value_type = Value)]
    definition: Option<Box<RawValue>>,
    /// The time at which this version was listed for the first time, in milliseconds since 1970.
    first_seen_ms: i64,
    /// The time at which it was accepted or rejected, in milliseconds since 1970.
    decided_ms: i64,
    /// The name of a user, or the rule that accepted it, such as `first_sight`.
    decided_by: String,
    /// True if a user decided, and false for a rule.
    by_user: bool,
    /// For a former version, the time at which another one replaced it, in milliseconds since 1970.
    until_ms: Option<i64>,
}

impl DefinitionHistory {
    pub(crate) fn new(server: String, key: &DefinitionKey, history: History) -> Self {
        let accepted = history.accepted.into_iter().map(DefinitionVersion::from);
        Self {
            server,
            kind: key.kind.as_str(),
            name: key.name.to_string(),
            versions: accepted.chain(history.past.into_iter().map(DefinitionVersion::from)).collect(),
        }
    }
}

impl From<AcceptedPin> for DefinitionVersion {
    fn from(accepted: AcceptedPin) -> Self {
        Self {
            state: "accepted",
            pin: accepted.pin.to_string(),
            definition: Some(raw(&accepted.json)),
            first_seen_ms: accepted.first_seen_ms,
            decided_ms: accepted.accepted_ms,
            decided_by: accepted.accepted_by,
            by_user: accepted.is_by_user,
            until_ms: None,
        }
    }
}

impl From<PastPin> for DefinitionVersion {
    fn from(past: PastPin) -> Self {
        let (state, until_ms) = match past.state {
            PastState::Former => ("former", Some(past.ended_ms)),
            PastState::Rejected => ("rejected", None),
        };
        Self {
            state,
            pin: past.pin.to_string(),
            definition: past.json.as_deref().map(raw),
            first_seen_ms: past.first_seen_ms,
            decided_ms: past.decided_ms,
            decided_by: past.decided_by,
            by_user: past.is_by_user,
            until_ms,
        }
    }
}

/// Returns the words for kinds of definitions, for a query.
pub(crate) fn kinds() -> Vec<&'static str> {
    DefinitionKind::ALL.map(DefinitionKind::as_str).to_vec()
}

fn version_states() -> Object {
    words(
        "`accepted`: agents see it while the server lists it. `former`: another version replaced it.",
        ["accepted", "former", "rejected"],
    )
}
