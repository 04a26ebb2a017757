//! Fuzzes the parser of JSON-RPC messages with random bytes, after the strict reader.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-gateway/tests/fuzz_corpus/messages.rs"]
mod check_messages;
#[path = "../../crates/mcpproxy-gateway/src/message.rs"]
mod message;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_messages::check(bytes));
