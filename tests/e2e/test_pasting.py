"""Blocks of other clients, pasted into the settings as they are, and servers that `import` takes over."""

from __future__ import annotations

import json
from pathlib import Path

import peers
from gateway import MARK, Gateway, until
from user import Session, set_up_plainly
from wire import MODERN, Wire

SECONDS = 10


def call(wire: Wire, tool: str) -> dict:
    return wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": tool, "args": {}}})


def vscode(gateway: Gateway) -> str:
    """A file of VS Code with comments, inputs, and names that are no names here."""
    server = json.dumps(peers.MISBEHAVING)
    return f"""{{
  // Written by VS Code.
  "inputs": [
    {{ "type": "promptString", "id": "github-pat", "description": "GitHub token", "password": true }}
  ],
  "servers": {{
    "GitHub": {{
      "type": "http",
      "url": "https://api.githubcopilot.example/mcp/",
      "headers": {{ "Authorization": "Bearer ${{input:github-pat}}" }},
      "gallery": true
    }},
    "My Files": {{
      "type": "stdio",
      "command": {server},
      "env": {{ "{MARK}": "{gateway.mark}", "PORT": 8080, "UNUSED": null }},
      "alwaysAllow": ["echo"],
      "autoApprove": ["echo"]
    }},
    "my-files-3": {{ "type": "local", "command": [{server}], "env": {{ "{MARK}": "{gateway.mark}" }} }},
    "My Files 3": {{ "type": "local", "command": [{server}], "env": {{ "{MARK}": "{gateway.mark}" }} }},
  }}
}}
"""


