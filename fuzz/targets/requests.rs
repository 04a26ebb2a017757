//! Fuzzes the search for requests with two lengths with random bytes, and hyper beside it.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-web/src/server/framing.rs"]
mod framing;
#[path = "../../crates/mcpproxy-web/tests/fuzz_corpus/requests.rs"]
mod requests;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| requests::check(bytes));
