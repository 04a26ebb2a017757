//! The real tool lists in `tests/data/tools`, for tests and benchmarks: `#[path = "data/tools.rs"] mod tools;`.

#![expect(clippy::unwrap_used, reason = "without its data a test has failed")]

use std::path::Path;

/// One server's tools: the name of the server, and the JSON of each tool without white space.
pub(crate) struct List {
    pub(crate) server: String,
    pub(crate) tools: Vec<String>,
}

/// Returns all lists, by server name.
pub(crate) fn lists() -> Vec<List> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/data/tools");
    let files = std::fs::read_dir(&folder).unwrap().map(|file| file.unwrap().path());
    let mut lists: Vec<List> = files
        .filter(|path| path.extension().is_some_and(|extension| extension == "jsonl"))
        .map(|path| List {
            server: path.file_stem().unwrap().to_str().unwrap().to_owned(),
            tools: std::fs::read_to_string(&path).unwrap().lines().map(str::to_owned).collect(),
        })
        .collect();
    lists.sort_by(|a, b| a.server.cmp(&b.server));
    lists
}
