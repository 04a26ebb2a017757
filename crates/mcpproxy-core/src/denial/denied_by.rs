//! The origin of a denial. A text may say that a user decided only if a user of the gateway did.

use crate::Untrusted;

/// Most characters of a client's own name.
const CLIENT_MAX_CHARS: usize = 64;

/// The user, key or client that denied a call.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DeniedBy {
    /// A signed-in user.
    User(String),
    /// The operator, with the admin key.
    AdminKey,
    /// The agent's client, in its own words. The gateway cannot know whether it asked its user.
    Client(Untrusted),
    /// The store does not say.
    Unknown,
}

impl DeniedBy {
    /// Stored for a decision with the admin key. User names contain no spaces.
    pub const ADMIN_KEY: &str = "admin key";

    /// Returns the text to store for an answer of the agent's client.
    pub fn client(agent: &str, client: Option<&str>) -> String {
        let name =
            client.map(|name| Untrusted::shortened(name.trim(), CLIENT_MAX_CHARS).for_terminal().replace('"', "'"));
        match name.filter(|name| !name.is_empty()) {
            Some(name) => format!("client \"{name}\""),
            None => format!("client of agent {agent}"),
        }
    }

    /// Reads the text that the store keeps with a decision.
    pub fn read(stored: Option<&str>) -> Self {
        match stored {
            None => Self::Unknown,
            Some(Self::ADMIN_KEY) => Self::AdminKey,
            Some(text) if text.contains(' ') => Self::Client(Untrusted::new(text)),
            Some(name) => Self::User(name.to_owned()),
        }
    }

    /// Says who denied the call.
    pub fn sentence(&self) -> String {
        match self {
            Self::User(name) => format!("User '{name}' denied this call"),
            Self::AdminKey => "This call was denied with the operator's admin key".to_owned(),
            Self::Client(client) => format!("This call was declined in the {}", client.for_terminal()),
            Self::Unknown => "This call was denied".to_owned(),
        }
    }

    /// Returns the same text as `decided_by` in the REST interface.
    pub(super) fn text(&self) -> Option<&str> {
        match self {
            Self::User(name) => Some(name),
            Self::AdminKey => Some(Self::ADMIN_KEY),
            Self::Client(client) => Some(client.for_json()),
            Self::Unknown => None,
        }
    }
}
