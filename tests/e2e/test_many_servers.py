"""Many servers, some of them broken, and many restarts: startup stays fast, and no process is left behind."""

from __future__ import annotations

import json
import time
from pathlib import Path

import peers
from gateway import Gateway, until
from wire import MODERN, Wire

WORKING = 80
# For debug builds on two busy cores. An idle machine needs a tenth of this.
# Less than the time that the broken servers have to connect.
LISTEN_SECONDS = 20
WORKING_SECONDS = 90
RESTARTS = 20


def test_a_hundred_servers_of_which_twenty_are_broken(tmp_path: Path) -> None:
    broken = {
        "leaving": peers.misbehaving("--exit-at-start"),
        "mute": peers.misbehaving("--mute"),
        "slow": peers.misbehaving("--slow-start", "600000"),
        "nowhere": {"command": "/no/such/program", "args": []},
        "dead-url": {"url": "http://127.0.0.1:9/mcp"},
    }
    patient = {"connect_timeout": "5m"}
    servers = {f"{kind}-{number}": {**server, **patient} for number in range(4) for kind, server in broken.items()}
    servers |= {f"works-{number}": peers.misbehaving() for number in range(WORKING)}
    gateway = Gateway(tmp_path, {"mcpServers": servers})
    try:
        gateway.start(ready=False)
        assert gateway.listening_after < LISTEN_SECONDS, f"listening after {gateway.listening_after:.2f} s"
        began = time.monotonic()
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        assert len(wire.ask("tools/list")["tools"]) == 4
        until(lambda: gateway.admin("/status")["servers"].get("ready") == WORKING, WORKING_SECONDS, "all others work")
        names = {tool["server"] for tool in gateway.admin("/tools")["tools"]}
        assert names == {f"works-{number}" for number in range(WORKING)}
        for number in range(WORKING):
            arguments = {"name": f"works-{number}:echo", "args": {"number": number}}
            result = wire.ask("tools/call", {"name": "call_tool_read", "arguments": arguments})
            assert json.loads(result["content"][0]["text"]) == {"number": number}, result
        assert time.monotonic() - began < WORKING_SECONDS
    except BaseException:
        print(gateway.words())
        raise
    finally:
        gateway.stop()


def test_restarts_leave_no_process_behind(tmp_path: Path) -> None:
    willing = {
        "parent": peers.misbehaving("--grandchild"),
        "crashing": peers.misbehaving("--exit-after", "1", "--grandchild"),
    }
    stubborn = {**willing, "stubborn": peers.misbehaving("--ignore-term", "--grandchild")}
    gateway = Gateway(tmp_path)
    for number in range(RESTARTS):
        # Stubborn servers stop slowly. Every second time the gateway is stopped during its start.
        servers = stubborn if number % 5 == 0 else willing
        gateway.write_settings({"mcpServers": servers})
        gateway.start(ready=number % 2 == 0)
        if number % 2 == 0:
            assert len(gateway.processes()) >= 1 + 2 * len(servers), "the gateway, and each server with its child"
            wire = Wire(gateway.mcp, gateway.token, MODERN)
            wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": "crashing:echo", "args": {}}})
        gateway.stop()
        assert gateway.processes() == []


def test_a_killed_gateway_is_followed_by_its_servers(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"plain": peers.misbehaving()}})
    gateway.start()
    assert gateway.child is not None
    gateway.child.kill()
    gateway.child.wait()
    gateway.child = None
    until(lambda: not gateway.processes(), 10, "the servers ended when their input did")
    gateway.start()
    gateway.stop()
