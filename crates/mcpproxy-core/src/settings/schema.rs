//! The JSON Schema of the settings file, for editors.

mod callers;
mod server;

use serde_json::{Value, json};

use self::callers::{agents, people};
use self::server::server;
use super::{ApprovalSettings, LimitSettings, SERVERS_MAX, ServerSettings, keys};
use crate::file;

/// Returns the JSON Schema (draft 2020-12) of the settings file. It knows the same keys as the parser, which checks
/// values more strictly.
pub fn schema() -> Value {
    let default = super::Settings::default();
    json!({
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "mcpproxy settings",
        "description": "mcp_config.json in the data folder of mcpproxy. Comments and trailing commas are allowed.",
        "type": "object",
        "additionalProperties": false,
        "properties": {
            "$schema": { "type": "string", "description": "The URL of this schema, for editors. The gateway ignores it." },
            "mcpServers": {
                "type": "object",
                "description": "The MCP servers behind mcpproxy, by name, in the format that MCP clients use.",
                "maxProperties": SERVERS_MAX,
                "propertyNames": { "pattern": "^(?!.*__)[a-z0-9](?:[a-z0-9_-]{0,61}[a-z0-9-])?$" },
                "additionalProperties": { "$ref": "#/$defs/server" },
                "default": {}
            },
            "env_passthrough": {
                "type": "array",
                "items": { "type": "string", "pattern": "^[A-Za-z0-9_]+$" },
                "default": [],
                "description": "Environment variables of the gateway that every server process gets, besides PATH, HOME, the locale, and the variables for proxies and certificates."
            },
            "tools_refresh": {
                "$ref": "#/$defs/duration",
                "default": seconds(ServerSettings::TOOLS_REFRESH),
                "description": "The time between two reads of the list of tools of each connected server, for servers that do not announce changes: \"1s\" to \"24h\". \"0s\" turns it off."
            },
            "intent_declaration": intent(),
            "contracts": contracts(),
            "trust": trust(),
            "activity": activity(),
            "approvals": approvals(),
            "people": people(),
            "agents": agents(),
            "listen": {
                "type": "string",
                "default": default.listen.to_string(),
                "description": "The address and port to listen on. An address other than loopback needs `tls` or `tls_terminated_by_proxy`."
            },
            "shutdown_grace": shutdown_grace(seconds(default.shutdown_grace)),
            "ready_timeout": ready_timeout(seconds(default.ready_timeout)),
            "direct_mode": {
                "type": "boolean",
                "default": default.direct_mode,
                "description": "Offer the servers' tools under their own names at `/mcp/s/NAME` and `/mcp/direct`. false closes both addresses, so agents can only use `/mcp`."
            },
            "allow_anonymous_loopback": {
                "type": "boolean",
                "default": default.allow_anonymous_loopback,
                "description": "Treat clients on this machine without a token as a read-only agent. Only with `listen` on loopback, and without a proxy."
            },
            "tls": tls(),
            "tls_terminated_by_proxy": {
                "type": "boolean",
                "default": default.tls_terminated_by_proxy,
                "description": "Set to true if a proxy in front terminates TLS. Then the gateway may listen on other addresses."
            },
            "allowed_hosts": {
                "type": "array",
                "items": { "type": "string" },
                "default": default.allowed_hosts,
                "description": "Further `Host` headers to accept, such as `gateway.example.com`."
            },
            "allowed_origins": {
                "type": "array",
                "items": { "type": "string" },
                "default": default.allowed_origins,
                "description": "Further `Origin` headers to accept, such as `https://app.example.com`."
            },
            "storage": storage(),
            "operator_files": operator_files(),
            "limits": limits(&default.limits),
            "metrics": super::metrics::schema(),
            "export": super::export::schema(),
            "search": super::search::schema()
        },
        "$defs": { "server": server(), "pairs": pairs(), "duration": duration(), "age": age() }
    })
}

fn shutdown_grace(default: String) -> Value {
    json!({
        "$ref": "#/$defs/duration",
        "default": default,
        "description": "The time that the gateway waits for running calls when it stops, from \"0s\" to \"10m\". After that it stops the servers. Give your service manager at least 20 seconds more before it kills the gateway."
    })
}

fn ready_timeout(default: String) -> Value {
    json!({
        "$ref": "#/$defs/duration",
        "default": default,
        "description": "The time after the start for which `GET /readyz` waits for servers that have neither connected nor failed, from \"0s\" to \"10m\". After that, a hanging server does not keep the gateway out of a load balancer."
    })
}

