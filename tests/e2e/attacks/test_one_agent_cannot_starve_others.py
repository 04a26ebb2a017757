"""One agent floods the gateway. Every other agent keeps its sessions, its slots and its memory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest

import peers
from gateway import Gateway, until
from wire import ACCEPT, MODERN, Wire

# Of 32 slots, an agent gets this many.
SLOTS_OF_ONE_AGENT = 28


class Flooded:
    """A gateway with two agents: `greedy`, which floods, and `other`, which only wants to work."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "calls.txt"
        servers = {"fx": peers.misbehaving("--hang", MISBEHAVING_LEDGER=str(self.ledger))}
        self.gateway = Gateway(folder / "home", {"mcpServers": servers})

    def token(self, name: str) -> str:
        done = self.gateway.run("token", "create", name, "--grant", "*")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def calls(self) -> int:
        """Counts the calls that reached the server."""
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0

    @contextmanager
    def unread(self, token: str, message: dict[str, Any], **headers: str) -> Iterator[socket.socket]:
        """Sends a request and never reads the answer."""
        host, port = self.gateway.address.rsplit(":", 1)
        body = json.dumps(message).encode()
        lines = {
            "Host": self.gateway.address,
            "Authorization": f"Bearer {token}",
            "Accept": ACCEPT,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **headers,
        }
        head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        with socket.create_connection((host, int(port)), timeout=60) as connection:
            connection.sendall(head.encode() + body)
            yield connection


@pytest.fixture(scope="module")
def flooded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Flooded]:
    one = Flooded(tmp_path_factory.mktemp("flooded"))
    with one.gateway:
        one.gateway.connected()
        yield one


def call(tool: str, **args: object) -> dict[str, Any]:
    return {"name": "call_tool_read", "arguments": {"name": tool, "args": args}}


def test_slow_calls_of_one_agent_leave_slots_for_others(flooded: Flooded) -> None:
    greedy, other = flooded.token("slow"), Wire(flooded.gateway.mcp, flooded.token("quick"), MODERN)
    before = flooded.calls()
    with ExitStack() as stack:
        for number in range(50):
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call("fx:hang")}
            stack.enter_context(flooded.unread(greedy, message))
        until(lambda: flooded.calls() >= before + SLOTS_OF_ONE_AGENT, 30, "the agent has all slots that it can get")
        # The slow calls never end, so this answer would never come if they had all slots.
        for number in range(10):
            result = other.ask("tools/call", call("fx:echo", number=number))
            assert json.loads(result["content"][0]["text"]) == {"number": number}
