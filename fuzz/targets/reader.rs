//! Fuzzes the strict JSON reader with random bytes.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/reader.rs"]
mod reader;
#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/walk.rs"]
mod walk;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| reader::check(bytes));