fn tls() -> Value {
    json!({
        "type": "object",
        "description": "A certificate with which the gateway itself speaks HTTPS, with HTTP/1.1 and HTTP/2. It does not answer plain HTTP then. New files take effect without a restart.",
        "additionalProperties": false,
        "required": ["certificate", "key"],
        "properties": {
            "certificate": {
                "type": "string",
                "description": "A PEM file with the certificate, followed by its intermediate certificates. A relative path starts in the folder of the settings file."
            },
            "key": {
                "type": "string",
                "description": "A PEM file with the private key of the certificate, not encrypted."
            }
        }
    })
}

fn storage() -> Value {
    json!({
        "type": "object",
        "description": "The database of records, tokens, approvals and users.",
        "additionalProperties": false,
        "properties": {
            "url": {
                "type": "string",
                "pattern": "^(?:sqlite:.+|postgres(?:ql)?://.+|.*\\$\\{.*)$",
                "description": "`sqlite:PATH`, or `postgres://USER:PASSWORD@HOST:PORT/DATABASE`, with the password in `${env:NAME}` or `${file:PATH}`. By default the database is a file in the data folder."
            }
        }
    })
}

fn operator_files() -> Value {
    json!({
        "enum": words(keys::OPERATOR_FILES),
        "default": "folder",
        "description": "The place of contracts, policies and settings: `folder` is the folder of this file. `database` is the newest version that a user published in PostgreSQL with `mcpproxy config apply --from FOLDER`. Then this file has only the settings of one machine."
    })
}

fn limits(default: &LimitSettings) -> Value {
    json!({
        "type": "object",
        "description": "Limits of the gateway as a whole.",
        "additionalProperties": false,
        "properties": {
            "memory": {
                "type": ["string", "integer"],
                "pattern": "^[0-9]+ *(?:B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB)$",
                "default": default.memory_bytes,
                "description": "Memory for requests and answers in flight, such as \"256MiB\": \"64MiB\" to \"1TiB\". Agents share it fairly."
            },
            "disk": {
                "type": ["string", "integer"],
                "pattern": "^(?:forever|[0-9]+ *(?:B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB))$",
                "default": "64GiB",
                "description": "The size that the content of a SQLite database may reach. The gateway warns at 80 %. Shortly before the limit it refuses calls, so that the calls under way can still be recorded. PostgreSQL is not measured."
            }
        }
    })
}

fn intent() -> Value {
    json!({
        "type": "object",
        "description": "Checks of the intent that an agent declares.",
        "additionalProperties": false,
        "properties": {
            "strict_server_validation": {
                "type": "boolean",
                "default": true,
                "description": "Refuse a call whose variant contradicts the server's annotations. false allows it with a warning."
            },
            "two_key": {
                "enum": words(keys::TWO_KEY),
                "default": "optional",
                "description": "`required`: a call must repeat its operation in `intent.operation_type`. A call at `/mcp/s/NAME` or `/mcp/direct` has the intent in `_meta[\"mcpproxy/intent\"]`."
            },
            "unannotated": {
                "enum": words(keys::UNANNOTATED),
                "default": "trust",
                "description": "The handling of a read call to a tool without annotations: `trust` allows it, `warn` allows it with a warning, `require_write` refuses it."
            }
        }
    })
}

fn contracts() -> Value {
    json!({
        "type": "object",
        "description": "Tool contracts. The contracts themselves are files in `contracts/` next to the settings.",
        "additionalProperties": false,
        "properties": {
            "unclassified": {
                "enum": words(keys::UNCLASSIFIED),
                "default": "allow",
                "description": "The handling of tools without a risk level in your contracts: `allow` follows its annotations, `confirm_destructive` also asks a user to approve destructive calls, `deny` refuses every call. A server's own contract can only make this stricter."
            },
            "weakening": {
                "enum": words(keys::WEAKENING),
                "default": "confirm",
                "description": "The handling of a reload that removes or weakens a contract, a policy, or one of the settings `contracts`, `intent_declaration`, `approvals.channels` and `trust` (with `first_sight` of a server): `confirm` keeps the stricter one until a user runs `mcpproxy config apply` or the gateway restarts, `apply` takes the new one at once. Use `apply` only if your deployment replaces all files atomically, and agents cannot write them."
            }
        }
    })
}

