"""The agents under test: where each program is, what its user had before, and what it does with a call.

Each agent is one row of `AGENTS`. The README of `tests/` explains how to add one. In `files` and `env`, `@MODEL@` is the
address of the scripted model and `@WORK@` is the working folder.
"""

from __future__ import annotations

import os
import platform
from dataclasses import dataclass, field
from pathlib import Path

import peers

MODULES = Path(__file__).resolve().parent / "node_modules"
CPU = {"x86_64": "x64", "aarch64": "arm64"}.get(platform.machine(), platform.machine())

ENTER, RIGHT = "\r", "\x1b[C"
# Agents look for updates, plugins and model lists. A proxy that refuses every connection keeps them on this machine.
_PROXY, _LOCAL = "http://127.0.0.1:9", "127.0.0.1,localhost"
OFFLINE = {
    **dict.fromkeys(("HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy"), _PROXY),
    **dict.fromkeys(("NO_PROXY", "no_proxy"), _LOCAL),
}


@dataclass(frozen=True)
class Dialog:
    """What a user sees and presses in a terminal."""

    # Starts a session with the prompt "go".
    options: tuple[str, ...]
    # The permission prompt before a write, and before a destructive call. Enter chooses "yes, once".
    before_write: str
    before_destructive: str
    # Whether the screen shows the link to the approval request while the gateway holds the call.
    shows_link: bool
    # What the user presses after the approval, each with what is on the screen then.
    after_approval: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True)
class Agent:
    """One coding agent from npm."""

    # The name that `mcpproxy connect` uses.
    name: str
    # The package in `package.json`.
    package: str
    # Paths below `node_modules`, first match wins. A `.js` file runs with the pinned Node.js.
    programs: tuple[str, ...]
    # Runs one prompt without a terminal.
    headless: tuple[str, ...]
    # Files in the home folder that the user had before. They point the agent at the scripted model.
    files: dict[str, str]
    dialog: Dialog
    env: dict[str, str] = field(default_factory=dict)
    # Options and files with which the agent asks its user nothing.
    open_options: tuple[str, ...] = ()
    open_files: dict[str, str] = field(default_factory=dict)
    # What the model gets back for a write and for a destructive call without a terminal. `None`: the run ends.
    refuses_write: str | None = None
    refuses_destructive: str | None = None
    # Variants that the agent runs without a terminal if nobody is asked.
    open_variants: tuple[str, ...] = ("write", "destructive")

    def __str__(self) -> str:
        return self.name

    def command(self) -> list[str]:
        """Returns the program. Fails if it is not installed: a missing agent is no reason to skip a test."""
        for program in self.programs:
            path = MODULES / program.replace("@CPU@", CPU)
            if path.exists():
                return [peers.NODE, str(path)] if path.suffix == ".js" else [str(path)]
        raise AssertionError(f"{self.name} is not installed; remove {MODULES} and run scripts/setup")

    def environment(self, home: Path, work: Path, model: str) -> dict[str, str]:
        base = {"HOME": str(home), "PATH": os.environ["PATH"], "LANG": "C.UTF-8", "TERM": "xterm-256color"}
        return {**base, **OFFLINE, **{name: fill(value, work, model) for name, value in self.env.items()}}


def fill(text: str, work: Path, model: str) -> str:
    return text.replace("@MODEL@", model).replace("@WORK@", str(work))


CLAUDE_CODE = Agent(
    name="claude-code",
    package="@anthropic-ai/claude-code",
    programs=("@anthropic-ai/claude-code-linux-@CPU@/claude",),
    headless=("-p", "go", "--output-format", "stream-json", "--verbose"),
    files={
        ".claude.json": """{
  "hasCompletedOnboarding": true,
  "theme": "dark",
  "customApiKeyResponses": {"approved": ["sk-ant-scriptedmodel"], "rejected": []},
  "projects": {"@WORK@": {"hasTrustDialogAccepted": true, "hasCompletedProjectOnboarding": true}}
}
""",
        ".claude/settings.json": '{"permissions": {"deny": ["Bash(curl:*)"]},\n\n  "includeCoAuthoredBy": false}\n',
    },
    dialog=Dialog(
        options=("go",),
        before_write=r"Call Tool Write Tool(?s:.)*❯ 1\. Yes",
        before_destructive=r"Call Tool Destructive Tool(?s:.)*❯ 1\. Yes",
        shows_link=True,
        after_approval=(("❯ Open in browser", RIGHT), ("❯ I'm done, continue", ENTER)),
    ),
    env={
        "ANTHROPIC_BASE_URL": "@MODEL@",
        "ANTHROPIC_API_KEY": "sk-ant-scriptedmodel",
        "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
        "DISABLE_AUTOUPDATER": "1",
    },
    open_files={".claude/settings.json": '{"permissions": {"allow": ["mcp__mcpproxy"]}}\n'},
    refuses_write="haven't granted it yet",
    refuses_destructive="requires permission",
    # `call_tool_destructive` is marked `anthropic/requiresUserInteraction`, so Claude Code never runs it unattended.
    open_variants=("write",),
)

