"""SIGTERM while calls run: every call that was answered has its outcome on disk, over HTTP and stdio."""

from __future__ import annotations

import json
import signal
import subprocess
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import peers
from gateway import Gateway, until
from wire import MODERN, Wire

CALLS = 4
SECONDS = 170


def call(wire: Wire, tool: str) -> dict[str, Any]:
    return wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": tool, "args": {}}})


def slow(ledger: Path) -> dict[str, Any]:
    return peers.misbehaving("--delay", "3000", MISBEHAVING_LEDGER=str(ledger))


def wait_for_calls(ledger: Path, count: int) -> None:
    """Waits until the server has received this many calls."""
    until(lambda: ledger.exists() and len(ledger.read_text().splitlines()) == count, 30, "the server runs the calls")


def outcomes(gateway: Gateway) -> dict[str, str]:
    """Starts the gateway again, and returns the status of every call. A call without an outcome is `interrupted`."""
    with gateway:
        return {one["id"]: one["status"] for one in gateway.records("--type", "call", "--limit", "100")}


def record_of(answer: dict[str, Any]) -> str:
    return answer["_meta"]["mcpproxy/record"]


def test_calls_that_end_within_the_grace_succeed(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": slow(ledger)}, "shutdown_grace": "2m"})
    with ThreadPoolExecutor(CALLS) as pool:
        with gateway:
            wires = [Wire(gateway.mcp, gateway.token, MODERN) for _ in range(CALLS)]
            for wire in wires:
                wire.http.timeout = SECONDS
            running = [pool.submit(call, wire, "fx:slow") for wire in wires]
            wait_for_calls(ledger, CALLS)
        answers = [one.result(SECONDS) for one in running]
    assert all(answer["content"][0]["text"] == "done" for answer in answers), answers
    assert not any("audit_incomplete" in json.dumps(answer) for answer in answers), answers
    found = outcomes(gateway)
    assert [found[record_of(answer)] for answer in answers] == ["success"] * CALLS


def test_calls_that_outlast_the_grace_are_answered_and_recorded(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    hanging = peers.misbehaving("--hang", MISBEHAVING_LEDGER=str(ledger))
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": hanging}, "shutdown_grace": "1s"})
    with ThreadPoolExecutor(1) as pool:
        with gateway:
            wire = Wire(gateway.mcp, gateway.token, MODERN)
            wire.http.timeout = SECONDS
            running = pool.submit(call, wire, "fx:hang")
            wait_for_calls(ledger, 1)
        answer = running.result(SECONDS)
    assert answer["isError"] and "audit_incomplete" not in json.dumps(answer), answer
    assert outcomes(gateway)[record_of(answer)] == "error"


def test_an_agent_on_stdio_gets_its_answer(tmp_path: Path) -> None:
    ledger = tmp_path / "ledger"
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": slow(ledger)}, "shutdown_grace": "2m"})
    wire = Wire("http://unused", "unused", MODERN)
    message = wire.message("tools/call", {"name": "call_tool_read", "arguments": {"name": "fx:slow", "args": {}}})
    child = subprocess.Popen(
        [peers.MCPPROXY, "stdio", "--home", str(gateway.home)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=gateway.environment(),
    )
    try:
        assert child.stdin and child.stdout
        child.stdin.write(json.dumps(message).encode() + b"\n")
        child.stdin.flush()
        wait_for_calls(ledger, 1)
        child.send_signal(signal.SIGTERM)
        answer = json.loads(child.stdout.readline())["result"]
    finally:
        assert child.stdin
        child.stdin.close()
        child.wait(SECONDS)
    assert answer["content"][0]["text"] == "done", answer
    assert outcomes(gateway)[record_of(answer)] == "success"
