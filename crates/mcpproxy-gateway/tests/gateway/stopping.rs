//! A gateway that stops: calls that run are finished or failed, and every answer has its outcome in the log.

use std::time::Duration;

use crate::agent::{Agent, WAYS};
use crate::rig::{Rig, misbehaving, settings, within};

async fn until_a_call_runs(rig: &Rig) {
    let running = async {
        while rig.gateway.running_calls() == 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    };
    within(running).await;
}

#[tokio::test]
async fn a_call_that_ends_in_time_succeeds() {
    for way in WAYS {
        let rig = Rig::start(settings([misbehaving("fx", &["--delay", "500"], None)])).await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let stop = async {
            until_a_call_runs(&rig).await;
            within(rig.gateway.drain()).await;
            assert_eq!(rig.gateway.running_calls(), 0, "{way:?}");
            rig.gateway.stop().await;
        };
        let (answer, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:slow"}"#), stop);
        assert_eq!(answer.brief(), "done", "{way:?}");
        assert_eq!(rig.records().await, ["call success a fx:slow read -: -"], "{way:?}");
    }
}

#[tokio::test]
async fn a_call_that_never_ends_fails_and_is_recorded() {
    for way in WAYS {
        let rig = Rig::start(settings([misbehaving("fx", &["--hang"], None)])).await;
        let mut agent = Agent::new(&rig, way, "a").await;
        let stop = async {
            until_a_call_runs(&rig).await;
            rig.gateway.stop().await;
        };
        let (answer, ()) = tokio::join!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:hang"}"#), stop);
        assert!(answer.brief().starts_with("upstream_unavailable"), "{way:?}");
        let records = rig.records().await;
        assert!(records[0].starts_with("call error a fx:hang read upstream_unavailable"), "{way:?} {records:?}");
    }
}
