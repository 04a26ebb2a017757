"""Floods beside the load of a soak run: a server, an agent, strangers, wrong passwords, and answers that are kept.

Each flood has limits that hold it back. A flood never ends the run by itself. It reports what it must not reach: a
flood that succeeds, a session of another agent that ends, a user who is locked out, a call that runs twice.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import socket
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import httpx

import peers
from user import PASSWORD, set_up_plainly
from wire import ACCEPT, LEGACY, MODERN, Wire, messages

if TYPE_CHECKING:
    from soak import Soak

KINDS = ["requests", "messages", "lists", "bytes", "line"]
# Strangers come from other addresses than agents, as they do outside of a test. All of 127.0.0.0/8 is loopback.
STRANGER, GUESSER = "127.0.0.2", "127.0.0.3"
HALF_REQUESTS = 200
SESSIONS_AT_ONCE = 25
LARGE_BYTES = 64 * 1024
LARGE_EVERY = 20
# Answers that a flood may get. 503 is the answer while the database is away.
AT_A_LIMIT = {200, 202, 400, 404, 429, 503}
CONTRACTS = """
- tool: fx:pay
  idempotency: { mode: key, ttl: 24h }
"""


class Floods:
    """All floods of one run, each with its own agent."""

    def __init__(self, soak: Soak, folder: Path) -> None:
        self.soak = soak
        self.paid = folder / "fx.jsonl"
        self.count: Counter[str] = Counter()

    def servers(self) -> dict[str, Any]:
        # The call timeout is longer than a flood may take, so no call ends because of it.
        flooding = {**peers.misbehaving("--floods"), "result_limit": "1MiB", "call_timeout": "10m"}
        return {"flooding": flooding, "fx": peers.fx(self.paid)}

    def work(self) -> list[Callable[[], None]]:
        """Creates the agents, and returns the floods. The gateway must be running."""
        gateway = self.soak.gateway
        set_up_plainly(gateway, "ada")
        names = ("flooding-server", "many-sessions", "bystander", "repeats")
        tokens = {name: gateway.run("token", "create", name, "--grant", "*").stdout.strip() for name in names}
        assert all(tokens.values()), tokens
        return [
            lambda: self.flood_by_server(tokens["flooding-server"]),
            lambda: self.open_many_sessions(tokens["many-sessions"], tokens["bystander"]),
            self.leave_half_requests,
            self.guess_passwords,
            lambda: self.repeat_calls(tokens["repeats"]),
        ]

    # -- the floods -----------------------------------------------------------------------------------------------

    def flood_by_server(self, token: str) -> None:
        """Asks a server to flood the gateway. It must be disconnected, and the call must fail."""
        wire = Wire(self.soak.gateway.mcp, token, MODERN)
        wire.http.timeout = 170
        for kind in itertools.cycle(KINDS):
            if not self.soak.sleep(1):
                return
            call = {"name": "call_tool_read", "arguments": {"name": "flooding:flood", "args": {"kind": kind}}}
            answer = wire.post(wire.message("tools/call", call))
            self.counted("floods of a server", answer)
            heard = messages(answer) if answer.status_code == 200 else []
            if any("result" in one and not one["result"].get("isError") for one in heard):
                self.soak.wrong.append(f"a flood of {kind} succeeded: {answer.text[:200]}")

    def open_many_sessions(self, token: str, bystander: str) -> None:
        """Opens sessions without end. The session of another agent must survive."""
        gateway = self.soak.gateway
        other = Wire(gateway.mcp, bystander, LEGACY)
        large = {"experimental": {"x": "x" * 100_000}}
        with httpx.Client(headers=headers(token), timeout=60) as http:
            for turn in itertools.count():
                if not self.soak.goes_on():
                    return
                first = http.post(gateway.mcp, json=hello(large if turn % 10 == 9 else {}))
                self.counted("sessions", first)
                session = first.headers.get("mcp-session-id")
                if session is not None:
                    uri = {"uri": f"mcpproxy://one/memo://{'x' * (turn % 1000)}{turn}"}
                    subscribe = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": uri}
                    self.counted("subscriptions", http.post(gateway.mcp, json=subscribe, headers=named(session)))
                if turn % SESSIONS_AT_ONCE:
                    continue
                alive = other.post(other.message("ping"))
                if alive.status_code == 404:
                    self.soak.wrong.append("an agent lost its session to the flood of another")
                    return
                self.soak.sleep(0.5)

    def leave_half_requests(self) -> None:
        """Opens connections, and sends half a request on each."""
        host, _, port = self.soak.gateway.address.rpartition(":")
        half = f"POST /api/v1/login HTTP/1.1\r\nHost: {self.soak.gateway.address}\r\nContent-Length: 100\r\n\r\n{{"
        while self.soak.goes_on():
            with contextlib.ExitStack() as stack:
                for _ in range(HALF_REQUESTS):
                    one = socket.create_connection((host, int(port)), timeout=30, source_address=(STRANGER, 0))
                    stack.enter_context(one)
                    with contextlib.suppress(OSError):
                        one.sendall(half.encode())
                self.count["half requests"] += HALF_REQUESTS
                self.soak.sleep(2)

    def guess_passwords(self) -> None:
        """Guesses passwords of many names. A user who makes no mistake can sign in all the time."""
        url = f"{self.soak.gateway.base}/api/v1/login"
        guesser = httpx.HTTPTransport(local_address=GUESSER)
        with httpx.Client(transport=guesser, timeout=120) as strange, httpx.Client(timeout=120) as known:
            for turn in itertools.count():
                if not self.soak.sleep(0.2):
                    return
                guess = strange.post(url, json={"name": f"name-{turn % 997}", "password": "wrong"})
                self.count["wrong passwords"] += 1
                if guess.status_code not in (401, 429, 503):
                    self.soak.wrong.append(f"a wrong password got {guess.status_code}: {guess.text[:200]}")
                if turn % 50 == 0:
                    known.cookies.clear()
                    own = known.post(url, json={"name": "ada", "password": PASSWORD})
                    if own.status_code not in (200, 503):
                        self.soak.wrong.append(f"the right password got {own.status_code}: {own.text[:200]}")

    def repeat_calls(self, token: str) -> None:
        """Makes each call twice with one idempotency key. Some answers are too large to be kept."""
        wire = Wire(self.soak.gateway.mcp, token, MODERN)
        wire.http.timeout = 170
        for turn in itertools.count():
            if not self.soak.sleep(0.1):
                return
            args = {"id": turn, "filling": "x" * (LARGE_BYTES if turn % LARGE_EVERY == 0 else 100)}
            parameters = {"name": "fx:pay", "args": args, "idempotency_key": f"key-{turn}"}
            call = {"name": "call_tool_write", "arguments": parameters}
            for _ in range(2):
                self.counted("calls with a key", wire.post(wire.message("tools/call", call)))

    # -- the end --------------------------------------------------------------------------------------------------

    def check(self) -> None:
        """Looks at what all repeated calls did. Call after the run."""
        lines = self.paid.read_text().splitlines() if self.paid.exists() else []
        ran = Counter(json.loads(line)["arguments"]["id"] for line in lines)
        self.soak.wrong += [f"the call with key-{key} ran {times} times" for key, times in ran.items() if times > 1]
        floods = ("floods of a server", "sessions", "half requests", "wrong passwords", "calls with a key")
        self.soak.wrong += [f"nothing was flooded: no {what}" for what in floods if not self.count[what]]
        if not ran:
            self.soak.wrong.append("no call with a key reached the server")

    def report(self) -> str:
        return ", ".join(f"{times} {what}" for what, times in self.count.items())

    def counted(self, what: str, answer: httpx.Response) -> None:
        self.count[what] += 1
        if answer.status_code not in AT_A_LIMIT:
            self.soak.wrong.append(f"{what}: {answer.status_code} {answer.text[:200]}")


def hello(capabilities: dict[str, Any]) -> dict[str, Any]:
    client = {"name": "flood", "version": "1"}
    params = {"protocolVersion": "2025-11-25", "capabilities": capabilities, "clientInfo": client}
    return {"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}


def headers(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}", "Accept": ACCEPT}


def named(session: str) -> dict[str, str]:
    return {"Mcp-Session-Id": session}
