"""A PostgreSQL server that goes away and comes back while agents work: no call is unrecorded, and none hangs."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from gateway import Gateway, until
from log import (
    REFUSED_SECONDS,
    TURNED_AWAY,
    Agent,
    Ledger,
    Load,
    PostgresStorage,
    assert_unavailable,
    assert_verified,
    numbered,
    records,
)
from postgres import Postgres, own_postgres  # noqa: F401

AGENTS = 4
ENOUGH = 25
REFUSALS = 8
RECOVERY_SECONDS = 15
OUTAGE_SECONDS = 5
# A call in progress when the database goes away may wait twice: for its start and for its end.
ANSWER_SECONDS = 2 * REFUSED_SECONDS

Outage = Callable[[Postgres], AbstractContextManager[None]]


@contextmanager
def _away(server: Postgres, mode: str) -> Iterator[None]:
    server.stop(mode)
    try:
        yield
    finally:
        server.start()


@contextmanager
def _twice(server: Postgres) -> Iterator[None]:
    """The server goes away again before anybody has recovered."""
    server.stop("fast")
    server.start()
    with _away(server, "fast"):
        yield


OUTAGES: dict[str, Outage] = {
    "crashed": lambda server: _away(server, "immediate"),
    "stopped": lambda server: _away(server, "fast"),
    "stopped twice": _twice,
    "frozen": lambda server: server.frozen(),
}


@pytest.mark.parametrize("outage", OUTAGES.values(), ids=OUTAGES.keys())
def test_the_database_goes_away_under_load(
    own_postgres: Postgres,  # noqa: F811
    outage: Outage,
    tmp_path: Path,
) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    storage = PostgresStorage(own_postgres, own_postgres.create())
    with Gateway(tmp_path / "home", {"mcpServers": {"echo": ledger.server()}, **storage.settings()}) as gateway:
        agents = [Agent(gateway) for _ in range(AGENTS)]
        with Load(agents, itertools.count(1), ["echo:echo"]) as load:
            once_more(load, lambda: outage(own_postgres), gateway)
        check(gateway, ledger, load)
    assert_verified(gateway)
    assert own_postgres.password not in gateway.words()


def test_an_outage_that_lasts(own_postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    """Agents with known tokens get the reason for the refusal promptly, for as long as the outage lasts."""
    ledger = Ledger(tmp_path / "ledger.jsonl")
    storage = PostgresStorage(own_postgres, own_postgres.create())
    with Gateway(tmp_path / "home", {"mcpServers": {"echo": ledger.server()}, **storage.settings()}) as gateway:
        agent, numbers = Agent(gateway), itertools.count(1)
        assert agent.call("write", next(numbers)).is_success
        with _away(own_postgres, "fast"):
            end = time.monotonic() + OUTAGE_SECONDS
            while time.monotonic() < end:
                agent.refused("write", next(numbers))
        until(lambda: gateway.probe("/readyz") == 200, RECOVERY_SECONDS, "the gateway is ready again")
        assert agent.call("write", next(numbers)).is_success
        assert_verified(gateway)


def once_more(load: Load, outage: Callable[[], AbstractContextManager[None]], gateway: Gateway) -> None:
    """Works, goes through an outage, and works again."""
    work(load, "calls work")
    with outage():
        before = load.refusals()
        load.wait("calls are refused", lambda load: load.refusals() > before + REFUSALS)
        reason = assert_unavailable(gateway)
        assert "postgres://" not in reason, "anybody may ask whether the gateway is ready"
    until(lambda: gateway.probe("/readyz") == 200, RECOVERY_SECONDS, "the gateway is ready again")
    work(load, "calls work again")


def work(load: Load, what: str) -> None:
    before = len(load.successes())
    load.wait(what, lambda load: len(load.successes()) > before + ENOUGH)


def check(gateway: Gateway, ledger: Ledger, load: Load) -> None:
    # A session that is looked up while the database is away is turned away. Its call is not sent either.
    assert {answer.code for answer in load.answers.values()} <= {None, "audit_unavailable", TURNED_AWAY}
    slow = {number: answer.seconds for number, answer in load.answers.items() if answer.seconds > ANSWER_SECONDS}
    assert not slow, f"calls waited for the database: {slow}"
    arrived = ledger.numbers()
    assert len(arrived) == len(set(arrived)), "a call was sent twice"
    refused = {number for number, answer in load.answers.items() if answer.code}
    assert not refused & set(arrived), "a refused call was sent"
    # The end of a call that could not be recorded is written when the log works again.
    done = load.successes()

    def ended() -> bool:
        found = numbered(records(gateway))
        return all(one["status"] not in ("started", "interrupted") for one in found.values())

    until(ended, RECOVERY_SECONDS, "every call on the record has its end")
    found = numbered(records(gateway))
    durable = {number for number, variant in load.sent.items() if variant != "read"}
    assert not (set(arrived) & durable) - set(found), "the server saw calls without a record"
    for number in set(done) & durable:
        assert (found[number]["status"], found[number]["id"]) == ("success", done[number].record)
    assert_verified(gateway)
