//! The JSON Schema of the settings file, for editors.

use serde_json::{Value, json};

use super::{ApprovalSettings, SERVERS_MAX, ServerSettings, keys};
use crate::file;

/// JSON Schema, draft 2020-12. It knows the same keys as the parser; the parser has the last word on values.
pub fn schema() -> Value {
    let default = super::Settings::default();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcpproxy settings",
        "description": "mcp_config.json in the data folder of mcpproxy. Comments and trailing commas are allowed.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "$schema": { "type": "string", "description": "The address of this schema, for editors; otherwise ignored." },
            "mcpServers": {
                "type": "object",
                "description": "The MCP servers behind mcpproxy, by name, in the shape MCP clients use.",
                "maxProperties": SERVERS_MAX,
                "propertyNames": { "pattern": "^(?!.*__)[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9-])?$" },
                "additionalProperties": { "$ref": "#/$defs/server" },
                "default": {}
            },
            "intent_declaration": intent(),
            "contracts": contracts(),
            "activity": activity(),
            "approvals": approvals(),
            "listen": {
                "type": "string",
                "default": default.listen.to_string(),
                "description": "The address and port to listen on. Anything but this machine needs `tls_terminated_by_proxy`."
            },
            "allow_anonymous_loopback": {
                "type": "boolean",
                "default": default.allow_anonymous_loopback,
                "description": "Treat callers on this machine without a token as a read-only agent."
            },
            "tls_terminated_by_proxy": {
                "type": "boolean",
                "default": default.tls_terminated_by_proxy,
                "description": "A proxy that terminates TLS stands in front, so listening on other addresses is safe."
            },
            "allowed_hosts": {
                "type": "array",
                "items": { "type": "string" },
                "default": default.allowed_hosts,
                "description": "Further `Host` headers to answer, such as `gateway.example.com`."
            },
            "allowed_origins": {
                "type": "array",
                "items": { "type": "string" },
                "default": default.allowed_origins,
                "description": "Further `Origin` headers to answer, such as `https://app.example.com`."
            },
            "storage": {
                "type": "object",
                "description": "Where records and tokens are kept.",
                "additionalProperties": false,
                "properties": {
                    "url": {
                        "type": "string",
                        "pattern": "^(?:sqlite:.+|postgres(?:ql)?://.+|.*\\$\\{.*)$",
                        "description": "`sqlite:PATH`, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the password behind `${env:NAME}` or `${file:PATH}`. Without it, the database is a file in the data folder."
                    }
                }
            }
        },
        "$defs": { "server": server(), "pairs": pairs(), "duration": duration(), "age": age() }
    })
}

fn intent() -> Value {
    json!({
        "type": "object",
        "description": "How strictly an agent's declared intent is checked.",
        "additionalProperties": false,
        "properties": {
            "strict_server_validation": {
                "type": "boolean",
                "default": true,
                "description": "Refuse a call whose variant contradicts the server's annotations; false lets it through with a warning."
            },
            "two_key": {
                "enum": words(keys::TWO_KEY),
                "default": "optional",
                "description": "Whether a call must repeat its operation in `intent.operation_type`."
            },
            "unannotated": {
                "enum": words(keys::UNANNOTATED),
                "default": "trust",
                "description": "What a read call on a tool without annotations gets: `trust`, `warn` (allowed with a warning) or `require_write` (refused)."
            }
        }
    })
}

fn contracts() -> Value {
    json!({
        "type": "object",
        "description": "Tool contracts. The contracts themselves are files in `contracts/` beside the settings.",
        "additionalProperties": false,
        "properties": {
            "unclassified": {
                "enum": words(keys::UNCLASSIFIED),
                "default": "allow",
                "description": "What a tool gets whose risk no contract of the operator classifies (a server's own contract adds to that and takes nothing away): `allow` (what annotations and server say), `confirm_destructive` (a destructive call needs a user) or `deny`."
            }
        }
    })
}

fn activity() -> Value {
    json!({
        "type": "object",
        "description": "The activity log.",
        "additionalProperties": false,
        "properties": {
            "durability": {
                "enum": words(keys::DURABILITY),
                "default": "writes",
                "description": "Which calls are on disk before they are sent: `all`, or `writes` (write and destructive calls; reads follow in batches)."
            },
            "checkpoints_to": {
                "type": "string",
                "minLength": 1,
                "description": "A file that gets a copy of every signed checkpoint; best on another disk or machine. A relative path begins in the data folder."
            },
            "retention": {
                "type": "object",
                "description": "How long the log is kept. The word \"forever\" switches a limit off.",
                "additionalProperties": false,
                "properties": {
                    "payloads": {
                        "$ref": "#/$defs/age",
                        "default": "90d",
                        "description": "How long arguments and results are kept, such as \"90d\" or \"12h\". Their records stay."
                    },
                    "payload_bytes": {
                        "type": ["string", "integer"],
                        "pattern": "^(?:forever|[0-9]+ *(?:B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB))$",
                        "default": "4GiB",
                        "description": "How many bytes of arguments and results are kept in all; the oldest go first."
                    },
                    "records": {
                        "$ref": "#/$defs/age",
                        "default": "forever",
                        "description": "How long records themselves are kept, such as \"400d\"; not shorter than `payloads`."
                    }
                }
            }
        }
    })
}

