//! Checks the invariants of every fuzz target on its seed corpus.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test that cannot go on has failed")]

mod contract;
mod intent;
mod mask;
mod policies;
mod reader;
mod schema;
mod search;
mod settings;
mod walk;

use std::fs;
use std::path::Path;

#[test]
fn kept_inputs_of_the_reader() {
    run("reader", reader::check);
}

#[test]
fn kept_inputs_of_the_intent_parser() {
    run("intent", intent::check);
}

#[test]
fn kept_inputs_of_the_mask() {
    run("mask", mask::check);
}

#[test]
fn kept_inputs_of_the_contract_reader() {
    run("contract", contract::check);
}

#[test]
fn kept_inputs_of_the_policies() {
    run("policies", policies::check);
}

#[test]
fn kept_inputs_of_the_schemas() {
    run("schema", schema::check);
}

#[test]
fn kept_inputs_of_the_settings() {
    run("settings", settings::check);
}

#[test]
fn kept_inputs_of_the_search() {
    run("search", search::check);
}

/// Runs every input whole, and cut off at every byte, because most mistakes occur at an unexpected end.
fn run(name: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(name);
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        for end in 0..=bytes.len() {
            check(bytes.get(..end).unwrap());
        }
        count += 1;
    }
    assert!(count > 10, "{count} inputs");
}
