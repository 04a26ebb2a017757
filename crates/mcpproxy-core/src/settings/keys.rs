//! All keys and words of the settings file.

use super::{Channel, Durability, EncoderUse, FilesSource, OAuthGrant, TwoKey, Unannotated, Unclassified, Weakening};
use crate::Variant;
use crate::file::Keys;
use crate::trust::{OnChange, Welcome};

pub(super) const TOP: Keys = Keys {
    known: &[
        "$schema",
        "mcpServers",
        "env_passthrough",
        "tools_refresh",
        "intent_declaration",
        "contracts",
        "trust",
        "activity",
        "approvals",
        "people",
        "agents",
        "listen",
        "shutdown_grace",
        "ready_timeout",
        "direct_mode",
        "allow_anonymous_loopback",
        "tls",
        "tls_terminated_by_proxy",
        "allowed_hosts",
        "allowed_origins",
        "storage",
        "operator_files",
        "limits",
        "metrics",
        "export",
        "search",
    ],
    advice: &[
        ("permissions", OWN_RULES),
        ("autoApprove", OWN_RULES),
        ("alwaysAllow", OWN_RULES),
        ("_comment", COMMENTS),
        ("//", COMMENTS),
    ],
};

pub(super) const SERVER: Keys = Keys {
    known: &[
        "type",
        "command",
        "args",
        "env",
        "env_passthrough",
        "cwd",
        "env_file",
        "url",
        "headers",
        "oauth",
        "enabled",
        "disabled",
        "title",
        "description",
        "call_timeout",
        "connect_timeout",
        "tools_refresh",
        "max_concurrent_calls",
        "result_limit",
        "include_tools",
        "exclude_tools",
        "first_sight",
    ],
    advice: &[("_comment", COMMENTS), ("//", COMMENTS)],
};

pub(super) const OAUTH: Keys = Keys {
    known: &["client_id", "client_secret", "scopes", "grant"],
    advice: &[
        (
            "redirect_uri",
            "the gateway has one address per provider; `mcpproxy servers login NAME` shows it. Register that at the provider",
        ),
        ("_comment", COMMENTS),
    ],
};

pub(super) const INTENT: Keys =
    Keys { known: &["strict_server_validation", "two_key", "unannotated"], advice: &[("_comment", COMMENTS)] };

pub(super) const CONTRACTS: Keys = Keys { known: &["unclassified", "weakening"], advice: &[("_comment", COMMENTS)] };

pub(super) const TRUST: Keys = Keys { known: &["first_sight", "changes"], advice: &[("_comment", COMMENTS)] };

pub(super) const ACTIVITY: Keys =
    Keys { known: &["durability", "checkpoints_to", "retention"], advice: &[("_comment", COMMENTS)] };

pub(super) const RETENTION: Keys = Keys {
    known: &["payloads", "payload_bytes", "records"],
    advice: &[("bytes", "did you mean `payload_bytes`?"), ("_comment", COMMENTS)],
};

pub(super) const APPROVALS: Keys = Keys {
    known: &["wait", "expire", "headless_expire", "public_url", "channels", "notify"],
    advice: &[("timeout", "did you mean `wait` or `expire`?"), ("_comment", COMMENTS)],
};

pub(super) const CHANNELS: Keys = Keys {
    known: &["medium", "high", "critical"],
    advice: &[
        ("low", "`medium` also applies to low risk, if a contract needs an approval"),
        ("forbidden", "forbidden tools are never called, so no approval is possible"),
        ("_comment", COMMENTS),
    ],
};

pub(super) const NOTIFY: Keys = Keys { known: &["webhook", "command", "bell"], advice: &[("_comment", COMMENTS)] };

pub(super) const WEBHOOK: Keys = Keys { known: &["url", "secret"], advice: &[("_comment", COMMENTS)] };

pub(super) const PEOPLE: Keys = Keys {
    known: &["password", "oidc", "session"],
    advice: &[("passwords", "did you mean `password`?"), ("_comment", COMMENTS)],
};

pub(super) const OIDC: Keys = Keys {
    known: &["issuer", "client_id", "client_secret", "scopes", "allowed", "admins", "groups_claim", "name", "acr"],
    advice: &[("allow", "did you mean `allowed`?"), ("_comment", COMMENTS)],
};

pub(super) const SELECTORS: Keys = Keys { known: &["emails", "domains", "groups"], advice: &[("_comment", COMMENTS)] };

pub(super) const SESSION: Keys = Keys { known: &["idle", "max"], advice: &[("_comment", COMMENTS)] };

pub(super) const AGENTS: Keys = Keys { known: &["oauth"], advice: &[("_comment", COMMENTS)] };

