//! The identity of a server: how it is reached, as the operator wrote it.
//!
//! Pins belong to an identity. A name that points at another program or address is another server, of which nothing is
//! accepted yet. The identity is made of the text in the file, before references are resolved. So a rotated secret
//! behind `${env:TOKEN}` is no new server, and neither is a moved home folder behind `${env:HOME}`.
//!
//! It contains the name, the transport, and `command`, `args` and `cwd`, or `url`. It does not contain `env` and
//! `headers`, which hold credentials and options.
//!
//! A literal secret in `args` or `url` counts as any other text, because a part of a URL that looks like a secret may
//! also choose the server behind it. [`ServerIdentity::shown`] masks such parts.

use std::fmt;
use std::sync::Arc;

use serde_json::{Value, json};

use super::TransportSettings;
use super::foreign::relocate_secrets;
use super::keys::Kind;
use crate::file::{Fields, Node, NodeValue};
use crate::{Digest, ServerName};

/// Names one server by how it is reached. Its `Debug` shows the digest alone, because arguments may hold secrets.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerIdentity {
    key: Arc<str>,
    name: ServerName,
    written: WrittenTransport,
}

/// How a server is reached, as the file says it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WrittenTransport {
    /// `stdio`, `http`, `sse`, `demo`, or `unknown`.
    pub kind: &'static str,
    pub command: Option<String>,
    pub args: Vec<String>,
    pub cwd: Option<String>,
    pub url: Option<String>,
}

impl ServerIdentity {
    /// Stands for a literal secret in [`ServerIdentity::shown`].
    pub(crate) const MASK: &str = "***";

    /// The identity of a server that does not come from a file.
    pub fn of(name: &ServerName, transport: &TransportSettings) -> Self {
        let mut written = WrittenTransport::new(transport.kind());
        match transport {
            TransportSettings::Stdio { command, args, env: _, cwd } => {
                written = WrittenTransport {
                    command: Some(command.clone()),
                    args: args.clone(),
                    cwd: cwd.clone(),
                    ..written
                };
            }
            TransportSettings::Http { url, headers: _ } | TransportSettings::Sse { url, headers: _ } => {
                written.url = Some(url.clone());
            }
            TransportSettings::Demo | TransportSettings::Misconfigured { .. } => {}
        }
        Self::new(name.clone(), written)
    }

    /// The identity of a server in a file. Values of a wrong type count as missing: such a server is not started.
    pub(super) fn read(name: &ServerName, kind: Option<Kind>, fields: &Fields<'_>) -> Self {
        let text = |key: &str| fields.find(key).and_then(|field| field.node.text()).map(str::to_owned);
        let args = match fields.find("args").map(|field| &field.node.value) {
            Some(NodeValue::Array(nodes)) => nodes.iter().filter_map(Node::text).map(str::to_owned).collect(),
            Some(_) | None => Vec::new(),
        };
        let kind = kind.map_or("unknown", Kind::as_str);
        let written = WrittenTransport { kind, command: text("command"), args, cwd: text("cwd"), url: text("url") };
        Self::new(name.clone(), written)
    }

    pub(crate) fn new(name: ServerName, written: WrittenTransport) -> Self {
        let WrittenTransport { kind, command, args, cwd, url } = &written;
        let text = json!(["server", name.as_str(), kind, command, args, cwd, url]).to_string();
        Self { key: Digest::of(text.as_bytes()).to_string().into(), name, written }
    }

    /// The digest, as 64 hexadecimal digits.
    pub fn key(&self) -> &str {
        &self.key
    }

    /// Returns how the server is reached, as written, with `***` for literal secrets.
    pub fn shown(&self) -> WrittenTransport {
        let WrittenTransport { kind, command, args, cwd, url } = self.written.clone();
        let mut definition = json!({ "args": args, "url": url });
        let moved = relocate_secrets(&self.name, &mut definition);
        let masked = |text: &Value| {
            let text = text.as_str()?.to_owned();
            Some(
                moved.iter().fold(text, |text, secret| text.replace(&format!("${{file:{}}}", secret.path), Self::MASK)),
            )
        };
        let args = definition.get("args").and_then(Value::as_array).into_iter().flatten().filter_map(masked).collect();
        WrittenTransport { kind, command, args, cwd, url: definition.get("url").and_then(masked) }
    }

    /// Names the keys whose text differs.
    pub(super) fn changed_keys(&self, old: &Self) -> impl Iterator<Item = &'static str> {
        let (was, is) = (&old.written, &self.written);
        let keys = [
            ("command", was.command != is.command),
            ("args", was.args != is.args),
            ("cwd", was.cwd != is.cwd),
            ("url", was.url != is.url),
        ];
        keys.into_iter().filter(|(_, differ)| *differ).map(|(key, _)| key)
    }
}

impl WrittenTransport {
    fn new(kind: &'static str) -> Self {
        Self { kind, command: None, args: Vec::new(), cwd: None, url: None }
    }
}

impl fmt::Debug for ServerIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.key)
    }
}
