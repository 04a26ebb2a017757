//! Fuzzes the masking of secrets with random texts.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/mask.rs"]
mod mask;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| mask::check(bytes));
