//! All checks by name.

mod call_path;
mod direction;
mod documents;
mod purity;
mod registries;
mod shape;
mod words;

use crate::published;
use crate::tree::{Problem, Tree};

type Check = fn(&Tree) -> Vec<Problem>;

pub(crate) const CHECKS: [(&str, Check); 8] = [
    ("files are short and say what they are for", shape::check),
    ("crates depend in one direction", direction::check),
    ("there is one way to a server's tool", call_path::check),
    ("the rules do nothing but decide", purity::check),
    ("nothing is left for later", words::check),
    ("packages come from the usual places", registries::check),
    ("documents are true", documents::check),
    ("published files are up to date", published::check),
];
