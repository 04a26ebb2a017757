//! Checks the invariants of the store's fuzz targets on their seed corpora.

#![allow(dead_code, reason = "a check uses a part of each parser")]
#![allow(clippy::panic, clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod bundle;
mod postings;
#[path = "../../src/log/search/postings.rs"]
mod postings_code;

use std::fs;
use std::path::Path;

/// Runs every input whole, and cut off at many places. Each bundle is short, but checking a signature takes time.
#[test]
fn kept_inputs_of_the_bundle_check() {
    let inputs = inputs("bundle");
    for bytes in &inputs {
        (0..=bytes.len()).rev().step_by(31).for_each(|end| bundle::check(bytes.get(..end).unwrap()));
    }
    assert!(inputs.len() > 10, "{} inputs", inputs.len());
}

#[test]
fn kept_inputs_of_the_postings() {
    let inputs = inputs("postings");
    for bytes in &inputs {
        (0..=bytes.len()).for_each(|end| postings::check(bytes.get(..end).unwrap()));
    }
    assert!(inputs.len() >= 6, "{} inputs", inputs.len());
}

fn inputs(target: &str) -> Vec<Vec<u8>> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(target);
    fs::read_dir(folder).unwrap().map(|file| fs::read(file.unwrap().path()).unwrap()).collect()
}
