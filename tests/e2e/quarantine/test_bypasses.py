"""Four ways around a quarantine that worked elsewhere: hints alone, a new name, a new tool, a server added again."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from changing import (
    Changing,
    Gateway,
    in_front_of,
    is_out_of_reach,
    listed,
    shows,
    tool,
    until,
    waiting,
    waits,
)

SECONDS = 15
# Hints of a tool before and after, each of which lets agents do more or trust more.
LOOSER: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "destroy_no_more": ({"destructiveHint": True}, {"destructiveHint": False}),
    "destroy_unsaid": ({"destructiveHint": True}, {}),
    "read_only_now": ({"readOnlyHint": False}, {"readOnlyHint": True}),
    "read_only_said": ({}, {"readOnlyHint": True}),
    "closed_world": ({"readOnlyHint": False, "openWorldHint": True}, {"readOnlyHint": False, "openWorldHint": False}),
    "once_is_enough": ({"readOnlyHint": False}, {"readOnlyHint": False, "idempotentHint": True}),
}
STRICTER: dict[str, tuple[dict[str, bool], dict[str, bool]]] = {
    "read_no_more": ({"readOnlyHint": True}, {"readOnlyHint": False}),
    "destroy_now": ({"readOnlyHint": False, "destructiveHint": False}, {"readOnlyHint": False, "destructiveHint": True}),
}
MAIL = "Sends a letter to one customer and keeps a copy of it in the archive of the office."


class Street:
    """A gateway and its servers."""

    def __init__(self, gateway: Gateway, servers: dict[str, Changing]) -> None:
        self.gateway = gateway
        self.servers = servers

    def write(self, **replaced: dict[str, Any] | None) -> None:
        """Writes the settings with other entries for some servers. `None` removes a server."""
        own = {name: one.settings() for name, one in self.servers.items()}
        entries = {name: entry for name, entry in {**own, **replaced}.items() if entry is not None}
        self.gateway.write_settings({"mcpServers": entries})

    def remove(self, name: str) -> None:
        self.write(**{name: None})
        until(lambda: name not in self.gateway.servers(), SECONDS, "the server is gone")

    def ready(self, name: str) -> None:
        until(lambda: self.gateway.servers().get(name, {}).get("state") == "ready", SECONDS, f"{name} is back")


@pytest.fixture(scope="module")
def street(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Street]:
    folder = tmp_path_factory.mktemp("bypasses")
    hints = [tool(name, **before) for name, (before, _) in (LOOSER | STRICTER).items()]
    servers = [
        Changing(folder, "hints", *hints),
        Changing(folder, "post", tool("send_letter", MAIL, readOnlyHint=False), tool("count_stamps")),
        Changing(folder, "shop", tool("list_prices")),
        Changing(folder, "again", tool("open_drawer")),
        Changing(folder, "later", tool("close_drawer")),
        Changing(folder, "moved", tool("lock_drawer")),
    ]
    with in_front_of(folder, servers) as gateway:
        yield Street(gateway, {one.name: one for one in servers})


def test_hints_alone(street: Street) -> None:
    gateway, server = street.gateway, street.servers["hints"]
    shows(gateway, "hints", *LOOSER, *STRICTER)
    server.offer(*(tool(name, **after) for name, (_, after) in (LOOSER | STRICTER).items()))
    entries = waits(gateway, "hints", *LOOSER)
    shows(gateway, "hints", *STRICTER)
    for name in LOOSER:
        is_out_of_reach(gateway, server, name)
        assert entries[name]["reason"] == "changed" and entries[name]["changes"], entries[name]
        assert entries[name]["old"] is not None and entries[name]["old"] != entries[name]["new"]
    assert listed(gateway, "hints")["destroy_now"]["annotations"]["destructiveHint"] is True


def test_a_new_name(street: Street) -> None:
    gateway, server = street.gateway, street.servers["post"]
    shows(gateway, "post", "send_letter", "count_stamps")
    server.offer(tool("post_letter", MAIL, readOnlyHint=False), tool("count_stamps"))
    entry = waits(gateway, "post", "post_letter")["post_letter"]
    assert (entry["reason"], entry["old"], entry["resembles"]) == ("new", None, "send_letter")
    shows(gateway, "post", "count_stamps")
    is_out_of_reach(gateway, server, "post_letter")


def test_a_new_tool(street: Street) -> None:
    gateway, server = street.gateway, street.servers["shop"]
    shows(gateway, "shop", "list_prices")
    server.offer(tool("list_prices"), tool("water_plants", "Waters the plants at the window."))
    entry = waits(gateway, "shop", "water_plants")["water_plants"]
    assert (entry["reason"], entry["old"], entry["resembles"]) == ("new", None, None)
    shows(gateway, "shop", "list_prices")
    is_out_of_reach(gateway, server, "water_plants")


def test_the_same_server_added_again(street: Street) -> None:
    """Its pins outlive its entry: what is as it was needs no review, and what changed meanwhile does."""
    gateway, server = street.gateway, street.servers["again"]
    shows(gateway, "again", "open_drawer")
    street.remove("again")
    street.write()
    street.ready("again")
    shows(gateway, "again", "open_drawer")
    assert waiting(gateway, "again") == {}

    street.remove("again")
    server.offer(tool("open_drawer", "Opens any drawer of the office."))
    street.write()
    street.ready("again")
    assert waits(gateway, "again", "open_drawer")["open_drawer"]["reason"] == "changed"
    is_out_of_reach(gateway, server, "open_drawer")


@pytest.mark.parametrize("name", ["later", "moved"])
def test_another_program_under_the_same_name(street: Street, name: str) -> None:
    """It is a new server, although it lists the same tools, and whether or not the entry was gone for a while."""
    gateway, server = street.gateway, street.servers[name]
    (own,) = listed(gateway, name)
    if name == "later":
        street.remove(name)
    street.write(**{name: server.settings("--edition", "2")})
    street.ready(name)
    assert waits(gateway, name, own)[own]["reason"] == "first_sight"
    is_out_of_reach(gateway, server, own)
    # The program that was accepted comes back.
    street.write()
    shows(gateway, name, own)
    assert waiting(gateway, name) == {}
