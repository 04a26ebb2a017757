"""`trust.changes`: what an operator can set, and what no setting lets through."""

from __future__ import annotations

from pathlib import Path

import pytest

from changing import (
    HIDDEN,
    Changing,
    Gateway,
    agent,
    call,
    code,
    in_front_of,
    is_out_of_reach,
    listed,
    records,
    shows,
    tool,
    until,
    waiting,
    waits,
)

SECONDS = 15


@pytest.mark.parametrize("rule", ["warn", "accept"])
def test_changes_that_are_not_reviewed(tmp_path: Path, rule: str) -> None:
    server = Changing(tmp_path, "loose", tool("cut_rope", destructiveHint=True), tool("tie_knot"))
    with in_front_of(tmp_path, [server], trust={"changes": rule}) as gateway:
        shows(gateway, "loose", "cut_rope", "tie_knot")
        server.offer(
            tool("cut_rope", readOnlyHint=True), tool("tie_knot", f"Ties a knot.{HIDDEN}"), tool("new_rope")
        )
        shows(gateway, "loose", "cut_rope", "new_rope")
        assert code(call(agent(gateway), "loose", "cut_rope", "read")) == "ok"
        assert waits(gateway, "loose", "tie_knot")["tie_knot"]["reason"] == "suspicious"
        (changed,) = records(gateway, "loose", "definitions_changed")
        reasons = {one["name"]: one["reason"] for one in changed["metadata"]["definitions"]}
        expected = {"warn": "warned", "accept": "unasked"}[rule]
        assert reasons == {"cut_rope": expected, "new_rope": expected}


def test_a_first_list_that_is_withdrawn_still_waits(tmp_path: Path) -> None:
    """Changes need no review here, and the first list does. An empty list in between is no way around it."""
    empty, gone = Changing(tmp_path, "empty"), Changing(tmp_path, "gone", tool("come_back"))
    entries = {one.name: one.settings(first_sight="review") for one in (empty, gone)}
    with Gateway(tmp_path / "home", {"mcpServers": entries, "trust": {"changes": "accept"}}) as gateway:
        waits(gateway, "gone", "come_back")
        gone.offer()
        waits(gateway, "gone")
        gone.offer(tool("come_back"))
        empty.offer(tool("come_late"))
        assert waits(gateway, "gone", "come_back")["come_back"]["reason"] == "first_sight"
        assert waits(gateway, "empty", "come_late")["come_late"]["reason"] == "first_sight"
        is_out_of_reach(gateway, gone, "come_back")
        is_out_of_reach(gateway, empty, "come_late")


def test_an_edit_of_the_rules_waits_for_a_user(tmp_path: Path) -> None:
    server = Changing(tmp_path, "tight", tool("lock_door"))
    with in_front_of(tmp_path, [server]) as gateway:
        entries = {"tight": server.settings()}
        gateway.write_settings({"mcpServers": entries, "trust": {"changes": "accept", "first_sight": "accept"}})
        held = until(lambda: gateway.admin("/status")["settings"]["held"], SECONDS, "the settings wait")
        assert len(held["changes"]) == 2 and "trust" in str(held["changes"]), held
        server.offer(tool("lock_door", "Locks and unlocks a door."))
        waits(gateway, "tight", "lock_door")
        shows(gateway, "tight")


def test_back_to_what_was_accepted(tmp_path: Path) -> None:
    first, second = tool("read_map"), tool("read_map", "Keeps the read map of two offices.")
    server = Changing(tmp_path, "maps", first)
    with in_front_of(tmp_path, [server]) as gateway:
        shows(gateway, "maps", "read_map")
        server.offer(second)
        waits(gateway, "maps", "read_map")
        shows(gateway, "maps")
        server.offer(first)
        shows(gateway, "maps", "read_map")
        assert listed(gateway, "maps")["read_map"]["description"] == first["description"]
        waits(gateway, "maps")
        assert code(call(agent(gateway), "maps", "read_map")) == "ok"
        # Also after a restart, and not for anything else.
        gateway.stop()
        gateway.start()
        shows(gateway, "maps", "read_map")
        assert waiting(gateway, "maps") == {}
        gateway.stop()
        server.offer(second)
        gateway.start()
        waits(gateway, "maps", "read_map")
        shows(gateway, "maps")
