//! Damage: what can be wrong with a chain, and where. `mcpproxy activity verify` prints these messages.

use std::fmt;

use crate::RecordId;

/// The first damage of a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Damage {
    /// Position 0 means the whole chain.
    pub seq: i64,
    /// The record at this position, if there is one.
    pub id: Option<RecordId>,
    pub what: DamageKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The record or its hash was changed.
    Changed,
    /// There is no line at this position.
    Missing,
    /// Several lines have this position.
    Doubled,
    /// A record exists where retention removed all records.
    Inserted,
    /// Its id and its position disagree about the order.
    OutOfOrder,
    ArgsChanged,
    ResultChanged,
    /// The chain ends before this position, but a later position was signed.
    Truncated {
        signed: i64,
    },
    /// The hashes are consistent, but differ from the checkpoint at this position. `trusted` is the last position whose
    /// checkpoint matches.
    Rewritten {
        trusted: i64,
    },
    /// The checkpoint of this position was not signed with the key of the chain.
    WrongCheckpoint,
    /// The stored key is not the key of the chain.
    WrongKey,
    /// Records were removed without a valid signature of the gateway.
    UnsignedRemoval,
    /// A record tells of a restore, but no checkpoint covers it.
    UnsignedRestore,
    /// Records refer to a chain that does not exist.
    NoSuchChain,
    /// The chain of a trusted key is missing.
    ChainGone,
}

impl fmt::Display for Damage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.seq > 0 || self.id.is_some() {
            write!(f, "position {}", self.seq)?;
            if let Some(id) = self.id {
                write!(f, " (record {id})")?;
            }
            f.write_str(": ")?;
        }
        self.what.fmt(f)
    }
}

impl fmt::Display for DamageKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Changed => f.write_str("the record does not match its hash; it was changed"),
            Self::Missing => f.write_str("the record at this position is missing"),
            Self::Doubled => f.write_str("more than one record has this position"),
            Self::Inserted => f.write_str("a record was inserted where retention had removed all records"),
            Self::OutOfOrder => f.write_str("the record id is out of order"),
            Self::ArgsChanged => f.write_str("the arguments do not match their digest; they were changed"),
            Self::ResultChanged => f.write_str("the result does not match its digest; it was changed"),
            Self::Truncated { signed } => write!(
                f,
                "the log ends before this position, but position {signed} was signed; the last records are missing"
            ),
            Self::Rewritten { trusted: 0 } => f.write_str(
                "the signed checkpoint does not match; this record or an earlier one was changed and rehashed",
            ),
            Self::Rewritten { trusted } => write!(
                f,
                "the signed checkpoint does not match; this record or one after position {trusted} was changed and rehashed"
            ),
            Self::WrongCheckpoint => f.write_str("the checkpoint was not signed with the key of this chain"),
            Self::WrongKey => {
                f.write_str("the stored key does not match the name of this chain, or is not the trusted key")
            }
            Self::UnsignedRemoval => {
                f.write_str("records were removed without a signature of the gateway that wrote them")
            }
            Self::UnsignedRestore => f.write_str(
                "the record says that the log was restored from a backup, but it is not signed, so it proves nothing",
            ),
            Self::NoSuchChain => f.write_str("the database has no chain for this record"),
            Self::ChainGone => f.write_str("the database has no chain for this key"),
        }
    }
}
