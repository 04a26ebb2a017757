//! Fuzzes the postings of the search index with random bytes.

#![no_main]
#![allow(dead_code, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-store/tests/fuzz_corpus/postings.rs"]
mod check_postings;
#[path = "../../crates/mcpproxy-store/src/log/search/postings.rs"]
mod postings_code;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_postings::check(bytes));
