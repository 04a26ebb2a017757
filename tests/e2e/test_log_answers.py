"""Every answer to an agent contains the id of its record."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

import peers
from gateway import Gateway
from log import record, record_in
from wire import LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]
# A call, and the type, status and code of its record. The tools are in `hints_server.py`.
CALLS: dict[str, tuple[str, dict[str, Any], tuple[str, str, str | None]]] = {
    "a success": ("call_tool_read", {"name": "hints:read_only"}, ("call", "success", None)),
    "a write": ("call_tool_write", {"name": "hints:only_writes"}, ("call", "success", None)),
    "a destructive call": ("call_tool_destructive", {"name": "hints:destructive"}, ("call", "success", None)),
    "an error of the server": ("call_tool_read", {"name": "hints:broken"}, ("call", "error", None)),
    "a refusal": ("call_tool_read", {"name": "hints:destructive"}, ("refusal", "refused", "SERVER_MISMATCH")),
    "two keys that differ": (
        "call_tool_read",
        {"name": "hints:read_only", "intent": {"operation_type": "write"}},
        ("refusal", "refused", "INTENT_MISMATCH"),
    ),
    "a tool nobody has": ("call_tool_read", {"name": "hints:nothing"}, ("refusal", "refused", "tool_not_found")),
    "a server that is not there": ("call_tool_read", {"name": "dead:thing"}, ("call", "error", "upstream_unavailable")),
    "a name that is not offered": ("call_tool", {"name": "hints:read_only"}, ("refusal", "refused", "tool_not_found")),
    "an unknown parameter": (
        "call_tool_read",
        {"name": "hints:read_only", "nonsense": 1},
        ("refusal", "refused", "unknown_field"),
    ),
    "no name": ("call_tool_write", {}, ("refusal", "refused", None)),
    "arguments that are no object": (
        "call_tool_destructive",
        {"name": "hints:destructive", "args": "[]"},
        ("refusal", "refused", None),
    ),
}


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("answers")
    hints = {"command": peers.PYTHON, "args": [str(peers.HERE / "hints_server.py"), str(folder / "ledger.jsonl")]}
    servers = {"hints": hints, "dead": {"command": str(folder / "nothing")}}
    with Gateway(folder / "home", {"mcpServers": servers}) as running:
        yield running


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("case", CALLS)
def test_an_answer_names_its_record(gateway: Gateway, case: str, era: str) -> None:
    tool, arguments, (kind, status, code) = CALLS[case]
    result = Wire(gateway.mcp, gateway.token, era).ask("tools/call", {"name": tool, "arguments": arguments})
    name = record_in(result)
    found = record(gateway, name)
    assert (found["id"], found["type"], found["status"]) == (name, kind, status), found
    assert code in (None, found["code"]), found
    shown = gateway.run("activity", "show", name, "-o", "json")
    assert shown.returncode == 0, shown.stderr
    of_command = json.loads(shown.stdout)
    assert {key: of_command[key] for key in ("id", "type", "status", "code")} == {
        key: found[key] for key in ("id", "type", "status", "code")
    }


@pytest.mark.parametrize("era", ERAS)
def test_direct_mode_names_records_as_well(gateway: Gateway, era: str) -> None:
    for url, tool in ((gateway.server_url("hints"), "broken"), (f"{gateway.base}/mcp/direct", "hints__read_only")):
        result = Wire(url, gateway.token, era).ask("tools/call", {"name": tool, "arguments": {"a": 1}})
        found = record(gateway, record_in(result))
        assert (found["server"], found["arguments"]) == ("hints", {"a": 1})
    result = Wire(gateway.server_url("hints"), gateway.token, era).ask("tools/call", {"name": "nothing"})
    assert record(gateway, record_in(result))["status"] == "refused"


def test_a_server_cannot_name_a_record(gateway: Gateway) -> None:
    """A server must not be able to put a record id into its own result."""
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    for tool in ("forges", "forges_escaped", "forges_with_codes"):
        result = wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": f"hints:{tool}"}})
        assert record(gateway, result["_meta"]["mcpproxy/record"])["tool"] == tool


def test_the_command_line_is_told_as_well(gateway: Gateway) -> None:
    done = gateway.run("call", "tool-destructive", "hints:destructive", "--reason", "to be found", "-o", "json")
    assert done.returncode == 0, done.stderr
    name = json.loads(done.stdout)["_meta"]["mcpproxy/record"]
    shown = gateway.run("activity", "show", name)
    assert shown.returncode == 0 and "to be found" in shown.stdout, shown.stdout + shown.stderr


def test_an_unknown_name_finds_nothing(gateway: Gateway) -> None:
    shown = gateway.run("activity", "show", "01" + "Z" * 24)
    assert shown.returncode != 0 and not shown.stdout
