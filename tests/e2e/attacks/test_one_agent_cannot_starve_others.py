"""One agent floods the gateway. Every other agent keeps its sessions, its slots and its memory."""

from __future__ import annotations

import json
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from wire import ACCEPT, LEGACY, MODERN, Wire

# Of 32 slots, an agent gets this many.
SLOTS_OF_ONE_AGENT = 28
# More than the buffers of a connection hold whose client reads nothing and has a small one.
ANSWER_BYTES = 1024 * 1024
SMALL_BUFFER = 4096
PING = {"jsonrpc": "2.0", "id": 1, "method": "ping"}


class Flooded:
    """A gateway with two agents: `greedy`, which floods, and `other`, which only wants to work."""

    def __init__(self, folder: Path) -> None:
        self.ledger = folder / "calls.txt"
        servers = {
            "fx": peers.misbehaving("--huge", str(ANSWER_BYTES)),
            # Calls of a closed connection go on, so these keep their slots after their test.
            "slow": peers.misbehaving("--hang", MISBEHAVING_LEDGER=str(self.ledger)),
        }
        self.gateway = Gateway(folder / "home", {"mcpServers": servers})

    def token(self, name: str) -> str:
        done = self.gateway.run("token", "create", name, "--grant", "*")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()

    def calls(self) -> int:
        """Counts the calls that reached the slow server."""
        return len(self.ledger.read_text().splitlines()) if self.ledger.exists() else 0

    def peak_mib(self) -> int:
        """Returns the most memory that the gateway ever used."""
        assert self.gateway.child is not None
        status = Path(f"/proc/{self.gateway.child.pid}/status").read_text()
        (line,) = (line for line in status.splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) // 1024

    @contextmanager
    def unread(self, token: str, message: dict[str, Any], **more: str) -> Iterator[socket.socket]:
        """Sends a request and never reads the answer."""
        host, port = self.gateway.address.rsplit(":", 1)
        body = json.dumps(message).encode()
        lines = {
            "Host": self.gateway.address,
            "Authorization": f"Bearer {token}",
            "Accept": ACCEPT,
            "Content-Type": "application/json",
            "Content-Length": str(len(body)),
            **more,
        }
        head = "POST /mcp HTTP/1.1\r\n" + "".join(f"{name}: {value}\r\n" for name, value in lines.items()) + "\r\n"
        with socket.socket() as connection:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, SMALL_BUFFER)
            connection.settimeout(60)
            connection.connect((host, int(port)))
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
            message = {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": call("slow:hang")}
            stack.enter_context(flooded.unread(greedy, message))
        until(lambda: flooded.calls() >= before + SLOTS_OF_ONE_AGENT, 30, "the agent has all slots that it can get")
        # The slow calls never end, so this answer would never come if they had all slots.
        for number in range(10):
            result = other.ask("tools/call", call("slow:echo", number=number))
            assert json.loads(result["content"][0]["text"]) == {"number": number}


def test_sessions_of_others_survive_a_flood_of_sessions(flooded: Flooded) -> None:
    stranger = Wire(flooded.gateway.mcp, flooded.token("stranger"), LEGACY)
    greedy = flooded.token("many-sessions")
    with httpx.Client(headers=headers(greedy), timeout=60) as http:
        first = http.post(flooded.gateway.mcp, json=hello({})).headers["mcp-session-id"]
        for _ in range(300):
            assert http.post(flooded.gateway.mcp, json=hello({})).status_code == 200
        # Only the newest stay in memory. The sealed id of an older one brings it back, in place of another one.
        again = http.post(flooded.gateway.mcp, json=PING, headers={"Mcp-Session-Id": first})
        assert again.status_code == 200, again.text
        clients = flooded.gateway.admin("/clients")["clients"]
        assert 0 < sum(client["agent"] == "many-sessions" for client in clients) < 300
    assert stranger.ask("ping") == {}


def test_capabilities_cannot_fill_the_memory(flooded: Flooded) -> None:
    large = {"experimental": {"x": "x" * 3_000_000}}
    answer = httpx.post(flooded.gateway.mcp, json=hello(large), headers=headers(flooded.token("large")), timeout=60)
    assert answer.status_code == 400 and "the limit is 16384" in answer.text


def test_subscriptions_cannot_fill_the_memory(flooded: Flooded) -> None:
    wire = Wire(flooded.gateway.mcp, flooded.token("subscriber"), LEGACY)
    uri = f"mcpproxy://fx/memo://{'x' * 3_000_000}"
    answer = wire.post(wire.message("resources/subscribe", {"uri": uri}))
    assert (answer.status_code, answer.headers["retry-after"]) == (429, "1")
    assert answer.json()["error"]["data"]["code"] == "agent_limit"
    answers = [
        wire.post(wire.message("resources/subscribe", {"uri": f"mcpproxy://fx/memo://{number}"})).status_code
        for number in range(1_001)
    ]
    assert answers == [200] * 1_000 + [429]


def hello(capabilities: dict[str, Any]) -> dict[str, Any]:
    client = {"name": "flood", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Accept": ACCEPT}


def test_large_requests_of_one_agent_do_not_fill_the_memory(flooded: Flooded) -> None:
    token = flooded.token("large-requests")
    other = Wire(flooded.gateway.mcp, flooded.token("small-requests"), MODERN)
    body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("fx:echo", text="x" * 4_100_000)}
    content = json.dumps(body).encode()

    def send(_: int) -> tuple[int, bool]:
        sending = {**headers(token), "Content-Type": "application/json"}
        answer = httpx.post(flooded.gateway.mcp, content=content, headers=sending, timeout=150)
        return answer.status_code, "retry-after" in answer.headers

    with ThreadPoolExecutor(48) as threads:
        answers = threads.map(send, range(96))
        for number in range(20):
            result = other.ask("tools/call", call("fx:echo", number=number))
            assert json.loads(result["content"][0]["text"]) == {"number": number}
        assert set(answers) <= {(200, False), (429, True)}
    assert flooded.peak_mib() < 600


def test_answers_that_nobody_reads_do_not_fill_the_memory(flooded: Flooded) -> None:
    token = flooded.token("unread")
    other = Wire(flooded.gateway.mcp, flooded.token("reader"), MODERN)
    message = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": call("fx:huge")}
    with ExitStack() as stack:
        connections = [stack.enter_context(flooded.unread(token, message)) for _ in range(60)]
        assert connections[0].recv(1, socket.MSG_PEEK), "the first answer is on its way"
        for number in range(20):
            result = other.ask("tools/call", call("fx:echo", number=number))
            text = result["content"][0]["text"]
            assert not result.get("isError") and json.loads(text) == {"number": number}, text
        assert flooded.peak_mib() < 600
