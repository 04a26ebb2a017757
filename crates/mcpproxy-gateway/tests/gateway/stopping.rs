//! A gateway that stops: calls that run are finished or failed, and every answer has its outcome in the log.

use crate::agent::{Agent, WAYS};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, settings, within};

const WORK: &str = r#"{"name":"fx:work"}"#;

/// A server whose tool answers when the test says so.
async fn peer() -> Peer {
    Peer::new(Script::new(Speaks::Legacy, &format!("[{}]", tool("work", READ_ONLY)))).await
}

#[tokio::test]
async fn a_call_that_ends_in_time_succeeds() {
    for way in WAYS {
        let mut peer = peer().await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let stop = async {
            let call = peer.next().await;
            assert_eq!(rig.gateway.running_calls(), 1, "{way:?}");
            // The gateway waits before the server answers.
            tokio::join!(within(rig.gateway.drain()), call.answer_text("done"));
            assert_eq!(rig.gateway.running_calls(), 0, "{way:?}");
            rig.gateway.stop().await;
        };
        let (answer, ()) = tokio::join!(agent.call(&rig, "call_tool_read", WORK), stop);
        assert_eq!(answer.brief(), "done", "{way:?}");
        assert_eq!(rig.records().await, ["call success a fx:work read -: -"], "{way:?}");
    }
}

#[tokio::test]
async fn a_call_that_never_ends_fails_and_is_recorded() {
    for way in WAYS {
        let mut peer = peer().await;
        let rig = Rig::start(settings([peer.settings("fx")])).await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let stop = async {
            let _unanswered = peer.next().await;
            rig.gateway.stop().await;
        };
        let (answer, ()) = tokio::join!(agent.call(&rig, "call_tool_read", WORK), stop);
        assert!(answer.brief().starts_with("upstream_unavailable"), "{way:?}");
        let records = rig.records().await;
        assert!(records[0].starts_with("call error a fx:work read upstream_unavailable"), "{way:?} {records:?}");
    }
}
