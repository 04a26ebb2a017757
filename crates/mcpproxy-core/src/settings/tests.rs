//! Tests for the settings file: tables of valid files and of mistakes with their messages.

mod agents;
mod approvals;
pub(super) mod bad;
mod effective;
mod foreign;
mod identity;
mod log;
mod one_server;
mod random;
mod relocate;

use super::*;
use crate::trust::OnChange;

/// Returns all mistakes of a file: those that concern the whole file, or else those of its servers.
pub(super) fn mistakes(text: &str) -> Vec<Mistake> {
    match parse(text, &World) {
        Ok(settings) => settings.misconfigured().flat_map(|(_, mistakes)| mistakes).cloned().collect(),
        Err(mistakes) => mistakes,
    }
}

/// A small environment: three variables and three files.
pub(super) struct World;

impl Outside for World {
    fn env(&self, name: &str) -> Option<String> {
        match name {
            "GITHUB_TOKEN" => Some("ghp_hidden".to_owned()),
            "HOME" => Some("/home/ann".to_owned()),
            "BROKEN" => Some("hidden\r\nX-Evil: hidden".to_owned()),
            _ => None,
        }
    }

    fn file(&self, path: &str) -> Result<String, String> {
        match path {
            "docs.key" => Ok("doc-hidden\r\n".to_owned()),
            "postgres.env" => Ok("# ours\nDATABASE_URL=postgres://ann:hidden@db\nMODE=other\n".to_owned()),
            "zero" => Ok("hidden\0hidden".to_owned()),
            _ => Err("no such file".to_owned()),
        }
    }
}

pub(super) const PASTED: &str = r#"{
  // Pasted from the configuration of an MCP client.
  "$schema": "./mcp_config.schema.json",
  "mcpServers": {
    "github": {
      "command": "npx",
      "args": ["-y", "@modelcontextprotocol/server-github", "--home=${env:HOME}", "$${literal}"],
      "env": { "GITHUB_PERSONAL_ACCESS_TOKEN": "${env:GITHUB_TOKEN}", "LOG_LEVEL": "info", "API_KEY": "inline" },
      "cwd": "/srv/my servers",
    },
    "docs": {
      "type": "streamableHttp",
      "url": "https://mcp.example.com/mcp?tenant=1",
      "headers": { "Authorization": "Bearer ${file:docs.key}" },
      "disabled": true,
      "description": "Company handbook",
    },
    "old": { "type": "sse", "url": "http://127.0.0.1:9000/sse", "enabled": true, "disabled": false },
    "play": {
      "type": "demo",
      "call_timeout": "5m",
      "connect_timeout": "500ms",
      "max_concurrent_calls": 4,
      "result_limit": "512KiB",
    },
  },
  "intent_declaration": { "strict_server_validation": false, "two_key": "required", "unannotated": "require_write" },
  "contracts": { "unclassified": "deny", "weakening": "apply" },
  "trust": { "first_sight": "accept", "changes": "warn" },
  "activity": {
    "durability": "all",
    "checkpoints_to": "${env:HOME}/checkpoints.txt",
    "retention": { "payloads": "12h", "payload_bytes": "10GiB", "records": "400d" },
  },
  "approvals": {
    "wait": "0s",
    "expire": "30m",
    "headless_expire": "7d",
    "public_url": "https://Gateway.example.com/",
    "channels": { "high": "page", "critical": "page" },
    "notify": {
      "webhook": { "url": "https://hooks.example.com/hidden", "secret": "${env:GITHUB_TOKEN}-and-more" },
      "command": ["notify-send", "--app-name=mcpproxy"],
      "bell": false,
    },
  },
  "limits": { "disk": "100GiB" },
  "listen": "0.0.0.0:9090", /* behind nginx */
  "tls_terminated_by_proxy": true,
  "allowed_hosts": ["Gateway.example.com"],
  "allowed_origins": ["https://app.example.com/"],
  "storage": { "url": "sqlite:/var/lib/mcpproxy.db" },
}
"#;

fn pasted_retention() -> Retention {
    Retention {
        payloads: Some(Duration::from_secs(12 * 3600)),
        payload_bytes: Some(10 * 1024 * 1024 * 1024),
        records: Some(Duration::from_secs(400 * 24 * 3600)),
    }
}

