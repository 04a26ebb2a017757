//! The gateway in one process with agents and servers that the tests play themselves.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on has failed"
)]

mod agent;
mod bytes;
mod calls;
mod contracts;
mod crowd;
mod framing;
mod http_servers;
mod limits;
mod misbehaving;
mod peer;
mod peer_http;
mod pipes;
mod relay;
mod reload;
mod resources;
mod rig;
mod scope;
mod sessions;
mod welcome;
