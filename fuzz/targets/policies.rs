//! Fuzzes the policy parser with random texts.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/policies.rs"]
mod policies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policies::check(bytes));
