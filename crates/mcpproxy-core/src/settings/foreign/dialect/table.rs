//! The keys and words of other clients, with their meaning here.

/// The meaning of a key here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Meaning {
    /// The same as one of our keys.
    Key(&'static str),
    /// The URL of a server over Streamable HTTP.
    HttpUrl,
    /// A timeout, as a number without its unit.
    Timeout(&'static str, Unit),
    /// The environment variable that holds a bearer token.
    BearerVariable,
    /// Headers, with the names of the environment variables that hold their values.
    HeaderVariables,
    /// No meaning here. The text says why, or what to do.
    None(&'static str),
}

/// The unit of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Unit {
    Milliseconds,
    Seconds,
    /// Cline and Roo mean seconds, Gemini and opencode milliseconds. Nobody waits for 1000 seconds, and nobody for less
    /// than a second.
    ByItsSize,
}

pub(super) const NO_APPROVALS: &str = "has no effect: contracts and policies decide which calls need an approval";
const APPROVALS: Meaning = Meaning::None(NO_APPROVALS);
const DECORATION: Meaning = Meaning::None("has no effect here");
const LOADING: Meaning = Meaning::None("has no effect here: set it for mcpproxy in your client instead");
const OAUTH: Meaning =
    Meaning::None("has no effect: if the server asks for OAuth, sign in with `mcpproxy servers login NAME`");
const SANDBOX: Meaning = Meaning::None("has no effect: the gateway starts the server without a sandbox");
const HELPER: Meaning =
    Meaning::None("has no effect: the gateway runs no helper for headers; put a token into `headers`");
const NOT_ENDED: Meaning = Meaning::None("has no effect: the gateway keeps servers running");

/// Keys of other clients. A key that stands neither here nor in `keys::SERVER` is a mistake.
pub(super) const FOREIGN: &[(&str, Meaning)] = &[
    // Claude Desktop, Cline, Roo, Kiro, Gemini, Qwen, Codex, Continue: calls that run unasked.
    ("autoApprove", APPROVALS),
    ("auto_approve", APPROVALS),
    ("autoApproveTools", APPROVALS),
    ("alwaysAllow", APPROVALS),
    ("always_allow", APPROVALS),
    ("trust", APPROVALS),
    ("trusted", APPROVALS),
    ("permissions", APPROVALS),
    ("approval_mode", APPROVALS),
    ("default_tools_approval_mode", APPROVALS),
    // Ways to reach a server.
    ("serverUrl", Meaning::Key("url")),
    ("uri", Meaning::Key("url")),
    ("endpoint", Meaning::Key("url")),
    ("httpUrl", Meaning::HttpUrl),
    ("transport", Meaning::Key("type")),
    ("transportType", Meaning::Key("type")),
    ("cmd", Meaning::Key("command")),
    ("environment", Meaning::Key("env")),
    ("envs", Meaning::Key("env")),
    ("envFile", Meaning::Key("env_file")),
    ("env_vars", Meaning::Key("env_passthrough")),
    ("env_keys", Meaning::Key("env_passthrough")),
    ("workingDirectory", Meaning::Key("cwd")),
    ("http_headers", Meaning::Key("headers")),
    ("requestHeaders", Meaning::Key("headers")),
    ("bearer_token_env_var", Meaning::BearerVariable),
    ("env_http_headers", Meaning::HeaderVariables),
    // Switches.
    ("isActive", Meaning::Key("enabled")),
    ("active", Meaning::Key("enabled")),
    ("includeTools", Meaning::Key("include_tools")),
    ("enabledTools", Meaning::Key("include_tools")),
    ("enabled_tools", Meaning::Key("include_tools")),
    ("allowedTools", Meaning::Key("include_tools")),
    ("available_tools", Meaning::Key("include_tools")),
    ("excludeTools", Meaning::Key("exclude_tools")),
    ("disabledTools", Meaning::Key("exclude_tools")),
    ("disabled_tools", Meaning::Key("exclude_tools")),
    // Timeouts.
    ("timeout", Meaning::Timeout("call_timeout", Unit::ByItsSize)),
    ("timeoutMs", Meaning::Timeout("call_timeout", Unit::Milliseconds)),
    ("tool_timeout_sec", Meaning::Timeout("call_timeout", Unit::Seconds)),
    ("startup_timeout_sec", Meaning::Timeout("connect_timeout", Unit::Seconds)),
    ("startup_timeout_ms", Meaning::Timeout("connect_timeout", Unit::Milliseconds)),
    ("connectionTimeout", Meaning::Timeout("connect_timeout", Unit::ByItsSize)),
    ("initTimeout", Meaning::Timeout("connect_timeout", Unit::ByItsSize)),
    // Names.
    ("name", Meaning::Key("title")),
    ("displayName", Meaning::Key("title")),
    ("display_name", Meaning::Key("title")),
    // What the gateway does not do.
    ("oauth_resource", OAUTH),
    ("auth", OAUTH),
    ("authProviderType", OAUTH),
    ("targetAudience", OAUTH),
    ("targetServiceAccount", OAUTH),
    ("scopes", OAUTH),
    ("headersHelper", HELPER),
    ("sandbox", SANDBOX),
    ("sandboxEnabled", SANDBOX),
    ("alwaysLoad", LOADING),
    ("defer_loading", LOADING),
    ("supports_parallel_tool_calls", LOADING),
    ("required", DECORATION),
    ("ephemeral", NOT_ENDED),
    ("watchPaths", NOT_ENDED),
    ("dev", DECORATION),
    ("gallery", DECORATION),
    ("icon", DECORATION),
    ("iconUrl", DECORATION),
    ("icons", DECORATION),
    ("version", DECORATION),
    ("source", DECORATION),
    ("settings", DECORATION),
    ("remote", DECORATION),
    ("registryUrl", DECORATION),
    ("fromGalleryId", DECORATION),
    ("provider", DECORATION),
    ("providerUrl", DECORATION),
    ("logoUrl", DECORATION),
    ("tags", DECORATION),
    ("bundled", DECORATION),
    ("extension", DECORATION),
    ("longRunning", DECORATION),
    ("debug", DECORATION),
    ("capabilities", DECORATION),
];

/// Names of transports in other clients, with ours.
pub(super) const KINDS: [(&str, &str); 7] = [
    ("local", "stdio"),
    ("command", "stdio"),
    ("remote", "http"),
    ("streamable_http", "http"),
    ("streamable", "http"),
    ("http-stream", "http"),
    ("httpStream", "http"),
];

#[cfg(test)]
mod tests {
    use super::*;
    use crate::settings::keys;

    #[test]
    fn the_table_leads_to_our_keys() {
        for (key, meaning) in FOREIGN {
            assert!(!keys::SERVER.known.contains(key), "{key} is one of ours");
            assert_eq!(FOREIGN.iter().filter(|(other, _)| other == key).count(), 1, "{key} stands twice");
            if let Meaning::Key(ours) | Meaning::Timeout(ours, _) = meaning {
                assert!(keys::SERVER.known.contains(ours), "{key}: {ours} is none of ours");
            }
        }
    }
}
