//! Fuzzes the settings parser, which reads JSON with comments, with random texts.

#![no_main]

#[path = "../../crates/mcpproxy-core/tests/fuzz_corpus/settings.rs"]
mod settings;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| settings::check(bytes));
