//! Fuzzes the readers of headers of agents and servers with random headers and bodies.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-gateway/tests/fuzz_corpus/headers.rs"]
mod check_headers;
#[path = "../../crates/mcpproxy-gateway/src/headers.rs"]
mod headers;
#[path = "../../crates/mcpproxy-gateway/src/message.rs"]
mod message;
#[path = "../../crates/mcpproxy-gateway/src/downstream/request_head.rs"]
mod request_head;
#[path = "../../crates/mcpproxy-gateway/src/upstream/response_head.rs"]
mod response_head;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_headers::check(bytes));
