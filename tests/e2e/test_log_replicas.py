"""Several gateways on one PostgreSQL database: one log, with a separate chain for each gateway."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import peers
from gateway import Gateway
from log import Agent, Ledger, Load, PostgresStorage, assert_verified, numbered, record, records
from postgres import Postgres, postgres  # noqa: F401

CALLS = 40


def test_two_gateways_write_one_log(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    storage = PostgresStorage(postgres, postgres.create())
    ledger = Ledger(tmp_path / "ledger.jsonl")
    settings = {"mcpServers": {"echo": ledger.server()}, **storage.settings()}
    first, second = Gateway(tmp_path / "first", settings), Gateway(tmp_path / "second", settings)
    with first, second:
        numbers = iter(range(1, 1_000_000))
        both = [Agent(first), Agent(second), Agent(first), Agent(second)]
        with Load(both, numbers, ["echo:echo"]) as load:
            load.wait("both work", lambda load: len(load.answers) > CALLS)
        done = load.successes()
        assert len(done) == len(load.answers)
        for gateway in (first, second):
            found = numbered(records(gateway))
            assert {number: found[number]["id"] for number in done} == {n: one.record for n, one in done.items()}
            assert all(found[number]["status"] == "success" for number in done)
            assert_verified(gateway)
        for answer in list(done.values())[:4]:
            assert record(first, answer.record) == record(second, answer.record)
        the_same_folder_twice(first, tmp_path / "copy")
    for gateway in (first, second):
        assert_verified(gateway)
    chains = storage.sql(first.home, "SELECT count(DISTINCT chain) FROM records")
    assert int(chains[0][0]) == 2


def the_same_folder_twice(running: Gateway, copy: Path) -> None:
    """A copied folder has the same signing key. Two gateways on one chain would corrupt it."""
    shutil.copytree(running.home, copy, ignore=shutil.ignore_patterns("gateway.lock", "stdout.txt", "stderr.txt"))
    twin = Gateway(copy)
    done = subprocess.run(
        [peers.MCPPROXY, "serve", "--home", str(copy), "--listen", "127.0.0.1:0"],
        capture_output=True,
        text=True,
        timeout=60,
        env=twin.environment(),
    )
    assert done.returncode not in (0, 101), "a second gateway with the same key has to be refused"
    assert "signing.key" in done.stderr or "chain" in done.stderr, done.stderr
    assert running.probe("/readyz") == 200, "the first one goes on"
    assert Agent(running).call("write", 0).is_success


def test_a_gateway_that_stopped_makes_way(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    """A data folder that moves to another machine continues its chain."""
    storage = PostgresStorage(postgres, postgres.create())
    ledger = Ledger(tmp_path / "ledger.jsonl")
    with Gateway(tmp_path / "old", {"mcpServers": {"echo": ledger.server()}, **storage.settings()}) as old:
        before = Agent(old).call("write", 1)
    shutil.move(old.home, tmp_path / "new")
    with Gateway(tmp_path / "new") as new:
        after = Agent(new).call("write", 2)
        found = numbered(records(new))
        assert {number: found[number]["id"] for number in (1, 2)} == {1: before.record, 2: after.record}
        assert_verified(new)
    chains = storage.sql(new.home, "SELECT count(DISTINCT chain) FROM records")
    assert json.loads(chains[0][0]) == 1
