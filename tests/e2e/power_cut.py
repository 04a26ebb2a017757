"""Cuts the power of a database: whatever was written since the last fsync is gone, or a part of it."""

from __future__ import annotations

import os
import random
import struct
import subprocess
from pathlib import Path

SOURCE = Path(__file__).with_name("power_cut.c")
WATCHED = ("mcpproxy.db", "mcpproxy.db-wal")
HEAD = struct.Struct("=qqq")


class PowerCut:
    """Watches the database in one folder. Processes that run with `environment` can lose what they did not sync."""

    def __init__(self, home: Path, scratch: Path, chance: random.Random) -> None:
        self.home = home
        self.chance = chance
        self.journals = scratch / "unsynced"
        self.journals.mkdir(parents=True)
        self.library = scratch / "power_cut.so"
        build = ["cc", "-shared", "-fPIC", "-O1", "-Wall", "-o", str(self.library), str(SOURCE), "-ldl", "-pthread"]
        done = subprocess.run(build, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr

    def environment(self) -> dict[str, str]:
        return {"LD_PRELOAD": str(self.library), "POWER_CUT_DIR": str(self.journals)}

    def cut(self) -> None:
        """Takes back unsynced writes, newest first. Some of the oldest may have reached the disk already.

        Call it after the process was killed.
        """
        for name in WATCHED:
            journal = self.journals / name
            if not journal.exists():
                continue
            entries = read(journal.read_bytes())
            kept = self.chance.choice([0, 0, self.chance.randint(0, len(entries))])
            take_back(self.home / name, entries[kept:])
            journal.unlink()
        # Memory that processes shared does not survive.
        (self.home / "mcpproxy.db-shm").unlink(missing_ok=True)


def read(journal: bytes) -> list[tuple[int, int, bytes]]:
    """Reads the entries: offset, size of the file before, and the bytes that were replaced."""
    entries, at = [], 0
    while at + HEAD.size <= len(journal):
        offset, size, count = HEAD.unpack_from(journal, at)
        start = at + HEAD.size
        # The process may have died within an entry. Then the write that it was for did not happen.
        if start + count > len(journal):
            break
        entries.append((offset, size, journal[start : start + count]))
        at = start + count
    return entries


def take_back(file: Path, entries: list[tuple[int, int, bytes]]) -> None:
    opened = os.open(file, os.O_RDWR)
    try:
        for offset, size, before in reversed(entries):
            os.pwrite(opened, before, offset)
            os.ftruncate(opened, size)
    finally:
        os.close(opened)
