"""Paths and start commands of the real clients and servers in the tests."""

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
TARGET = Path(os.environ.get("CARGO_TARGET_DIR", ROOT / "target"))
BUILD = TARGET / "debug"
MCPPROXY = str(Path(os.environ.get("MCPPROXY_BIN", BUILD / "mcpproxy")).resolve())
MISBEHAVING = str(BUILD / "misbehaving-server")
CONFORMANCE_SERVER = str(BUILD / "conformance-server")

LEGACY_VERSION = "2025-11-25"
# Capabilities that a relaying gateway declares to its servers. Some servers offer more tools to such a client.
RELAY_CAPABILITIES = {"sampling": {}, "elicitation": {"form": {}, "url": {}}}


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


def fx(ledger: Path, *words: str) -> dict[str, Any]:
    return {"command": PYTHON, "args": [str(HERE / "fx.py"), str(ledger), *words]}


def tapped(server: dict[str, Any], record: Path) -> dict[str, Any]:
    """The same server, with every line that it receives written to `record` as well."""
    return {
        **server,
        "command": PYTHON,
        "args": [str(HERE / "tap.py"), str(record), server["command"], *server["args"]],
    }


def _npm(package: str, *args: str) -> dict[str, Any]:
    folder = MODULES / "@modelcontextprotocol" / package
    (script,) = json.loads((folder / "package.json").read_text())["bin"].values()
    return {"command": NODE, "args": [str(folder / script), *args]}


def ask_directly(
    server: dict[str, Any], *requests: tuple[str, dict[str, Any]], version: str = LEGACY_VERSION
) -> list[Any]:
    """Sends requests over standard input to a server in one revision, and returns the raw results."""
    child = subprocess.Popen(
        [server["command"], *server["args"]],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env={**os.environ, **server.get("env", {})},
    )
    assert child.stdin and child.stdout
    client = {"name": "direct", "version": "1"}
    try:
        if version == LEGACY_VERSION:
            hello = {"protocolVersion": version, "capabilities": RELAY_CAPABILITIES, "clientInfo": client}
            _ask(child, 0, "initialize", hello)
            _send(child, {"jsonrpc": "2.0", "method": "notifications/initialized"})
            return [_ask(child, number, method, params) for number, (method, params) in enumerate(requests, 1)]
        meta = {
            "io.modelcontextprotocol/protocolVersion": version,
            "io.modelcontextprotocol/clientInfo": client,
            "io.modelcontextprotocol/clientCapabilities": RELAY_CAPABILITIES,
        }
        every = enumerate(requests, 1)
        return [_ask(child, number, method, {**params, "_meta": meta}) for number, (method, params) in every]
    finally:
        child.stdin.close()
        child.terminate()
        child.wait(10)


def _ask(child: subprocess.Popen[bytes], number: int, method: str, params: dict[str, Any]) -> Any:
    """Returns the result of one request. Skips notifications."""
    _send(child, {"jsonrpc": "2.0", "id": number, "method": method, "params": params})
    assert child.stdout
    for line in child.stdout:
        message = json.loads(line)
        if message.get("id") == number and "method" not in message:
            return message.get("result", {"error": message.get("error")})
    raise EOFError(f"the server ended before it answered {method}")


def _send(child: subprocess.Popen[bytes], message: dict[str, Any]) -> None:
    assert child.stdin
    child.stdin.write(json.dumps(message).encode() + b"\n")
    child.stdin.flush()
