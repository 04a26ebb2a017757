//! Checks the invariants of the web crate's fuzz target on its seed corpus.

#![allow(dead_code, reason = "the check uses a part of the reader")]

#[path = "../../src/server/framing.rs"]
mod framing;
mod requests;

use std::fs;
use std::path::Path;

/// Runs every input whole, and cut off at every byte, because most mistakes occur at an unexpected end.
#[test]
fn kept_inputs_of_the_request_reader() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/requests");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| requests::check(bytes.get(..end).unwrap()));
        count += 1;
    }
    assert!(count > 10, "{count} inputs");
}
