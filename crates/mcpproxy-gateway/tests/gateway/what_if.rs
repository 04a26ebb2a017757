//! Replays of recorded calls at the running gateway: one at a time, bounded, on the tools that servers listed last.

use mcpproxy_core::replay::Change;
use mcpproxy_gateway::{Period, ReplayError, ToolLists, WhatIf};

use crate::agent::{Agent, Way};
use crate::contracts::contracts;
use crate::peer::{Peer, Script, Speaks, text_result};
use crate::rig::{Rig, name, settings, stdio, within};

const TOOLS: &str = r#"[{"name":"look","inputSchema":{"type":"object"},"annotations":{"readOnlyHint":true}}]"#;

/// Starts a gateway whose log has one call, and whose server cannot be reached any more.
async fn after_a_call() -> Rig {
    let mut script = Script::new(Speaks::Legacy, TOOLS);
    script.call = |_| Some(text_result("done"));
    let peer = Peer::new(script).await;
    let rig = Rig::start(settings([peer.settings("fx")])).await;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    agent.call(&rig, "call_tool_read", r#"{"name":"fx:look"}"#).await;
    let lists = ToolLists::new(rig.folder().path().join("tools"));
    let stored = async {
        while lists.load(&name("fx")).is_none() {
            tokio::task::yield_now().await;
        }
    };
    within(stored).await;
    rig.again(settings([stdio("fx", "/nonexistent/server", &[])])).await
}

#[tokio::test]
async fn a_server_that_was_not_reached_has_the_tools_it_listed_last() {
    let rig = after_a_call().await;
    let (report, unlisted) = rig.gateway.replay(WhatIf::default(), Period::default()).await.unwrap();
    assert_eq!((report.calls, report.unknown, unlisted), (1, 0, Vec::new()));
    assert!(report.groups.is_empty(), "{:?}", report.groups);
    // Both sides have the tools, so only the new contract makes a difference.
    let what_if = WhatIf { contracts: Some(contracts("tool: fx:look\nriskLevel: forbidden\n")), ..WhatIf::default() };
    let (report, _) = rig.gateway.replay(what_if, Period::default()).await.unwrap();
    assert_eq!((report.count(Change::NewlyRefused), report.count(Change::NewlyAllowed)), (1, 0));
}

#[tokio::test]
async fn a_server_that_was_never_connected_is_named() {
    let rig = Rig::start(settings([stdio("fx", "/nonexistent/server", &[])])).await;
    let (report, unlisted) = rig.gateway.replay(WhatIf::default(), Period::default()).await.unwrap();
    assert_eq!((report.calls, unlisted), (0, vec![name("fx")]));
}

#[tokio::test]
async fn a_replay_has_a_bound_and_is_alone() {
    let rig = after_a_call().await;
    let bound = Period { records_max: Some(0), ..Period::default() };
    let (report, _) = rig.gateway.replay(WhatIf::default(), bound).await.unwrap();
    assert_eq!((report.calls, report.is_cut), (0, true));
    let all = || rig.gateway.replay(WhatIf::default(), Period::default());
    let (first, second) = tokio::join!(all(), all());
    assert!(!first.unwrap().0.is_cut);
    assert!(matches!(second, Err(ReplayError::Busy)));
    assert!(all().await.is_ok(), "the next one has its turn");
}
