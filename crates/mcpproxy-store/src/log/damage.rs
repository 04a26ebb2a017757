//! What can be wrong with a chain, and where.

use std::fmt;

use crate::RecordId;

/// The first thing that is wrong with a chain.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub struct Damage {
    /// Position 0 is the chain as a whole.
    pub seq: i64,
    /// The record at this position, if it is there.
    pub id: Option<RecordId>,
    pub what: DamageKind,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum DamageKind {
    /// The record, or its hash, is not as it was written.
    Changed,
    /// Nothing stands at this position.
    Missing,
    /// More than one line claims this position.
    Doubled,
    /// A record stands where all were removed when their time was over.
    Inserted,
    /// Its id says that it was written at another time than its position.
    OutOfOrder,
    ArgsChanged,
    ResultChanged,
    /// The chain ends before this position, but was signed up to another.
    Truncated {
        signed: i64,
    },
    /// The chain fits together, but not with what was signed for this position. `trusted` is the last that does fit.
    Rewritten {
        trusted: i64,
    },
    /// What is kept as a checkpoint for this position was not signed with the key of the chain.
    WrongCheckpoint,
    /// What is kept as the key of the chain is not its key.
    WrongKey,
    /// Records are said to have been removed when their time was over, but the gateway has not signed that.
    UnsignedRemoval,
    /// There are records of a chain that nobody began.
    NoSuchChain,
    /// The chain of a key that is trusted is not there.
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
            Self::Changed => f.write_str("its content does not match its hash"),
            Self::Missing => f.write_str("the record that stood here is gone"),
            Self::Doubled => f.write_str("more than one record claims to stand here"),
            Self::Inserted => f.write_str("a record was put in where there is none left"),
            Self::OutOfOrder => f.write_str("its id is out of order"),
            Self::ArgsChanged => f.write_str("its arguments do not match their digest"),
            Self::ResultChanged => f.write_str("its result does not match its digest"),
            Self::Truncated { signed } => write!(
                f,
                "the log ends before it, but a checkpoint was signed for position {signed}: the last records are gone"
            ),
            Self::Rewritten { trusted: 0 } => f.write_str(
                "the checkpoint signed for it says otherwise: it, or a record before it, was changed and hashed anew",
            ),
            Self::Rewritten { trusted } => write!(
                f,
                "the checkpoint signed for it says otherwise: it, or a record after position {trusted}, was changed and \
                 hashed anew"
            ),
            Self::WrongCheckpoint => f.write_str("its checkpoint was not signed with the key of the chain"),
            Self::WrongKey => {
                f.write_str("the key kept for this chain is not the key it is named after, or not the trusted one")
            }
            Self::UnsignedRemoval => f.write_str("records were taken out, and not by the gateway that wrote them"),
            Self::NoSuchChain => f.write_str("the database knows no chain that this record could belong to"),
            Self::ChainGone => f.write_str("the database has no chain of this key"),
        }
    }
}
