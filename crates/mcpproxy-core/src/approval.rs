//! A user's word on one call: what it is bound to, how far it has come, and what it is worth.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{ToolName, Variant};

/// Names an approval: 26 characters of Crockford's alphabet, in the order of time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalId(String);

impl ApprovalId {
    pub const CHARS: usize = 26;

    /// Takes lower case too: people copy ids by hand.
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

/// SHA-256.
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

/// Everything a user's word is about. Change any of it, and it is another approval request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub agent: String,
    pub tool: ToolName,
    /// What the server says about the tool.
    pub pin: Digest,
    /// The contract that counts.
    pub contract: Digest,
    pub variant: Variant,
    /// The arguments, whatever the order of their keys and the space between them.
    pub arguments: Digest,
    /// What goes to the server besides.
    pub attached: Digest,
}

impl Binding {
    /// Of all of it together. No two bindings have parts that could be taken for each other's.
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

/// How far an approval has come. The last four are final.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum ApprovalState {
    Pending,
    /// A user said yes, and the call has not been made yet.
    Approved,
    /// The call was made, once.
    Consumed,
    Denied,
    Expired,
    /// There is nothing left to decide: the agent lost its token, or the tool or its contract changed.
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

/// How a user said yes, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assurance {
    /// In a form that the agent's own client drew.
    Form,
    /// On the gateway's page or command line, signed in.
    Session,
    /// The same with a fresh factor for this very approval.
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

/// An approval as far as decisions are concerned.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub binding: Digest,
    pub state: ApprovalState,
    /// `None` until a user says yes.
    pub given: Option<Assurance>,
    pub expires_ms: i64,
}

/// Whose word lets a call through that needs one. It is spent together with the opening of the call's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalRef {
    Approval(ApprovalId),
    /// The id of a grant.
    StandingApproval(String),
}
