"""A stdio server with one resource that can be subscribed to.

`touch` announces a change of the resource, if this process got a subscription.
"""

from __future__ import annotations

import json
import sys
from typing import Any

URI = "memo://one"


def tool(name: str) -> dict[str, Any]:
    return {
        "name": name,
        "description": f"Does {name}.",
        "inputSchema": {"type": "object"},
        "annotations": {"readOnlyHint": True},
    }


def main() -> None:
    subscribed: set[str] = set()
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message or "method" not in message:
            continue
        params = message.get("params", {})
        match message["method"]:
            case "initialize":
                capabilities = {"tools": {}, "resources": {"subscribe": True}, "logging": {}}
                server = {"name": "memo", "version": "1"}
                version = params["protocolVersion"]
                answer(message, {"protocolVersion": version, "capabilities": capabilities, "serverInfo": server})
            case "tools/list":
                answer(message, {"tools": [tool("touch")]})
            case "resources/list":
                answer(message, {"resources": [{"uri": URI, "name": "one"}]})
            case "resources/subscribe":
                subscribed.add(params["uri"])
                answer(message, {})
            case "tools/call":
                for uri in subscribed:
                    send({"method": "notifications/resources/updated", "params": {"uri": uri}})
                answer(message, {"content": [{"type": "text", "text": "done"}]})
            case "ping" | "logging/setLevel":
                answer(message, {})
            case _:
                send({"id": message["id"], "error": {"code": -32601, "message": "method not found"}})


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    send({"id": message["id"], "result": result})


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