#[test]
fn a_pasted_file() {
    let secret = Secret::new;
    let inline = |text: &str| Secret::written_in_file(text.to_owned());
    let server = |name: &str, transport| ServerSettings::new(ServerName::parse(name).unwrap(), transport);
    let github = TransportSettings::Stdio {
        command: "npx".to_owned(),
        args: ["-y", "@modelcontextprotocol/server-github", "--home=/home/ann", "${literal}"].map(str::to_owned).into(),
        env: vec![
            ("GITHUB_PERSONAL_ACCESS_TOKEN".to_owned(), secret("ghp_hidden")),
            ("LOG_LEVEL".to_owned(), inline("info")),
            ("API_KEY".to_owned(), inline("inline")),
        ],
        cwd: Some("/srv/my servers".to_owned()),
    };
    let docs = TransportSettings::Http {
        url: "https://mcp.example.com/mcp?tenant=1".to_owned(),
        // Disabled, so its reference is not resolved.
        headers: vec![("Authorization".to_owned(), secret("Bearer http://reference.invalid/"))],
    };
    let old = TransportSettings::Sse { url: "http://127.0.0.1:9000/sse".to_owned(), headers: vec![] };
    let expected = Settings {
        servers: vec![
            ServerSettings { secrets_in_file: vec!["env.API_KEY".to_owned()], ..server("github", github) },
            ServerSettings { enabled: false, description: Some("Company handbook".to_owned()), ..server("docs", docs) },
            server("old", old),
            ServerSettings {
                call_timeout: Duration::from_secs(300),
                connect_timeout: Duration::from_millis(500),
                max_concurrent_calls: 4,
                result_limit_bytes: 524_288,
                ..server("play", TransportSettings::Demo)
            },
        ],
        intent: IntentSettings {
            strict_server_validation: false,
            two_key: TwoKey::Required,
            unannotated: Unannotated::RequireWrite,
        },
        contracts: ContractSettings { unclassified: Unclassified::Deny, weakening: Weakening::Apply },
        trust: TrustSettings { first_sight: Welcome::Accept, changes: OnChange::Warn },
        people: PeopleSettings::default(),
        activity: ActivitySettings {
            durability: Durability::All,
            checkpoints_to: Some("/home/ann/checkpoints.txt".to_owned()),
            retention: pasted_retention(),
        },
        approvals: ApprovalSettings {
            wait: Duration::ZERO,
            expire: Duration::from_secs(30 * 60),
            headless_expire: Duration::from_secs(7 * 24 * 3600),
            public_url: Some("https://gateway.example.com".to_owned()),
            channels: Channels { medium: Channel::Form, high: Channel::Page },
            shown_after: ApprovalSettings::SHOWN_AFTER,
            notify: Notify {
                webhook: Some(Webhook {
                    url: inline("https://hooks.example.com/hidden"),
                    secret: secret("ghp_hidden-and-more"),
                }),
                command: Some(vec!["notify-send".to_owned(), "--app-name=mcpproxy".to_owned()]),
                bell: false,
            },
        },
        agents: AgentSettings::default(),
        listen: "0.0.0.0:9090".parse().unwrap(),
        shutdown_grace: std::time::Duration::from_secs(10),
        ready_timeout: std::time::Duration::from_secs(5),
        direct_mode: true,
        allow_anonymous_loopback: false,
        tls: None,
        tls_terminated_by_proxy: true,
        allowed_hosts: vec!["gateway.example.com".to_owned()],
        allowed_origins: vec!["https://app.example.com".to_owned()],
        storage: StorageSettings { url: Some(StorageUrl::Sqlite("/var/lib/mcpproxy.db".to_owned())) },
        limits: LimitSettings { disk: Some(100 * 1024 * 1024 * 1024), ..LimitSettings::default() },
        ..Settings::default()
    };
    let mut settings = parse(PASTED, &World).unwrap();
    // `tests/identity.rs` looks at identities. Here they differ, because they are made of the text with its references.
    for (server, expected) in settings.servers.iter_mut().zip(&expected.servers) {
        server.identity = expected.identity.clone();
    }
    assert_eq!(settings, expected);
    assert_eq!(settings.inline_secrets(), ["mcpServers.github.env.API_KEY"]);
}

