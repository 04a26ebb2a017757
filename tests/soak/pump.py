"""Sends HTTP requests over many connections from one thread, as fast as they are answered.

A Python thread for each connection would spend its time on waiting for other threads. This loop takes some ten
microseconds for a request, so that the gateway is busy and not the load generator.
"""

from __future__ import annotations

import contextlib
import json
import re
import selectors
import socket
from collections import Counter
from collections.abc import Callable, Generator
from dataclasses import dataclass
from typing import Any

from wire import ACCEPT

READ_BYTES = 1024 * 1024
TICK_SECONDS = 0.1
CONNECT_SECONDS = 30
LENGTH = re.compile(rb"\r\ncontent-length: *(\d+)", re.IGNORECASE)
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(frozen=True)
class Response:
    """A complete answer. `text` is as it came, so it may be in chunks."""

    status: int
    head: str
    text: bytes

    def header(self, name: str) -> str:
        found = re.search(rf"^{name}: *(.*)$", self.head, re.IGNORECASE | re.MULTILINE)
        return found[1].strip() if found else ""


# Yields requests, and gets the answer to each.
Script = Generator[bytes, Response, None]


def request(address: str, path: str, body: Any, **headers: str) -> bytes:
    """Builds a POST. An underscore in the name of a header stands for a hyphen."""
    content = json.dumps(body).encode()
    lines = {
        "Host": address,
        "Accept": ACCEPT,
        "Content-Type": "application/json",
        "Content-Length": str(len(content)),
        **{name.replace("_", "-"): value for name, value in headers.items()},
    }
    head = [f"POST {path} HTTP/1.1", *(f"{name}: {value}" for name, value in lines.items()), "", ""]
    return "\r\n".join(head).encode() + content


def response(data: bytearray) -> Response | None:
    """Parses an answer. `None` while a part is missing. There is never a second answer behind it."""
    end = data.find(b"\r\n\r\n")
    if end < 0:
        return None
    head = bytes(data[:end])
    length = LENGTH.search(head)
    is_complete = len(data) >= end + 4 + int(length[1]) if length else data.endswith(LAST_CHUNK)
    return Response(int(head[9:12]), head.decode("latin-1"), bytes(data[end + 4 :])) if is_complete else None


def connect(address: str, source: str = "127.0.0.1", receive_buffer: int = 0) -> socket.socket:
    host, _, port = address.rpartition(":")
    one = socket.socket()
    if receive_buffer:
        one.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_buffer)
    one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    one.settimeout(CONNECT_SECONDS)
    one.bind((source, 0))
    one.connect((host, int(port)))
    return one


class Connection:
    """One connection that plays a script, and begins again with a new connection when it is closed."""

    def __init__(self, address: str, source: str, script: Callable[[], Script]) -> None:
        self.address, self.source, self.begin = address, source, script

    def open(self) -> None:
        self.socket = connect(self.address, self.source)
        self.socket.setblocking(False)
        self.script = self.begin()
        self.send(next(self.script))

    def send(self, content: bytes) -> None:
        self.unsent, self.received = memoryview(content), bytearray()

    def write(self) -> None:
        self.unsent = self.unsent[self.socket.send(self.unsent) :]

    def read(self) -> Response | None:
        got = self.socket.recv(READ_BYTES)
        if not got:
            raise ConnectionResetError
        self.received += got
        return response(self.received)


def pump(connections: list[Connection], goes_on: Callable[[], bool]) -> Counter[str]:
    """Plays all scripts until `goes_on` says no. Counts answers by status, and connections that were closed."""
    counted: Counter[str] = Counter()
    with selectors.DefaultSelector() as selector, contextlib.ExitStack() as stack:

        def begin(one: Connection) -> None:
            one.open()
            selector.register(one.socket, selectors.EVENT_READ | selectors.EVENT_WRITE, one)

        for one in connections:
            begin(one)
            stack.callback(lambda one=one: one.socket.close())
        while goes_on():
            for key, events in selector.select(TICK_SECONDS):
                one = key.data
                try:
                    if events & selectors.EVENT_WRITE and one.unsent:
                        one.write()
                    found = one.read() if events & selectors.EVENT_READ else None
                    if found:
                        counted[str(found.status)] += 1
                        one.send(one.script.send(found))
                        one.write()
                except BlockingIOError:
                    pass
                except OSError:
                    counted["closed"] += 1
                    selector.unregister(one.socket)
                    one.socket.close()
                    begin(one)
                    continue
                wanted = selectors.EVENT_READ | (selectors.EVENT_WRITE if one.unsent else 0)
                if wanted != selector.get_key(one.socket).events:
                    selector.modify(one.socket, wanted, one)
    return counted
