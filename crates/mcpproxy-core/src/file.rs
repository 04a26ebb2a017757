//! Reads the files that operators write, JSON with comments or YAML, and keeps the position of every value.
//!
//! Settings, contracts and policy test cases are all read here. Each goes through three steps:
//!
//! 1. [`documents`] parses the text into trees of [`Node`]s. A node is a value and its [`SourcePosition`]. Both
//!    languages give the same tree, so nothing behind this step knows which one the file was written in.
//! 2. A [`Reader`] takes typed values out of the tree: a boolean, one of a few words, a list, an object with known
//!    [`Keys`]. A value of the wrong type becomes a [`Mistake`] with line and column, and the reader goes on.
//! 3. [`Mistakes::in_order`] returns all mistakes in the order of the file. A file with one mistake has no effect.
//!
//! Invariants:
//!
//! - **One text has one meaning.** Duplicate keys are mistakes, because parsers disagree on which one counts. YAML
//!   anchors, aliases, tags and merge keys are mistakes too. `no` and `off` are texts, as in YAML 1.2.
//! - **Every file is read in bounded time and memory.** Depth ([`DEPTH_MAX`]), the number of values
//!   ([`FileKind::values_max`]) and the number of reported mistakes are limited.
//! - **Messages are safe to print.** Text from the file passes [`shown`], which escapes and shortens it.
//!
//! Why not `serde`? A deserializer stops at the first mistake, and its error names no key that the operator could have
//! meant. Operators fix a file in one go when they see everything that is wrong with it:
//!
//! ```text
//! contracts/mail.yaml, line 3, column 1: unknown key `risk`; did you mean `riskLevel`?
//! contracts/mail.yaml, line 7, column 10: expected a duration such as "30s", "5m" or "24h", found number
//! ```

pub(crate) mod amount;
mod jsonc;
mod jsonc_syntax;
mod keys;
mod mistake;
mod node;
mod plain;
mod quote;
mod read;
mod yaml;
mod yaml_error;

pub use jsonc_syntax::JSONC;
pub use mistake::Mistake;

pub(crate) use keys::{Keys, words};
pub(crate) use mistake::Mistakes;
pub(crate) use node::{Member, Node, NodeValue, SourcePosition, to_object};
pub(crate) use quote::{list, shown};
pub(crate) use read::{Author, Fields, Reader};

/// Deepest nesting of a file.
const DEPTH_MAX: usize = 32;

/// The language of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Format {
    /// JSON with comments and trailing commas.
    Jsonc,
    Yaml,
}

impl Format {
    /// Returns JSON for a name that ends in `.json`, YAML for any other.
    pub(crate) fn of_name(name: &str) -> Self {
        if name.to_ascii_lowercase().ends_with(".json") { Self::Jsonc } else { Self::Yaml }
    }
}

/// The limits of one kind of file, and its advice for the two mistakes that concern the whole file.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FileKind {
    /// Most values and keys in one file.
    pub(crate) values_max: usize,
    /// Advice when a file has more values.
    pub(crate) too_many: &'static str,
    /// Advice when a JSON file is empty.
    pub(crate) empty: &'static str,
}

/// Parses a file into its documents: at most one in JSON, any number in YAML. Parts that cannot be read are left out
/// and reported as mistakes.
pub(crate) fn documents(text: &str, format: Format, kind: FileKind, mistakes: &mut Mistakes) -> Vec<Node> {
    // Some editors write a byte order mark first. It is invisible, so it must not shift a column.
    let text = text.strip_prefix('\u{FEFF}').unwrap_or(text);
    match format {
        Format::Jsonc => Vec::from_iter(jsonc::document(text, kind, mistakes)),
        Format::Yaml => yaml::documents(text, kind, mistakes),
    }
}
