//! Compares the settings as this command sees them with the running gateway's view.
//!
//! `${env:NAME}` and `${file:PATH}` are resolved by the process that reads the settings. The gateway may have been
//! started by a service manager, or in another terminal, with another environment. Then the same file is valid in one
//! place and not in the other, and only the gateway's view decides what runs.

use std::fmt;
use std::path::Path;

use http::Method;
use mcpproxy_core::settings::Settings;
use serde::Serialize;
use serde_json::Value;

use crate::client::Rest;
use crate::client::state::held_changes;
use crate::home::Home;
use crate::operator_files::settings_file;
use crate::terminal::output::{line, member, sentence};

/// A server that is misconfigured in only one of the two environments.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Difference {
    pub(super) server: String,
    /// The reason in the environment of this command.
    pub(super) here: Option<String>,
    /// The reason in the environment of the gateway.
    pub(super) gateway: Option<String>,
}

impl fmt::Display for Difference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { server, here, gateway } = self;
        match (here, gateway) {
            (_, Some(reason)) => write!(
                f,
                "{server} is misconfigured in the running gateway, and not here: {} The gateway has another \
                 environment. Set the variable where the gateway starts, then restart it",
                sentence(&line(reason))
            ),
            (reason, None) => write!(
                f,
                "{server} is misconfigured here, and not in the running gateway: {} The gateway has another \
                 environment, so the server works there",
                sentence(&line(reason.as_deref().unwrap_or_default()))
            ),
        }
    }
}

/// The running gateway's view of the files.
pub(super) struct GatewayView {
    pub(super) differences: Vec<Difference>,
    /// Changes that are not in force until a user confirms them.
    pub(super) held: usize,
}

/// Asks the gateway that runs on these settings. Returns `None` if there is none, or if it has not loaded this file.
pub(super) async fn view(home: &Home, path: &Path, settings: &Settings) -> Option<GatewayView> {
    let is_same = |path: &Path| std::fs::canonicalize(path).ok();
    if is_same(path)? != is_same(&home.settings())? || home.running().ok().flatten().is_none() {
        return None;
    }
    let rest = Rest::connect(home).ok()?;
    let status = rest.ask(Method::GET, "/api/v1/status").await.ok()?;
    if status.pointer("/settings/error").is_some_and(Value::is_string) {
        return None;
    }
    let servers = rest.ask(Method::GET, "/api/v1/servers").await.ok()?;
    let (_, text) = settings_file::read_text(path).ok()??;
    let shape = settings_file::check_shape(path, &text).ok()?;
    Some(GatewayView { differences: compare(settings, &shape, &servers), held: held_changes(&status) })
}

/// Compares the two views. `shape` is the file with its references left alone: a mistake that it has too does not
/// depend on the environment.
fn compare(settings: &Settings, shape: &Settings, servers: &Value) -> Vec<Difference> {
    let servers = servers.get("servers").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    let mut differences = Vec::new();
    for server in settings.servers.iter().filter(|server| server.enabled) {
        let Some(there) = servers.iter().find(|there| member(there, "name") == server.name.as_str()) else { continue };
        let here = server.transport.mistakes().and_then(|mistakes| mistakes.first()).map(ToString::to_string);
        let reason = there.get("reason").and_then(Value::as_str).unwrap_or_default().to_owned();
        let there = (member(there, "state") == "misconfigured").then_some(reason);
        let is_by_shape = shape.misconfigured().any(|(other, _)| other.name == server.name);
        if here.is_some() != there.is_some() && !is_by_shape {
            differences.push(Difference { server: server.name.to_string(), here, gateway: there });
        }
    }
    differences
}

#[cfg(test)]
mod tests {
    use super::*;
    use mcpproxy_core::settings::{Outside, parse};
    use serde_json::json;

    /// An environment in which every variable has this value.
    struct Everything(Option<&'static str>);

    impl Outside for Everything {
        fn env(&self, _name: &str) -> Option<String> {
            self.0.map(str::to_owned)
        }

        fn file(&self, _path: &str) -> Result<String, String> {
            Err("no such file".to_owned())
        }
    }

    #[test]
    fn environments_that_differ() {
        let text = r#"{"mcpServers": {"a": {"command": "x", "env": {"T": "${env:T}"}}, "b": {"comand": "x"}}}"#;
        let shape = parse(text, &Everything(Some("t"))).unwrap();
        let told = |variable: Option<&'static str>, state: &str| {
            let reason = (state == "misconfigured").then_some("line 1, column 2: unset");
            let servers = json!({"servers": [
                {"name": "a", "state": state, "reason": reason},
                {"name": "b", "state": "ready", "reason": null},
            ]});
            let settings = parse(text, &Everything(variable)).unwrap();
            compare(&settings, &shape, &servers).iter().map(ToString::to_string).collect::<Vec<_>>()
        };
        assert!(told(Some("t"), "ready").is_empty());
        assert!(told(None, "misconfigured").is_empty());
        assert_eq!(
            told(Some("t"), "misconfigured"),
            [
                "a is misconfigured in the running gateway, and not here: line 1, column 2: unset. The gateway has another \
              environment. Set the variable where the gateway starts, then restart it"
            ]
        );
        assert_eq!(
            told(None, "waiting"),
            [
                "a is misconfigured here, and not in the running gateway: line 1, column 53: environment variable `T` is \
              not set; set it where mcpproxy starts, or remove the reference. The gateway has another environment, so \
              the server works there"
            ]
        );
    }
}