fn trust() -> Value {
    json!({
        "type": "object",
        "description": "Quarantine of tools, prompts and resource templates that no user has seen, or that changed. A quarantined tool is in no list and cannot be called. A user reviews it with `mcpproxy servers review NAME`.",
        "additionalProperties": false,
        "properties": {
            "first_sight": {
                "enum": words(keys::FIRST_SIGHT),
                "default": "review",
                "description": "The handling of the first list of a server. `review` accepts a server that was in the settings file at start or was added with `mcpproxy servers add` at a terminal, and quarantines any other until a user reviews it. `accept` accepts every server. Suspicious definitions are quarantined in any case."
            },
            "changes": {
                "enum": words(keys::CHANGES),
                "default": "review",
                "description": "The handling of a new or changed definition of a known server: `review` quarantines it, `warn` shows it to agents and writes a warning, `accept` shows it to agents. Changes that only make a tool stricter apply at once."
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
                "description": "The calls that are on disk before the gateway sends them: `all`, or `writes` (write and destructive calls; reads are written in batches)."
            },
            "checkpoints_to": {
                "type": "string",
                "minLength": 1,
                "description": "A file that gets a copy of every signed checkpoint, best on another disk or machine. A relative path starts in the data folder."
            },
            "retention": {
                "type": "object",
                "description": "Retention of the log. \"forever\" turns a limit off.",
                "additionalProperties": false,
                "properties": {
                    "payloads": {
                        "$ref": "#/$defs/age",
                        "default": "90d",
                        "description": "The time for which arguments and results are kept, such as \"90d\" or \"12h\". Their records stay."
                    },
                    "payload_bytes": {
                        "type": ["string", "integer"],
                        "pattern": "^(?:forever|[0-9]+ *(?:B|KiB|MiB|GiB|TiB|kB|KB|MB|GB|TB))$",
                        "default": "4GiB",
                        "description": "The total size of the arguments and results that are kept. The oldest are removed first."
                    },
                    "records": {
                        "$ref": "#/$defs/age",
                        "default": "forever",
                        "description": "The time for which records themselves are kept, such as \"400d\". Not shorter than `payloads`."
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
        "description": "Approval of calls by users.",
        "additionalProperties": false,
        "properties": {
            "wait": {
                "$ref": "#/$defs/duration",
                "default": seconds(ApprovalSettings::WAIT),
                "description": "The time that a call waits for an approval, from \"0s\" (not at all) to \"10m\". After that, the agent is told how to repeat the call."
            },
            "expire": {
                "$ref": "#/$defs/duration",
                "default": "10m",
                "description": "The time that an approval request stays open, and that an approval is valid: \"1m\" to \"24h\"."
            },
            "headless_expire": {
                "$ref": "#/$defs/duration",
                "default": "24h",
                "description": "The time that an approval request of an unattended agent (`--headless`) stays open: \"1m\" to \"7d\". The approval is valid for `expire`."
            },
            "public_url": {
                "type": "string",
                "pattern": "^https?://[^/]+/?$",
                "description": "The URL at which users reach the gateway, such as `https://gateway.example.com`. The default is `http://localhost` and the port of `listen`."
            },
            "channels": {
                "type": "object",
                "description": "The places where users may approve a call, by risk level: `form` (also in the agent's own client) or `page` (only on the gateway's page or command line).",
                "additionalProperties": false,
                "properties": {
                    "medium": channel("form", "Risk levels medium and low, if their contract needs an approval."),
                    "high": channel("page", "Risk level high, and tools without a risk level. Anyone who has an agent's token can answer a form."),
                    "critical": {
                        "enum": ["page"],
                        "default": "page",
                        "description": "Risk level critical: never approved in a form."
                    }
                }
            },
            "notify": {
                "type": "object",
                "description": "Notifications about new approval requests.",
                "additionalProperties": false,
                "properties": {
                    "webhook": {
                        "type": "object",
                        "description": "A URL that gets a signed message for every approval request.",
                        "additionalProperties": false,
                        "required": ["url", "secret"],
                        "properties": {
                            "url": { "type": "string", "minLength": 1, "description": "The https URL." },
                            "secret": { "type": "string", "minLength": 16, "description": "The key that signs the messages, best in `${env:NAME}` or `${file:PATH}`." }
                        }
                    },
                    "command": {
                        "type": "array",
                        "items": { "type": "string" },
                        "minItems": 1,
                        "description": "A program and its arguments to run for every approval request, such as a desktop notification. No shell is used."
                    },
                    "bell": { "type": "boolean", "default": true, "description": "Ring the bell of the terminal that runs the gateway." }
                }
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
