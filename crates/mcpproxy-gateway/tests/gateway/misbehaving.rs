//! Misbehaving servers: their own calls get a clear error, and no other call is affected.

use std::path::PathBuf;
use std::time::Duration;

use mcpproxy_core::settings::{ServerSettings, TransportSettings};
use mcpproxy_gateway::StateName;
use mcpproxy_store::{Filter, Kind, Record};

use crate::agent::{Agent, WAYS, Way};
use crate::peer::{Peer, READ_ONLY, Script, Speaks, tool};
use crate::rig::{Rig, line, misbehaving, name, settings, stdio, within};

const NOT_NOW: &str = "the server is currently unavailable. Try again later.";
const ECHO: &str = r#"{"name":"fx:echo","args":{"n":1}}"#;

#[tokio::test]
async fn noise_half_lines_and_double_answers_do_not_matter() {
    for switches in [&["--noise"][..], &["--half-lines"], &["--duplicate-ids"], &["--noise", "--half-lines"]] {
        let rig = Rig::start(settings([misbehaving("fx", switches, None)])).await;
        let mut agent = Agent::new(&rig, Way::Session, "a").await;
        for n in 0..10 {
            let arguments = format!(r#"{{"name":"fx:echo","args":{{"n":{n}}}}}"#);
            let found = agent.call(&rig, "call_tool_read", &arguments).await.brief();
            assert_eq!(found, format!(r#"{{"n":{n}}}"#), "{switches:?}");
        }
        assert_eq!(rig.records().await, vec!["call success a fx:echo read -: -"; 10]);
    }
}

#[tokio::test]
async fn an_answer_over_the_limit_is_dropped_and_the_next_one_comes() {
    let server = ServerSettings { result_limit_bytes: 100_000, ..misbehaving("fx", &["--huge", "3000000"], None) };
    let rig = Rig::start(settings([server])).await;
    let mut agent = Agent::new(&rig, Way::Stateless, "a").await;
    let huge = agent.call(&rig, "call_tool_read", r#"{"name":"fx:huge"}"#).await.brief();
    assert_eq!(
        huge,
        "result_too_large The call to 'fx:huge' failed: the response is larger than 100000 bytes. The server may have run it, so check before you repeat the call."
    );
    assert_eq!(agent.call(&rig, "call_tool_read", ECHO).await.brief(), r#"{"n":1}"#);
    assert_eq!(
        rig.records().await,
        [
            "call error a fx:huge read result_too_large: the response is larger than 100000 bytes; the server may have run the call",
            "call success a fx:echo read -: -"
        ]
    );
}

#[tokio::test]
async fn a_misconfigured_server_is_reported_to_the_user_and_not_retried() {
    let mistake = mcpproxy_core::Mistake { line: 3, column: 5, message: "`args` must be a list".to_owned() };
    let transport = TransportSettings::Misconfigured { kind: "stdio", mistakes: vec![mistake] };
    let rig = Rig::start(settings([ServerSettings::new(name("fx"), transport)])).await;
    let reason = rig.server("fx").reason.unwrap();
    assert_eq!(rig.gateway.restart(&name("fx")), Err(mcpproxy_gateway::NotRestarted::Misconfigured(reason.clone())));
    for way in WAYS {
        let mut agent = Agent::new(&rig, way, &format!("{way:?}").to_lowercase()).await;
        assert_eq!(
            agent.call(&rig, "call_tool_read", ECHO).await.brief(),
            "upstream_unavailable The call to 'fx:echo' failed: the gateway does not start the server, because its settings \
             have a mistake. Repeating the call does not help. Tell the user to run `mcpproxy config check`, which shows the \
             mistake.",
            "{way:?}"
        );
    }
    // The operator reads the mistake itself in the log.
    let records = rig.records().await;
    assert!(
        records.iter().all(|record| record.ends_with(&format!("server 'fx' is misconfigured: {reason}"))),
        "{records:?}"
    );
}

#[tokio::test]
async fn a_list_without_end_is_cut() {
    let rig = Rig::start(settings([misbehaving("fx", &["--endless-list"], None)])).await;
    let status = rig.server("fx");
    assert_eq!((status.state, status.tools), (StateName::Ready, 100));
    let cut = ("…".to_owned(), "the list is too long; it was cut at 10000 tools, 32 MiB or 100 pages".to_owned());
    assert_eq!(status.hidden_tools, [cut]);
}

#[tokio::test]
async fn bad_tools_hide_no_other_tools() {
    let rig = Rig::start(settings([misbehaving("fx", &["--bad-tools"], None)])).await;
    let hidden = rig.server("fx").hidden_tools;
    let hidden: Vec<String> = hidden.iter().map(|(name, reason)| format!("{name}: {reason}")).collect();
    assert_eq!(
        hidden,
        [
            "without_schema: `inputSchema` must be an object",
            "text_hint: `annotations.readOnlyHint` must be true or false",
            "with:colon: tool names consist of letters, digits, `_`, `.` and `-`",
        ]
    );
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"fx:good"}"#).await.brief(), "done");
}

#[tokio::test]
async fn a_server_that_leaves_at_once_waits_with_its_reason() {
    let rig = Rig::start(settings([
        misbehaving("fx", &["--exit-at-start"], None),
        stdio("absent", "/no/such/program", &[]),
        misbehaving("well", &[], None),
    ]))
    .await;
    let reason = "the process exited (exit status: 1; it wrote: misbehaving-server: leaving at once, as asked)";
    let status = rig.server("fx");
    assert_eq!((status.state, status.reason.as_deref(), status.pid), (StateName::Waiting, Some(reason), None));
    let log = rig.gateway.server_log(&name("fx"), 10).unwrap();
    let log: Vec<&str> = log.iter().map(mcpproxy_core::Untrusted::for_json).collect();
    assert!(log.contains(&"misbehaving-server: leaving at once, as asked"), "{log:?}");

    let mut agent = Agent::new(&rig, Way::Line, "a").await;
    let missing = "could not start `/no/such/program`: command not found";
    // The reason is for the operator. The agent only learns that the tool cannot be called.
    for server in ["fx", "absent"] {
        let found = agent.call(&rig, "call_tool_read", &format!(r#"{{"name":"{server}:echo"}}"#)).await.brief();
        let expected = format!("upstream_unavailable The call to '{server}:echo' failed: {NOT_NOW}");
        assert_eq!(found, expected);
    }
    assert_eq!(agent.call(&rig, "call_tool_read", r#"{"name":"well:echo"}"#).await.brief(), "{}");
    let records = rig.all_records().await;
    let calls: Vec<_> = records.iter().filter(|record| record.kind == Kind::Call).collect();
    for record in &calls {
        let metadata: serde_json::Value = serde_json::from_str(record.metadata.for_json()).unwrap();
        assert_eq!(metadata["contract"]["digest"].as_str().unwrap().len(), 64, "{metadata}");
    }
    assert_eq!(
        calls.into_iter().map(line).collect::<Vec<_>>(),
        [
            format!("call error a fx:echo read upstream_unavailable: server 'fx' is waiting: {reason}"),
            format!("call error a absent:echo read upstream_unavailable: server 'absent' is waiting: {missing}"),
            "call success a well:echo read -: -".to_owned(),
        ]
    );
}

/// A server whose tools cannot be read again keeps its last list. The log says so once, until they can be read.
#[tokio::test]
async fn tools_that_cannot_be_read_again_are_recorded_once() {
    let list = |tools: &[&str]| {
        let tools: Vec<String> = tools.iter().map(|name| tool(name, READ_ONLY)).collect();
        format!("[{}]", tools.join(","))
    };
    let peer = Peer::new(Script::new(Speaks::Legacy, &list(&["a"]))).await;
    let server = ServerSettings { tools_refresh: Duration::from_millis(10), ..peer.settings("fx") };
    let rig = Rig::start(settings([server])).await;
    let is_failure =
        |record: &Record| record.code.as_ref().is_some_and(|code| code.for_json() == "tools_refresh_failed");
    let mut committed = rig.ledger.committed();
    for (round, next) in [list(&["a", "b"]), list(&["a", "b", "c"])].into_iter().enumerate() {
        peer.rewrite(|script| script.tools = "7".to_owned());
        loop {
            committed.mark_unchanged();
            let records = rig.store.list(&Filter::default(), None, 500).await.unwrap().records;
            if records.iter().filter(|record| is_failure(record)).count() > round {
                break;
            }
            within(committed.changed()).await.unwrap();
        }
        assert_eq!(rig.server("fx").tools, round + 1, "the last list stays");
        peer.rewrite(|script| script.tools = next);
        rig.until("fx", |status| status.tools == round + 2).await;
    }
    let records = rig.all_records().await;
    let failures: Vec<String> = records.iter().filter(|record| is_failure(record)).map(line).collect();
    let reason = "could not read the tools again: the server violated the MCP protocol: `tools` in the response to \
                  tools/list is not a list";
    for failure in &failures {
        assert!(failure.contains(reason), "{failure}");
    }
    assert_eq!(failures.len(), 2);
}

#[tokio::test]
async fn a_server_that_falls_during_a_call_comes_back() {
    let folder = tempfile::tempdir().unwrap();
    let ledger = folder.path().join("ledger");
    let rig = Rig::start(settings([misbehaving("fx", &[], Some(&ledger))])).await;
    let first = rig.server("fx").pid.unwrap();
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let crashed = agent.call(&rig, "call_tool_write", r#"{"name":"fx:crash"}"#).await.brief();
    assert_eq!(
        crashed,
        "upstream_unavailable The call to 'fx:crash' failed: the connection was lost before the server responded. The server may have run it, so check before you repeat the call."
    );
    let back = rig.until("fx", |status| status.state == StateName::Ready && status.pid != Some(first)).await;
    assert_eq!(back.restarts, 1);
    assert!(!process(first).exists(), "the old process is gone before the new one starts");
    assert_eq!(agent.call(&rig, "call_tool_read", ECHO).await.brief(), r#"{"n":1}"#);
    assert_eq!(
        rig.records().await,
        [
            "call error a fx:crash write upstream_unavailable: the process exited; the server may have run the call",
            "call success a fx:echo read -: -"
        ]
    );
    let calls = std::fs::read_to_string(&ledger).unwrap();
    assert_eq!(calls, "{\"tool\":\"crash\",\"arguments\":{}}\n{\"tool\":\"echo\",\"arguments\":{\"n\":1}}\n");
}

#[tokio::test]
async fn a_silent_server_delays_no_other_server() {
    let mute = ServerSettings { connect_timeout: Duration::from_secs(600), ..misbehaving("mute", &["--mute"], None) };
    let rig = Rig::launch(settings([mute, misbehaving("fx", &[], None)])).await;
    within(async {
        while rig.gateway.tools(None).is_empty() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    assert!(!rig.gateway.is_ready());
    assert_eq!(rig.server("mute").state, StateName::Connecting);
    // A request that waits for the unresponsive server takes seconds. No other request here does.
    let others = async {
        for way in WAYS {
            let mut agent = Agent::new(&rig, way, &format!("{way:?}")).await;
            assert_eq!(agent.call(&rig, "call_tool_read", ECHO).await.brief(), r#"{"n":1}"#);
            agent.request(&rig, "tools/list", "{}").await.result();
            // A gateway on standard input waits briefly for its servers before the first search.
            if way != Way::Line {
                let search = agent.call(&rig, "retrieve_tools", r#"{"query":"echo arguments","limit":1}"#);
                assert!(search.await.result().contains(r#""name":"fx:echo""#));
                agent.request(&rig, "prompts/list", "{}").await.result();
            }
        }
    };
    tokio::time::timeout(Duration::from_secs(4), others).await.expect("a mute server delays others");
}

#[tokio::test]
async fn a_mute_server_is_given_up_in_time() {
    let mute = ServerSettings { connect_timeout: Duration::from_millis(200), ..misbehaving("mute", &["--mute"], None) };
    let rig = Rig::launch(settings([mute])).await;
    // The first call waits for the first connection attempt to end.
    let mut agent = Agent::new(&rig, Way::Session, "a").await;
    let found = agent.call(&rig, "call_tool_read", r#"{"name":"mute:echo"}"#).await.brief();
    assert_eq!(found, format!("upstream_unavailable The call to 'mute:echo' failed: {NOT_NOW}"));
    let status = rig.server("mute");
    assert_eq!(
        (status.state, status.reason.as_deref()),
        (StateName::Waiting, Some("the server did not respond within 200 ms"))
    );
}

#[tokio::test]
async fn nothing_is_left_behind() {
    let rig = Rig::start(settings([misbehaving("fx", &["--grandchild", "--ignore-term"], None)])).await;
    let pid = rig.server("fx").pid.unwrap();
    let grandchild = grandchild(&rig).unwrap();
    assert!(process(pid).exists() && process(grandchild).exists());
    within(rig.gateway.stop()).await;
    assert!(!process(pid).exists());
    gone(grandchild).await;
}

/// A child in a session of its own ends with its server, and the servers beside it keep theirs.
#[tokio::test]
async fn a_child_in_its_own_session_ends_with_its_server() {
    let rig = Rig::start(settings([misbehaving("fx", &["--daemon"], None)])).await;
    let (pid, daemon) = (rig.server("fx").pid, grandchild(&rig).unwrap());
    assert!(process(daemon).exists());
    rig.gateway.restart(&name("fx")).unwrap();
    rig.until("fx", |status| status.state == StateName::Ready && status.pid != pid).await;
    gone(daemon).await;
    within(rig.gateway.stop()).await;
}

/// A server that never answers the handshake is stopped too, with its child processes.
#[tokio::test]
async fn nothing_is_left_of_a_server_that_was_never_reached() {
    let rig = Rig::launch(settings([misbehaving("fx", &["--grandchild", "--mute"], None)])).await;
    within(async {
        while grandchild(&rig).is_none() {
            tokio::task::yield_now().await;
        }
    })
    .await;
    let grandchild = grandchild(&rig).unwrap();
    within(rig.gateway.stop()).await;
    gone(grandchild).await;
}

/// Returns the process id of the server's child, once the server has logged it.
fn grandchild(rig: &Rig) -> Option<u32> {
    let log = rig.gateway.server_log(&name("fx"), 10).unwrap();
    log.iter().find_map(|line| line.for_json().strip_prefix("grandchild ")?.parse().ok())
}

/// Waits until the process is gone. Only init reaps a grandchild, and it may take a while.
async fn gone(grandchild: u32) {
    within(async {
        while std::fs::read_to_string(process(grandchild).join("stat")).is_ok_and(|stat| !stat.contains(") Z ")) {
            tokio::task::yield_now().await;
        }
    })
    .await;
}

fn process(pid: u32) -> PathBuf {
    PathBuf::from(format!("/proc/{pid}"))
}
