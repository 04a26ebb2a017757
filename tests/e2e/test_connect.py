"""`connect` against a running gateway: what it says about the tools of real servers."""

from __future__ import annotations

import json
from pathlib import Path

import peers
from gateway import Gateway
from wire import MODERN, Wire

OBJECT = {"type": "object"}
TOOLS = [
    {"name": "run_sql", "inputSchema": OBJECT},
    {"name": "look", "inputSchema": OBJECT, "annotations": {"readOnlyHint": True}},
    {"name": "drop", "inputSchema": OBJECT, "annotations": {"destructiveHint": True}},
]


def settings(tmp_path: Path, unannotated: str) -> dict:
    offered = tmp_path / "tools.json"
    offered.write_text(json.dumps(TOOLS))
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(offered)]}
    return {"mcpServers": {"db": server}, "intent_declaration": {"unannotated": unannotated}}


def said_by_connect(gateway: Gateway) -> str:
    done = gateway.run("connect", "cursor", "--permissions", "--yes")
    assert done.returncode == 0, done.stderr
    return done.stdout


def reads_run_sql(gateway: Gateway) -> bool:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    answer = wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": "db:run_sql", "args": {}}})
    return not answer.get("isError")


def test_permissions_name_the_tools_that_an_agent_can_call_as_reads(tmp_path: Path) -> None:
    (tmp_path / "home" / ".cursor").mkdir(parents=True)
    gateway = Gateway(tmp_path / "home", settings(tmp_path, "trust"))
    with gateway:
        said = said_by_connect(gateway)
        assert "1 tool of server db has no `readOnlyHint`." in said
        assert '"intent_declaration": {"unannotated": "require_write"}' in said
        assert reads_run_sql(gateway), "what the text says is true"


def test_permissions_are_silent_where_such_tools_need_a_write(tmp_path: Path) -> None:
    (tmp_path / "home" / ".cursor").mkdir(parents=True)
    gateway = Gateway(tmp_path / "home", settings(tmp_path, "require_write"))
    with gateway:
        assert "readOnlyHint" not in said_by_connect(gateway)
        assert not reads_run_sql(gateway), "what the text does not say is not true"
