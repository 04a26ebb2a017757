"""A stdio server with one tool that reports progress and answers when a file appears.

Usage: progress_server.py FILE
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

WAIT_SECONDS = 60
TOOL = {
    "name": "copy",
    "description": "Copies photos.",
    "inputSchema": {"type": "object"},
    "annotations": {"readOnlyHint": True},
}


def send(message: dict[str, Any]) -> None:
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


def call(message: dict[str, Any], go: Path) -> None:
    token = message["params"].get("_meta", {}).get("progressToken")
    if token is not None:
        params = {"progressToken": token, "progress": 2, "total": 5, "message": "copying photos"}
        send({"method": "notifications/progress", "params": params})
    until = time.monotonic() + WAIT_SECONDS
    while not go.exists():
        if time.monotonic() > until:
            return send({"id": message["id"], "error": {"code": -32603, "message": f"nobody made {go}"}})
        time.sleep(0.05)
    send({"id": message["id"], "result": {"content": [{"type": "text", "text": "all copied"}]}})


def main() -> None:
    for line in sys.stdin:
        message = json.loads(line)
        match message.get("method"):
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "progress", "version": "1"}
                result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
                send({"id": message["id"], "result": result})
            case "tools/list":
                send({"id": message["id"], "result": {"tools": [TOOL]}})
            case "tools/call":
                call(message, Path(sys.argv[1]))
            case "ping":
                send({"id": message["id"], "result": {}})


if __name__ == "__main__":
    main()
