//! The hash of settings, to compare gateways that share a database.
//!
//! Values that [belong to one machine](super::machine) are left out, such as the address. So are secrets, because a hash of a short secret can be guessed. Servers count with how
//! they are written, before references are resolved: `${env:TOKEN}` may have another value on each machine.

use super::machine::is_of_machine;
use super::{ServerSettings, Settings};
use crate::Digest;

impl Settings {
    /// Hash of every setting that must be the same on all gateways.
    pub fn digest(&self) -> Digest {
        let shared = self.effective().into_iter().filter(|setting| !is_of_machine(setting.key));
        let mut lines: Vec<String> = shared.map(|setting| format!("{} {:?}", setting.key, setting.value)).collect();
        let mut servers: Vec<String> = self.servers.iter().map(server_line).collect();
        servers.sort_unstable();
        lines.extend(servers);
        Digest::of(lines.join("\n").as_bytes())
    }
}

fn server_line(server: &ServerSettings) -> String {
    // Every field by name, so that a new one does not compile until it is compared here.
    let ServerSettings {
        name,
        enabled,
        title,
        description,
        // The identity has what is written. Values of `env` and `headers` are secrets.
        transport: _,
        oauth,
        call_timeout,
        connect_timeout,
        tools_refresh,
        max_concurrent_calls,
        result_limit_bytes,
        env_passthrough,
        tools,
        first_sight,
        identity,
        secrets_in_file: _,
    } = server;
    let words = (title, description, oauth, env_passthrough, tools, first_sight.map(crate::trust::Welcome::as_str));
    let numbers = (enabled, call_timeout, connect_timeout, tools_refresh, max_concurrent_calls, result_limit_bytes);
    format!("server {name} {identity:?} {words:?} {numbers:?}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::{Unresolved, demo, parse};

    fn digest(text: &str) -> Digest {
        parse(text, &Unresolved).unwrap().digest()
    }

    #[test]
    fn only_what_gateways_must_share_counts() {
        let server = |more: &str| format!(r#"{{"mcpServers": {{"a": {{"command": "x"{more}}}}}}}"#);
        let same = [
            (r#"{"listen": "127.0.0.1:1"}"#.to_owned(), r#"{"listen": "127.0.0.1:2"}"#.to_owned()),
            (r#"{"limits": {"memory": "1GiB"}}"#.to_owned(), "{}".to_owned()),
            (r#"{"operator_files": "database", "tls_terminated_by_proxy": true}"#.to_owned(), "{}".to_owned()),
            (server(""), format!("// a comment\n{}", server(""))),
        ];
        for (one, other) in same {
            assert_eq!(digest(&one), digest(&other), "{one} {other}");
        }
        let different = [
            (r#"{"approvals": {"wait": "1s"}}"#.to_owned(), "{}".to_owned()),
            (server(""), "{}".to_owned()),
            (server(""), server(r#", "args": ["y"]"#)),
            (server(""), server(r#", "disabled": true"#)),
            (server(""), server(r#", "exclude_tools": ["y"]"#)),
        ];
        for (one, other) in different {
            assert_ne!(digest(&one), digest(&other), "{one} {other}");
        }
        assert_eq!(demo().digest(), demo().digest());
    }
}
