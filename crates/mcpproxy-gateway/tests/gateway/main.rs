//! Integration tests: one gateway in this process, with agents and servers that the tests simulate.

#![expect(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::string_slice,
    reason = "a test that cannot go on has failed"
)]

mod agent;
mod agents_oauth;
mod approvals;
mod approvals_changed;
mod approvals_held;
mod asked;
mod attached;
mod audit;
mod bytes;
mod calls;
mod channels;
mod channels_session;
mod channels_words;
mod chosen_again;
mod contracts;
mod crashes;
mod crowd;
mod direct;
mod dry_runs;
mod floods;
mod framing;
mod grants;
mod http_servers;
#[path = "../../../mcpproxy-identity/src/tests/issuer.rs"]
mod issuer;
mod limits;
mod misbehaving;
mod notices;
mod peer;
mod peer_http;
mod pins_away;
mod pipes;
mod reconnect;
mod relay;
mod reload;
mod repeats;
mod resources;
mod rig;
mod scope;
mod sessions;
mod stopping;
mod unasked;
mod user_dry_runs;
mod welcome;
mod what_if;
