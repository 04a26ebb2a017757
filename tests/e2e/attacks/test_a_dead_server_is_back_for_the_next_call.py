"""After a server died, the next call connects it again at once instead of waiting for the backoff."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import peers
from gateway import Gateway, until
from wire import MODERN, Wire


def call(gateway: Gateway, variant: str, tool: str) -> dict[str, Any]:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    return wire.ask("tools/call", {"name": variant, "arguments": {"name": tool, "args": {}}})


def test_calls_between_crashes_succeed(tmp_path: Path) -> None:
    """By the fifth crash the backoff is longer than this test may take for one call."""
    with Gateway(tmp_path, {"mcpServers": {"fx": peers.misbehaving()}}) as gateway:
        gateway.connected()
        for crash in range(5):
            assert call(gateway, "call_tool_write", "fx:crash")["isError"] is True

            def answered() -> bool:
                answer = call(gateway, "call_tool_read", "fx:echo")
                if answer.get("isError"):
                    # Calls connect a server once a second at most. Such a call was not sent, and says so.
                    assert "The server may have run it" not in str(answer), answer
                    return False
                return True

            until(answered, 5, f"the server is back after crash {crash}")
