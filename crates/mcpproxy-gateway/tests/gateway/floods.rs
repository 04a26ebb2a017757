//! Servers that flood the gateway: each limit disconnects the server with its reason, and other servers work on.

use mcpproxy_core::settings::ServerSettings;
use mcpproxy_gateway::StateName;

use crate::agent::{Agent, Way};
use crate::rig::{Rig, misbehaving, settings};

const ECHO: &str = r#"{"name":"well:echo","args":{"n":1}}"#;

/// Makes the server flood the gateway during a call, and checks the record of that call.
async fn check(kind: &str, expected: &str) {
    let server = ServerSettings { result_limit_bytes: 1024 * 1024, ..misbehaving("fx", &["--floods"], None) };
    let rig = Rig::start(settings([server, misbehaving("well", &[], None)])).await;
    let first = rig.server("fx").pid;
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let call = format!(r#"{{"name":"fx:flood","args":{{"kind":"{kind}"}}}}"#);
    let found = agent.call(&rig, "call_tool_read", &call).await.brief();
    let (code, reason) = expected.split_once(": ").unwrap();
    let told = format!(
        "{code} The call to 'fx:flood' failed: {reason}. The server may have run it, so check before you repeat the call."
    );
    assert_eq!(found, told, "{kind}");
    assert_eq!(agent.call(&rig, "call_tool_read", ECHO).await.brief(), r#"{"n":1}"#, "{kind}");
    let back = rig.until("fx", |status| status.state == StateName::Ready && status.pid != first).await;
    assert_eq!(back.restarts, 1, "{kind}");
    let record = format!("call error a fx:flood read {expected}; the server may have run the call");
    assert_eq!(rig.records().await, [record, "call success a well:echo read -: -".to_owned()], "{kind}");
}

#[tokio::test]
async fn requests_that_the_server_does_not_read_the_answers_of() {
    let reason = "the server was disconnected: more than 100 of its requests were unanswered";
    check("requests", &format!("upstream_unavailable: {reason}")).await;
}

#[tokio::test]
async fn small_notifications() {
    let reason = "the server was disconnected: it sent more than 20000 messages at once and more than 2000 per second";
    check("messages", &format!("upstream_unavailable: {reason}")).await;
    check("lists", &format!("upstream_unavailable: {reason}")).await;
}

#[tokio::test]
async fn large_notifications() {
    let reason =
        "the server was disconnected: it sent more than 32 MiB of messages at once and more than 4 MiB per second";
    check("bytes", &format!("upstream_unavailable: {reason}")).await;
}

/// The call fails at the size limit, not at its timeout, and the server is restarted.
#[tokio::test]
async fn a_line_without_end() {
    check("line", "result_too_large: the response is larger than 1048576 bytes").await;
}

#[tokio::test]
async fn too_many_tools_on_one_page() {
    let rig = Rig::start(settings([misbehaving("fx", &["--more-tools", "20000"], None)])).await;
    let status = rig.server("fx");
    assert_eq!((status.state, status.tools), (StateName::Ready, 10_000));
    let cut = "the list is too long; it was cut at 10000 tools, 32 MiB or 100 pages";
    assert_eq!(status.hidden_tools, [("…".to_owned(), cut.to_owned())]);
}

#[tokio::test]
async fn tools_that_are_too_large() {
    let rig = Rig::start(settings([misbehaving("fx", &["--more-tools", "3", "--description", "140000"], None)])).await;
    let status = rig.server("fx");
    let reason = "its description has 140000 bytes, the maximum is 131072";
    let expected = [0, 1, 2].map(|number| (format!("more_{number}"), reason.to_owned()));
    assert_eq!((status.tools, status.hidden_tools.as_slice()), (5, expected.as_slice()));
}
