"""A stdio server that offers the tools of a JSON file. Every call returns the tool's name.

Usage: offer_server.py TOOLS
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
    tools = json.loads(open(sys.argv[1]).read())
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "offer", "version": "1"}
                answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
            case "tools/list":
                answer(message, {"tools": tools})
            case "tools/call":
                answer(message, {"content": [{"type": "text", "text": message["params"]["name"]}]})
            case "ping":
                answer(message, {})
            case _:
                send({"id": message["id"], "error": {"code": -32601, "message": "method not found"}})


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": message["id"], "result": result})


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
