//! The table of clients.
//!
//! Files and shapes follow the documentation of each client. The rules of Claude Code, Codex, Gemini CLI, opencode and
//! Qwen Code were checked with the programs themselves: reads run without a prompt, and writes and destructive calls
//! ask. The other rules follow documentation alone.

use super::{Client, ConfigFile, FileFormat, Permissions, Places, RuleContent, RuleEdit, RuleFile, Shape};
use FileFormat::{Json, Toml, Yaml};
use Shape::{Arguments, Bearer, Bool, CommandLine, List, Number, Object, Program, Text, Url};

/// The name of the entry in a client's file. Clients show it, and their rules name it.
pub(crate) const ENTRY: &str = "mcpproxy";

const fn everywhere(path: &'static [&'static str]) -> Places {
    Places { moved_by: None, linux: path, macos: path, windows: path }
}

const fn moved(variable: &'static str, rest: &'static str, path: &'static [&'static str]) -> Places {
    Places { moved_by: Some((variable, rest)), linux: path, macos: path, windows: path }
}

const AUTHORIZATION: Shape = Object(&[("Authorization", Bearer)]);

/// `{"command": …, "args": […]}`, which most clients use.
const COMMAND: Shape = Object(&[("command", Program), ("args", Arguments)]);

/// The tools that run without asking, and those that ask, as Claude Code and Qwen Code name them.
const CLAUDE_RULES: &[RuleEdit] = &[
    RuleEdit::AddToList {
        path: &["permissions", "allow"],
        values: &["mcp__mcpproxy__retrieve_tools", "mcp__mcpproxy__call_tool_read"],
    },
    RuleEdit::AddToList {
        path: &["permissions", "ask"],
        values: &["mcp__mcpproxy__call_tool_write", "mcp__mcpproxy__call_tool_destructive"],
    },
];

const GEMINI_POLICY: &str = "\
# Written by `mcpproxy connect gemini --permissions`. Reads run, everything else asks.

[[rule]]
mcpName = \"mcpproxy\"
toolName = \"retrieve_tools\"
decision = \"allow\"
priority = 200

[[rule]]
mcpName = \"mcpproxy\"
toolName = \"call_tool_read\"
decision = \"allow\"
priority = 200

[[rule]]
mcpName = \"mcpproxy\"
toolName = \"call_tool_write\"
decision = \"ask_user\"
priority = 200

[[rule]]
mcpName = \"mcpproxy\"
toolName = \"call_tool_destructive\"
decision = \"ask_user\"
priority = 200
";

