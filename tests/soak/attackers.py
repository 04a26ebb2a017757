"""Floods for `fairness.py`: what one agent, stranger or server does to a gateway, each in a process of its own.

`floods.py` has the floods of a soak run. They are slow, because a soak looks for leaks. These are as fast as they can be.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import multiprocessing
import os
import resource
import secrets
import time
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from multiprocessing.connection import Connection as Pipe
from multiprocessing.synchronize import Event
from typing import Any

from floods import GUESSER, KINDS, STRANGER, hello
from pump import Connection, Response, Script, connect, pump, request
from wire import MODERN, Wire, messages

# The load generator leaves the CPU to the gateway, as one on another machine would.
NICENESS = 5
# A flood ends by itself, even if nobody stops it.
FLOOD_MAX_SECONDS = 300
END_SECONDS = 60
LARGE_BYTES = 4_100_000
LARGE_CONNECTIONS = 96
CAPABILITIES_BYTES = 15_000
SESSION_CONNECTIONS = 8
SUBSCRIPTIONS_EACH = 50
URI_BYTES = 2_000
SLOW_CONNECTIONS = 50
UNREAD_CONNECTIONS = 60
SMALL_BUFFER = 4096
HOLD_SECONDS = 3
STRANGERS = 1000
GUESSERS = 32
SMALL_CONNECTIONS = 32
BACKOFF_SECONDS = 0.05


@dataclass(frozen=True)
class Target:
    """The gateway that a flood is for, and the token of the agent that floods it."""

    address: str
    token: str

    def call(self, tool: str, **arguments: object) -> bytes:
        """Builds a read call as a request without a session."""
        params = {
            "name": "call_tool_read",
            "arguments": {"name": tool, "args": arguments},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientInfo": {"name": "flood", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": {},
            },
        }
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}
        named = {"MCP_Protocol_Version": MODERN, "Mcp_Method": "tools/call", "Mcp_Name": "call_tool_read"}
        return self.mcp(body, **named)

    def mcp(self, body: dict[str, Any], **headers: str) -> bytes:
        return request(self.address, "/mcp", body, Authorization=f"Bearer {self.token}", **headers)

    def post(
        self, script: Callable[[], Script], connections: int, goes_on: GoesOn, source: str = "127.0.0.1"
    ) -> Counter[str]:
        return pump([Connection(self.address, source, script) for _ in range(connections)], goes_on)


GoesOn = Callable[[], bool]
Flood = Callable[[Target, GoesOn], Counter[str]]


# -- the floods ---------------------------------------------------------------------------------------------------


def large_arguments(server: str) -> Flood:
    def flood(target: Target, goes_on: GoesOn) -> Counter[str]:
        content = target.call(f"{server}:echo", text="x" * LARGE_BYTES)
        return target.post(lambda: again(content), LARGE_CONNECTIONS, goes_on)

    return flood


def sessions(target: Target, goes_on: GoesOn) -> Counter[str]:
    """Opens sessions that are as large as they may be, and subscribes in each to resources with long URIs."""
    numbers = itertools.count()

    def script() -> Script:
        while True:
            first: Response = yield target.mcp(hello({"experimental": {"x": "x" * CAPABILITIES_BYTES}}))
            session = first.header("mcp-session-id")
            for number in itertools.islice(numbers, SUBSCRIPTIONS_EACH if session else 0):
                uri = f"mcpproxy://shared/memo://{number}{'x' * URI_BYTES}"
                body = {"jsonrpc": "2.0", "id": 1, "method": "resources/subscribe", "params": {"uri": uri}}
                yield target.mcp(body, Mcp_Session_Id=session)

    return target.post(script, SESSION_CONNECTIONS, goes_on)


def slow_calls(target: Target, goes_on: GoesOn) -> Counter[str]:
    content = target.call("shared:slow")
    return target.post(lambda: again(content), SLOW_CONNECTIONS, goes_on)


def unread_answers(server: str) -> Flood:
    def flood(target: Target, goes_on: GoesOn) -> Counter[str]:
        content = target.call(f"{server}:huge")
        return hold(lambda: connect(target.address, receive_buffer=SMALL_BUFFER), content, UNREAD_CONNECTIONS, goes_on)

    return flood


def half_requests(target: Target, goes_on: GoesOn) -> Counter[str]:
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    half = request(target.address, "/api/v1/login", {"name": "ada", "password": "wrong"})[:-20]
    return hold(lambda: connect(target.address, STRANGER), half, STRANGERS, goes_on)


def wrong_passwords(target: Target, goes_on: GoesOn) -> Counter[str]:
    def script() -> Script:
        while True:
            body = {"name": f"name-{secrets.token_hex(8)}", "password": "wrong"}
            yield request(target.address, "/api/v1/login", body)

    return target.post(script, GUESSERS, goes_on, GUESSER)


def small_calls(server: str) -> Flood:
    def flood(target: Target, goes_on: GoesOn) -> Counter[str]:
        content = target.call(f"{server}:echo", number=1)
        return target.post(lambda: again(content), SMALL_CONNECTIONS, goes_on)

    return flood


def by_server(kind: str) -> Flood:
    """Asks a server to flood the gateway, and again as soon as it is back."""

    def flood(target: Target, goes_on: GoesOn) -> Counter[str]:
        wire = Wire(f"http://{target.address}/mcp", target.token, MODERN)
        wire.http.timeout = END_SECONDS
        call = {"name": "call_tool_read", "arguments": {"name": f"{kind}:flood", "args": {"kind": kind}}}
        counted: Counter[str] = Counter()
        while goes_on():
            answer = wire.post(wire.message("tools/call", call))
            (last, *_) = reversed(messages(answer))
            error = last.get("result", {}).get("structuredContent", {}).get("error", {})
            counted[error.get("code", str(answer.status_code))] += 1
            time.sleep(BACKOFF_SECONDS)
        return counted

    return flood


FLOODS: dict[str, Flood] = {
    "large-arguments": large_arguments("shared"),
    "large-elsewhere": large_arguments("elsewhere"),
    "sessions": sessions,
    "slow-calls": slow_calls,
    "unread-answers": unread_answers("shared"),
    "unread-elsewhere": unread_answers("elsewhere"),
    "half-requests": half_requests,
    "wrong-passwords": wrong_passwords,
    **{f"server-{kind}": by_server(kind) for kind in KINDS},
    "small-calls": small_calls("shared"),
    "small-elsewhere": small_calls("elsewhere"),
}


def again(content: bytes) -> Script:
    while True:
        yield content


def hold(opened: Callable[[], Any], content: bytes, connections: int, goes_on: GoesOn) -> Counter[str]:
    """Sends something on many connections and never reads. After a while, closes them and begins again."""
    counted: Counter[str] = Counter()
    while goes_on():
        with contextlib.ExitStack() as stack:
            for _ in itertools.takewhile(lambda _: goes_on(), range(connections)):
                try:
                    stack.enter_context(opened()).sendall(content)
                    counted["sent"] += 1
                except OSError:
                    counted["closed"] += 1
            until_then = time.monotonic() + HOLD_SECONDS
            while goes_on() and time.monotonic() < until_then:
                time.sleep(0.05)
    return counted


# -- the process of a flood ---------------------------------------------------------------------------------------


class Running:
    """What a flood did. Known after its end."""

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()


@contextlib.contextmanager
def flooding(name: str, target: Target) -> Iterator[Running]:
    """Floods the gateway from another process, until the block ends."""
    # A fork would share the memory and locks of this process.
    processes = multiprocessing.get_context("spawn")
    stop, running = processes.Event(), Running()
    ours, theirs = processes.Pipe()
    child = processes.Process(target=play, args=(name, target, stop, theirs), daemon=True)
    child.start()
    theirs.close()
    try:
        if ours.poll(END_SECONDS):
            ours.recv()
        yield running
    finally:
        stop.set()
        with contextlib.suppress(EOFError):
            running.counted = ours.recv() if ours.poll(END_SECONDS) else Counter()
        child.join(END_SECONDS)
        if child.is_alive():
            child.kill()
            child.join()


def play(name: str, target: Target, stop: Event, pipe: Pipe) -> None:
    os.nice(NICENESS)
    end = time.monotonic() + FLOOD_MAX_SECONDS
    pipe.send("ready")
    pipe.send(FLOODS[name](target, lambda: not stop.is_set() and time.monotonic() < end))
