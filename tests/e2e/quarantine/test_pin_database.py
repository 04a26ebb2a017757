"""Pins that cannot be read are no pins: their tools wait, and the gateway starts and says so."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from changing import SECONDS, Changing, Gateway, in_front_of, listed, settle, shows, tool, until, waiting, waits
from log import DATABASE

DAMAGE = {
    "a cut pin": "UPDATE accepted_pins SET pin = substr(pin, 1, 5)",
    "another definition": """UPDATE accepted_pins SET pin = zeroblob(32), json = CAST('{"name":"fold_paper"}' AS BLOB)""",
    "no text": "UPDATE accepted_pins SET json = x'ff00'",
    "an unknown kind": "UPDATE accepted_pins SET kind = 'spell'",
    "a newer formula": "UPDATE accepted_pins SET formula = 99, json = x'7b7d'",
}


def sql(home: Path, statement: str) -> int:
    with closing(sqlite3.connect(home / DATABASE, timeout=60)) as database, database:
        return database.execute(statement).rowcount


@pytest.fixture
def stopped(tmp_path: Path) -> Iterator[Gateway]:
    """A gateway that accepted a tool and stopped."""
    server = Changing(tmp_path, "paper", tool("fold_paper"))
    gateway = in_front_of(tmp_path, [server])
    with gateway:
        shows(gateway, "paper", "fold_paper")
    yield gateway
    gateway.stop()


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_pin_counts_as_changed(stopped: Gateway, damage: str) -> None:
    assert sql(stopped.home, DAMAGE[damage]) == 1
    stopped.start()
    shows(stopped, "paper")
    assert stopped.servers()["paper"]["state"] == "ready"
    assert stopped.servers()["paper"]["quarantined"] == 1
    told = stopped.words() + stopped.run("status").stdout + stopped.run("doctor").stdout
    assert "servers review" in told, told


def test_a_pin_of_another_formula_is_computed_again(stopped: Gateway) -> None:
    """A new formula by itself is no change. The stored text decides."""
    assert sql(stopped.home, "UPDATE accepted_pins SET formula = 99, pin = zeroblob(32)") == 1
    stopped.start()
    shows(stopped, "paper", "fold_paper")
    assert waiting(stopped, "paper") == {}


def test_an_unchanged_list_is_noted_as_seen(stopped: Gateway) -> None:
    assert sql(stopped.home, "UPDATE pinned_servers SET last_seen_ms = 1") == 1
    stopped.start()
    shows(stopped, "paper", "fold_paper")
    definition = lambda: stopped.admin("/servers/paper/definitions")["definitions"][0]  # noqa: E731
    until(lambda: definition()["last_seen_ms"] > 1, SECONDS, "it was seen")
    assert definition()["first_seen_ms"] <= definition()["last_seen_ms"]


def test_a_user_accepts_again_what_no_longer_has_its_text(stopped: Gateway) -> None:
    assert sql(stopped.home, DAMAGE["another definition"]) == 1
    stopped.start()
    ada = settle(stopped)
    assert ada.decide("paper", accept=waits(stopped, "paper", "fold_paper").values()) == ["done"]
    shows(stopped, "paper", "fold_paper")


@pytest.mark.parametrize("damage", ["a cut pin", "no text", "an unknown kind"])
def test_a_user_replaces_a_damaged_pin(stopped: Gateway, damage: str) -> None:
    assert sql(stopped.home, DAMAGE[damage]) == 1
    stopped.start()
    ada = settle(stopped)
    entry = waits(stopped, "paper", "fold_paper")["fold_paper"]
    assert (entry["reason"], entry["old"]) == ("unreadable", None)
    shown = " ".join(stopped.run("servers", "review", "paper").stdout.split())
    assert "The stored definition of paper:fold_paper cannot be read" in shown, shown
    assert ada.decide("paper", accept=[entry]) == ["done"]
    shows(stopped, "paper", "fold_paper")
    (accepted,) = stopped.admin("/servers/paper/definitions")["definitions"]
    assert (accepted["pin"], accepted["accepted_by"]) == (entry["pin"], "ada")
    stopped.stop()
    stopped.start()
    shows(stopped, "paper", "fold_paper")
    assert waiting(stopped, "paper") == {}


def test_a_damaged_pin_holds_nothing_else(tmp_path: Path) -> None:
    server = Changing(tmp_path, "paper", tool("fold_paper"), tool("cut_paper"))
    gateway = in_front_of(tmp_path, [server])
    with gateway:
        shows(gateway, "paper", "cut_paper", "fold_paper")
    assert sql(gateway.home, DAMAGE["no text"] + " WHERE name = CAST('fold_paper' AS BLOB)") == 1
    with gateway:
        shows(gateway, "paper", "cut_paper")
        waits(gateway, "paper", "fold_paper")
        ada = settle(gateway)
        # Rejected, it is not asked about again.
        assert ada.decide("paper", reject=waiting(gateway, "paper").values()) == ["done"]
        waits(gateway, "paper")
        assert gateway.run("servers", "restart", "paper").returncode == 0
        shows(gateway, "paper", "cut_paper")
        waits(gateway, "paper")


def test_a_pin_that_nobody_can_name_is_an_error(stopped: Gateway) -> None:
    """An empty review would say that nothing is wrong."""
    assert sql(stopped.home, "UPDATE accepted_pins SET key = x'00'") == 1
    stopped.start()
    shows(stopped, "paper")
    shown = stopped.run("servers", "review", "paper")
    assert shown.returncode not in (0, 101), shown
    assert "a stored definition of this server cannot be read" in shown.stderr, shown.stderr


def test_pins_that_cannot_be_read_hold_everything(stopped: Gateway) -> None:
    sql(stopped.home, "ALTER TABLE accepted_pins RENAME COLUMN json TO text")
    stopped.start()
    assert listed(stopped, "paper") == {}
    assert (stopped.servers()["paper"]["state"], stopped.servers()["paper"]["quarantined"]) == ("ready", 1)
    until(lambda: "pins" in stopped.words(), SECONDS, "the terminal of the gateway says it")


def test_a_newer_database_is_refused(stopped: Gateway) -> None:
    sql(stopped.home, "UPDATE schema_version SET version = version + 1")
    done = stopped.run("serve", "--listen", "127.0.0.1:0")
    assert done.returncode not in (0, 101), done
    assert "newer mcpproxy" in done.stderr, done.stderr
    sql(stopped.home, "UPDATE schema_version SET version = version - 1")
    stopped.start()
    shows(stopped, "paper", "fold_paper")
