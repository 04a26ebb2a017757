"""Changes of the settings file under a running gateway: valid settings are loaded, invalid ones are not."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

import peers
from gateway import Gateway, until
from wire import LEGACY, MODERN, Wire

SECONDS = 10


def echo(wire: Wire, server: str) -> dict:
    return wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": f"{server}:echo", "args": {}}})


def test_add_break_fix_remove(tmp_path: Path) -> None:
    one, two = peers.misbehaving(), peers.misbehaving("--noise")
    trust = {"trust": {"first_sight": "accept"}}
    with Gateway(tmp_path, {"mcpServers": {"one": one}, **trust}) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        first = gateway.servers()["one"]["pid"]

        gateway.write_settings({"mcpServers": {"one": one, "two": two}, **trust})
        until(lambda: gateway.servers().get("two", {}).get("state") == "ready", SECONDS, "the new server works")
        assert not echo(wire, "two").get("isError")

        gateway.write_settings('{"mcpServer": {"one": {"command": "x"}}}')
        until(gateway.settings_error, SECONDS, "the status shows the error")
        assert "mcpServers" in gateway.settings_error() and "mcp_config.json:1:" in gateway.settings_error()
        assert set(gateway.servers()) == {"one", "two"}
        assert not echo(wire, "two").get("isError")

        gateway.write_settings({"mcpServers": {"one": one}, **trust})
        until(lambda: "two" not in gateway.servers(), SECONDS, "the removed server is gone")
        assert gateway.settings_error() == ""
        assert echo(wire, "two")["isError"] is True
        assert gateway.servers()["one"]["pid"] == first, "a server that did not change was restarted"


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_no_call_fails_while_settings_are_bad(tmp_path: Path, era: str) -> None:
    """Calls run continuously while the file is repeatedly broken and repaired."""
    settings = {"mcpServers": {"one": peers.misbehaving()}}
    with Gateway(tmp_path, settings) as gateway:
        over = threading.Event()
        failed: list[dict] = []

        def work() -> None:
            wire = Wire(gateway.mcp, gateway.token, era)
            while not over.is_set():
                result = echo(wire, "one")
                if result.get("isError") or "error" in result:
                    failed.append(result)

        worker = threading.Thread(target=work)
        worker.start()
        try:
            for _ in range(3):
                gateway.write_settings("{ this is not JSON")
                until(gateway.settings_error, SECONDS, "the status shows the error")
                gateway.write_settings(settings)
                until(lambda: not gateway.settings_error(), SECONDS, "the error is gone")
        finally:
            over.set()
            worker.join(60)
        assert failed == []


def test_an_edit_in_place_is_seen_too(tmp_path: Path) -> None:
    with Gateway(tmp_path, {"mcpServers": {}}) as gateway:
        file = gateway.home / "mcp_config.json"
        file.write_text('{"mcpServers": {"demo": {"type": "demo"}}} // a comment')
        until(lambda: gateway.servers().get("demo", {}).get("state") == "ready", SECONDS, "the new server works")
