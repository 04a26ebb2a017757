"""A stdio server that answers a large call as fast as a small one, for `fairness.py`.

Agents that share a server wait for each other while it works. This server does almost nothing, so what is measured is
the gateway, and not the server. It takes the name of a tool from the start of a line and does not parse large arguments.
"""

from __future__ import annotations

import functools
import json
import re
import sys
import threading

HEAD_BYTES = 1024
LARGE_BYTES = 64 * 1024
# With the usual eight KiB, one large line would take hundreds of reads.
BUFFER_BYTES = 1024 * 1024
ANSWER_BYTES = 1024 * 1024
SLOW_SECONDS = 1
ID = re.compile(rb'"id":(\d+)')
NAME = re.compile(rb'"name":"(\w+)"')
ONE_AT_A_TIME = threading.Lock()
TOOLS = [
    {"name": name, "description": about, "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    for name, about in (
        ("echo", "Returns its arguments, or a text of the same size if they are large."),
        ("huge", "Returns a text of one MiB."),
        ("slow", "Answers after a second."),
    )
]


def main() -> None:
    for line in open(sys.stdin.fileno(), "rb", buffering=BUFFER_BYTES, closefd=False):
        head = line[:HEAD_BYTES]
        if b'"tools/call"' in head:
            call(line, head)
        else:
            answer(json.loads(line))


def call(line: bytes, head: bytes) -> None:
    number, name = ID.search(head), NAME.search(head)
    assert number and name, head
    if name[1] == b"slow":
        timer = threading.Timer(SLOW_SECONDS, send, [number[1], texts(1)])
        timer.daemon = True
        timer.start()
    elif name[1] == b"huge":
        send(number[1], texts(ANSWER_BYTES))
    elif len(line) > LARGE_BYTES:
        send(number[1], texts(len(line)))
    else:
        text = json.dumps(json.loads(line)["params"].get("arguments"))
        send(number[1], json.dumps({"content": [{"type": "text", "text": text}]}).encode())


def answer(message: dict[str, object]) -> None:
    if message.get("method") == "initialize":
        server = {"name": "quick", "version": "1"}
        result = {"protocolVersion": "2025-11-25", "capabilities": {"tools": {}}, "serverInfo": server}
    else:
        result = {"tools": TOOLS} if message.get("method") == "tools/list" else {}
    if "id" in message:
        send(json.dumps(message["id"]).encode(), json.dumps(result).encode())


@functools.lru_cache(8)
def texts(count: int) -> bytes:
    return b'{"content":[{"type":"text","text":"%s"}]}' % (b"x" * count)


def send(number: bytes, result: bytes) -> None:
    with ONE_AT_A_TIME:
        sys.stdout.buffer.write(b'{"jsonrpc":"2.0","id":%s,"result":%s}\n' % (number, result))
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main()
