//! Fuzzes the intent parser with random bytes, after the strict reader.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/intent.rs"]
mod intent;
#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/walk.rs"]
mod walk;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| intent::check(bytes));
