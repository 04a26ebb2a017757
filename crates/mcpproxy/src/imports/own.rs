//! Recognizes mcpproxy itself among the servers of a client. Importing it would make the gateway call itself.

use std::net::SocketAddr;

use serde_json::Value;
use url::{Host, Url};

use crate::agent_clients::ENTRY;

/// The addresses of this gateway.
pub(crate) struct OwnAddresses {
    /// The address in the settings, and the address of a running gateway.
    pub(crate) listen: Vec<SocketAddr>,
    /// `approvals.public_url`.
    pub(crate) public: Option<Url>,
}

/// The command of mcpproxy that is a server like any other.
const DEMO: &str = "demo-server";

/// Returns true if the entry starts or reaches this gateway.
pub(crate) fn is_own(name: &str, definition: &Value, own: &OwnAddresses) -> bool {
    let texts = texts(definition);
    let is_demo = texts.iter().any(|text| text.split_whitespace().any(|word| word == DEMO));
    name.eq_ignore_ascii_case(ENTRY) || (!is_demo && texts.iter().any(|text| names_us(text, own)))
}

/// All texts that may name a program or a URL.
fn texts(definition: &Value) -> Vec<&str> {
    const KEYS: [&str; 8] = ["command", "cmd", "path", "args", "url", "httpUrl", "serverUrl", "uri"];
    let Value::Object(members) = definition else { return Vec::new() };
    let mut found = Vec::new();
    for (_, value) in members.iter().filter(|(key, _)| KEYS.contains(&key.as_str())) {
        match value {
            Value::String(text) => found.push(text.as_str()),
            Value::Array(values) => found.extend(values.iter().filter_map(Value::as_str)),
            Value::Object(_) => found.extend(texts(value)),
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }
    found
}

/// Looks at every word, because a shell or `mcp-remote` may stand in front.
fn names_us(text: &str, own: &OwnAddresses) -> bool {
    text.split_whitespace().any(|word| match Url::parse(word) {
        Ok(url) if url.has_host() => is_our_url(&url, own),
        Ok(_) | Err(_) => is_our_program(word),
    })
}

fn is_our_program(word: &str) -> bool {
    let file = word.rsplit(['/', '\\']).next().unwrap_or(word).to_ascii_lowercase();
    // A package or image may carry a version: `mcpproxy@1.2`, `mcpproxy:latest`.
    let name = file.split(['@', ':']).next().unwrap_or_default();
    name == ENTRY || name.strip_suffix(".exe") == Some(ENTRY)
}

fn is_our_url(url: &Url, own: &OwnAddresses) -> bool {
    let is_public = own.public.as_ref().is_some_and(|public| public.origin() == url.origin());
    let is_here = match url.host() {
        Some(Host::Domain(name)) => name.eq_ignore_ascii_case("localhost"),
        Some(Host::Ipv4(ip)) => ip.is_loopback() || ip.is_unspecified(),
        Some(Host::Ipv6(ip)) => ip.is_loopback() || ip.is_unspecified(),
        None => false,
    };
    let port = url.port_or_known_default();
    is_public || (is_here && own.listen.iter().any(|listen| Some(listen.port()) == port))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn entries_for_this_gateway() {
        let own = OwnAddresses {
            listen: vec!["127.0.0.1:8080".parse().unwrap()],
            public: Some(Url::parse("https://gateway.example.com").unwrap()),
        };
        let check = |name: &str, definition: Value, expected: bool| {
            assert_eq!(is_own(name, &definition, &own), expected, "{name} {definition}");
        };
        check("mcpproxy", json!({"command": "x"}), true);
        check("MCPProxy", json!({}), true);
        check("a", json!({"command": "/usr/local/bin/mcpproxy", "args": ["stdio"]}), true);
        check("a", json!({"command": "C:\\Tools\\mcpproxy.exe"}), true);
        check("a", json!({"command": ["mcpproxy", "stdio"]}), true);
        check("a", json!({"command": {"path": "mcpproxy"}}), true);
        check("a", json!({"command": "sh", "args": ["-c", "exec mcpproxy stdio"]}), true);
        check("a", json!({"command": "docker", "args": ["run", "registry.example/x/mcpproxy:latest"]}), true);
        check("a", json!({"url": "http://127.0.0.1:8080/mcp"}), true);
        check("a", json!({"httpUrl": "http://localhost:8080/mcp/direct"}), true);
        check("a", json!({"serverUrl": "http://[::1]:8080/mcp"}), true);
        check("a", json!({"url": "https://gateway.example.com/mcp"}), true);
        check("a", json!({"command": "npx", "args": ["mcp-remote", "http://localhost:8080/mcp"]}), true);
        check("a", json!({"url": "http://127.0.0.1:9090/mcp"}), false);
        check("a", json!({"url": "https://mcp.example.com:8080/mcp"}), false);
        check("a", json!({"command": "npx", "args": ["mcpproxy-tools"]}), false);
        check("a", json!({"command": "npx", "env": {"NOTE": "mcpproxy"}}), false);
        check("a", json!("mcpproxy"), false);
        check("a", json!({"command": "mcpproxy", "args": ["demo-server", "--without-contracts"]}), false);
        check("a", json!({"command": "/usr/bin/mcpproxy demo-server"}), false);
        check("mcpproxy", json!({"command": "mcpproxy", "args": ["demo-server"]}), true);
    }
}
