"""A stdio server that reads its tools from a JSON file with every list, and never announces a change.

Every call returns the tool's name.

Usage: offer_server.py TOOLS
"""

from __future__ import annotations

import json
import sys
from typing import Any


def main() -> None:
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
                answer(message, {"tools": json.loads(open(sys.argv[1]).read())})
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
