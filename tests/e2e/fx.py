"""A stdio server with one tool for each kind of refusal; it writes down every call that reaches it.

Usage: fx.py LEDGER
"""

from __future__ import annotations

import json
import sys
from typing import Any

ANYTHING = {"type": "object"}
TOOLS: list[dict[str, Any]] = [
    {"name": "echo", "description": "Returns its arguments.", "inputSchema": ANYTHING, "annotations": {"readOnlyHint": True}},
    {"name": "create_note", "description": "Creates a note.", "inputSchema": ANYTHING, "annotations": {"readOnlyHint": False, "destructiveHint": False}},
    {"name": "delete_thing", "description": "Deletes a thing.", "inputSchema": ANYTHING, "annotations": {"destructiveHint": True}},
    {"name": "both_hints", "description": "Claims everything.", "inputSchema": ANYTHING, "annotations": {"readOnlyHint": True, "destructiveHint": True}},
    {"name": "plain", "description": "Claims nothing.", "inputSchema": ANYTHING},
]  # fmt: skip


def main() -> None:
    ledger = open(sys.argv[1], "a", buffering=1)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": {"name": "fx", "version": "1"}})
            case "tools/list":
                answer(message, {"tools": TOOLS})
            case "tools/call":
                ledger.write(json.dumps(message["params"]) + "\n")
                text = json.dumps(message["params"].get("arguments"))
                answer(message, {"content": [{"type": "text", "text": text}]})
            case "ping":
                answer(message, {})
            case _:
                reply(message, {"error": {"code": -32601, "message": "method not found"}})


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    reply(message, {"result": result})


def reply(message: dict[str, Any], body: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", "id": message["id"], **body}), flush=True)


if __name__ == "__main__":
    main()