fn approvals() -> Value {
    let channel = |default: &str, description: &str| json!({ "enum": words(keys::CHANNEL), "default": default, "description": description });
    json!({
        "type": "object",
        "description": "How users are asked when a call needs their word.",
        "additionalProperties": false,
        "properties": {
            "wait": {
                "$ref": "#/$defs/duration",
                "default": seconds(ApprovalSettings::WAIT),
                "description": "How long a call is held open for a user, from \"0s\" (not at all) to \"10m\". Then the agent is told how to come back."
            },
            "expire": {
                "$ref": "#/$defs/duration",
                "default": "10m",
                "description": "How long a user has, and how long a yes is good for: \"1m\" to \"24h\"."
            },
            "headless_expire": {
                "$ref": "#/$defs/duration",
                "default": "24h",
                "description": "How long a user has for calls of tokens made with `--headless`: \"1m\" to \"7d\". A yes is good for `expire`."
            },
            "public_url": {
                "type": "string",
                "pattern": "^https?://[^/]+/?$",
                "description": "Where users reach the gateway, such as `https://gateway.example.com`. Without it, `http://localhost` and the port of `listen`."
            },
            "channels": {
                "type": "object",
                "description": "Where a call may be confirmed, by risk level: `form` (in the agent's own client too) or `page` (on the gateway's page or command line only).",
                "additionalProperties": false,
                "properties": {
                    "medium": channel("form", "Risk levels medium and low, where a contract asks a user about them."),
                    "high": channel("page", "Risk level high, and tools that nobody classified. Whoever holds an agent's token can answer a form."),
                    "critical": {
                        "enum": ["page"],
                        "default": "page",
                        "description": "Risk level critical: never confirmed in a form."
                    }
                }
            },
            "notify": {
                "type": "object",
                "description": "How somebody gets to know that a user is asked.",
                "additionalProperties": false,
                "properties": {
                    "webhook": {
                        "type": "object",
                        "description": "An address that gets a signed message for every approval_request.",
                        "additionalProperties": false,
                        "required": ["url", "secret"],
                        "properties": {
                            "url": { "type": "string", "minLength": 1, "description": "The https address." },
                            "secret": { "type": "string", "minLength": 16, "description": "What messages are signed with, best behind `${env:NAME}` or `${file:PATH}`." }
                        }
                    },
                    "command": {
                        "type": "array",
                        "items": { "type": "string" },
                        "minItems": 1,
                        "description": "A program and its arguments to run for every approval_request, such as a desktop notification. No shell is used."
                    },
                    "bell": { "type": "boolean", "default": true, "description": "Ring the bell of the terminal in which the gateway runs." }
                }
            }
        }
    })
}

fn server() -> Value {
    json!({
        "type": "object",
        "description": "One server: `command` to start it, or `url` to connect to it. Texts may refer to `${env:NAME}` and `${file:PATH}`.",
        "additionalProperties": false,
        "anyOf": [
            { "required": ["command"], "not": { "required": ["url"] } },
            { "required": ["url"], "not": { "required": ["command"] } },
            { "required": ["type"], "properties": { "type": { "const": "demo" } } }
        ],
        "properties": {
            "type": { "enum": words(keys::KINDS), "description": "How to reach it. Without it, `command` means `stdio` and `url` means `http`." },
            "command": { "type": "string", "minLength": 1, "description": "The program to start, without arguments. No shell is used." },
            "args": { "type": "array", "items": { "type": "string" }, "description": "The arguments of `command`." },
            "env": { "$ref": "#/$defs/pairs", "description": "Environment variables for `command`; it inherits no others of yours." },
            "cwd": { "type": "string", "minLength": 1, "description": "The folder to start `command` in." },
            "url": { "type": "string", "minLength": 1, "description": "The http or https address of the server." },
            "headers": { "$ref": "#/$defs/pairs", "description": "Headers for every request to `url`." },
            "enabled": { "type": "boolean", "default": true, "description": "false: keep the settings, but do not connect." },
            "disabled": { "type": "boolean", "default": false, "description": "The opposite of `enabled`, as some clients write it." },
            "description": { "type": "string", "description": "A note for people." },
            "call_timeout": { "$ref": "#/$defs/duration", "default": seconds(ServerSettings::CALL_TIMEOUT), "description": "How long one call may take." },
            "connect_timeout": { "$ref": "#/$defs/duration", "default": seconds(ServerSettings::CONNECT_TIMEOUT), "description": "How long connecting may take." },
            "max_concurrent_calls": {
                "type": "integer", "minimum": 1, "maximum": super::server::CONCURRENT_CALLS_MAX,
                "default": ServerSettings::MAX_CONCURRENT_CALLS,
                "description": "How many calls the server gets at once; more wait."
            },
            "result_limit": {
                "type": ["string", "integer"],
                "pattern": "^[0-9]+ *(?:B|KiB|MiB|GiB|kB|KB|MB|GB)$",
                "default": ServerSettings::RESULT_LIMIT_BYTES,
                "description": "The largest answer to accept, such as \"10MiB\", or a number of bytes."
            }
        }
    })
}

fn pairs() -> Value {
    json!({ "type": "object", "additionalProperties": { "type": "string" } })
}

fn duration() -> Value {
    json!({ "type": "string", "pattern": "^[0-9]+ *(?:ms|s|m|h|d)$" })
}

fn age() -> Value {
    json!({ "type": "string", "pattern": "^(?:forever|[0-9]+ *(?:ms|s|m|h|d))$" })
}

fn words<T>(choices: &'static [(&'static str, T)]) -> Vec<&'static str> {
    file::words(choices).collect()
}

fn seconds(duration: std::time::Duration) -> String {
    format!("{}s", duration.as_secs())
}
