"""Defends the log: damage is found, and no new record hides it until an operator accepts it on the record."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

import peers
from gateway import Gateway
from log import DATABASE, Agent, Storage, record, storage, verify  # noqa: F401
from postgres import postgres  # noqa: F401

REFUSED = 1
ACCEPT = "serve --accept-damage"


def written(folder: Path, storage: Storage) -> Gateway:  # noqa: F811
    """Returns a stopped gateway with a few records, signed to the end."""
    gateway = Gateway(folder / "home", {"mcpServers": {"echo": peers.misbehaving()}, **storage.settings()})
    with gateway:
        agent = Agent(gateway)
        for number in range(5):
            assert agent.call("write", number).is_success
    assert (gateway.home / "checkpoint.txt").exists()
    return gateway


def refused(gateway: Gateway, *words: str) -> None:
    """Checks that the gateway does not start, and says why and what to do."""
    done = gateway.run("serve", "--listen", "127.0.0.1:0")
    assert done.returncode == REFUSED, done.stderr
    for word in (*words, "activity verify", ACCEPT):
        assert word in done.stderr, done.stderr


def accepted(gateway: Gateway, storage: Storage) -> None:  # noqa: F811
    """Starts with the damage accepted, and checks that the log says so and that the next start needs no flag."""
    before = {row[0] for row in storage.sql(gateway.home, "SELECT name FROM chains")}
    original = gateway.start_words
    gateway.start_words = ("--accept-damage",)
    with gateway:
        (found,) = gateway.records("--type", "settings", "--status", "error", "--limit", "1")
        assert (found["code"], found["status"]) == ("damage_accepted", "error"), found
        assert record(gateway, found["id"])["metadata"]["damage"] in found["message"]
        assert Agent(gateway).call("write", 100).is_success
    gateway.start_words = original
    assert before < {row[0] for row in storage.sql(gateway.home, "SELECT name FROM chains")}, "the old chain stays"
    with gateway:
        assert Agent(gateway).call("write", 101).is_success


DAMAGE = {
    "the end cut off": "DELETE FROM records WHERE seq = (SELECT max(seq) FROM records)",
    "a record changed": "UPDATE records SET tool = 'other' WHERE seq = 2",
    "a checkpoint forged": "UPDATE checkpoints SET note = 'mcpproxy/0\n1\nAA==\n'",
}


@pytest.mark.parametrize("damage", DAMAGE.values(), ids=DAMAGE.keys())
def test_a_damaged_chain(storage: Storage, damage: str, tmp_path: Path) -> None:  # noqa: F811
    gateway = written(tmp_path, storage)
    storage.sql(gateway.home, damage)
    refused(gateway, "is damaged: ")
    accepted(gateway, storage)
    assert verify(gateway).returncode == REFUSED, "accepted damage is still damage"


def test_a_missing_key(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    gateway = written(tmp_path, storage)
    key = gateway.home / "signing.key"
    saved = key.read_bytes()
    key.unlink()
    refused(gateway, "`signing.key` is missing")
    assert not key.exists(), "no new key takes its place"
    key.write_bytes(saved)
    key.chmod(0o600)
    with gateway:
        assert Agent(gateway).call("write", 10).is_success
    key.unlink()
    accepted(gateway, storage)


def test_a_replaced_key(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    gateway = written(tmp_path, storage)
    (gateway.home / "signing.key").write_text("07" * 32)
    refused(gateway, "`signing.key` is not the key of chain")
    accepted(gateway, storage)
    assert (gateway.home / "signing.key.old").read_text().strip() == "07" * 32


def test_a_replaced_key_without_the_checkpoint(tmp_path: Path) -> None:
    """The chains of a SQLite database tell, because only one gateway writes it."""
    gateway = written(tmp_path, Storage())
    (gateway.home / "signing.key").unlink()
    (gateway.home / "checkpoint.txt").unlink()
    refused(gateway, "`signing.key` is missing")


def test_an_index_that_hides_a_record(tmp_path: Path) -> None:
    """The chain is intact, but `activity list --tool` reads an index that lacks a row."""
    gateway = written(tmp_path, Storage())
    assert verify(gateway).returncode == 0
    index = "CREATE INDEX records_tool ON records (tool, key) WHERE tool IS NOT NULL"
    with closing(sqlite3.connect(gateway.home / DATABASE, isolation_level=None)) as database:
        (key,) = database.execute("SELECT max(key) FROM records WHERE tool IS NOT NULL").fetchone()
        database.execute("DROP INDEX records_tool")
        database.execute(f"{index} AND key <> {key}")
        database.execute("PRAGMA writable_schema = ON")
        database.execute("UPDATE sqlite_master SET sql = ? WHERE name = 'records_tool'", (index,))
    done = verify(gateway, "-o", "json")
    assert done.returncode == REFUSED, done.stdout
    found = json.loads(done.stdout)
    assert not found["intact"] and all(chain["intact"] for chain in found["chains"]), found
    assert found["database_damage"] and "records_tool" in found["database_damage"][0], found
    assert "database: DAMAGED" in verify(gateway).stdout


def test_no_records_where_a_checkpoint_says_there_were_some(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    gateway = written(tmp_path, storage)
    for table in ("payloads", "records", "checkpoints", "chains"):
        storage.sql(gateway.home, f"DELETE FROM {table}")
    assert verify(gateway).returncode == REFUSED
    refused(gateway, "is damaged: ")
