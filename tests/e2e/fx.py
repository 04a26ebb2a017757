"""A stdio server with one tool for each kind of refusal. It records every call that reaches it.

Usage: fx.py LEDGER [WORD]

Each call is a line in LEDGER, on disk before the server answers. With WORD the tools have other descriptions. `slow_*`
tools answer once a file with the name of LEDGER plus `.go` exists.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
from typing import Any


def tool(name: str, description: str, schema: dict[str, Any] | None = None, **annotations: bool) -> dict[str, Any]:
    hints = {"annotations": annotations} if annotations else {}
    return {"name": name, "description": description, "inputSchema": {"type": "object", **(schema or {})}, **hints}


TOOLS = [
    tool("echo", "Returns its arguments.", readOnlyHint=True),
    tool("create_note", "Creates a note.", readOnlyHint=False, destructiveHint=False),
    tool("delete_thing", "Deletes a thing.", destructiveHint=True),
    tool("both_hints", "Claims everything.", readOnlyHint=True, destructiveHint=True),
    tool("plain", "Claims nothing."),
    tool("needs_q", "Looks for q.", {"properties": {"q": {"type": "string"}}, "required": ["q"]}, readOnlyHint=True),
    tool("read_password", "Returns a password.", readOnlyHint=True),
    tool("bulk_send", "Sends to a segment.", destructiveHint=True),
    tool("seldom", "Does a little each time.", readOnlyHint=True),
    tool("ask_late", "Tells its progress, then asks a question.", readOnlyHint=True),
    tool("update_customer", "Changes a customer.", readOnlyHint=False, destructiveHint=False),
    tool("send_external", "Sends an email to somebody outside.", destructiveHint=True),
    tool("pay", "Pays an amount to somebody.", readOnlyHint=False, destructiveHint=False),
    tool("slow_pay", "Pays in its own time.", readOnlyHint=False, destructiveHint=False),
    tool("slow_update", "Changes a customer in its own time.", readOnlyHint=False, destructiveHint=False),
    tool("note", "Keeps a note under its title.", readOnlyHint=False, destructiveHint=False),
]
ONE_AT_A_TIME = threading.Lock()
# Longer than any test waits for an answer.
TOLD_WITHIN_SECONDS = 120


def main() -> None:
    ledger = open(sys.argv[1], "a")
    for one in TOOLS:
        one["description"] += "".join(f" {word}" for word in sys.argv[2:])
    waiting: dict[str, dict[str, Any]] = {}
    for line in sys.stdin:
        message = json.loads(line)
        if "id" not in message:
            continue
        if "method" not in message:
            answer(
                waiting.pop(message["id"]), {"content": [{"type": "text", "text": json.dumps(message.get("result"))}]}
            )
            continue
        match message["method"]:
            case "initialize":
                version = message["params"]["protocolVersion"]
                server = {"name": "fx", "version": "1"}
                answer(message, {"protocolVersion": version, "capabilities": {"tools": {}}, "serverInfo": server})
            case "tools/list":
                answer(message, {"tools": TOOLS})
            case "tools/call":
                # Keep the raw line, so that tests can compare bytes.
                ledger.write(json.dumps({**message["params"], "line": line}) + "\n")
                ledger.flush()
                os.fsync(ledger.fileno())
                name = message["params"]["name"]
                if name == "ask_late":
                    waiting[ask(message)] = message
                elif name.startswith("slow_"):
                    threading.Thread(target=echo_when_told, args=[message, sys.argv[1] + ".go"], daemon=True).start()
                else:
                    echo(message)
            case "ping":
                answer(message, {})
            case _:
                reply(message, {"error": {"code": -32601, "message": "method not found"}})


def echo(call: dict[str, Any]) -> None:
    """Returns the arguments. The answer to a dry run says that it was one."""
    arguments = call["params"].get("arguments") or {}
    found = {"wouldSend": arguments} if arguments.get("dryRun") is True else arguments
    answer(call, {"content": [{"type": "text", "text": json.dumps(found)}]})


def echo_when_told(call: dict[str, Any], sign: str) -> None:
    """Waits for a file that another process creates. Gives up after a timeout."""
    until = time.monotonic() + TOLD_WITHIN_SECONDS
    while not os.path.exists(sign):
        if time.monotonic() > until:
            return reply(call, {"error": {"code": -32603, "message": f"nobody made {sign}"}})
        time.sleep(0.02)
    echo(call)


def ask(call: dict[str, Any]) -> str:
    """Sends a progress notification and an elicitation request. Returns the id of the request."""
    token = call["params"].get("_meta", {}).get("progressToken")
    if token is not None:
        send({"method": "notifications/progress", "params": {"progressToken": token, "progress": 1}})
    schema = {"type": "object", "properties": {"name": {"type": "string"}}}
    question = f"question-{call['id']}"
    send({"id": question, "method": "elicitation/create", "params": {"message": "Who?", "requestedSchema": schema}})
    return question


def answer(message: dict[str, Any], result: dict[str, Any]) -> None:
    reply(message, {"result": result})


def reply(message: dict[str, Any], body: dict[str, Any]) -> None:
    send({"id": message["id"], **body})


def send(message: dict[str, Any]) -> None:
    with ONE_AT_A_TIME:
        print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)


if __name__ == "__main__":
    main()