def test_a_file_of_vscode_is_served(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    gateway.write_settings(vscode(gateway))
    with gateway:
        servers = gateway.servers()
        states = {name: (server["state"], server.get("title")) for name, server in servers.items()}
        assert states == {
            "github": ("misconfigured", "GitHub"),
            "my-files": ("ready", "My Files"),
            "my-files-3": ("misconfigured", None),
            "my-files-3-2": ("misconfigured", "My Files 3"),
        }
        # Servers that would have the same name do not run.
        for name in ("my-files-3", "my-files-3-2"):
            assert "several servers would be called `my-files-3` here" in servers[name]["reason"]
        assert "${input:github-pat}" in servers["github"]["reason"]
        assert servers["github"]["reason"].startswith("line 10, column ")
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        assert not call(wire, "my-files:echo").get("isError")
        assert call(wire, "my-files-3:echo")["isError"] is True
        assert call(wire, "my-files-3-2:echo")["isError"] is True

        status = gateway.admin("/status")["settings"]
        assert status["error"] is None
        warnings = "\n".join(status["warnings"])
        for word in ("`inputs` has no effect", "`gallery` (github)", "`alwaysAllow` (my-files)", "`autoApprove`"):
            assert word in warnings
        assert "contracts and policies decide which calls need an approval" in warnings
        # Each warning is printed once.
        assert gateway.words().count("`alwaysAllow` (my-files)") == 1
        listed = gateway.run("servers", "list").stdout
        assert "Titles:\n  github: GitHub\n  my-files: My Files\n  my-files-3-2: My Files 3\n" in listed

        # A reload with the same warnings does not repeat them, and commands find a server by its name here.
        removed = gateway.run("servers", "remove", "my-files-3-2")
        assert removed.returncode == 0, removed.stderr
        assert '"My Files 3"' not in (tmp_path / "mcp_config.json").read_text()
        until(lambda: "my-files-3-2" not in gateway.servers(), SECONDS, "the server is gone")
        until(lambda: gateway.servers()["my-files-3"]["state"] == "ready", SECONDS, "the name has one server")
        assert gateway.words().count("`alwaysAllow` (my-files)") == 1


def test_keys_that_skip_approvals_change_nothing(tmp_path: Path) -> None:
    """A destructive call is refused as a read, whatever the client's file allowed."""
    settings = {
        "mcpServers": {"demo": {"type": "demo", "autoApprove": ["delete_user"], "alwaysAllow": ["*"], "trust": True}},
        "contracts": {"unclassified": "confirm_destructive"},
    }
    with Gateway(tmp_path, settings) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        answer = wire.ask(
            "tools/call", {"name": "call_tool_read", "arguments": {"name": "demo:delete_user", "args": {}}}
        )
        assert answer["isError"] is True
        assert answer["structuredContent"]["error"]["code"] == "SERVER_MISMATCH"


def test_a_readable_file_with_a_secret_is_served(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    env = {"API_TOKEN": "paste-secret"}
    gateway.write_settings({"mcpServers": {"files": {"command": peers.MISBEHAVING, "env": env}}})
    file = tmp_path / "mcp_config.json"
    file.chmod(0o644)
    with gateway:
        assert gateway.servers()["files"]["state"] == "ready"
        [warning] = gateway.admin("/status")["settings"]["warnings"]
        assert warning.startswith("other users can read the secrets in this file (mcpServers.files.env.API_TOKEN)")
        assert "warning: other users can read" in gateway.words()
        fixed = gateway.run("config", "check", "--fix")
        assert fixed.returncode == 0 and "Set mode 0600" in fixed.stderr, fixed.stderr
        assert file.stat().st_mode & 0o777 == 0o600
        until(lambda: not gateway.admin("/status")["settings"]["warnings"], SECONDS, "the warning is gone")
        file.chmod(0o666)
        until(lambda: "everyone can change it" in gateway.settings_error(), SECONDS, "the file is refused")
        assert gateway.servers()["files"]["state"] == "ready"


def test_import_moves_secrets_and_applies_them(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"demo": {"type": "demo"}}})
    cursor = tmp_path / ".cursor" / "mcp.json"
    cursor.parent.mkdir()
    entry = {"command": peers.MISBEHAVING, "env": {MARK: gateway.mark, "API_TOKEN": "import-secret"}}
    text = json.dumps({"mcpServers": {"Echo Server": entry}, "other": 1}, indent=2) + "\n"
    cursor.write_text(text)
    with gateway:
        done = gateway.run("import", "cursor", "--yes", "--remove-direct")
        assert done.returncode == 0, done.stderr
        assert "echo-server is ready" in done.stderr
        assert "import-secret" not in done.stdout + done.stderr + (tmp_path / "mcp_config.json").read_text()
        assert gateway.servers()["echo-server"]["title"] == "Echo Server"
        # Its tools wait for a review.
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        assert call(wire, "echo-server:echo")["isError"] is True
        waiting = gateway.admin("/servers/echo-server/review")["entries"]
        accept = [{"kind": one["kind"], "name": one["name"], "pin": one["pin"]} for one in waiting]
        set_up_plainly(gateway, "ada")
        ada = Session(gateway, "ada")
        assert ada.post("/servers/echo-server/review", {"accept": accept, "page_key": ada.page_key}).status_code == 200
        until(lambda: not call(wire, "echo-server:echo").get("isError"), SECONDS, "the tools are accepted")
        assert json.loads(cursor.read_text()) == {"mcpServers": {}, "other": 1}
        [backup] = (tmp_path / "backups").iterdir()
        assert backup.read_text() == text
        [command] = [line for line in done.stdout.splitlines() if line.startswith("To restore that file: ")]
        assert command == f"To restore that file: cp {backup} {cursor}"


def test_the_keys_of_the_gateway_stay_here(tmp_path: Path) -> None:
    """No server gets the admin key, whatever path leads to it."""
    (tmp_path / "link").symlink_to("admin.key")
    servers = {
        "plain": {"command": peers.MISBEHAVING, "env": {"KEY": "${file:admin.key}"}},
        "linked": {"url": "http://127.0.0.1:9/mcp", "headers": {"X-Key": "${file:link}"}},
        "token": {"command": peers.MISBEHAVING, "args": ["${file:agent.token}"]},
        "fine": {"command": peers.MISBEHAVING},
    }
    with Gateway(tmp_path, {"mcpServers": {"demo": {"type": "demo"}}}) as gateway:
        # The files exist now.
        gateway.write_settings({"mcpServers": servers})
        until(lambda: "fine" in gateway.servers(), SECONDS, "the new settings")
        found = gateway.servers()
        for name in ("plain", "linked", "token"):
            assert found[name]["state"] == "misconfigured", found[name]
            assert "it holds a secret of the gateway, which no server may get" in found[name]["reason"]
