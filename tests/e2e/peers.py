"""Where the real clients and servers of the tests are, and how each server is started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
HERE = Path(__file__).resolve().parent
NODE_DIR = HERE / "node"
MODULES = NODE_DIR / "node_modules"
NODE = str(MODULES / "node" / "bin" / "node")
PYTHON = sys.executable
BUILD = ROOT / "target" / "debug"
MCPPROXY = os.environ.get("MCPPROXY_BIN", str(BUILD / "mcpproxy"))
MISBEHAVING = str(BUILD / "misbehaving-server")
CONFORMANCE_SERVER = str(BUILD / "conformance-server")

# What a gateway that relays questions declares to its servers; some servers offer more tools to such a client.
RELAY_CAPABILITIES = {"sampling": {}, "elicitation": {"form": {}, "url": {}}, "roots": {"listChanged": True}}


def everything() -> dict[str, Any]:
    return _npm("server-everything", "stdio")


def filesystem(folder: Path) -> dict[str, Any]:
    return _npm("server-filesystem", str(folder))


def memory(file: Path) -> dict[str, Any]:
    return {**_npm("server-memory"), "env": {"MEMORY_FILE_PATH": str(file)}}


def git(repository: Path) -> dict[str, Any]:
    return {"command": PYTHON, "args": ["-m", "mcp_server_git", "--repository", str(repository)]}


def time() -> dict[str, Any]:
    return {"command": PYTHON, "args": ["-m", "mcp_server_time", "--local-timezone", "Europe/Berlin"]}


def misbehaving(*switches: str, **env: str) -> dict[str, Any]:
    return {"command": MISBEHAVING, "args": list(switches), "env": env}


def tapped(server: dict[str, Any], record: Path) -> dict[str, Any]:
    """The same server, with every line it is sent written to `record` as well."""
    return {**server, "command": PYTHON, "args": [str(HERE / "tap.py"), str(record), server["command"], *server["args"]]}


def _npm(package: str, *args: str) -> dict[str, Any]:
    folder = MODULES / "@modelcontextprotocol" / package
    (script,) = json.loads((folder / "package.json").read_text())["bin"].values()
    return {"command": NODE, "args": [str(folder / script), *args]}


def ask_directly(server: dict[str, Any], *requests: tuple[str, dict[str, Any]]) -> list[Any]:
    """Sends requests over the standard streams of a server, and returns the raw results."""
    child = subprocess.Popen(
        [server["command"], *server["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **server.get("env", {})},
    )
    assert child.stdin and child.stdout
    try:
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": RELAY_CAPABILITIES,
            "clientInfo": {"name": "direct", "version": "1"},
        }
        results = []
        for number, (method, params) in enumerate((("initialize", hello), *requests)):
            _send(child, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
            results.append(_answer(child, number))
            if number == 0:
                _send(child, {"jsonrpc": "2.0", "method": "notifications/initialized"})
        return results[1:]
    finally:
        child.stdin.close()
        child.terminate()
        child.wait(10)


def _send(child: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert child.stdin
    child.stdin.write(json.dumps(message).encode() + b"\n")
    child.stdin.flush()


def _answer(child: subprocess.Popen[bytes], number: int) -> Any:
    """The result with this number; what the server asks or tells in the meantime is answered emptily or skipped."""
    assert child.stdout
    for line in child.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", {"error": message.get("error")})
        if "id" in message and "method" in message:
            _send(child, {"jsonrpc": "2.0", "id": message["id"], "result": {"roots": []}})
    raise EOFError(f"the server ended before it answered request {number}")
