"""Intent on the command line: ways to give arguments, exit codes, and the command that would have been right."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import peers
from gateway import Gateway
from intent_cases import EXACT
from test_intent import House, houses  # noqa: F401  (a fixture)


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
    assert hint == f"mcpproxy call tool-{right} hints:{tool} --args '{{\"who\": \"it'\\''s me\"}}'"
    environment = {**house.gateway.environment(), "MCPPROXY_HOME": str(house.gateway.home)}
    run = hint.replace("mcpproxy", peers.MCPPROXY, 1)
    again = subprocess.run(["sh", "-c", run], env=environment, capture_output=True, text=True, timeout=60)
    assert (again.returncode, again.stdout) == (0, f"{tool} was called\n"), again.stderr
    assert house.arrived()[-1] == (tool, args)


def test_the_right_command_keeps_reason_and_sensitivity(houses: Callable[[str], House]) -> None:
    words = ["hints:destructive", "--reason", "asked for", "--sensitivity", "private"]
    done = houses("plain").gateway.run("call", "tool-read", *words)
    assert "--reason 'asked for'" in done.stderr and "--sensitivity private" in done.stderr, done.stderr
