//! Fuzzes the search with random queries.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/search.rs"]
mod search;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| search::check(bytes));
