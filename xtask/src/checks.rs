//! The list of all checks, by name.

mod call_path;
mod cycles;
mod direction;
mod documents;
mod purity;
mod registries;
mod shape;
mod wildcards;
mod words;

use crate::published;
use crate::tree::{Problem, Tree};

type Check = fn(&Tree) -> Vec<Problem>;

pub(crate) const CHECKS: [(&str, Check); 10] = [
    ("files are short and say what they are for", shape::check),
    ("crates depend in one direction", direction::check),
    ("modules form no cycle", cycles::check),
    ("matches on our own enums are complete", wildcards::check),
    ("there is one way to a server's tool", call_path::check),
    ("core does nothing but decide", purity::check),
    ("nothing is left for later", words::check),
    ("packages come from the usual places", registries::check),
    ("documents are true", documents::check),
    ("published files are up to date", published::check),
];
