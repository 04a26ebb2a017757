"""A power cut loses nothing that was acknowledged, and leaves the chain of the log intact.

A layer in front of the C library takes back what was not synced; see `power_cut.c`. Three cuts in a normal run.
`MCPPROXY_POWER_CUTS=50` makes more.
"""

from __future__ import annotations

import os
import random
import sqlite3
import subprocess
import sys
from contextlib import closing
from pathlib import Path

import pytest

from log import Agent, SqliteStorage, numbered, records
from power_cut import PowerCut
from test_log_kill import AGENTS, House, check_round, one_round

CUTS = int(os.environ.get("MCPPROXY_POWER_CUTS", "3"))
SEED = 18
# A writer that says which rows are committed, and dies without closing the database.
WRITER = """
import os, sqlite3, sys
database = sqlite3.connect(sys.argv[1], isolation_level=None)
database.execute("PRAGMA journal_mode = WAL")
database.execute(f"PRAGMA synchronous = {sys.argv[2]}")
database.execute("CREATE TABLE IF NOT EXISTS t (n INTEGER)")
for n in range(50):
    database.execute("INSERT INTO t VALUES (?)", [n])
    print(n, flush=True)
os.kill(os.getpid(), 9)
"""


class DarkHouse(House):
    """A gateway whose power is cut instead of a kill."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, SqliteStorage())
        self.power = PowerCut(self.gateway.home, folder / "power", random.Random(SEED))
        plain_start = self.gateway.start
        self.gateway.start = lambda: plain_start(**self.power.environment())  # type: ignore[method-assign, assignment]

    def kill(self) -> None:
        super().kill()
        self.power.cut()


@pytest.mark.timeout(180 + 30 * CUTS)
def test_nothing_acknowledged_is_lost(tmp_path: Path) -> None:
    house, chance = DarkHouse(tmp_path), random.Random(SEED)
    house.start("all")
    assert house.gateway.child is not None
    mapped = Path(f"/proc/{house.gateway.child.pid}/maps").read_text()
    assert str(house.power.library) in mapped, "the gateway runs without the layer"
    agents = [Agent(house.gateway) for _ in range(AGENTS + 1)]
    acknowledged: dict[int, str] = {}
    try:
        for turn in range(CUTS):
            durable = {"write", "destructive"} if turn % 2 else {"read", "write", "destructive"}
            load, open_call = one_round(house, agents, chance)
            house.start("all" if turn % 2 else "writes")
            check_round(house, load, open_call, durable)
            acknowledged |= {n: answer.record for n, answer in load.answers.items() if answer.variant in durable}
        found = numbered(records(house.gateway))
        assert {number: found[number]["id"] for number in acknowledged} == acknowledged
        assert acknowledged, "too few calls to mean anything"
    finally:
        house.gateway.stop()


@pytest.mark.parametrize("synchronous", ["FULL", "OFF"])
def test_the_layer_drops_what_was_not_synced(tmp_path: Path, synchronous: str) -> None:
    power = PowerCut(tmp_path, tmp_path / "power", random.Random(SEED))
    file = tmp_path / "mcpproxy.db"
    writer = subprocess.run(
        [sys.executable, "-c", WRITER, str(file), synchronous],
        env={**os.environ, **power.environment()},
        capture_output=True,
        text=True,
        timeout=60,
    )
    assert writer.returncode == -9, writer.stderr
    power.cut()
    with closing(sqlite3.connect(file)) as database:
        assert database.execute("PRAGMA integrity_check").fetchone() == ("ok",)
        exists = database.execute("SELECT count(*) FROM sqlite_master").fetchone() == (1,)
        kept = database.execute("SELECT count(*) FROM t").fetchone()[0] if exists else 0
    committed = len(writer.stdout.split())
    if synchronous == "FULL":
        assert kept == committed == 50
    else:
        assert kept < committed, "without a sync, the last commits are gone"
