//! JSON as it came: one strict reader for bytes from outside, and a way to look into them without changing them.

mod canonical;
mod error;
mod members;
mod reader;

pub use canonical::canonical;
pub use error::{ReadError, ReadErrorKind};
pub use members::{Members, members, quote, string_value};
pub use reader::{DEPTH_MAX, SERVER_DEPTH_MAX, read, read_server};
