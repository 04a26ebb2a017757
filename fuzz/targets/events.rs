//! Fuzzes the reader of server-sent events with random bytes.

#![no_main]

#[path = "../../crates/mcpproxy-gateway/src/event_stream.rs"]
mod event_stream;
#[path = "../../crates/mcpproxy-gateway/tests/fuzz_corpus/events.rs"]
mod events;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| events::check(bytes));
