"""Misbehaving servers: each is contained, shows its error in the list of servers, and does not affect the others."""

from __future__ import annotations

import json
import math
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from gateway import Gateway, until
from wire import MODERN, Wire

CALL_TIMEOUT_S = 2
RESULT_LIMIT_MIB = 10


@pytest.fixture(scope="module")
def rough(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    short = {"call_timeout": f"{CALL_TIMEOUT_S}s", "connect_timeout": "3s"}
    servers = {
        "well": peers.misbehaving(),
        "noisy": peers.misbehaving("--noise"),
        "halves": peers.misbehaving("--half-lines"),
        "huge": peers.misbehaving("--huge", str(50 * 1024 * 1024)),
        "large": peers.misbehaving("--huge", str(RESULT_LIMIT_MIB * 1024 * 1024 - 4096)),
        "endless": peers.misbehaving("--endless-list"),
        "leaving": peers.misbehaving("--exit-at-start"),
        "brief": peers.misbehaving("--exit-after", "1"),
        "hanging": {**peers.misbehaving("--hang"), **short},
        "mute": {**peers.misbehaving("--mute"), **short},
        "slow": peers.misbehaving("--slow-start", "1500"),
        "bad-tools": peers.misbehaving("--bad-tools"),
        "stubborn": peers.misbehaving("--ignore-term", "--grandchild"),
        "twice": peers.misbehaving("--duplicate-ids"),
        "changing": peers.misbehaving("--list-changed-every", "200"),
        "nowhere": {"command": "/no/such/program", "args": []},
        "dead-url": {"url": "http://127.0.0.1:9/mcp"},
    }
    settings = {"mcpServers": servers, "trust": {"changes": "accept"}}
    with Gateway(tmp_path_factory.mktemp("rough"), settings) as gateway:
        yield gateway


class Caller:
    def __init__(self, gateway: Gateway) -> None:
        self.wire = Wire(gateway.mcp, gateway.token, MODERN)

    def read(self, tool: str, **args: object) -> dict:
        return self.wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": tool, "args": args}})

    def text(self, tool: str, **args: object) -> str:
        result = self.read(tool, **args)
        assert not result.get("isError") and "content" in result, str(result)[:500]
        return result["content"][0]["text"]

    def refusal(self, tool: str) -> dict:
        result = self.read(tool)
        assert result.get("isError") is True, str(result)[:500]
        return result["structuredContent"]["error"]


@pytest.fixture
def caller(rough: Gateway) -> Caller:
    return Caller(rough)


@pytest.mark.parametrize("server", ["well", "noisy", "halves", "twice", "slow", "stubborn", "changing"])
def test_usable_in_spite_of_its_manners(caller: Caller, server: str) -> None:
    for number in range(5):
        assert json.loads(caller.text(f"{server}:echo", number=number)) == {"number": number}


def test_noise_stays_in_a_log_of_limited_size(rough: Gateway, caller: Caller) -> None:
    for _ in range(40):
        caller.text("noisy:echo")
    until(lambda: rough.admin("/servers/noisy/logs?lines=20")["lines"], 10, "the server's stderr is in its log")
    assert len(rough.admin("/servers/noisy/logs?lines=20")["lines"]) <= 20
    assert 0 < _bytes_of(rough.home / "logs", "noisy.log*") < 16 * 1024 * 1024


def _bytes_of(folder: Path, pattern: str) -> int:
    """Returns the size of files, one of which may be renamed in the meantime."""

    def size() -> int:
        try:
            return sum(file.stat().st_size for file in folder.glob(pattern))
        except FileNotFoundError:
            return 0

    return until(size, 5, f"there is a {pattern}")


def test_an_answer_beyond_the_limit_is_refused_and_the_next_one_works(rough: Gateway, caller: Caller) -> None:
    assert caller.refusal("huge:huge")["code"] == "result_too_large"
    assert caller.text("huge:echo") == "{}"
    assert len(caller.text("large:huge")) == RESULT_LIMIT_MIB * 1024 * 1024 - 4096


def test_an_endless_list_ends(rough: Gateway) -> None:
    server = rough.servers()["endless"]
    assert server["state"] in ("ready", "waiting")
    assert server["tools"] < 100_000


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        ("leaving", "leaving at once, as asked"),
        ("mute", "did not respond within 3 s"),
        ("nowhere", "/no/such/program"),
        ("dead-url", "could not connect"),
    ],
)
def test_a_server_that_never_came_says_why(rough: Gateway, server: str, reason: str) -> None:
    until(lambda: rough.servers()[server]["reason"], 10, "there is a reason")
    found = rough.servers()[server]
    assert found["state"] in ("waiting", "connecting"), found
    assert reason in found["reason"], found


