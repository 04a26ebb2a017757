//! Tests for reloads of the operator's files.

use std::path::Path;

use mcpproxy_core::RiskLevel;
use mcpproxy_core::settings::Settings;

use super::*;
use crate::exit::Failure;
use crate::home::Home;
use crate::operator_files::{self, OperatorFiles, Source};
use crate::runtime::{Accepted, Listen, Runtime};

/// Panics if the settings file says so.
fn read_or_panic(path: &Path, settings: Option<&Arc<Settings>>, source: &Source) -> Result<OperatorFiles, Failure> {
    let text = std::fs::read_to_string(path).unwrap_or_default();
    assert!(!text.contains("panic"), "the settings file says so");
    operator_files::read(path, settings, source)
}

async fn until(what: &str, is_true: impl Fn() -> bool) {
    let poll = async {
        while !is_true() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    assert!(tokio::time::timeout(Duration::from_secs(60), poll).await.is_ok(), "{what}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_half_written_contract_waits_and_stricter_ones_apply() {
    const WHOLE: &str = "- tool: demo:a\n  riskLevel: forbidden\n- tool: demo:b\n  riskLevel: critical\n";
    let folder = tempfile::tempdir().unwrap();
    let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
    let contracts = folder.path().join("contracts");
    std::fs::create_dir(&contracts).unwrap();
    let write = |text: &str| std::fs::write(contracts.join("a.yaml"), text).unwrap();
    std::fs::write(home.settings(), r#"{"mcpServers": {"a": {"url": "http://127.0.0.1:1/mcp"}}}"#).unwrap();
    write(WHOLE);
    let runtime = Runtime::start(&home, Listen::Somewhere, Accepted::default(), None).await.unwrap();
    let mut files = runtime.reload.files.clone();
    let risk = |files: &WatchedFiles, name: &str| {
        let name = mcpproxy_core::ToolName::parse(name).unwrap();
        files.current.contracts.matching(&name).first().and_then(|one| one.risk.as_ref()).map(|risk| risk.value)
    };
    write("- tool: demo:a\n- tool: demo:c\n  riskLevel: high\n");
    files.reload(Trigger::Request);
    assert_eq!(risk(&files, "demo:a"), Some(RiskLevel::Forbidden));
    assert_eq!(risk(&files, "demo:b"), Some(RiskLevel::Critical));
    assert_eq!(risk(&files, "demo:c"), Some(RiskLevel::High), "a new contract applies at once");
    let held = runtime.gateway.held().unwrap();
    assert_eq!(held.weaker.contracts.len(), 2, "{:?}", held.weaker.lines());
    // A stricter file is in force although the other one waits, so the next start must miss it if it is gone.
    std::fs::write(contracts.join("b.yaml"), "tool: demo:d\nriskLevel: forbidden\n").unwrap();
    files.reload(Trigger::Request);
    let remembered = Arc::clone(&files.remember.borrow());
    assert_eq!(remembered.names().collect::<Vec<_>>(), ["contracts/a.yaml", "contracts/b.yaml"]);
    assert_eq!(remembered.all()[0].1, WHOLE);
    // The whole file again: nothing waits any more, but the contract of `demo:c` is gone now, which waits in turn.
    write(WHOLE);
    files.reload(Trigger::Request);
    let waiting = runtime.gateway.held().unwrap().weaker.lines();
    assert_eq!(waiting.len(), 1, "{waiting:?}");
    assert!(waiting[0].starts_with("demo:c: contract removed"), "{waiting:?}");
    runtime.run_until(std::future::ready(())).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_panic_is_reported_and_the_next_edit_still_counts() {
    let folder = tempfile::tempdir().unwrap();
    let home = Home::resolve(Some(folder.path().to_owned())).unwrap();
    let write = |names: &[&str], comment: &str| {
        let server = |name: &&str| format!("\"{name}\": {{ \"url\": \"http://127.0.0.1:1/mcp\" }}");
        let servers: Vec<String> = names.iter().map(server).collect();
        let text = format!("{{ \"mcpServers\": {{ {} }} }} // {comment}", servers.join(", "));
        std::fs::write(home.settings(), text).unwrap();
    };
    write(&["a"], "");
    let mut runtime = Runtime::start(&home, Listen::Somewhere, Accepted::default(), None).await.unwrap();
    runtime.reload.files.read = read_or_panic;
    let gateway = runtime.gateway.clone();
    let (stop, stopped) = tokio::sync::oneshot::channel::<()>();
    let running = tokio::spawn(runtime.run_until(stopped));
    write(&["a", "b"], "panic");
    until("the panic is reported", || gateway.reload_error().is_some_and(|error| error.contains("crashed"))).await;
    assert_eq!(gateway.servers().len(), 1, "the previous settings remain active");
    write(&["a", "b"], "");
    until("the next edit is active", || gateway.servers().len() == 2).await;
    until("the error is gone", || gateway.reload_error().is_none()).await;
    // A part that fails must not keep the gateway from stopping either.
    stop.send(()).unwrap();
    tokio::time::timeout(Duration::from_secs(60), running).await.unwrap().unwrap().unwrap();
}
