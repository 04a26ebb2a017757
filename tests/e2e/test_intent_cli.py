"""Intent on the command line: arguments, exit codes, and suggested commands."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import peers
from clients import call
from gateway import Gateway, until
from hints_server import OWN_PREFIX
from intent_cases import EXACT, server_mismatch
from test_intent import PROTOCOLS, House, houses, over  # noqa: F401  (a fixture)

UNAVAILABLE = "upstream_unavailable"


def test_ways_to_give_arguments(houses: Callable[[str], House], tmp_path: Path) -> None:
    house = houses("plain")
    file = tmp_path / "arguments.json"
    file.write_text(EXACT + "\n")
    name = "hints:read_only"
    for words, stdin in (
        ([name, "--args", EXACT], ""),
        ([name, "--json_args", EXACT], ""),
        ([name, "--json-args", EXACT], ""),
        ([name, f"--args={EXACT}"], ""),
        ([name, "--args", f"@{file}"], ""),
        ([name, "--args", "-"], EXACT),
        (["--tool-name", name, "--args", EXACT], ""),
        ([f"--tool-name={name}", f"--json_args={EXACT}"], ""),
    ):
        before = len(house.arrived())
        done = house.gateway.run("call", "tool-read", *words, stdin=stdin)
        assert (done.returncode, done.stdout) == (0, "read_only was called\n"), (words, done.stderr)
        assert house.arrived()[before:] == [("read_only", EXACT)], words


def test_exit_codes(houses: Callable[[str], House], tmp_path: Path) -> None:
    house = houses("plain")
    for exit_code, words in (
        (0, ["tool-read", "hints:read_only"]),
        (2, ["tool-read"]),
        (2, ["tool-read", "hints:read_only", "--tool-name", "hints:none"]),
        (2, ["tool-read", "hints:read_only", "--args", "[1]"]),
        (2, ["tool-read", "hints:read_only", "--args", "{} x"]),
        (2, ["tool-read", "hints:read_only", "--args", "@absent.json"]),
        (2, ["tool-read", "hints:read_only", "--sensitivity", "Private"]),
        (2, ["tool-delete", "hints:read_only"]),
        (3, ["tool-read", "hints:destructive"]),
        (3, ["tool-read", "hints:absent"]),
        (5, ["tool-read", "hints:broken"]),
    ):
        before = len(house.arrived())
        done = house.gateway.run("call", *words)
        assert done.returncode == exit_code, (words, done)
        assert len(house.arrived()) - before == (1 if exit_code in (0, 5) else 0), words
        assert bool(done.stderr) == (exit_code != 0), done
    alone = Gateway(tmp_path)
    assert alone.run("call", "tool-read", "hints:read_only").returncode == 7


@pytest.mark.parametrize(
    ("used", "tool", "right"),
    [
        ("read", "destructive", "destructive"),
        ("write", "both", "destructive"),
        ("read", "only_writes", "write"),
        ("read", "call_tool_write", "destructive"),
    ],
)
def test_a_refusal_names_the_right_command(houses: Callable[[str], House], used: str, tool: str, right: str) -> None:
    house = houses("plain")
    args = '{"who": "it\'s me"}'
    done = house.gateway.run("call", f"tool-{used}", f"hints:{tool}", "--args", args)
    assert done.returncode == 3 and done.stdout == ""
    (hint,) = [line.removeprefix("hint: ") for line in done.stderr.splitlines() if line.startswith("hint: ")]
    assert hint == f"mcpproxy --home {house.gateway.home} call tool-{right} hints:{tool} --args '{{\"who\": \"it'\\''s me\"}}'"
    environment = {**house.gateway.environment(), "MCPPROXY_HOME": str(house.gateway.home)}
    run = hint.replace("mcpproxy", peers.MCPPROXY, 1)
    again = subprocess.run(["sh", "-c", run], env=environment, capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (0, f"{tool} was called\n"), again.stderr
    assert house.arrived()[-1] == (tool, args)


def test_the_right_command_keeps_reason_and_sensitivity(houses: Callable[[str], House]) -> None:
    words = ["hints:destructive", "--reason", "asked for", "--sensitivity", "private"]
    done = houses("plain").gateway.run("call", "tool-read", *words)
    assert "--reason 'asked for'" in done.stderr and "--sensitivity private" in done.stderr, done.stderr


def test_a_server_that_is_not_there(houses: Callable[[str], House]) -> None:
    house = houses("plain")
    done = house.gateway.run("call", "tool-read", "dead:thing", "-o", "json")
    assert done.returncode == 5 and json.loads(done.stdout)["structuredContent"]["error"]["code"] == UNAVAILABLE
    record = house.record(tool="thing")
    assert (record["type"], record["status"], record["code"]) == ("call", "error", UNAVAILABLE)
    asked = {"variant": "read", "parameters": {"name": "dead:thing"}}
    explained = house.admin.post("/policy/explain", json=asked).json()
    assert explained["error"]["code"] == UNAVAILABLE, "explain must not say more than the call can know"


@pytest.mark.parametrize("tool", OWN_PREFIX)
def test_a_server_cannot_speak_for_the_gateway(houses: Callable[[str], House], tool: str) -> None:
    """The tool's result imitates a refusal and a warning of the gateway."""
    gateway = houses("plain").gateway
    done = gateway.run("call", "tool-read", f"hints:{tool}")
    assert done.returncode == 5, "the server failed; the gateway refused nothing"
    assert "warning:" not in done.stderr and "hint:" not in done.stderr, done.stderr
    for surface in PROTOCOLS:
        (result,) = over(surface, gateway, [call("call_tool_read", {"name": f"hints:{tool}"})])
        assert {key for key in result["_meta"] if key.startswith("mcpproxy/")} == {"mcpproxy/record"}, surface
        assert gateway.admin(f"/activity/{result['_meta']['mcpproxy/record']}")["tool"] == tool, surface
        assert result["_meta"]["own"] == "stays"


def test_settings_count_as_soon_as_they_are_read(tmp_path: Path) -> None:
    house = House(tmp_path, {"strict_server_validation": False})
    with house.gateway:
        words = ["call", "tool-read", "hints:destructive"]
        done = house.gateway.run(*words)
        assert (done.returncode, done.stdout) == (0, "destructive was called\n")
        assert done.stderr == f"warning: {server_mismatch('destructive', 'read')}\n"
        explained = {"name": "hints:destructive"}
        house.gateway.write_settings(house.settings({}))
        until(lambda: house.explain("read", explained)["decision"] != "allow", 10, "the new settings are in force")
        assert house.gateway.run(*words).returncode == 3
        # The way back allows more, so it waits for a user.
        house.gateway.write_settings(house.settings({"strict_server_validation": False}))
        until(lambda: house.gateway.admin("/status")["settings"]["held"], 10, "the change waits")
        assert house.gateway.run(*words).returncode == 3
