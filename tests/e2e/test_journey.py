"""The first minutes of a new user: no settings, one command, and a first call with every client."""

from __future__ import annotations

import json
import shlex
import subprocess
from pathlib import Path

import pytest

import peers
from clients import ALL_KINDS, Kind, call, play, step
from gateway import Gateway
from test_agents import create
from wire import LEGACY, MODERN, Wire

FOUR = ["retrieve_tools", "call_tool_read", "call_tool_write", "call_tool_destructive"]
LIST_MAX_BYTES = 12_000


def test_banner_can_be_followed(demo: Gateway) -> None:
    """Every command and snippet on the first screen works."""
    screen = (demo.home / "stdout.txt").read_text() + (demo.home / "stderr.txt").read_text()
    lines = [line.strip() for line in screen.splitlines()]
    entries = [json.loads(line)["mcpServers"]["mcpproxy"] for line in lines if line.startswith('{"mcpServers"')]
    assert entries == [
        {"url": demo.mcp, "headers": {"Authorization": f"Bearer {demo.token}"}},
        {"command": peers.MCPPROXY, "args": ["stdio", "--home", str(demo.home)]},
    ]
    # The banner shortens the program name, so the lines start differently.
    words = [shlex.split(line, comments=False) for line in lines if f"{Path(peers.MCPPROXY).name} " in line]
    commands = [command for command in words if Path(command[0]).resolve() == Path(peers.MCPPROXY)]
    assert len(commands) >= 3, screen
    for command in commands:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=demo.environment())
        assert done.returncode == 0 and done.stdout, (command, done)


def test_secrets_on_disk_are_private(demo: Gateway) -> None:
    modes = {name: (demo.home / name).stat().st_mode & 0o777 for name in ("agent.token", "admin.key")}
    assert modes == {"agent.token": 0o600, "admin.key": 0o600}


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_first_call_by_each_client(demo: Gateway, kind: Kind) -> None:
    mail = {"to": ["priya@northwind.example"], "subject": "Hello", "body": f"from {kind}"}
    token = create(demo, f"first-{kind}", "--grant", "*", "--headless")
    heard = play(
        kind,
        demo.mcp,
        token,
        [
            step("tools/list"),
            call("retrieve_tools", {"query": "send an email to a customer"}),
            call("call_tool_read", {"name": "demo:search_contacts", "args_json": '{"query": "northwind"}'}),
            call("call_tool_read", {"name": "demo:emails.send_external", "args": mail}),
            call(
                "call_tool_destructive",
                {"name": "demo:emails.send_external", "args": mail, "intent_reason": "asked to"},
            ),
            call("call_tool_write", {"name": "demo:create_draft", "args": mail, "intent_reason": "asked to"}),
        ],
    )
    listed, found, contacts, refused, unconfirmed, drafted = heard.results

    assert [tool["name"] for tool in listed["tools"]] == FOUR
    # Either of the demo server's two tools for customer mail may come first.
    best = next(tool for tool in found["structuredContent"]["tools"][:2] if tool["name"] == "demo:emails.send_external")
    assert best["call_with"] == "call_tool_destructive"
    assert (best["risk_level"], best["needs"]) == ("critical", ["confirmation", "step_up"])
    assert json.loads(found["content"][0]["text"]) == found["structuredContent"]
    assert "Priya Nair" in str(contacts["structuredContent"]) and not contacts.get("isError")
    sentence = (
        "Tool 'demo:emails.send_external' is marked destructive by server, "
        "use call_tool_destructive instead of call_tool_read"
    )
    assert refused["isError"] is True
    assert refused["content"][0]["text"] == sentence
    assert refused["structuredContent"]["error"]["code"] == "SERVER_MISMATCH"
    assert refused["structuredContent"]["error"]["message"] == sentence
    asked = unconfirmed["structuredContent"]["error"]
    assert asked["code"] == "confirmation_required"
    approval, page = asked["details"]["approval_id"], asked["details"]["approve_url"]
    assert page == f"http://localhost:{demo.address.rpartition(':')[2]}/ui/approvals/{approval}"
    said = unconfirmed["content"][0]["text"]
    assert "No approver account exists yet. Tell the user to open the one-time setup link" in said
    assert said.endswith(
        f"Ask the user to open {page}. "
        f"Then repeat exactly this call with approval_id={approval}. Do not change the arguments."
    )
    assert not drafted.get("isError"), drafted


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_four_tools_say_what_an_ide_decides_by(demo: Gateway, era: str) -> None:
    result = Wire(demo.mcp, demo.token, era).ask("tools/list")
    hints = {tool["name"]: tool["annotations"] for tool in result["tools"]}
    wanted = {
        "retrieve_tools": {"readOnlyHint": True, "openWorldHint": False},
        "call_tool_read": {"readOnlyHint": True, "destructiveHint": False, "openWorldHint": True},
        "call_tool_write": {"readOnlyHint": False, "destructiveHint": False, "openWorldHint": True},
        "call_tool_destructive": {"readOnlyHint": False, "destructiveHint": True, "openWorldHint": True},
    }
    for name, want in wanted.items():
        assert want.items() <= hints[name].items(), name
    by_name = {tool["name"]: tool for tool in result["tools"]}
    assert by_name["call_tool_destructive"]["_meta"]["anthropic/requiresUserInteraction"] is True
    assert len(json.dumps(result, separators=(",", ":"))) < LIST_MAX_BYTES


@pytest.mark.parametrize("path", ["/.well-known/oauth-protected-resource", "/.well-known/oauth-authorization-server"])
def test_no_oauth_is_promised(demo: Gateway, path: str) -> None:
    assert demo.probe(path) == 404


def inspector(demo: Gateway, era: str, *args: str) -> dict:
    """Runs the MCP Inspector's command line against `/mcp`, with the token in a header."""
    script = peers.MODULES / ".bin" / "mcp-inspector"
    done = subprocess.run(
        [
            peers.NODE, script, "--cli", demo.mcp, "--transport", "http", "--protocol-era", era,
            "--header", f"Authorization: Bearer {demo.token}", "--format", "json", *args,
        ],
        capture_output=True,
        text=True,
        timeout=90,
        env={**demo.environment(), "MCP_INSPECTOR_SECRET_STORE": "memory"},
    )  # fmt: skip
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return json.loads(done.stdout)["result"]


@pytest.mark.parametrize("era", ["legacy", "modern"])
def test_inspector_lists_and_calls(demo: Gateway, era: str) -> None:
    listed = inspector(demo, era, "--method", "tools/list")
    assert [tool["name"] for tool in listed["tools"]] == FOUR
    arguments = {"name": "demo:search_contacts", "args": {"query": "northwind"}}
    done = inspector(
        demo, era,
        "--method", "tools/call", "--tool-name", "call_tool_read", "--tool-args-json", json.dumps(arguments),
    )  # fmt: skip
    assert "Priya Nair" in str(done["structuredContent"])