CODEX = Agent(
    name="codex",
    package="@openai/codex",
    programs=(
        "@openai/codex-linux-@CPU@/vendor/x86_64-unknown-linux-musl/bin/codex",
        "@openai/codex-linux-@CPU@/vendor/aarch64-unknown-linux-musl/bin/codex",
    ),
    headless=("exec", "--json", "--skip-git-repo-check", "go"),
    files={
        ".codex/config.toml": """# The model is scripted.
model = "gpt-5"
model_provider = "scripted"
approval_policy = "on-request"   # ask before a command leaves the sandbox
sandbox_mode = "workspace-write"
check_for_update_on_startup = false

[model_providers.scripted]
name = "scripted"
base_url = "@MODEL@/v1"
wire_api = "responses"

[projects."@WORK@"]
trust_level = "trusted"
""",
    },
    dialog=Dialog(
        options=("--no-daemon", "go"),
        before_write=r'run tool "call_tool_write"(?s:.)*› 1\. Allow',
        before_destructive=r'run tool "call_tool_destructive"(?s:.)*› 1\. Allow',
        shows_link=False,
    ),
    refuses_write="requires approval, but approval policy is never",
    refuses_destructive="requires approval, but approval policy is never",
    open_options=("-c", 'mcp_servers.mcpproxy.default_tools_approval_mode="approve"'),
)

GEMINI = Agent(
    name="gemini",
    package="@google/gemini-cli",
    programs=("@google/gemini-cli/bundle/gemini.js",),
    headless=("-m", "gemini-2.5-flash", "-p", "go", "--output-format", "stream-json"),
    files={
        ".gemini/settings.json": """{
  // Comments are allowed here.
  "security": { "auth": { "selectedType": "gemini-api-key" }, "folderTrust": { "enabled": false } },
  "general": { "disableAutoUpdate": true },
  "privacy": { "usageStatisticsEnabled": false },
  "telemetry": { "enabled": false }
}
""",
    },
    dialog=Dialog(
        options=("-m", "gemini-2.5-flash", "-i", "go"),
        before_write=r'MCP tool "call_tool_write"(?s:.)*● 1\. Allow once',
        before_destructive=r'MCP tool "call_tool_destructive"(?s:.)*● 1\. Allow once',
        shows_link=True,
    ),
    env={
        "GEMINI_API_KEY": "scripted",
        "GOOGLE_GEMINI_BASE_URL": "@MODEL@",
        "GEMINI_CLI_TRUST_WORKSPACE": "true",
        "GEMINI_SANDBOX": "false",
    },
    refuses_write="requires user confirmation, which is not supported",
    refuses_destructive="requires user confirmation, which is not supported",
    open_options=("--approval-mode", "yolo"),
)

OPENCODE = Agent(
    name="opencode",
    package="opencode-ai",
    # The baseline build runs on every CPU.
    programs=("opencode-linux-@CPU@-baseline/bin/opencode", "opencode-linux-@CPU@/bin/opencode"),
    headless=("run", "--format", "json", "go"),
    files={
        ".config/opencode/opencode.json": """{
  // The model is scripted.
  "model": "scripted/model",
  "small_model": "scripted/model",
  "autoupdate": false,
  "share": "disabled",
  "provider": {
    "scripted": {
      "npm": "@ai-sdk/openai-compatible",
      "options": { "baseURL": "@MODEL@/v1", "apiKey": "scripted" },
      "models": { "model": { "tool_call": true } },
    },
  },
}
""",
    },
    dialog=Dialog(
        options=("--prompt", "go"),
        before_write=r"Tool: mcpproxy_call_tool_write(?s:.)*Allow once",
        before_destructive=r"Tool: mcpproxy_call_tool_destructive(?s:.)*Allow once",
        shows_link=False,
    ),
    env={
        "OPENCODE_DISABLE_MODELS_FETCH": "1",
        "OPENCODE_DISABLE_AUTOUPDATE": "1",
        "OPENCODE_DISABLE_LSP_DOWNLOAD": "1",
    },
)

QWEN = Agent(
    name="qwen",
    package="@qwen-code/qwen-code",
    programs=("@qwen-code/qwen-code/cli.js",),
    headless=("-p", "go", "--output-format", "stream-json"),
    files={
        ".qwen/settings.json": """{
  "security": {"auth": {"selectedType": "openai"}},
  "model": {"name": "scripted"},
  "privacy": {"usageStatisticsEnabled": false},
  "general": {"disableAutoUpdate": true}
}
""",
    },
    dialog=Dialog(
        options=("-i", "go"),
        before_write=r'MCP tool "call_tool_write"(?s:.)*› 1\. Yes, allow once',
        before_destructive=r'MCP tool "call_tool_destructive"(?s:.)*› 1\. Yes, allow once',
        shows_link=True,
    ),
    env={
        "OPENAI_API_KEY": "scripted",
        "OPENAI_BASE_URL": "@MODEL@/v1",
        "OPENAI_MODEL": "scripted",
        "QWEN_TELEMETRY_ENABLED": "false",
    },
    refuses_write="requires permission .* was declined",
    refuses_destructive="requires permission .* was declined",
    open_options=("--approval-mode", "yolo"),
)

AGENTS = [CLAUDE_CODE, CODEX, GEMINI, OPENCODE, QWEN]
