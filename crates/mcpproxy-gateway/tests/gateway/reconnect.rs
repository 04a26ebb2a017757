//! Servers that die between calls: the next call connects them again, and no call counts as sent that was not.

use mcpproxy_gateway::StateName;

use crate::agent::{Agent, Way};
use crate::rig::{Rig, misbehaving, settings, within};

const ECHO: &str = r#"{"name":"fx:echo","args":{"n":1}}"#;

/// The backoff doubles with every crash. The calls between the crashes do not wait for it.
#[tokio::test]
async fn a_call_to_a_dead_server_connects_it_at_once() {
    let rig = Rig::start(settings([misbehaving("fx", &[], None)])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    for _ in 0..4 {
        agent.call(&rig, "call_tool_write", r#"{"name":"fx:crash"}"#).await;
        let answered = async {
            loop {
                let found = agent.call(&rig, "call_tool_read", ECHO).await.brief();
                if found == r#"{"n":1}"# {
                    return;
                }
                assert!(!found.contains("may have run"), "{found}");
                tokio::time::sleep(std::time::Duration::from_millis(50)).await;
            }
        };
        within(answered).await;
        assert_eq!(rig.server("fx").state, StateName::Ready);
    }
}