def test_calls_to_a_server_that_is_not_there_fail_at_once(caller: Caller) -> None:
    for server in ("leaving", "nowhere"):
        began = time.monotonic()
        code = caller.refusal(f"{server}:echo")["code"]
        assert code in ("upstream_unavailable", "tool_not_found")
        assert time.monotonic() - began < 0.5


def test_a_crash_loop_starts_few_processes(rough: Gateway) -> None:
    """The backoff doubles after each attempt, so the number of attempts grows logarithmically."""
    seconds = rough.admin("/status")["uptime_ms"] / 1000
    assert rough.servers()["leaving"]["restarts"] <= 2 * math.log2(seconds + 2) + 2


def test_a_call_without_an_answer_ends_at_the_limit(rough: Gateway, caller: Caller) -> None:
    began = time.monotonic()
    assert caller.refusal("hanging:hang")["code"] == "upstream_timeout"
    assert CALL_TIMEOUT_S - 0.1 <= time.monotonic() - began < CALL_TIMEOUT_S + 3
    assert caller.text("hanging:echo") == "{}"


def test_others_are_served_while_one_hangs(rough: Gateway, caller: Caller) -> None:
    hanging = threading.Thread(target=Caller(rough).read, args=("hanging:hang",))
    hanging.start()
    worst = 0.0
    while hanging.is_alive():
        began = time.monotonic()
        caller.text("well:echo")
        worst = max(worst, time.monotonic() - began)
    assert worst < 1, f"a call took {worst:.2f} s"


def test_a_server_that_exits_is_started_again(rough: Gateway, caller: Caller) -> None:
    assert caller.text("brief:counter") == "1"
    until(lambda: rough.servers()["brief"]["restarts"] >= 1, 10, "the gateway noticed the exit")
    until(lambda: rough.servers()["brief"]["state"] == "ready", 20, "the server is back")
    assert caller.text("brief:counter") == "1"


def test_a_crash_in_a_call_is_an_answer(rough: Gateway, caller: Caller) -> None:
    arguments = {"name": "well:crash", "args": {}}
    result = caller.wire.ask("tools/call", {"name": "call_tool_write", "arguments": arguments})
    assert result["isError"] is True
    assert result["structuredContent"]["error"]["code"] == "upstream_unavailable"
    until(lambda: rough.servers()["well"]["state"] == "ready", 20, "the server is back")
    assert caller.text("well:echo") == "{}"


def test_one_bad_tool_does_not_hide_the_good_ones(rough: Gateway, caller: Caller) -> None:
    server = rough.servers()["bad-tools"]
    hidden = {tool["name"] for tool in server["hidden_tools"]}
    listed = Wire(rough.server_url("bad-tools"), rough.token, MODERN).ask("tools/list")["tools"]
    names = {tool["name"] for tool in listed}
    assert "good" in names and "unknown_fields" in names
    assert names.isdisjoint(hidden)
    assert names | hidden == {"without_schema", "text_hint", "with:colon", "unknown_fields", "good"}
    (kept,) = [tool for tool in listed if tool["name"] == "unknown_fields"]
    assert kept["x-vendor"] == "kept or dropped?"
    assert kept["annotations"]["x-vendor"] == {"deep": [1, 2.5, None]}
    assert kept["execution"] == {"taskSupport": "optional"}
    assert caller.text("bad-tools:good") == "done"


def test_a_changed_list_is_seen(rough: Gateway) -> None:
    wire = Wire(rough.server_url("changing"), rough.token, MODERN)

    def offered() -> bool:
        return "extra" in [tool["name"] for tool in wire.ask("tools/list")["tools"]]

    until(offered, 10, "the new tool is listed")
    until(lambda: not offered(), 10, "it is gone again")


def test_what_went_wrong_is_recorded(rough: Gateway, caller: Caller) -> None:
    for tool in ("huge:huge", "hanging:hang", "leaving:echo"):
        assert caller.read(tool)["isError"] is True

    def codes() -> dict[str, str]:
        done = rough.run("activity", "list", "--type", "call", "--status", "error", "--limit", "200", "-o", "json")
        return {one["server"]: one["code"] for one in json.loads(done.stdout)["activities"]}

    wanted = {"huge": "result_too_large", "hanging": "upstream_timeout", "leaving": "upstream_unavailable"}
    until(lambda: wanted.items() <= codes().items(), 5, "all three are in the log")
