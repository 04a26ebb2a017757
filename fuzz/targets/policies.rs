//! Random texts against the reader of the operator's policies.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/policies.rs"]
mod policies;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| policies::check(bytes));