/// All clients, in the order of the help text.
pub(crate) static CLIENTS: &[Client] = &[
    Client {
        id: "claude-code",
        title: "Claude Code",
        programs: &["claude"],
        folders: moved("CLAUDE_CONFIG_DIR", "", &["~/.claude"]),
        config: ConfigFile {
            places: moved("CLAUDE_CONFIG_DIR", ".claude.json", &["~/.claude.json"]),
            format: Json,
            servers: &["mcpServers"],
        },
        http: Some(Object(&[
            ("type", Text("http")),
            ("url", Url),
            ("headers", AUTHORIZATION),
            // Otherwise, the model must search for our search tool first.
            ("alwaysLoad", Bool(true)),
        ])),
        stdio: Object(&[("type", Text("stdio")), ("command", Program), ("args", Arguments)]),
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: moved("CLAUDE_CONFIG_DIR", "settings.json", &["~/.claude/settings.json"]),
                content: RuleContent::Edits { format: Json, edits: CLAUDE_RULES },
            }],
            note: Some("`claude -p` never runs `call_tool_destructive`, because nobody can be asked."),
        },
        restart: "Start a new session: run `claude`.",
        check: "Run `claude mcp list`, or type /mcp in a session.",
    },
    Client {
        id: "claude-desktop",
        title: "Claude Desktop",
        programs: &["claude-desktop"],
        folders: Places {
            moved_by: None,
            linux: &["$CONFIG/claude", "$CONFIG/Claude"],
            macos: &["~/Library/Application Support/Claude"],
            windows: &["%APPDATA%/Claude"],
        },
        config: ConfigFile {
            places: Places {
                moved_by: None,
                linux: &["$CONFIG/claude/claude_desktop_config.json", "$CONFIG/Claude/claude_desktop_config.json"],
                macos: &["~/Library/Application Support/Claude/claude_desktop_config.json"],
                windows: &["%APPDATA%/Claude/claude_desktop_config.json"],
            },
            format: Json,
            servers: &["mcpServers"],
        },
        http: None,
        stdio: COMMAND,
        permissions: Permissions::Manual(
            "Claude Desktop has no file for rules. It asks before each call. Choose \"Always allow\" for \
             `retrieve_tools` and `call_tool_read` only.",
        ),
        restart: "Quit Claude Desktop completely, and open it again.",
        check: "Open Settings → Developer. `mcpproxy` must be \"running\".",
    },
    Client {
        id: "cursor",
        title: "Cursor",
        programs: &["cursor", "cursor-agent"],
        folders: everywhere(&["~/.cursor"]),
        config: ConfigFile { places: everywhere(&["~/.cursor/mcp.json"]), format: Json, servers: &["mcpServers"] },
        http: Some(Object(&[("url", Url), ("headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: everywhere(&["~/.cursor/permissions.json"]),
                content: RuleContent::Edits {
                    format: Json,
                    edits: &[RuleEdit::AddToList {
                        path: &["mcpAllowlist"],
                        values: &["mcpproxy:retrieve_tools", "mcpproxy:call_tool_read"],
                    }],
                },
            }],
            note: Some(
                "`mcpAllowlist` replaces the list of allowed MCP tools in Cursor Settings. The mode \"Run Everything\" \
                 ignores both.",
            ),
        },
        restart: "Restart Cursor.",
        check: "Open Cursor Settings → MCP. `mcpproxy` must list four tools.",
    },
    Client {
        id: "vscode",
        title: "VS Code",
        programs: &["code"],
        folders: Places {
            moved_by: Some(("VSCODE_PORTABLE", "user-data")),
            linux: &["$CONFIG/Code"],
            macos: &["~/Library/Application Support/Code"],
            windows: &["%APPDATA%/Code"],
        },
        config: ConfigFile {
            places: Places {
                moved_by: Some(("VSCODE_PORTABLE", "user-data/User/mcp.json")),
                linux: &["$CONFIG/Code/User/mcp.json"],
                macos: &["~/Library/Application Support/Code/User/mcp.json"],
                windows: &["%APPDATA%/Code/User/mcp.json"],
            },
            format: Json,
            servers: &["servers"],
        },
        http: Some(Object(&[("type", Text("http")), ("url", Url), ("headers", AUTHORIZATION)])),
        stdio: Object(&[("type", Text("stdio")), ("command", Program), ("args", Arguments)]),
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: Places {
                    moved_by: Some(("VSCODE_PORTABLE", "user-data/User/settings.json")),
                    linux: &["$CONFIG/Code/User/settings.json"],
                    macos: &["~/Library/Application Support/Code/User/settings.json"],
                    windows: &["%APPDATA%/Code/User/settings.json"],
                },
                content: RuleContent::Edits {
                    format: Json,
                    edits: &[RuleEdit::Set {
                        path: &["chat.tools.eligibleForAutoApproval", "mcpproxy/call_tool_destructive"],
                        value: Bool(false),
                    }],
                },
            }],
            note: Some(
                "VS Code runs `retrieve_tools` and `call_tool_read` without asking, because they are marked read-only. \
                 It asks before `call_tool_write` unless you choose \"Always Allow\".",
            ),
        },
        restart: "Run \"Developer: Reload Window\" in the command palette.",
        check: "Run \"MCP: List Servers\" in the command palette, and start `mcpproxy` if it is not \"Running\".",
    },
    Client {
        id: "codex",
        title: "Codex",
        programs: &["codex"],
        folders: moved("CODEX_HOME", "", &["~/.codex"]),
        config: ConfigFile {
            places: moved("CODEX_HOME", "config.toml", &["~/.codex/config.toml"]),
            format: Toml,
            servers: &["mcp_servers"],
        },
        http: Some(Object(&[("url", Url), ("http_headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: moved("CODEX_HOME", "config.toml", &["~/.codex/config.toml"]),
                content: RuleContent::Edits {
                    format: Toml,
                    edits: &[
                        RuleEdit::Set {
                            path: &["mcp_servers", ENTRY, "default_tools_approval_mode"],
                            value: Text("prompt"),
                        },
                        RuleEdit::Set {
                            path: &["mcp_servers", ENTRY, "tools", "retrieve_tools"],
                            value: Object(&[("approval_mode", Text("approve"))]),
                        },
                        RuleEdit::Set {
                            path: &["mcp_servers", ENTRY, "tools", "call_tool_read"],
                            value: Object(&[("approval_mode", Text("approve"))]),
                        },
                    ],
                },
            }],
            note: None,
        },
        restart: "Start a new session: run `codex`.",
        check: "Run `codex mcp list`, or type /mcp in a session.",
    },
    Client {
        id: "gemini",
        title: "Gemini CLI",
        programs: &["gemini"],
        folders: moved("GEMINI_CLI_HOME", ".gemini", &["~/.gemini"]),
        config: ConfigFile {
            places: moved("GEMINI_CLI_HOME", ".gemini/settings.json", &["~/.gemini/settings.json"]),
            format: Json,
            servers: &["mcpServers"],
        },
        http: Some(Object(&[("httpUrl", Url), ("headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: moved(
                    "GEMINI_CLI_HOME",
                    ".gemini/policies/mcpproxy.toml",
                    &["~/.gemini/policies/mcpproxy.toml"],
                ),
                content: RuleContent::Whole { format: Toml, text: GEMINI_POLICY },
            }],
            note: None,
        },
        restart: "Start a new session: run `gemini`.",
        check: "Run `gemini mcp list`, or type /mcp in a session.",
    },
    Client {
        id: "opencode",
        title: "opencode",
        programs: &["opencode"],
        folders: Places {
            moved_by: None,
            linux: &["$CONFIG/opencode"],
            macos: &["$CONFIG/opencode"],
            windows: &["~/.config/opencode", "%LOCALAPPDATA%/opencode"],
        },
        config: ConfigFile { places: OPENCODE_FILE, format: Json, servers: &["mcp"] },
        http: Some(Object(&[
            ("type", Text("remote")),
            ("url", Url),
            ("headers", AUTHORIZATION),
            // The token is in the header. Without this, opencode tries OAuth first.
            ("oauth", Bool(false)),
        ])),
        stdio: Object(&[("type", Text("local")), ("command", CommandLine)]),
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: OPENCODE_FILE,
                content: RuleContent::Edits {
                    format: Json,
                    // The last matching rule wins, so the wildcard comes first.
                    edits: &[
                        RuleEdit::Set { path: &["permission", "mcpproxy_*"], value: Text("ask") },
                        RuleEdit::Set { path: &["permission", "mcpproxy_retrieve_tools"], value: Text("allow") },
                        RuleEdit::Set { path: &["permission", "mcpproxy_call_tool_read"], value: Text("allow") },
                    ],
                },
            }],
            note: None,
        },
        restart: "Start a new session: run `opencode`.",
        check: "Run `opencode mcp list`.",
    },
    Client {
        id: "qwen",
        title: "Qwen Code",
        programs: &["qwen"],
        folders: moved("QWEN_HOME", "", &["~/.qwen"]),
        config: ConfigFile { places: QWEN_FILE, format: Json, servers: &["mcpServers"] },
        http: Some(Object(&[("httpUrl", Url), ("headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Rules {
            files: &[RuleFile { places: QWEN_FILE, content: RuleContent::Edits { format: Json, edits: CLAUDE_RULES } }],
            note: None,
        },
        restart: "Start a new session: run `qwen`.",
        check: "Run `qwen mcp list`, or type /mcp in a session.",
    },
    Client {
        id: "windsurf",
        title: "Windsurf",
        programs: &["windsurf"],
        folders: everywhere(&["~/.codeium/windsurf"]),
        config: ConfigFile {
            places: everywhere(&["~/.codeium/windsurf/mcp_config.json"]),
            format: Json,
            servers: &["mcpServers"],
        },
        http: Some(Object(&[("serverUrl", Url), ("headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Manual(
            "Windsurf has no file for rules. Set the tools of `mcpproxy` in Windsurf Settings → Cascade → MCP Servers.",
        ),
        restart: "Press the refresh button in Windsurf Settings → Cascade → MCP Servers.",
        check: "Open Windsurf Settings → Cascade → MCP Servers. `mcpproxy` must list four tools.",
    },
    Client {
        id: "zed",
        title: "Zed",
        programs: &["zed", "zeditor"],
        folders: Places {
            moved_by: None,
            linux: &["$CONFIG/zed"],
            macos: &["~/.config/zed"],
            windows: &["%APPDATA%/Zed"],
        },
        config: ConfigFile { places: ZED_FILE, format: Json, servers: &["context_servers"] },
        http: Some(Object(&[("url", Url), ("headers", AUTHORIZATION)])),
        stdio: COMMAND,
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: ZED_FILE,
                content: RuleContent::Edits {
                    format: Json,
                    edits: &[
                        zed_rule(&["agent", "tool_permissions", "tools", "mcp:mcpproxy:retrieve_tools"], ZED_ALLOW),
                        zed_rule(&["agent", "tool_permissions", "tools", "mcp:mcpproxy:call_tool_read"], ZED_ALLOW),
                        zed_rule(&["agent", "tool_permissions", "tools", "mcp:mcpproxy:call_tool_write"], ZED_CONFIRM),
                        zed_rule(
                            &["agent", "tool_permissions", "tools", "mcp:mcpproxy:call_tool_destructive"],
                            ZED_CONFIRM,
                        ),
                    ],
                },
            }],
            note: Some("Zed reads these rules from version 0.224 on."),
        },
        restart: "Nothing to do: Zed reads its settings when they change.",
        check: "Open the agent panel's settings. `mcpproxy` must have a green dot.",
    },
    Client {
        id: "goose",
        title: "goose",
        programs: &["goose"],
        folders: goose("config", &["$CONFIG/goose"], &["~/.config/goose"], &["%APPDATA%/Block/goose/config"]),
        config: ConfigFile {
            places: goose(
                "config/config.yaml",
                &["$CONFIG/goose/config.yaml"],
                &["~/.config/goose/config.yaml"],
                &["%APPDATA%/Block/goose/config/config.yaml"],
            ),
            format: Yaml,
            servers: &["extensions"],
        },
        http: Some(Object(&[
            ("enabled", Bool(true)),
            ("type", Text("streamable_http")),
            ("name", Text(ENTRY)),
            ("description", Text("MCP gateway")),
            ("uri", Url),
            ("envs", Object(&[])),
            ("env_keys", List(&[])),
            ("headers", AUTHORIZATION),
            ("timeout", Number(300)),
        ])),
        stdio: Object(&[
            ("enabled", Bool(true)),
            ("type", Text("stdio")),
            ("name", Text(ENTRY)),
            ("description", Text("MCP gateway")),
            ("cmd", Program),
            ("args", Arguments),
            ("envs", Object(&[])),
            ("env_keys", List(&[])),
            ("timeout", Number(300)),
        ]),
        permissions: Permissions::Rules {
            files: &[RuleFile {
                places: goose(
                    "config/permission.yaml",
                    &["$CONFIG/goose/permission.yaml"],
                    &["~/.config/goose/permission.yaml"],
                    &["%APPDATA%/Block/goose/config/permission.yaml"],
                ),
                content: RuleContent::Edits {
                    format: Yaml,
                    edits: &[
                        RuleEdit::AddToList {
                            path: &["user", "always_allow"],
                            values: &["mcpproxy__retrieve_tools", "mcpproxy__call_tool_read"],
                        },
                        RuleEdit::AddToList {
                            path: &["user", "ask_before"],
                            values: &["mcpproxy__call_tool_write", "mcpproxy__call_tool_destructive"],
                        },
                        // goose does not start if one of the three lists is missing.
                        RuleEdit::AddToList { path: &["user", "never_allow"], values: &[] },
                    ],
                },
            }],
            note: Some(
                "goose reads these rules only in the modes `approve` and `smart_approve`. Its default mode `auto` never \
                 asks. To change it, set `GOOSE_MODE: smart_approve` in config.yaml.",
            ),
        },
        restart: "Start a new session: run `goose session`.",
        check: "Run `goose info -v`, or ask goose which tools it has.",
    },
];

const OPENCODE_FILE: Places = Places {
    moved_by: None,
    linux: &["$CONFIG/opencode/opencode.jsonc", "$CONFIG/opencode/opencode.json"],
    macos: &["$CONFIG/opencode/opencode.jsonc", "$CONFIG/opencode/opencode.json"],
    windows: &[
        "~/.config/opencode/opencode.jsonc",
        "%LOCALAPPDATA%/opencode/opencode.json",
        "~/.config/opencode/opencode.json",
    ],
};

const QWEN_FILE: Places = moved("QWEN_HOME", "settings.json", &["~/.qwen/settings.json"]);

const ZED_FILE: Places = Places {
    moved_by: None,
    linux: &["$CONFIG/zed/settings.json"],
    macos: &["~/.config/zed/settings.json"],
    windows: &["%APPDATA%/Zed/settings.json"],
};

const ZED_ALLOW: Shape = Object(&[("default", Text("allow"))]);
const ZED_CONFIRM: Shape = Object(&[("default", Text("confirm"))]);

const fn zed_rule(path: &'static [&'static str], value: Shape) -> RuleEdit {
    RuleEdit::Set { path, value }
}

const fn goose(
    rest: &'static str,
    linux: &'static [&'static str],
    macos: &'static [&'static str],
    windows: &'static [&'static str],
) -> Places {
    Places { moved_by: Some(("GOOSE_PATH_ROOT", rest)), linux, macos, windows }
}
