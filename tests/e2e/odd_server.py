"""A stdio server whose texts try to break out of a page: in titles, descriptions, results and errors."""

from __future__ import annotations

import json
import sys
from typing import Any

HOSTILE = '"><b data-hostile>bold</b><script>window.hacked = 1</script>\u202egnp.exe\u2066\u200b\x1b[2J</script>'
ANY = {"type": "object"}
READS = {"readOnlyHint": True}
TOOLS = [
    {"name": "echo", "title": HOSTILE, "description": "Returns the words. " + HOSTILE, "inputSchema": ANY},
    # These are not quarantined, because their texts are harmless. Their results are not.
    {"name": "repeat", "description": "Repeats the words.", "inputSchema": ANY},
    {"name": "huge", "description": "Repeats a word often.", "inputSchema": ANY},
    {"name": "fail", "description": "Repeats the words as an error.", "inputSchema": ANY},
]


def main() -> None:
    print(f"a line of the log {HOSTILE}", file=sys.stderr, flush=True)
    for line in sys.stdin:
        message = json.loads(line)
        if "id" in message and "method" in message:
            reply = {"jsonrpc": "2.0", "id": message["id"], **answer(message["method"], message.get("params") or {})}
            print(json.dumps(reply), flush=True)


def answer(method: str, params: dict[str, Any]) -> dict[str, Any]:
    match method:
        case "initialize":
            server = {"name": "odd", "version": "1", "title": HOSTILE}
            version = params["protocolVersion"]
            result = {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server}
            return {"result": {**result, "instructions": HOSTILE}}
        case "tools/list":
            return {"result": {"tools": [{**tool, "annotations": READS} for tool in TOOLS]}}
        case "tools/call" if params["name"] == "huge":
            return {"result": {"content": [{"type": "text", "text": HOSTILE * 10_000}]}}
        case "tools/call":
            said = json.dumps(params.get("arguments")) + HOSTILE
            return {"result": {"content": [{"type": "text", "text": said}], "isError": params["name"] == "fail"}}
        case "ping":
            return {"result": {}}
        case _:
            return {"error": {"code": -32601, "message": f"no such method {HOSTILE}"}}


if __name__ == "__main__":
    main()