#[test]
fn a_certificate_opens_other_addresses() {
    let text = r#"{"tls": {"certificate": "${env:HOME}/a.pem", "key": "b.pem"}, "listen": "0.0.0.0:8443"}"#;
    let settings = parse(text, &World).unwrap();
    let tls = TlsSettings { certificate: "/home/ann/a.pem".to_owned(), key: "b.pem".to_owned() };
    assert_eq!((settings.tls.as_ref(), settings.encrypts()), (Some(&tls), true));
    assert_eq!((settings.written.line("tls.key"), settings.written.line("tls.ca")), (Some(1), None));
}

#[test]
fn what_may_be_left_out() {
    let listen = |text: &str| parse(text, &World).map(|settings| settings.listen.to_string());
    assert_eq!(parse("{}", &World), Ok(Settings::default()));
    assert_eq!(parse("\u{FEFF}// nothing\n{ }", &World), Ok(Settings::default()));
    assert_eq!(listen("{}"), Ok("127.0.0.1:8080".to_owned()));
    assert_eq!(listen(r#"{"listen": "localhost:0"}"#), Ok("127.0.0.1:0".to_owned()));
    assert_eq!(parse(r#"{"mcpServers": {"demo": {"type": "demo"}}}"#, &World), Ok(demo()));
    assert_eq!(demo().servers.len(), 1);
}

#[test]
fn nothing_secret_is_printed() {
    let printed = format!("{:?}", parse(PASTED, &World).unwrap());
    for hidden in ["hidden\"", "ghp_", "doc-", "inline", "--home", "tenant"] {
        assert!(!printed.contains(hidden), "{hidden} in {printed}");
    }
    assert_eq!(format!("{:?}", Secret::new("ghp_hidden")), "***");
}

#[test]
fn changes() {
    let old = parse(PASTED, &World).unwrap();
    let mut new = old.clone();
    assert!(diff(&old, &new).is_empty());
    new.servers.remove(0);
    new.servers[0].transport = TransportSettings::Http {
        url: "https://mcp.example.com/mcp?tenant=1".to_owned(),
        headers: vec![("Authorization".to_owned(), Secret::new("Bearer rotated"))],
    };
    new.servers.extend(demo().servers);
    new.listen = "127.0.0.1:1".parse().unwrap();
    new.storage.url = None;
    new.intent.two_key = TwoKey::Optional;
    new.activity = ActivitySettings::default();
    new.approvals = ApprovalSettings::default();
    let name = |name: &str| ServerName::parse(name).unwrap();
    let expected = Changes {
        added: vec![name("demo")],
        removed: vec![name("github")],
        changed: vec![name("docs")],
        moved: Vec::new(),
        restart_needed: vec![
            "listen",
            "storage",
            "activity.checkpoints_to",
            "activity.retention",
            "approvals.public_url",
        ],
    };
    assert_eq!(diff(&old, &new), expected);
}

/// The position of an object in the schema, its keys, and a function that writes a file with given fields in it.
type ObjectOfFile = (&'static str, &'static crate::file::Keys, fn(&str) -> String);

fn objects() -> [ObjectOfFile; 20] {
    [
        ("", &keys::TOP, |field| format!("{{{field}}}")),
        ("/$defs/server", &keys::SERVER, |field| format!(r#"{{"mcpServers": {{"a": {{{field}}}}}}}"#)),
        ("/properties/intent_declaration", &keys::INTENT, |field| format!(r#"{{"intent_declaration": {{{field}}}}}"#)),
        ("/properties/contracts", &keys::CONTRACTS, |field| format!(r#"{{"contracts": {{{field}}}}}"#)),
        ("/properties/trust", &keys::TRUST, |field| format!(r#"{{"trust": {{{field}}}}}"#)),
        ("/properties/activity", &keys::ACTIVITY, |field| format!(r#"{{"activity": {{{field}}}}}"#)),
        ("/properties/activity/properties/retention", &keys::RETENTION, |field| {
            format!(r#"{{"activity": {{"retention": {{{field}}}}}}}"#)
        }),
        ("/properties/approvals", &keys::APPROVALS, |field| format!(r#"{{"approvals": {{{field}}}}}"#)),
        ("/properties/approvals/properties/channels", &keys::CHANNELS, |field| {
            format!(r#"{{"approvals": {{"channels": {{{field}}}}}}}"#)
        }),
        ("/properties/approvals/properties/notify", &keys::NOTIFY, |field| {
            format!(r#"{{"approvals": {{"notify": {{{field}}}}}}}"#)
        }),
        ("/properties/approvals/properties/notify/properties/webhook", &keys::WEBHOOK, |field| {
            format!(r#"{{"approvals": {{"notify": {{"webhook": {{{field}}}}}}}}}"#)
        }),
        ("/properties/agents", &keys::AGENTS, |field| format!(r#"{{"agents": {{{field}}}}}"#)),
        ("/properties/agents/properties/oauth", &keys::AGENT_OAUTH, |field| {
            format!(r#"{{"agents": {{"oauth": {{{field}}}}}}}"#)
        }),
        ("/properties/agents/properties/oauth/properties/claims", &keys::CLAIMS, |field| {
            format!(r#"{{"agents": {{"oauth": {{"issuer": "https://a", "audience": "a", "claims": {{{field}}}}}}}}}"#)
        }),
        ("/properties/agents/properties/oauth/properties/claims/properties/allow/items", &keys::ALLOW, |field| {
            let oauth = format!(r#"{{"issuer": "https://a", "audience": "a", "claims": {{"allow": [{{{field}}}]}}}}"#);
            format!(r#"{{"agents": {{"oauth": {oauth}}}}}"#)
        }),
        ("/properties/limits", &keys::LIMITS, |field| format!(r#"{{"limits": {{{field}}}}}"#)),
        ("/properties/metrics", &keys::METRICS, |field| format!(r#"{{"metrics": {{{field}}}}}"#)),
        ("/properties/search", &keys::SEARCH, |field| format!(r#"{{"search": {{{field}}}}}"#)),
        ("/properties/export", &keys::EXPORT, |field| format!(r#"{{"export": {{{field}}}}}"#)),
        ("/properties/storage", &keys::STORAGE, |field| format!(r#"{{"storage": {{{field}}}}}"#)),
    ]
}

#[test]
fn the_schema_and_the_parser_know_the_same_keys() {
    let schema = schema();
    for (pointer, keys, write) in objects() {
        let object = schema.pointer(pointer).unwrap();
        let in_schema: Vec<&String> = object["properties"].as_object().unwrap().keys().collect();
        assert_eq!(in_schema, keys.known, "{pointer}");
        assert_eq!(object["additionalProperties"], false, "{pointer}");
        for key in keys.known.iter().filter(|key| **key != "$schema") {
            // No key takes a list of lists, so every key that is read reports a mistake.
            let errors = mistakes(&write(&format!(r#""{key}": [[]]"#)));
            let complains = |error: &Mistake| error.message.starts_with("expected") && error.message.contains("array");
            assert!(errors.iter().any(complains), "{key}: {errors:?}");
        }
    }
}

#[test]
fn every_property_of_the_schema_is_described_and_its_values_are_taken() {
    let schema = schema();
    for (pointer, _, write) in objects() {
        for (key, property) in schema.pointer(pointer).unwrap()["properties"].as_object().unwrap() {
            assert!(property["description"].is_string(), "{key}");
            let words = property["enum"].as_array().into_iter().flatten();
            for value in words.chain(property.get("default")) {
                let way = if pointer != "/$defs/server" || key == "type" { "" } else { r#", "type": "demo""# };
                let errors = mistakes(&write(&format!(r#""{key}": {value}{way}"#)));
                let refused =
                    errors.iter().any(|error| error.message.contains("unknown") || error.message.contains("expected"));
                assert!(!refused, "{key}: {value}: {errors:?}");
            }
        }
    }
}

#[test]
fn the_defaults_of_the_schema_are_the_defaults() {
    let schema = schema();
    for (pointer, _, write) in objects() {
        let properties = schema.pointer(pointer).unwrap()["properties"].as_object().unwrap();
        let defaults =
            properties.iter().filter_map(|(key, property)| Some(format!(r#""{key}": {}"#, property.get("default")?)));
        let mut defaults: Vec<String> = defaults.collect();
        let mut without = Vec::new();
        if pointer == "/$defs/server" {
            defaults.push(r#""type": "demo""#.to_owned());
            without.push(r#""type": "demo""#.to_owned());
        }
        assert_eq!(parse(&write(&defaults.join(",")), &World), parse(&write(&without.join(",")), &World), "{pointer}");
    }
}
