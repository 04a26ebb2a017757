"""Defends the log against a database that disappears, or that can no longer be written: nothing is acknowledged."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import peers
from gateway import Gateway, until
from log import (
    DATABASE,
    TURNED_AWAY,
    Agent,
    Ledger,
    PostgresStorage,
    assert_unavailable,
    assert_verified,
    numbered,
    records,
)
from postgres import Postgres, own_postgres  # noqa: F401

NOTICE_SECONDS = 30
FAILED = 1
TERMINATE = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{}' AND pid <> pg_backend_pid()"


@contextmanager
def moved_away(home: Path) -> Iterator[None]:
    """Moves the database with its write-ahead log, as a clean-up script or a wrong mount does."""
    aside = home / "aside"
    aside.mkdir()
    files = list(home.glob(f"{DATABASE}*"))
    for file in files:
        file.rename(aside / file.name)
    try:
        yield
    finally:
        for file in files:
            (aside / file.name).rename(file)


def test_writes_into_a_removed_file_are_refused(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    numbers = itertools.count(1)
    with Gateway(tmp_path / "home", {"mcpServers": {"echo": ledger.server()}}) as gateway:
        agent = Agent(gateway)
        old = [next(numbers) for _ in range(5)]
        assert all(agent.call("write", number).is_success for number in old)
        with moved_away(gateway.home):
            refused = [next(numbers) for _ in range(5)]
            for number in refused:
                assert agent.call("write", number).code in ("audit_unavailable", TURNED_AWAY)
            assert_unavailable(gateway)
            assert not (gateway.home / DATABASE).exists(), "no new database takes its place"
        until(lambda: gateway.probe("/readyz") == 200, NOTICE_SECONDS, "the gateway is ready again")
        new = next(numbers)
        assert agent.call("write", new).is_success
        found = numbered(records(gateway))
        assert {found[number]["status"] for number in [*old, new]} == {"success"}
        assert not set(refused) & set(ledger.numbers()), "a refused call was sent"
    assert_verified(gateway)


def test_an_idle_gateway_is_not_ready_without_its_database(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", {"mcpServers": {"echo": peers.misbehaving()}}) as gateway:
        assert Agent(gateway).call("write", 1).is_success
        with moved_away(gateway.home):
            until(lambda: gateway.probe("/readyz") == 503, NOTICE_SECONDS, "the gateway notices it without a call")
        until(lambda: gateway.probe("/readyz") == 200, NOTICE_SECONDS, "the gateway is ready again")


def test_no_command_creates_a_database_where_there_was_one(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"echo": peers.misbehaving()}})
    with gateway:
        assert Agent(gateway).call("write", 1).is_success
    with moved_away(gateway.home):
        commands = (
            ("token", "list"),
            ("token", "create", "x"),
            ("activity", "list"),
            ("activity", "verify"),
            ("serve", "--listen", "127.0.0.1:0"),
        )
        for command in commands:
            done = gateway.run(*command)
            assert done.returncode == FAILED, f"{command}: {done.stdout}{done.stderr}"
            assert "gone" in done.stderr and "backup" in done.stderr, done.stderr
            assert not (gateway.home / DATABASE).exists(), command
    assert_verified(gateway)


def test_a_read_only_session_is_replaced(own_postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    """A session that began read-only stays so. Only a new one can write after the server allows it again."""
    storage = PostgresStorage(own_postgres, own_postgres.create())
    turn = f"ALTER DATABASE {storage.database} SET default_transaction_read_only = "
    settings = {"mcpServers": {"echo": peers.misbehaving()}, **storage.settings()}
    with Gateway(tmp_path / "home", settings) as gateway:
        agent, numbers = Agent(gateway), itertools.count(1)
        assert agent.call("write", next(numbers)).is_success
        own_postgres.sql("postgres", turn + "on")
        own_postgres.sql("postgres", TERMINATE.format(storage.database))
        until(lambda: gateway.probe("/readyz") == 503, NOTICE_SECONDS, "the gateway notices it without a call")
        assert not agent.call("write", next(numbers)).is_success
        own_postgres.sql("postgres", turn + "off")
        until(lambda: gateway.probe("/readyz") == 200, NOTICE_SECONDS, "the gateway opens another session")
        assert agent.call("write", next(numbers)).is_success
        assert_verified(gateway)


def test_a_broken_session_is_replaced_before_a_call_needs_it(own_postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    storage = PostgresStorage(own_postgres, own_postgres.create())
    settings = {"mcpServers": {"echo": peers.misbehaving()}, **storage.settings()}
    writers = (
        "SELECT l.pid FROM pg_locks l JOIN pg_stat_activity a USING (pid) "
        f"WHERE l.locktype = 'advisory' AND a.datname = '{storage.database}'"
    )
    with Gateway(tmp_path / "home", settings) as gateway:
        agent = Agent(gateway)
        assert agent.call("write", 1).is_success
        (before,) = own_postgres.sql("postgres", writers)
        own_postgres.sql("postgres", TERMINATE.format(storage.database))

        def has_another() -> bool:
            now = own_postgres.sql("postgres", writers)
            return bool(now) and now != [before]

        until(has_another, NOTICE_SECONDS, "an idle gateway opens another session")
        until(lambda: gateway.probe("/readyz") == 200, NOTICE_SECONDS, "the gateway is ready")
        assert agent.call("write", 2).is_success
        assert_verified(gateway)
