"""Two gateways on one PostgreSQL database: a decision at one counts at both, and only one of two decisions counts."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import pytest

from changing import Changing, Gateway, Reviewer, in_front_of, records, settle, shows, tool, waits
from log import PostgresStorage
from postgres import Postgres, postgres  # noqa: F401

NAMES = ("shared", "fought", "refused")


@dataclass
class Pair:
    first: Gateway
    second: Gateway
    servers: dict[str, Changing]
    here: Reviewer
    there: Reviewer

    def change(self, name: str, *more: dict[str, Any]) -> dict[str, Any]:
        """Changes the tool of a server. Returns what waits, when it waits at both."""
        self.servers[name].offer(tool(f"ring_{name}", "Rings twice."), *more)
        names = [f"ring_{name}", *(one["name"] for one in more)]
        for gateway in (self.first, self.second):
            shows(gateway, name)
            entries = waits(gateway, name, *names)
        return entries


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,  # noqa: F811
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replicas")
    storage = PostgresStorage(postgres, postgres.create()).settings()
    servers = {name: Changing(folder, name, tool(f"ring_{name}")) for name in NAMES}
    first, second = (in_front_of(folder / name, servers.values(), **storage) for name in ("first", "second"))
    with first:
        here = settle(first)
        shutil.copy(first.home / "admin.key", second.home / "admin.key")
        with second:
            for name in NAMES:
                shows(second, name, f"ring_{name}")
            yield Pair(first, second, servers, here, Reviewer(second, "ada", here.totp))


def test_accepted_at_one_is_available_at_both(pair: Pair) -> None:
    entries = pair.change("shared")
    assert pair.there.decide("shared", accept=entries.values()) == ["done"]
    for gateway in (pair.second, pair.first):
        shows(gateway, "shared", "ring_shared")
        assert waits(gateway, "shared") == {}


def test_rejected_at_one_is_not_asked_at_the_other(pair: Pair) -> None:
    entries = pair.change("refused")
    assert pair.here.decide("refused", reject=entries.values()) == ["done"]
    for gateway in (pair.first, pair.second):
        assert waits(gateway, "refused") == {}
    assert pair.second.run("servers", "restart", "refused").returncode == 0
    shows(pair.second, "refused")
    assert waits(pair.second, "refused") == {}


def test_one_of_two_decisions_counts(pair: Pair) -> None:
    more = [tool(f"chime_{number}") for number in range(10)]
    entries = list(pair.change("fought", *more).values())
    with ThreadPoolExecutor(2) as pool:
        accepted = pool.submit(pair.here.decide, "fought", accept=entries)
        rejected = pool.submit(pair.there.decide, "fought", reject=entries)
        results = list(zip(accepted.result(60), rejected.result(60)))
    assert Counter(tuple(sorted(one)) for one in results) == {("done", "gone"): len(entries)}
    kept = [entry["name"] for entry, (mine, _) in zip(entries, results) if mine == "done"]
    for gateway in (pair.first, pair.second):
        shows(gateway, "fought", *kept)
        assert waits(gateway, "fought") == {}
    # The decisions without effect are recorded as such.
    assert {one["status"] for one in records(pair.first, "fought", "definitions_reviewed")} == {"success", "refused"}
