//! Fuzzes the check of bundles with random files and changes.

#![no_main]

#[path = "../../crates/mcpproxy-store/tests/fuzz_corpus/bundle.rs"]
mod bundle;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| bundle::check(bytes));