pub(super) const AGENT_OAUTH: Keys = Keys {
    known: &["issuer", "audience", "scopes", "claims", "blocked"],
    advice: &[
        ("resource", "did you mean `audience`?"),
        ("client_id", "the gateway only checks tokens; the agents' clients register themselves; remove it"),
        ("client_secret", "the gateway only checks tokens; remove it"),
        ("_comment", COMMENTS),
    ],
};

pub(super) const CLAIMS: Keys = Keys {
    known: &["name", "servers", "operations", "permissions", "allow"],
    advice: &[("sub", "did you mean `\"name\": \"sub\"`?"), ("_comment", COMMENTS)],
};

pub(super) const ALLOW: Keys = Keys {
    known: &["claim", "contains", "servers", "operations", "permissions", "headless"],
    advice: &[
        ("equals", "did you mean `contains`?"),
        ("grants", "did you mean `permissions`?"),
        ("_comment", COMMENTS),
    ],
};

pub(super) const TLS: Keys = Keys {
    known: &["certificate", "key"],
    advice: &[
        ("cert", "did you mean `certificate`?"),
        ("private_key", "did you mean `key`?"),
        ("ca", "the gateway asks clients for no certificate; put intermediate certificates into `certificate`"),
        ("_comment", COMMENTS),
    ],
};

pub(super) const STORAGE: Keys = Keys { known: &["url"], advice: &[("_comment", COMMENTS)] };

pub(super) const LIMITS: Keys = Keys { known: &["memory", "disk"], advice: &[("_comment", COMMENTS)] };

pub(super) const METRICS: Keys = Keys {
    known: &["enabled", "listen", "token"],
    advice: &[("path", "metrics are always at `/metrics`; remove it"), ("_comment", COMMENTS)],
};

pub(super) const EXPORT: Keys =
    Keys { known: &["to", "token"], advice: &[("url", "did you mean `to`?"), ("_comment", COMMENTS)] };

pub(super) const SEARCH: Keys = Keys { known: &["encoder"], advice: &[("_comment", COMMENTS)] };

pub(super) const STDIO_ONLY: &[&str] = &["command", "args", "env", "env_passthrough", "cwd", "env_file"];
pub(super) const HTTP_ONLY: &[&str] = &["url", "headers", "oauth"];

const OWN_RULES: &str = "contracts and policies decide which calls need an approval; remove it";
const COMMENTS: &str = "write comments as `// …`";

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Kind {
    Stdio,
    Http,
    Sse,
    Demo,
}

impl Kind {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Stdio => "stdio",
            Self::Http => "http",
            Self::Sse => "sse",
            Self::Demo => "demo",
        }
    }
}

pub(super) const KINDS: &[(&str, Kind)] = &[
    ("stdio", Kind::Stdio),
    ("http", Kind::Http),
    ("streamable-http", Kind::Http),
    ("streamableHttp", Kind::Http),
    ("sse", Kind::Sse),
    ("demo", Kind::Demo),
];

pub(super) const TWO_KEY: &[(&str, TwoKey)] = &[("optional", TwoKey::Optional), ("required", TwoKey::Required)];

pub(super) const UNANNOTATED: &[(&str, Unannotated)] =
    &[("trust", Unannotated::Trust), ("warn", Unannotated::Warn), ("require_write", Unannotated::RequireWrite)];

pub(super) const UNCLASSIFIED: &[(&str, Unclassified)] = &[
    ("allow", Unclassified::Allow),
    ("confirm_destructive", Unclassified::ConfirmDestructive),
    ("deny", Unclassified::Deny),
];

pub(super) const ENCODER: &[(&str, EncoderUse)] = &[("auto", EncoderUse::Auto), ("off", EncoderUse::Off)];

pub(super) const OPERATOR_FILES: &[(&str, FilesSource)] =
    &[("folder", FilesSource::Folder), ("database", FilesSource::Database)];

pub(super) const WEAKENING: &[(&str, Weakening)] = &[("confirm", Weakening::Confirm), ("apply", Weakening::Apply)];

pub(super) const FIRST_SIGHT: &[(&str, Welcome)] = &[("review", Welcome::Review), ("accept", Welcome::Accept)];

pub(super) const CHANGES: &[(&str, OnChange)] =
    &[("review", OnChange::Review), ("warn", OnChange::Warn), ("accept", OnChange::Accept)];

pub(super) const GRANTS: &[(&str, OAuthGrant)] =
    &[("authorization_code", OAuthGrant::AuthorizationCode), ("client_credentials", OAuthGrant::ClientCredentials)];

pub(super) const DURABILITY: &[(&str, Durability)] = &[("all", Durability::All), ("writes", Durability::Writes)];

pub(super) const OPERATIONS: &[(&str, Variant)] =
    &[("read", Variant::Read), ("write", Variant::Write), ("destructive", Variant::Destructive)];

pub(super) const CHANNEL: &[(&str, Channel)] = &[("form", Channel::Form), ("page", Channel::Page)];
