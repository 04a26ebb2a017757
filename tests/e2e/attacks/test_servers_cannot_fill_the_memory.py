"""A server that floods the gateway is disconnected with the reason. Memory stays bounded, and other servers work on."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
from gateway import Gateway, until
from wire import MODERN, Wire

MEMORY_MAX_MIB = 600
FLOODS = {
    "requests": "more than 100 of its requests were unanswered",
    "messages": "it sent more than 20000 messages at once",
    "lists": "it sent more than 20000 messages at once",
    "bytes": "it sent more than 32 MiB of messages at once",
    "line": "it sent a message of more than 1048576 bytes without an end",
}


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    # The call timeout is longer than a test may take, so no call here ends because of it.
    floods = {**peers.misbehaving("--floods"), "result_limit": "1MiB", "call_timeout": "10m"}
    servers = {
        "well": peers.misbehaving(),
        **{kind: floods for kind in FLOODS},
        "many": {**peers.misbehaving("--more-tools", "60000"), "result_limit": "64MiB"},
        "wordy": {**peers.misbehaving("--more-tools", "100", "--description", "140000"), "result_limit": "64MiB"},
    }
    with Gateway(tmp_path_factory.mktemp("flooded"), {"mcpServers": servers}) as gateway:
        yield gateway.connected()


def peak_mib(gateway: Gateway) -> float:
    """Returns the most memory that the gateway ever had."""
    assert gateway.child is not None
    status = Path(f"/proc/{gateway.child.pid}/status").read_text()
    found = re.search(r"^VmHWM:\s+(\d+) kB$", status, re.MULTILINE)
    assert found, status
    return int(found.group(1)) / 1024


def read(gateway: Gateway, tool: str, **args: object) -> dict[str, Any]:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    wire.http.timeout = 170
    return wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": tool, "args": args}})


@pytest.mark.parametrize("kind", FLOODS)
def test_a_flood_ends_with_the_server(flooded: Gateway, kind: str) -> None:
    first = flooded.servers()[kind]["pid"]
    answer = read(flooded, f"{kind}:flood", kind=kind)
    assert answer.get("isError") is True, str(answer)[:500]
    error = answer["structuredContent"]["error"]
    if kind == "line":
        # The call fails at the size limit. The line goes on, and ends the connection a little later.
        assert error["code"] == "result_too_large", error
    else:
        assert error["code"] == "upstream_unavailable" and FLOODS[kind] in error["message"], error
    assert "content" in read(flooded, "well:echo")

    def reasons() -> list[str]:
        return [one["message"] or "" for one in flooded.records("--type", "server", "--server", kind)]

    until(lambda: any(FLOODS[kind] in reason for reason in reasons()), 30, "the log has the reason")

    def is_back() -> bool:
        server = flooded.servers()[kind]
        return server["state"] == "ready" and server["pid"] != first

    until(is_back, 30, "the server was restarted")
    assert peak_mib(flooded) < MEMORY_MAX_MIB


def test_a_page_of_tools_is_cut(flooded: Gateway) -> None:
    many = flooded.servers()["many"]
    assert many["tools"] == 10_000, many["tools"]
    assert any("cut at 10000 tools" in tool["reason"] for tool in many["hidden_tools"])
    assert peak_mib(flooded) < MEMORY_MAX_MIB


def test_tools_that_are_too_large_are_hidden(flooded: Gateway) -> None:
    wordy = flooded.servers()["wordy"]
    hidden = {tool["name"]: tool["reason"] for tool in wordy["hidden_tools"]}
    assert len(hidden) == 100
    assert all("its description has 140000 bytes" in reason for reason in hidden.values())
