//! Reads JSON from outside strictly, and looks into it without changing a byte.
//!
//! `reader` accepts or refuses bytes, `members` cuts accepted text into slices, and `canonical` writes equal values the
//! same way so that they can be hashed. `bytes` finds the next quote or bracket for them.

mod bytes;
mod canonical;
mod error;
mod members;
mod reader;

pub use canonical::canonical;
pub use error::{ReadError, ReadErrorKind};
pub use members::{Members, OwnedObject, member, members, push_quoted, quote, string_value};
pub use reader::{DEPTH_MAX, SERVER_DEPTH_MAX, read, read_server};
