//! Fuzzes the contract parser with random texts.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/contract.rs"]
mod contract;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| contract::check(bytes));
