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
    ("files are short and begin with a description", shape::check),
    ("crates depend in one direction", direction::check),
    ("modules form no cycle", cycles::check),
    ("matches on our own enums are complete", wildcards::check),
    ("one function sends tool calls to servers", call_path::check),
    ("core performs no I/O", purity::check),
    ("no unfinished marks are left", words::check),
    ("packages come from the public registries", registries::check),
    ("documents name only existing files and commands", documents::check),
    ("published files are up to date", published::check),
];
