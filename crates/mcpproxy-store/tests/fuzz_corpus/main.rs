//! Checks the invariants of the store's fuzz target on its seed corpus.

#![allow(clippy::panic, reason = "a test that cannot go on has failed")]

mod bundle;

use std::fs;
use std::path::Path;

/// Runs every input whole, and cut off at many places. Each bundle is short, but checking a signature takes time.
#[test]
fn kept_inputs_of_the_bundle_check() {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed/bundle");
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        (0..=bytes.len()).rev().step_by(31).for_each(|end| bundle::check(bytes.get(..end).unwrap()));
        count += 1;
    }
    assert!(count > 10, "{count} inputs");
}
