"""The first list of a server: accepted if its operator chose it, reviewed if it came some other way."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from changing import (
    HIDDEN,
    SIGN_IN,
    Changing,
    Gateway,
    Reviewer,
    is_out_of_reach,
    quarantined,
    records,
    review,
    session,
    settle,
    shows,
    tool,
    typed,
    until,
    waiting,
    waits,
)

SECONDS = 15


def poisoned(name: str) -> dict[str, Any]:
    return tool(name, f"Counts the {name}.{HIDDEN}")


class Town:
    """A gateway whose settings grow."""

    def __init__(self, folder: Path, trust: dict[str, str], **servers: dict[str, Any]) -> None:
        self.folder = folder
        self.settings: dict[str, Any] = {"mcpServers": servers, **({"trust": trust} if trust else {})}
        self.gateway = Gateway(folder / "home", self.settings)

    def server(self, name: str, *tools: dict[str, Any]) -> Changing:
        return Changing(self.folder, name, *(tools or [tool(f"count_{name}")]))

    def write(self, **servers: dict[str, Any]) -> None:
        """Adds servers to the file, as an editor or a script does."""
        written = json.loads((self.gateway.home / "mcp_config.json").read_text())
        self.gateway.write_settings({**written, "mcpServers": {**written["mcpServers"], **servers}})
        for name in servers:
            self.ready(name)

    def ready(self, name: str) -> None:
        until(lambda: self.gateway.servers().get(name, {}).get("state") == "ready", SECONDS, f"{name} is ready")

    def restart(self) -> None:
        self.gateway.stop()
        self.gateway.start()


@pytest.fixture(scope="module")
def town(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Town]:
    folder = tmp_path_factory.mktemp("first-sight")
    chosen = Changing(folder, "chosen", tool("count_chosen"), poisoned("count_ghosts"))
    careful = Changing(folder, "careful", tool("count_careful"))
    one = Town(folder, {}, chosen=chosen.settings(), careful=careful.settings(first_sight="review"))
    with one.gateway:
        yield one


@pytest.fixture(scope="module")
def ada(town: Town) -> Reviewer:
    return settle(town.gateway)


def test_a_server_in_the_file_at_the_start_is_accepted(town: Town) -> None:
    shows(town.gateway, "chosen", "count_chosen")
    (seen,) = records(town.gateway, "chosen", "definitions_seen")
    assert "count_chosen" in str(seen["metadata"]) and "count_ghosts" not in str(seen["metadata"])


def test_a_severe_finding_waits_although_the_operator_chose_the_server(town: Town) -> None:
    entry = waits(town.gateway, "chosen", "count_ghosts")["count_ghosts"]
    assert entry["reason"] == "suspicious" and "high" in [one["severity"] for one in entry["findings"]]
    assert quarantined(town.gateway, "chosen") == 1
    assert "count_ghosts" not in str(session(town.gateway, "chosen").ask("tools/list"))


def test_a_server_may_ask_for_a_review(town: Town) -> None:
    assert waits(town.gateway, "careful", "count_careful")["count_careful"]["reason"] == "first_sight"
    shows(town.gateway, "careful")


def test_a_server_that_a_file_change_brings_waits(town: Town, ada: Reviewer) -> None:
    server = town.server("arrived", tool("count_arrived"), tool("count_gone"))
    town.write(arrived=server.settings())
    entries = waits(town.gateway, "arrived", "count_arrived", "count_gone")
    assert {one["reason"] for one in entries.values()} == {"first_sight"}
    assert review(town.gateway, "arrived")["first_sight"] is True
    for name in entries:
        is_out_of_reach(town.gateway, server, name)
    # A later list is no way around the first review.
    server.offer(tool("count_arrived"), tool("count_gone"), tool("count_late"))
    waits(town.gateway, "arrived", "count_arrived", "count_gone", "count_late")
    shows(town.gateway, "arrived")
    accepted = [one for name, one in waiting(town.gateway, "arrived").items() if name != "count_late"]
    assert ada.decide("arrived", accept=accepted) == ["done", "done"]
    shows(town.gateway, "arrived", "count_arrived", "count_gone")


def test_a_server_added_by_a_script_waits(town: Town) -> None:
    server = town.server("scripted")
    command = server.settings()
    added = town.gateway.run_with({}, "servers", "add", "scripted", "--", command["command"], *command["args"])
    assert added.returncode == 0, added.stderr
    waits(town.gateway, "scripted", "count_scripted")
    assert "servers review scripted" in added.stdout + added.stderr, added.stderr
    is_out_of_reach(town.gateway, server, "count_scripted")


def test_a_server_added_at_a_terminal_is_accepted_if_a_user_signs_in(town: Town, ada: Reviewer) -> None:
    server = town.server("typed", tool("count_typed"), poisoned("count_spirits"))
    command = server.settings()
    answers = [(r"\[y/N\] $", "y"), *SIGN_IN]
    words = ["servers", "add", "typed", "--", command["command"], *command["args"]]
    exit_code, heard = typed(town.gateway, words, answers)
    assert exit_code == 0, heard
    shows(town.gateway, "typed", "count_typed")
    assert waits(town.gateway, "typed", "count_spirits")["count_spirits"]["reason"] == "suspicious"


def test_the_admin_key_cannot_choose_a_server(town: Town, ada: Reviewer) -> None:
    """An agent with a shell can read the key, and even open a terminal."""
    server = town.server("sneaked")
    command = server.settings()
    key = {"X-API-Key": town.gateway.admin_key}
    url = f"{town.gateway.base}/api/v1/servers/sneaked/announce"
    refused = httpx.post(url, json={"identity": "0" * 64}, headers=key, timeout=60)
    assert refused.status_code == 403, refused.text
    words = ["servers", "add", "sneaked", "--", command["command"], *command["args"]]
    exit_code, heard = typed(town.gateway, words, [(r"\[y/N\] $", "n")])
    assert exit_code == 0, heard
    waits(town.gateway, "sneaked", "count_sneaked")
    is_out_of_reach(town.gateway, server, "count_sneaked")


def test_an_imported_server_waits(town: Town) -> None:
    server = town.server("imported")
    other = town.folder / "other-client.json"
    other.write_text(json.dumps({"mcpServers": {"imported": server.settings()}}))
    done = town.gateway.run("import", str(other), "--yes")
    assert done.returncode == 0, done.stderr
    assert waits(town.gateway, "imported", "count_imported")["count_imported"]["reason"] == "first_sight"
    is_out_of_reach(town.gateway, server, "count_imported")
    written = json.loads((town.gateway.home / "mcp_config.json").read_text())
    assert written["mcpServers"]["imported"]["first_sight"] == "review"


def test_a_restart_accepts_nothing(town: Town, ada: Reviewer) -> None:
    """Runs last: everything that waited still waits, and everything accepted stays."""
    gateway = town.gateway
    late = town.server("late")
    town.write(late=late.settings())
    waits(gateway, "late", "count_late")
    waited = {name: sorted(waiting(gateway, name)) for name in gateway.servers()}
    gateway.stop()
    # Imported while no gateway runs, so that it is in the file at the start.
    sleeping = town.server("sleeping")
    other = town.folder / "sleeping-client.json"
    other.write_text(json.dumps({"mcpServers": {"sleeping": sleeping.settings()}}))
    assert gateway.run("import", str(other), "--yes").returncode == 0
    # Added by a script while no gateway runs.
    dormant = town.server("dormant")
    command = dormant.settings()
    added = gateway.run_with({}, "servers", "add", "dormant", "--", command["command"], *command["args"])
    assert added.returncode == 0, added.stderr
    gateway.start()
    assert {name: sorted(waiting(gateway, name)) for name in waited} == waited
    waits(gateway, "sleeping", "count_sleeping")
    shows(gateway, "sleeping")
    waits(gateway, "dormant", "count_dormant")
    shows(gateway, "dormant")
    shows(gateway, "late")
    shows(gateway, "arrived", "count_arrived", "count_gone")
    shows(gateway, "typed", "count_typed")
    shows(gateway, "chosen", "count_chosen")


def test_a_server_that_starts_slowly_is_judged_by_its_first_list(tmp_path: Path) -> None:
    """The rules change while it starts. It has no list yet, which is not the same as an empty one."""
    slow, go = Changing(tmp_path, "slow", tool("count_slow")), tmp_path / "go"
    entries = {"slow": slow.settings("--after", str(go))}
    gateway = Gateway(tmp_path / "home", {"mcpServers": entries, "trust": {"changes": "warn"}})
    gateway.start(ready=False)
    try:
        gateway.write_settings({"mcpServers": entries, "trust": {"changes": "review"}})
        until(lambda: "reloaded" in gateway.words(), SECONDS, "the rules changed")
        go.touch()
        shows(gateway, "slow", "count_slow")
        assert waiting(gateway, "slow") == {}
    finally:
        go.touch()
        gateway.stop()


def test_an_operator_may_accept_everything_at_first_sight(tmp_path: Path) -> None:
    town = Town(tmp_path, {"first_sight": "accept"})
    with town.gateway:
        town.write(arrived=town.server("arrived", tool("count_arrived"), poisoned("count_shadows")).settings())
        shows(town.gateway, "arrived", "count_arrived")
        assert waits(town.gateway, "arrived", "count_shadows")["count_shadows"]["reason"] == "suspicious"
        town.write(careful=town.server("careful").settings(first_sight="review"))
        waits(town.gateway, "careful", "count_careful")
        shows(town.gateway, "careful")
        # Pinned all the same.
        Changing(town.folder, "arrived", tool("count_arrived", "Counts arrivals and departures."))
        waits(town.gateway, "arrived", "count_arrived")
        shows(town.gateway, "arrived")


def test_a_server_that_connects_only_after_a_restart_still_waits(tmp_path: Path) -> None:
    base, late = Changing(tmp_path, "base", tool("hold_still")), Changing(tmp_path, "late", tool("count_late"))
    go = tmp_path / "go"
    town = Town(tmp_path, {"changes": "accept"}, base=base.settings())
    gateway = town.gateway
    try:
        with gateway:
            shows(gateway, "base", "hold_still")
            gateway.write_settings({**town.settings, "mcpServers": {
                "base": base.settings(), "late": late.settings("--after", str(go)),
            }})
            until(lambda: "late" in gateway.servers(), SECONDS, "late is in the settings")
            assert gateway.servers()["late"]["state"] == "connecting"
        go.touch()
        with gateway:
            assert waits(gateway, "late", "count_late")["count_late"]["reason"] == "first_sight"
            shows(gateway, "late")
            shows(gateway, "base", "hold_still")
    finally:
        go.touch()
