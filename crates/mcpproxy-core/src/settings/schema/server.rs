//! The schema of one server.

use serde_json::{Value, json};

use super::super::{ServerSettings, keys};
use super::{seconds, words};
pub(super) fn server() -> Value {
    json!({
        "type": "object",
        "description": "One server: `command` to start it, or `url` to connect to it. Texts may contain `${env:NAME}` and `${file:PATH}`.",
        "additionalProperties": false,
        "anyOf": [
            { "required": ["command"], "not": { "required": ["url"] } },
            { "required": ["url"], "not": { "required": ["command"] } },
            { "required": ["type"], "properties": { "type": { "const": "demo" } } }
        ],
        "properties": {
            "type": { "enum": words(keys::KINDS), "description": "The transport. By default `command` means `stdio` and `url` means `http`." },
            "command": { "type": "string", "minLength": 1, "description": "The program to start, without arguments. No shell is used." },
            "args": { "type": "array", "items": { "type": "string" }, "description": "The arguments of `command`." },
            "env": { "$ref": "#/$defs/pairs", "description": "Environment variables for `command`." },
            "env_passthrough": {
                "type": "array",
                "items": { "type": "string", "pattern": "^[A-Za-z0-9_]+$" },
                "description": "Names of environment variables of the gateway that `command` also gets. PATH, HOME, the locale, and the variables for proxies and certificates are passed on anyway."
            },
            "cwd": { "type": "string", "minLength": 1, "description": "The folder to start `command` in." },
            "env_file": { "type": "string", "minLength": 1, "description": "A file with further variables for `command`, one `NAME=VALUE` per line. `env` wins." },
            "url": { "type": "string", "minLength": 1, "description": "The http or https URL of the server." },
            "headers": { "$ref": "#/$defs/pairs", "description": "Headers for every request to `url`." },
            "oauth": {
                "type": "object",
                "description": "How the gateway signs in to a server that asks for OAuth. Most servers need none of it: run `mcpproxy servers login NAME`.",
                "additionalProperties": false,
                "properties": {
                    "client_id": { "type": "string", "minLength": 1, "description": "The id of a client that you registered at the provider, with the redirect URI that `mcpproxy servers login NAME` shows. By default, the gateway registers itself." },
                    "client_secret": { "type": "string", "minLength": 1, "description": "The secret of that client, best in `${env:NAME}` or `${file:PATH}`." },
                    "scopes": { "type": "array", "maxItems": super::super::OAUTH_SCOPES_MAX, "items": { "type": "string", "pattern": "^[!#-\\[\\]-~]{1,200}$" }, "description": "The scopes to request. By default, those that the server names." },
                    "grant": { "enum": words(keys::GRANTS), "default": "authorization_code", "description": "`authorization_code`: a user signs in. `client_credentials`: the gateway signs in as itself, with `client_id` and `client_secret`." }
                }
            },
            "enabled": { "type": "boolean", "default": true, "description": "Set to false to keep the settings without connecting." },
            "disabled": { "type": "boolean", "default": false, "description": "The opposite of `enabled`, which some clients use." },
            "title": { "type": "string", "description": "A name for people, shown in lists. A pasted name such as `My Files` is kept here." },
            "description": { "type": "string", "description": "A note for yourself." },
            "call_timeout": { "$ref": "#/$defs/duration", "default": seconds(ServerSettings::CALL_TIMEOUT), "description": "The timeout of one call." },
            "connect_timeout": { "$ref": "#/$defs/duration", "default": seconds(ServerSettings::CONNECT_TIMEOUT), "description": "The timeout of a connection attempt." },
            "tools_refresh": { "$ref": "#/$defs/duration", "description": "The time between two reads of this server's list of tools. \"0s\" turns it off. The default is the `tools_refresh` of the whole file." },
            "max_concurrent_calls": {
                "type": "integer", "minimum": 1, "maximum": super::super::server::CONCURRENT_CALLS_MAX,
                "default": ServerSettings::MAX_CONCURRENT_CALLS,
                "description": "The maximum number of concurrent calls. Further calls wait. From four on, one agent may use at most seven eighths."
            },
            "result_limit": {
                "type": ["string", "integer"],
                "pattern": "^[0-9]+ *(?:B|KiB|MiB|GiB|kB|KB|MB|GB)$",
                "default": ServerSettings::RESULT_LIMIT_BYTES,
                "description": "The maximum size of a result, such as \"10MiB\", or a number of bytes."
            },
            "include_tools": { "type": "array", "items": { "type": "string" }, "description": "The only tools that agents see. By default, all." },
            "exclude_tools": { "type": "array", "items": { "type": "string" }, "default": [], "description": "Tools that no agent sees, even if `include_tools` names them." },
            "first_sight": { "enum": words(keys::FIRST_SIGHT), "description": "The handling of this server's first list: `review` quarantines its tools until a user reviews them, `accept` accepts them. Without it, `trust.first_sight` decides." }
        }
    })
}
