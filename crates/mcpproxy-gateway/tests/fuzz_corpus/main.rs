//! Checks the invariants of the gateway's fuzz targets on their seed corpora.
//!
//! Parsers that are private to the gateway are compiled into this test, as they are into their fuzz targets.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on should stop there")]
#![allow(dead_code, unused_imports, unreachable_pub, reason = "a check uses a part of each parser")]
#![allow(clippy::panic, reason = "a test that cannot go on has failed")]

#[path = "../../src/downstream/agent_lines.rs"]
mod agent_lines;
#[path = "events.rs"]
mod check_events;
#[path = "headers.rs"]
mod check_headers;
#[path = "lines.rs"]
mod check_lines;
#[path = "messages.rs"]
mod check_messages;
#[path = "state.rs"]
mod check_state;
#[path = "../../src/headers.rs"]
mod headers;
#[path = "../../src/upstream/lines.rs"]
mod lines;
#[path = "../../src/message.rs"]
mod message;
#[path = "../../src/downstream/request_head.rs"]
mod request_head;
#[path = "../../src/upstream/response_head.rs"]
mod response_head;
#[path = "../../src/approvals/state_seal.rs"]
mod state_seal;

mod event_stream {
    pub(crate) use mcpproxy_gateway::{Event, EventReader};
}

use std::fs;
use std::path::Path;

#[test]
fn kept_inputs_of_the_event_reader() {
    run("events", check_events::check);
}

#[test]
fn kept_inputs_of_the_messages() {
    run("messages", check_messages::check);
}

#[test]
fn kept_inputs_of_the_headers() {
    run("headers", check_headers::check);
}

#[test]
fn kept_inputs_of_the_lines() {
    run("lines", check_lines::check);
}

#[test]
fn kept_inputs_of_the_request_states() {
    run("state", check_state::check);
}

/// Runs every input whole, and cut off at every byte, because most mistakes occur at an unexpected end.
fn run(name: &str, check: fn(&[u8])) {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../fuzz/corpus-seed").join(name);
    let mut count = 0;
    for file in fs::read_dir(folder).unwrap() {
        let bytes = fs::read(file.unwrap().path()).unwrap();
        (0..=bytes.len()).for_each(|end| check(bytes.get(..end).unwrap()));
        count += 1;
    }
    assert!(count > 10, "{count} inputs");
}
