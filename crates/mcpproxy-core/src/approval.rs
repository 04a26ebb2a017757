//! Approvals of single calls: the binding, the states and the strength of the user's proof.

use std::fmt;

use sha2::{Digest as _, Sha256};

use crate::{ToolName, Variant};

/// Id of an approval: 26 characters of Crockford's Base32 alphabet, sorted by time.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct ApprovalId(String);

impl ApprovalId {
    pub const CHARS: usize = 26;

    /// Parses an id. Accepts lower case, because people type ids by hand.
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

/// A SHA-256 digest.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Digest([u8; 32]);

impl Digest {
    pub fn of(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads 64 hexadecimal digits in lower case.
    pub fn parse(text: &str) -> Option<Self> {
        let mut bytes = [0; 32];
        if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_digit() || (b'a'..=b'f').contains(&byte)) {
            return None;
        }
        for (index, byte) in bytes.iter_mut().enumerate() {
            *byte = u8::from_str_radix(text.get(2 * index..2 * index + 2)?, 16).ok()?;
        }
        Some(Self(bytes))
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

/// Everything that an approval is bound to. If any field changes, the call needs another approval.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Binding {
    pub agent: String,
    pub tool: ToolName,
    /// Digest of the server's description of the tool.
    pub pin: Digest,
    /// Digest of the effective contract.
    pub contract: Digest,
    pub variant: Variant,
    /// Digest of the arguments, independent of the order of keys and of whitespace.
    pub arguments: Digest,
    /// Digest of everything else that the call carries for the server.
    pub attached: Digest,
}

impl Binding {
    /// Hashes all fields. Each text is preceded by its length, so that different fields never give the same bytes.
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
    /// A user has approved the call, and it has not been made yet.
    Approved,
    /// The call was made, once.
    Consumed,
    Denied,
    Expired,
    /// The request became obsolete: the agent's token was revoked, or the tool or its contract changed.
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

/// The proof that a user gave with an approval, the weakest first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Assurance {
    /// A form in the agent's own client.
    Form,
    /// A sign-in on the gateway's page or command line.
    Session,
    /// A sign-in with a fresh second factor for this approval.
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

/// The part of an approval that the decision reads.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Approval {
    pub id: ApprovalId,
    pub binding: Digest,
    pub state: ApprovalState,
    /// `None` until a user approves.
    pub given: Option<Assurance>,
    pub expires_ms: i64,
}

/// The approval that permits a call. It is consumed in the transaction that opens the call's record.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ApprovalRef {
    Approval(ApprovalId),
    /// The id of a standing approval.
    StandingApproval(String),
}
