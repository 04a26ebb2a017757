"""The trace context in `_meta` reaches the server, in both eras and in direct mode."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import peers
from gateway import Gateway
from wire import LEGACY, MODERN, Wire

CONTEXT = {"traceparent": "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "tracestate": "vendor=value"}


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_the_trace_context_reaches_the_server(tmp_path: Path, era: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    with Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(ledger)}}) as gateway:
        four = {"name": "call_tool_read", "arguments": {"name": "fx:echo", "args": {"n": 1}}, "_meta": CONTEXT}
        assert not Wire(gateway.mcp, gateway.token, era).ask("tools/call", four).get("isError")
        direct = {"name": "echo", "arguments": {"n": 2}, "_meta": CONTEXT}
        assert not Wire(gateway.server_url("fx"), gateway.token, era).ask("tools/call", direct).get("isError")
        calls = [json.loads(line) for line in ledger.read_text().splitlines()]
        assert [one["arguments"]["n"] for one in calls] == [1, 2]
        for one in calls:
            assert {key: one["_meta"][key] for key in CONTEXT} == CONTEXT, one
