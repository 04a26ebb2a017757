//! Fuzzes the readers of lines, of servers and of agents, with random bytes.

#![no_main]
#![allow(dead_code, unused_imports, reason = "a check uses a part of each parser")]

#[path = "../../crates/mcpproxy-gateway/src/downstream/agent_lines.rs"]
mod agent_lines;
#[path = "../../crates/mcpproxy-gateway/tests/fuzz_corpus/lines.rs"]
mod check_lines;
#[path = "../../crates/mcpproxy-gateway/src/upstream/lines.rs"]
mod lines;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| check_lines::check(bytes));
