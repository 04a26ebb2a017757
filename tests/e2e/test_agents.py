"""Agents and their tokens: scope, hidden servers and tools, and the records of their calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from wire import ACCEPT, LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("agents")
    servers = {"fx": peers.fx(folder / "ledger.jsonl"), "other": peers.misbehaving()}
    with Gateway(folder / "home", {"mcpServers": servers}) as one:
        yield one


def create(gateway: Gateway, *args: str) -> str:
    done = gateway.run("token", "create", *args)
    assert done.returncode == 0, done.stderr
    token = done.stdout.strip()
    assert done.stdout == token + "\n" and " " not in token, "the token stands alone on standard output"
    return token


def use(wire: Wire, variant: str, tool: str, **more: object) -> dict:
    return wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": {"name": tool, "args": {}, **more}})


@pytest.mark.parametrize("era", ERAS)
def test_a_token_for_reading_only_reads(gateway: Gateway, era: str) -> None:
    wire = Wire(gateway.mcp, create(gateway, f"reader-{era}", "--operations", "read"), era)
    assert not use(wire, "read", "fx:echo").get("isError")
    for variant, tool in (("write", "fx:create_note"), ("destructive", "fx:delete_thing")):
        assert use(wire, variant, tool)["structuredContent"]["error"]["code"] == "permission_denied"
    own = Wire(gateway.server_url("fx"), wire.http.headers["Authorization"].split()[1], era)
    refused = own.ask("tools/call", {"name": "delete_thing", "arguments": {}})
    assert refused["structuredContent"]["error"]["code"] == "permission_denied"


@pytest.mark.parametrize("era", ERAS)
def test_a_token_for_one_server_sees_no_other(gateway: Gateway, era: str) -> None:
    token = create(gateway, f"narrow-{era}", "--servers", "fx")
    wire = Wire(gateway.mcp, token, era)
    assert not use(wire, "read", "fx:echo").get("isError")
    hidden, unknown = use(wire, "read", "other:echo"), use(wire, "read", "absent:echo")
    assert hidden["structuredContent"]["error"]["code"] == "tool_not_found"
    assert hidden["_meta"].pop("mcpproxy/record") != unknown["_meta"].pop("mcpproxy/record")
    assert json.dumps(hidden).replace("other", "absent") == json.dumps(unknown), "a hidden server shows that it exists"
    found = wire.ask(
        "tools/call", {"name": "retrieve_tools", "arguments": {"query": "echo returns its arguments", "limit": 50}}
    )
    assert {tool["server"] for tool in found["structuredContent"]["tools"]} == {"fx"}
    direct = Wire(f"{gateway.base}/mcp/direct", token, era).ask("tools/list")
    assert {tool["name"].split("__")[0] for tool in direct["tools"]} == {"fx"}


def test_a_hidden_server_has_no_address(gateway: Gateway) -> None:
    token = create(gateway, "addressee", "--servers", "fx")
    answers = [_post(gateway, f"/mcp/s/{server}", token) for server in ("other", "absent")]
    assert [answer.status_code for answer in answers] == [404, 404]
    assert answers[0].text.replace("other", "absent") == answers[1].text


def test_a_revoked_token_is_useless_at_once(gateway: Gateway) -> None:
    token = create(gateway, "gone")
    assert not use(Wire(gateway.mcp, token, MODERN), "read", "fx:echo").get("isError")
    assert gateway.run("token", "revoke", "gone").returncode == 0
    until(lambda: _post(gateway, "/mcp", token).status_code == 401, 5, "the token is refused")


def test_every_call_and_refusal_is_recorded(gateway: Gateway) -> None:
    wire = Wire(gateway.mcp, create(gateway, "recorded"), MODERN)
    use(wire, "read", "fx:echo", intent_reason="to look", intent_data_sensitivity="internal")
    use(wire, "read", "fx:delete_thing")
    use(wire, "destructive", "fx:delete_thing", intent_reason="to clean up")

    def records() -> list[dict]:
        done = gateway.run("activity", "list", "--agent", "recorded", "-o", "json")
        assert done.returncode == 0, done.stderr
        found = json.loads(done.stdout)
        return found["activities"] if isinstance(found, dict) else found

    until(lambda: len(records()) == 3, 5, "three records of this agent")
    shown = gateway.run("activity", "show", records()[0]["id"], "-o", "json")
    assert shown.returncode == 0 and "to clean up" in shown.stdout
    destructive = gateway.run("activity", "list", "--agent", "recorded", "--intent-type", "destructive", "-o", "json")
    assert "to clean up" in destructive.stdout and "to look" not in destructive.stdout


MEANT = {"text": "hello", "n": 1}
MISTAKES: dict[str, dict[str, Any]] = {
    "arguments": {"name": "fx:echo", "arguments": MEANT},
    "arguments as text": {"name": "fx:echo", "arguments": json.dumps(MEANT)},
    "args as text": {"name": "fx:echo", "args": json.dumps(MEANT)},
    "args_json as an object": {"name": "fx:echo", "args_json": MEANT},
    "tool": {"tool": "fx:echo", "args": MEANT},
    "tool_name": {"tool_name": "fx:echo", "args": MEANT},
    "twice the same": {"name": "fx:echo", "tool": "fx:echo", "args": MEANT, "arguments": MEANT},
    "no server": {"name": "echo", "args": MEANT},
}


@pytest.mark.parametrize("era", ERAS)
def test_likely_mistakes_of_models_are_understood(gateway: Gateway, era: str) -> None:
    """The server gets the call that was meant, and the record contains it."""
    name = f"mistaken-{era}"
    wire = Wire(gateway.mcp, create(gateway, name, "--servers", "fx"), era)
    for mistake, given in MISTAKES.items():
        result = wire.ask("tools/call", {"name": "call_tool_read", "arguments": given})
        assert not result.get("isError"), (mistake, result)
        assert json.loads(result["content"][0]["text"]) == MEANT, mistake
    until(lambda: len(gateway.records("--agent", name)) == len(MISTAKES), 5, "one record each")
    for record in gateway.records("--agent", name):
        assert (record["server"], record["tool"], record["status"]) == ("fx", "echo", "success")


@pytest.mark.parametrize("era", ERAS)
def test_other_mistakes_are_answered_with_what_to_send(gateway: Gateway, era: str) -> None:
    wire = Wire(gateway.mcp, create(gateway, f"corrected-{era}", "--servers", "fx"), era)

    def says(**given: Any) -> str:
        answer = wire.ask("tools/call", {"name": "call_tool_read", "arguments": given})
        return json.dumps(answer, ensure_ascii=False).replace('\\"', '"')

    assert '{"name":"fx:echo","args":{"text":…,"n":…}}' in says(name="fx:echo", **MEANT)
    assert "name and tool have different values" in says(name="fx:echo", tool="fx:create_note")
    assert "args and arguments have different values" in says(name="fx:echo", args={"n": 1}, arguments={"n": 2})
    # An understood name changes nothing about the checks.
    assert "Intent mismatch: tool is call_tool_read" in says(tool="echo", intent={"operation_type": "write"})
    assert "SERVER_MISMATCH" in says(name="delete_thing")


def test_a_bare_name_never_finds_a_hidden_tool(gateway: Gateway, tmp_path: Path) -> None:
    settings = {"mcpServers": {name: peers.fx(tmp_path / f"{name}.jsonl") for name in ("fx", "twin")}}
    with Gateway(tmp_path / "home", settings) as both:
        bare = {"name": "call_tool_read", "arguments": {"name": "echo", "args": MEANT}}
        refused = Wire(both.mcp, both.token, MODERN).ask("tools/call", bare)["structuredContent"]["error"]
        assert refused["code"] == "invalid_tool_name" and "'fx:echo' or 'twin:echo'" in refused["message"]
        narrow = Wire(both.mcp, create(both, "narrow", "--servers", "twin"), MODERN)
        assert json.loads(narrow.ask("tools/call", bare)["content"][0]["text"]) == MEANT
    assert not (tmp_path / "fx.jsonl").read_text(), "nothing reached the server that the agent cannot see"


NEEDS_USER = "anthropic/requiresUserInteraction"


def test_unattended_agents_have_no_tool_that_needs_a_user(gateway: Gateway) -> None:
    for name, flags, marked in (("attended", [], {"call_tool_destructive"}), ("unattended", ["--headless"], set())):
        token = create(gateway, name, *flags)
        tools = Wire(gateway.mcp, token, MODERN).ask("tools/list")["tools"]
        assert {tool["name"] for tool in tools if tool["_meta"].get(NEEDS_USER)} == marked
        assert all(tool["_meta"]["anthropic/alwaysLoad"] is True for tool in tools)
        direct = Wire(f"{gateway.base}/mcp/direct", token, MODERN).ask("tools/list")["tools"]
        own = Wire(gateway.server_url("fx"), token, MODERN).ask("tools/list")["tools"]
        for tool in (*direct, *own):
            is_destructive = tool.get("annotations", {}).get("destructiveHint") is True
            assert tool.get("_meta", {}).get(NEEDS_USER, False) == (is_destructive and not flags), tool


def test_the_four_tools_are_short(gateway: Gateway) -> None:
    """Clients send the list with every conversation, and the usage with every search."""
    for era in ERAS:
        wire = Wire(gateway.mcp, create(gateway, f"counts-{era}"), era)
        listed = wire.ask("tools/list")
        assert len(json.dumps(listed, separators=(",", ":"), ensure_ascii=False).encode()) <= 3584
        assert "additionalProperties" not in json.dumps(listed)
        found = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": "echo"}})
        assert len(found["structuredContent"]["usage_instructions"].encode()) <= 200


def test_two_keys_if_the_settings_require_them(gateway: Gateway, tmp_path_factory: pytest.TempPathFactory) -> None:
    home = tmp_path_factory.mktemp("two-key")
    fx = peers.fx(home / "ledger.jsonl")
    with Gateway(home, {"mcpServers": {"fx": fx}, "intent_declaration": {"two_key": "required"}}) as strict:
        wire = Wire(strict.mcp, strict.token, MODERN)
        assert use(wire, "read", "fx:echo")["structuredContent"]["error"]["code"] == "MISSING_INTENT"
        empty = use(wire, "read", "fx:echo", intent={})["structuredContent"]["error"]
        assert (empty["code"], empty["message"]) == ("MISSING_OPERATION_TYPE", "intent.operation_type is required")
        assert not use(wire, "read", "fx:echo", intent={"operation_type": "read"}).get("isError")


def _post(gateway: Gateway, path: str, token: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {token}", "Accept": ACCEPT, "Content-Type": "application/json"}
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    return httpx.post(gateway.base + path, json=body, headers=headers, timeout=60)
