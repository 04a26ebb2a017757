//! Fuzzes the seal of request states with random states and changes.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-gateway/tests/fuzz_corpus/state.rs"]
mod check_state;
#[path = "../../crates/mcpproxy-gateway/src/approvals/state_seal.rs"]
mod state_seal;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_state::check(bytes));
