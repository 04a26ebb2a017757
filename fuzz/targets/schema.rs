//! Fuzzes the schema walker with random schemas and values.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/schema.rs"]
mod schema;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| schema::check(bytes));
