//! Reads JSON from outside strictly, and looks into it without changing a byte.
//!
//! `reader` accepts or refuses bytes, `members` cuts accepted text into slices, and `canonical` writes equal values the
//! same way so that they can be hashed. `exact` reads values without losing digits of their numbers, and `decimal`
//! compares such numbers. `pretty` writes text for people. `bytes` finds the next quote or bracket for them.

mod bytes;
mod canonical;
mod decimal;
mod error;
mod exact;
mod members;
mod pretty;
mod reader;

pub use canonical::canonical;
pub(crate) use decimal::Decimal;
pub use error::{ReadError, ReadErrorKind};
pub use exact::ExactValue;
pub(crate) use exact::{ExactPart, LongNumbers, is_exact};
pub use members::{Members, OwnedObject, member, members, push_quoted, quote, string_value};
pub use pretty::pretty;
pub use reader::{DEPTH_MAX, SERVER_DEPTH_MAX, read, read_server};
