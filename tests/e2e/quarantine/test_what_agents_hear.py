"""An agent that knew a tool is told that a user must review it. All others hear nothing of it."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from changing import Changing, Gateway, Wire, agent, call, code, in_front_of, session, shows, tool

# What sessions from before and after a change hear.
HEARD = ("tool_quarantined", "tool_not_found")
# Two names that are equally far from all others.
HELD, MISSING = "xylophone_tune", "xylophone_luck"


@pytest.fixture(scope="module")
def band(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Gateway, Wire, Wire]]:
    """A gateway after the change, and two sessions from before it: one at `/mcp`, one at `/mcp/s/band`."""
    folder = tmp_path_factory.mktemp("words")
    server = Changing(folder, "band", tool(HELD), tool("beat_drum"))
    with in_front_of(folder, [server]) as gateway:
        shows(gateway, "band", HELD, "beat_drum")
        before = session(gateway), session(gateway, "band")
        assert code(call(before[0], "band", HELD)) == "ok"
        server.offer(tool(HELD, "Plays a tune, louder."), tool("beat_drum"), tool("never_shown"))
        shows(gateway, "band", "beat_drum")
        yield gateway, *before


def straight(wire: Wire, name: str) -> dict[str, Any]:
    return wire.ask("tools/call", {"name": name, "arguments": {}})


def plain(answer: dict[str, Any], name: str) -> str:
    """Returns the answer without the tool's name and the id of its record."""
    if "error" in answer:
        answer = {"error": {**answer["error"], "data": {**answer["error"].get("data", {}), "mcpproxy/record": ""}}}
    else:
        answer = {**answer, "_meta": {**answer.get("_meta", {}), "mcpproxy/record": ""}}
    return json.dumps(answer, sort_keys=True).replace(name, "NAME")


def test_a_session_from_before_is_told(band: tuple[Gateway, Wire, Wire]) -> None:
    _, whole, own = band
    for answer in (call(whole, "band", HELD), straight(own, HELD)):
        words = json.dumps(answer)
        assert "review" in words and "mcpproxy servers review band" in words, words
        assert "louder" not in words, "the new text is not shown"


def test_an_agent_without_a_session_is_told(band: tuple[Gateway, Wire, Wire]) -> None:
    gateway, _, _ = band
    for answer in (call(agent(gateway), "band", HELD), straight(agent(gateway, "band"), HELD)):
        assert "mcpproxy servers review band" in json.dumps(answer), answer


def test_a_new_session_hears_of_a_tool_that_does_not_exist(band: tuple[Gateway, Wire, Wire]) -> None:
    gateway, _, _ = band
    whole, own = session(gateway), session(gateway, "band")
    for variant in ("read", "write", "destructive"):
        held, missing = (call(whole, "band", name, variant) for name in (HELD, MISSING))
        assert code(held) == "tool_not_found"
        assert plain(held, HELD) == plain(missing, MISSING)
    assert plain(straight(own, HELD), HELD) == plain(straight(own, MISSING), MISSING)


def test_nobody_hears_of_a_tool_that_was_never_shown(band: tuple[Gateway, Wire, Wire]) -> None:
    gateway, whole, own = band
    for wire in (whole, agent(gateway), session(gateway)):
        held, missing = call(wire, "band", "never_shown"), call(wire, "band", "never_drawn")
        assert plain(held, "never_shown") == plain(missing, "never_drawn")
    for wire in (own, agent(gateway, "band"), session(gateway, "band")):
        held, missing = straight(wire, "never_shown"), straight(wire, "never_drawn")
        assert plain(held, "never_shown") == plain(missing, "never_drawn")


def test_the_operator_sees_why(band: tuple[Gateway, Wire, Wire]) -> None:
    gateway, _, _ = band
    call(session(gateway), "band", HELD)
    refused = gateway.records("--server", "band", "--status", "refused", "--limit", "50")
    assert "tool_quarantined" in {one["code"] for one in refused if one["tool"] == HELD}
    explained = gateway.run("policy", "explain", f"band:{HELD}", "--variant", "write")
    assert "quarantine" in explained.stdout + explained.stderr, explained
    called = gateway.run("call", "tool-write", f"band:{HELD}")
    assert called.returncode != 0
    assert HELD not in gateway.run("tools", "list").stdout


def test_a_restart_does_not_change_what_a_session_hears(tmp_path: Path) -> None:
    server = Changing(tmp_path, "band", tool(HELD), tool("beat_drum"))
    with in_front_of(tmp_path, [server]) as gateway:
        shows(gateway, "band", HELD, "beat_drum")
        before = session(gateway)
        assert code(call(before, "band", HELD)) == "ok"
        server.offer(tool(HELD, "Plays a tune, louder."), tool("beat_drum"))
        shows(gateway, "band", "beat_drum")
        after = session(gateway)
        assert (code(call(before, "band", HELD)), code(call(after, "band", HELD))) == HEARD
        gateway.stop()
        gateway.start()
        shows(gateway, "band", "beat_drum")
        before.url = after.url = gateway.mcp
        assert (code(call(before, "band", HELD)), code(call(after, "band", HELD))) == HEARD
