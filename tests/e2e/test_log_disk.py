"""A full disk, and a read-only database file: calls are refused until the log can be written again."""

from __future__ import annotations

import errno
import itertools
import os
import sqlite3
import subprocess
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path

import pytest

from gateway import STOP_SECONDS, Gateway, until
from log import DATABASE, VARIANTS, Agent, Ledger, assert_unavailable, assert_verified, numbered, record, records

DISK_BYTES = 8 * 1024 * 1024
RECOVERY_SECONDS = 10
# The database can still write a few records into reserved pages.
MOST_CALLS_BEFORE_FULL = 3000


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system that is easily filled."""
    folder = tmp_path / "disk"
    folder.mkdir()
    done = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)], capture_output=True, text=True
    )
    if done.returncode:
        pytest.fail(f"this test has to mount a small tmpfs, and may not: {done.stderr.strip()}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def fill(folder: Path) -> None:
    """Fills the disk to the last page."""
    with open(folder / "filler", "ab", buffering=0) as filler:
        for size in (65536, 4096, 1):
            try:
                while True:
                    filler.write(b"\0" * size)
            except OSError as error:
                assert error.errno == errno.ENOSPC, error


@contextmanager
def immutable(*files: Path) -> Iterator[None]:
    """Makes files immutable, so that not even root or an open handle can write them."""
    with ExitStack() as undo:
        for file in files:
            done = subprocess.run(["chattr", "+i", str(file)], capture_output=True, text=True)
            if done.returncode:
                pytest.fail(f"this test has to make a file immutable, and may not: {done.stderr.strip()}")
            undo.callback(subprocess.run, ["chattr", "-i", str(file)], check=True)
        yield


class House:
    """A gateway whose log is about to fail. The server's ledger is on another disk."""

    def __init__(self, home: Path, ledger: Ledger) -> None:
        self.ledger = ledger
        self.gateway = Gateway(home, {"mcpServers": {"echo": ledger.server()}})
        self.numbers = itertools.count(1)

    def works(self, agent: Agent) -> list[int]:
        """Makes calls of every kind, and returns their numbers."""
        made = []
        for variant in VARIANTS * 2:
            number = next(self.numbers)
            answer = agent.call(variant, number)
            assert answer.is_success, answer.result
            assert record(self.gateway, answer.record)["arguments"] == {"n": number}
            made.append(number)
        return made

    def is_broken(self, agent: Agent, old: list[int]) -> list[int]:
        """Checks the gateway while the log cannot be written. Returns the numbers of refused calls."""
        refused = [next(self.numbers) for _ in range(2 * len(VARIANTS))]
        # The first call waits for the disk. A read does not, until the failure is detected.
        for number, variant in zip(refused, itertools.cycle(("write", "destructive", "read"))):
            agent.refused(variant, number)
        assert_unavailable(self.gateway)
        assert set(old) <= set(numbered(records(self.gateway))), "old records can still be listed"
        listed = self.gateway.run("activity", "list", "-o", "json")
        assert listed.returncode == 0, listed.stderr
        assert not set(refused) & set(self.ledger.numbers()), "a refused call was sent"
        return refused

    def recovers(self, agent: Agent, old: list[int], refused: list[int]) -> None:
        """Checks that the gateway recovers without a call or a restart."""
        until(lambda: self.gateway.probe("/readyz") == 200, RECOVERY_SECONDS, "the gateway is ready again")
        new = self.works(agent)
        arrived = self.ledger.numbers()
        assert not set(refused) & set(arrived), "a refused call was sent later"
        assert len(arrived) == len(set(arrived)), "a call was sent twice"
        found = numbered(records(self.gateway))
        assert {found[number]["status"] for number in [*old, *new]} == {"success"}
        assert not {one["status"] for one in found.values()} & {"started", "interrupted"}
        assert_verified(self.gateway)


def until_refused(house: House, agent: Agent, refill: Path) -> int:
    """Calls until the last reserved page is used. Returns the number of the first refused call."""
    for number in itertools.islice(house.numbers, MOST_CALLS_BEFORE_FULL):
        fill(refill)
        answer = agent.call("write", number, filling="x" * 4096)
        if not answer.is_success:
            assert answer.code == "audit_unavailable", answer.result
            return number
    raise AssertionError("the disk is full, and the log can still be written")


def test_a_full_disk(disk: Path, tmp_path: Path) -> None:
    house = House(disk / "home", Ledger(tmp_path / "ledger.jsonl"))
    with house.gateway:
        agent = Agent(house.gateway)
        old = house.works(agent)
        first = until_refused(house, agent, disk)
        refused = house.is_broken(agent, old)
        os.remove(disk / "filler")
        house.recovers(agent, old, [first, *refused])
    assert_verified(house.gateway)


def test_a_database_file_that_may_not_be_written(tmp_path: Path) -> None:
    house = House(tmp_path / "home", Ledger(tmp_path / "ledger.jsonl"))
    with house.gateway:
        agent = Agent(house.gateway)
        old = house.works(agent)
        files = [file for file in house.gateway.home.glob(f"{DATABASE}*") if file.suffix != ".db-shm"]
        assert files, "the database is where this test looks for it"
        with immutable(*files):
            refused = house.is_broken(agent, old)
        house.recovers(agent, old, refused)
    assert_verified(house.gateway)


def test_a_database_that_another_program_keeps_locked(tmp_path: Path) -> None:
    house = House(tmp_path / "home", Ledger(tmp_path / "ledger.jsonl"))
    with house.gateway:
        agent = Agent(house.gateway)
        old = house.works(agent)
        with closing(sqlite3.connect(house.gateway.home / DATABASE, isolation_level=None)) as other:
            other.execute("BEGIN IMMEDIATE")
            refused = house.is_broken(agent, old)
            other.execute("ROLLBACK")
        house.recovers(agent, old, refused)
    assert_verified(house.gateway)


def test_a_gateway_that_is_stopped_while_its_disk_is_full(disk: Path, tmp_path: Path) -> None:
    """The gateway stops in time, and the next one continues once there is room."""
    house = House(disk / "home", Ledger(tmp_path / "ledger.jsonl"))
    gateway = house.gateway.start()
    agent = Agent(gateway)
    try:
        old = house.works(agent)
        first = until_refused(house, agent, disk)
    finally:
        assert gateway.child is not None
        gateway.child.terminate()
        code = gateway.child.wait(STOP_SECONDS)
        gateway.child = None
    assert code in (0, 1), gateway.words()
    os.remove(disk / "filler")
    with gateway:
        agent.move(gateway)
        house.recovers(agent, old, [first])
    assert_verified(gateway)
