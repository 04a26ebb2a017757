//! The approval of one call: the facts it is bound to, its state, and its strength.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{ToolName, Variant};

/// The id of an approval: 26 characters of Crockford's base32 that sort by time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalId(String);

impl ApprovalId {
    pub const CHARS: usize = 26;

    /// Parses an id. Lower case is accepted, because users copy ids by hand.
    pub fn parse(text: &str) -> Option<Self> {
        let fits = |byte: u8| byte.is_ascii_digit() || byte.is_ascii_uppercase() && !b"ILOU".contains(&byte);
        let text = text.to_ascii_uppercase();
        (text.len() == Self::CHARS && text.bytes().all(fits)).then_some(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for ApprovalId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A SHA-256 hash.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    pub fn from_bytes(bytes: [u8; 32]) -> Self {
        Self(bytes)
    }

    pub fn as_bytes(&self) -> &[u8; 32] {
        &self.0
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{self}")
    }
}

/// Everything that an approval is bound to. If any part changes, the call needs another approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub agent: String,
    pub tool: ToolName,
    /// Hash of the server's description of the tool.
    pub pin: Digest,
    /// Hash of the effective contract.
    pub contract: Digest,
    pub variant: Variant,
    /// Hash of the arguments. The order of keys and white space do not matter.
    pub arguments: Digest,
    /// Hash of the members that the agent sends beside the arguments, without `_meta`.
    pub attached: Digest,
}

impl Binding {
    /// Returns the hash of all parts. Length prefixes keep the parts apart, so two different bindings never hash the
    /// same bytes.
    pub fn digest(&self) -> Digest {
        let mut all = Sha256::new();
        for part in [self.agent.as_str(), &self.tool.to_string(), self.variant.operation()] {
            all.update((part.len() as u64).to_be_bytes());
            all.update(part);
        }
        for part in [self.pin, self.contract, self.arguments, self.attached] {
            all.update(part.0);
        }
        Digest(all.finalize().into())
    }
}

/// The state of an approval. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    Pending,
    /// A user approved, and the call has not been made yet.
    Approved,
    /// The call was made, once.
    Consumed,
    Denied,
    Expired,
    /// No decision is needed any more: the agent lost its token, or the tool or its contract changed.
    Cancelled,
}

impl ApprovalState {
    pub const ALL: [Self; 6] =
        [Self::Pending, Self::Approved, Self::Consumed, Self::Denied, Self::Expired, Self::Cancelled];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Pending => "pending",
            Self::Approved => "approved",
            Self::Consumed => "consumed",
            Self::Denied => "denied",
            Self::Expired => "expired",
            Self::Cancelled => "cancelled",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|state| state.as_str() == word)
    }
}

/// The strength of an approval, from the weakest to the strongest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assurance {
    /// Given in a form that the agent's own client drew.
    Form,
    /// Given on the gateway's page or command line, by a signed-in user.
    Session,
    /// As `Session`, with a fresh second factor for this approval.
    Factor,
}

impl Assurance {
    pub const ALL: [Self; 3] = [Self::Form, Self::Session, Self::Factor];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::Form => "form",
            Self::Session => "session",
            Self::Factor => "factor",
        }
    }

    pub fn parse(word: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|given| given.as_str() == word)
    }
}

/// The part of a stored approval that the decision needs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub binding: Digest,
    pub state: ApprovalState,
    /// `None` until a user approves.
    pub given: Option<Assurance>,
    pub expires_ms: i64,
}

/// The approval or standing approval that permits a call. The step that opens the call's record also spends it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalRef {
    Approval(ApprovalId),
    /// The id of a standing approval.
    StandingApproval(String),
}
