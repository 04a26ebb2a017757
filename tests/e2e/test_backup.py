"""Backups, restores and moves of a data folder, on SQLite and PostgreSQL."""

from __future__ import annotations

import itertools
import json
import re
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

import peers
import verify_chain
from gateway import Gateway, until
from log import Agent, Ledger, Load, PostgresStorage, Storage, storage, verify  # noqa: F401
from postgres import Postgres, postgres  # noqa: F401

FAILED = 1


def settings_for(folder: Path, storage: Storage) -> dict[str, Any]:
    return {
        "mcpServers": {"echo": Ledger(folder / "ledger.jsonl").server()},
        "activity": {"checkpoints_to": str(folder / "checkpoints.txt")},
        **storage.settings(),
    }


def calls(gateway: Gateway, numbers: range) -> None:
    agent = Agent(gateway)
    for number in numbers:
        assert agent.call("write", number).is_success


def ids(gateway: Gateway) -> set[str]:
    return {record["id"] for record in gateway.records("--limit", "500") if record["status"] != "started"}


def exported_ids(file: Path) -> set[str]:
    return {json.loads(line)["metadata"]["uid"] for line in file.read_text().splitlines()}


def succeeded(done: subprocess.CompletedProcess[str]) -> dict[str, Any]:
    assert done.returncode == 0, done.stdout + done.stderr
    return json.loads(done.stdout)


def verdict(gateway: Gateway, *args: str) -> dict[str, Any]:
    return json.loads(verify(gateway, *args, "-o", "json").stdout)


def test_a_backup_under_load_is_restored(storage: Storage, tmp_path: Path) -> None:
    archive, elsewhere = tmp_path / "backup.tar", tmp_path / "checkpoints.txt"
    home = tmp_path / "home"
    with Gateway(home, settings_for(tmp_path, storage)) as gateway:
        (home / "contracts").mkdir(exist_ok=True)
        gateway.write("contracts/echo.yaml", "tool: echo:echo\ndescription: ours\n")
        with Load([Agent(gateway) for _ in range(3)], itertools.count(1000), ["echo:echo"]) as load:
            load.wait("calls", lambda load: len(load.answers) > 60)
            made = succeeded(gateway.run("backup", str(archive), "-o", "json"))
            done = len(load.answers)
            load.wait("more calls", lambda load: len(load.answers) > done + 60)
        assert archive.stat().st_mode & 0o777 == 0o600
        again = gateway.run("backup", str(archive))
        assert again.returncode == FAILED and "exists already" in again.stderr, again.stderr
        checked = succeeded(gateway.run("backup", "--check", str(archive), "-o", "json"))
        assert (checked["rows"], checked["position"]) == (made["rows"], made["position"])
        refused = gateway.run("restore", str(archive), "--force")
        assert refused.returncode == FAILED and "A gateway already runs" in refused.stderr, refused.stderr
    before = gateway.records("--limit", "500")

    refused = gateway.run("restore", str(archive))
    assert refused.returncode == FAILED and "--force" in refused.stderr, refused.stderr
    gateway.write("contracts/later.yaml", "tool: echo:other\n")
    planned = succeeded(gateway.run("restore", str(archive), "--dry-run", "-o", "json"))
    restored = succeeded(gateway.run("restore", str(archive), "--force", "-o", "json"))
    assert restored["records_gone"] == planned["records_gone"] > 0
    assert not (home / "contracts" / "later.yaml").exists() and (home / "contracts" / "echo.yaml").exists()
    assert [Path(kept) for kept in restored["kept"] if Path(kept).exists()], restored
    assert not (home / "restore.pending").exists() and not (home / "restoring").exists()

    # The log tells of the restore, and checkpoints of before are not held against it.
    found = verdict(gateway, "--checkpoint", str(elsewhere))
    assert found["intact"], found
    (chain,) = found["chains"]
    assert [restore["records_gone"] for restore in chain["restores"]] == [restored["records_gone"]]
    assert "restored from the backup of" in verify(gateway).stdout
    (record,) = gateway.records("--code", "restored")
    assert record["type"] == "settings", record

    # The gateway goes on, with the same token.
    with gateway:
        calls(gateway, range(5000, 5010))
    found = verdict(gateway, "--checkpoint", str(elsewhere))
    assert found["intact"], found
    kept = {record["id"] for record in gateway.records("--limit", "500")}
    assert len({record["id"] for record in before} - kept) > 0, "later records are gone"


def test_a_log_that_was_set_back_without_a_restore_is_an_attack(storage: Storage, tmp_path: Path) -> None:
    archive, elsewhere = tmp_path / "backup.tar", tmp_path / "checkpoints.txt"
    with Gateway(tmp_path / "home", settings_for(tmp_path, storage)) as gateway:
        calls(gateway, range(5))
        succeeded(gateway.run("backup", str(archive), "-o", "json"))
        calls(gateway, range(5, 10))
    succeeded(gateway.run("restore", str(archive), "--force", "-o", "json"))
    assert verdict(gateway, "--checkpoint", str(elsewhere))["intact"]
    # The attacker removes the record of the restore and everything that signs it.
    position = json.loads(verify(gateway, "-o", "json").stdout)["chains"][0]["restores"][0]["seq"]
    for table, column in (("checkpoints", "seq"), ("records", "seq")):
        storage.sql(tmp_path / "home", f"DELETE FROM {table} WHERE {column} >= {position}")
    done = verify(gateway, "--checkpoint", str(elsewhere))
    assert done.returncode == FAILED and "the last records are missing" in done.stdout, done.stdout + done.stderr


def test_a_changed_backup_is_refused(tmp_path: Path) -> None:
    archive = tmp_path / "backup.tar"
    with Gateway(tmp_path / "home", settings_for(tmp_path, Storage())) as gateway:
        calls(gateway, range(5))
        succeeded(gateway.run("backup", str(archive), "-o", "json"))
    whole = archive.read_bytes()
    other = Gateway(tmp_path / "other")
    at = whole.index(b"number 3")
    for name, changed, said in (
        ("something else", b"hello" * 1000, "is not a backup"),
        ("empty", b"", "is not a backup"),
        ("a byte of a row", whole[:at] + b"X" + whole[at + 1 :], "is not an intact backup"),
        ("cut off", whole[: len(whole) // 2], "is not an intact backup: it is cut off"),
        ("without its end", whole[:-2048], "is not an intact backup"),
    ):
        archive.write_bytes(changed)
        for command in (("backup", "--check", str(archive)), ("restore", str(archive))):
            done = other.run(*command)
            assert done.returncode == FAILED and said in done.stderr, (name, done.stderr)
        if said == "is not a backup":
            assert not (tmp_path / "other" / "gateway.lock").exists(), name
        assert not (tmp_path / "other" / "mcpproxy.db").exists(), name
        assert not (tmp_path / "other" / "signing.key").exists(), name


def test_a_backup_of_one_database_is_restored_to_the_other(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    archive = tmp_path / "backup.tar"
    with Gateway(tmp_path / "home", settings_for(tmp_path, Storage())) as gateway:
        calls(gateway, range(5))
        succeeded(gateway.run("backup", str(archive), "-o", "json"))
    url = postgres.url(postgres.create())
    shared = Gateway(tmp_path / "shared")
    done = shared.run("restore", str(archive), "--storage", url)
    assert done.returncode == 0, done.stderr
    assert postgres.password not in done.stdout + done.stderr
    assert verify(shared).returncode == 0 and not (tmp_path / "shared" / "mcpproxy.db").exists()
    # A database with data is not replaced without --force.
    third = Gateway(tmp_path / "third")
    refused = third.run("restore", str(archive), "--storage", url)
    assert refused.returncode == FAILED and "already contains data" in refused.stderr, refused.stderr
    assert postgres.password not in refused.stderr
    assert verify(shared).returncode == 0
    back = tmp_path / "back.tar"
    succeeded(shared.run("backup", str(back), "-o", "json"))
    fourth = Gateway(tmp_path / "fourth")
    succeeded(fourth.run("restore", str(back), "--storage", "sqlite:mcpproxy.db", "-o", "json"))
    assert verify(fourth).returncode == 0 and (tmp_path / "fourth" / "mcpproxy.db").exists()
    assert len(fourth.records("--tool", "echo:echo")) == 5


BEGUN = "SELECT count(*) FROM pg_tables WHERE tablename = 'migration_progress'"


def is_halfway(server: Postgres, database: str) -> bool:
    copied = "SELECT count(*) FROM migration_progress WHERE name <> 'source'"
    return server.sql(database, BEGUN) == [["1"]] and server.sql(database, copied) != [["0"]]


def killed_halfway(gateway: Gateway, server: Postgres) -> str:
    """Kills a migration after its first rows. Returns the database. A migration may be faster than the signal."""
    for _ in range(5):
        database = server.create()
        command = [peers.MCPPROXY, "migrate", "--to", server.url(database), "--home", str(gateway.home)]
        migrating = subprocess.Popen(
            command, env=gateway.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
        )
        while migrating.poll() is None and not is_halfway(server, database):
            time.sleep(0.005)
        migrating.send_signal(signal.SIGKILL)
        migrating.wait()
        if is_halfway(server, database):
            return database
    raise AssertionError("no migration was killed halfway")


def test_a_killed_migration_goes_on(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    gateway = Gateway(tmp_path / "home", settings_for(tmp_path, Storage()))
    with gateway:
        with Load([Agent(gateway) for _ in range(4)], itertools.count(), ["echo:echo"]) as load:
            load.wait("many calls", lambda load: len(load.answers) > 900, 120)
        wrong = gateway.run("migrate", "--to", "nonsense")
        assert "--to names no usable database: expected `sqlite:PATH`" in wrong.stderr, wrong.stderr
        running = gateway.run("migrate", "--to", postgres.url("postgres"))
        assert running.returncode == FAILED and "A gateway already runs" in running.stderr, running.stderr
    database = killed_halfway(gateway, postgres)
    url = postgres.url(database)
    # Nothing uses a half copied database.
    early = Gateway(tmp_path / "early", settings_for(tmp_path, PostgresStorage(postgres, database)))
    for command in (("serve", "--listen", "127.0.0.1:0"), ("activity", "verify")):
        refused = early.run(*command)
        assert refused.returncode == FAILED and "has not finished" in refused.stderr, (command, refused.stderr)
    done = gateway.run("migrate", "--to", url, "--switch", "-o", "json")
    copied = succeeded(done)
    assert copied["switched"] and copied["continued"] and postgres.password not in done.stdout + done.stderr
    assert postgres.sql(database, BEGUN) == [["0"]], "nothing is left behind"
    assert verdict(gateway)["intact"]
    # The gateway goes on with the new database, and the same token is valid.
    with gateway:
        calls(gateway, range(9000, 9003))
    moved = PostgresStorage(postgres, database)
    assert moved.sql(tmp_path / "home", "SELECT count(*) FROM records WHERE tool = 'echo'") != [["0"]]
    found = verdict(gateway, "--checkpoint", str(tmp_path / "checkpoints.txt"))
    assert found["intact"], found
    again = gateway.run("migrate", "--to", url)
    assert again.returncode != 0 and "already uses" in again.stderr, again.stderr


def test_a_rotated_key_is_trusted_through_the_old_one(storage: Storage, tmp_path: Path) -> None:
    elsewhere, exported = tmp_path / "checkpoints.txt", tmp_path / "exported.jsonl"
    settings = settings_for(tmp_path, storage) | {"export": {"to": f"file:{exported}"}}
    with Gateway(tmp_path / "home", settings) as gateway:
        calls(gateway, range(5))
        refused = gateway.run("activity", "key", "rotate")
        assert refused.returncode == FAILED and "A gateway already runs" in refused.stderr, refused.stderr
    old = gateway.run("activity", "key").stdout.strip()
    rotated = succeeded(gateway.run("activity", "key", "rotate", "-o", "json"))
    assert rotated["old_key"] == old != rotated["key"] == gateway.run("activity", "key").stdout.strip()
    assert old in (tmp_path / "home" / "retired-keys.txt").read_text()
    assert not (tmp_path / "home" / "signing.key.next").exists()
    with gateway:
        calls(gateway, range(5, 10))
        # The export goes on with the rest of the old chain. It has the record of the rotation.
        until(lambda: ids(gateway) <= exported_ids(exported), 30, "all records are exported")
    for args in ((), ("--key", old), ("--checkpoint", str(elsewhere))):
        found = verdict(gateway, *args)
        assert found["intact"] and [chain["key_trusted"] for chain in found["chains"]] == [True, True], (args, found)
    # An auditor with the old key verifies a bundle of the new chain, with this program and without it.
    bundle = tmp_path / "bundle.jsonl"
    assert gateway.run("activity", "export", "--signed", "--out", str(bundle)).returncode == 0
    elsewhere_home = Gateway(tmp_path / "auditor")
    for key in (old, rotated["key"]):
        assert elsewhere_home.run("activity", "verify", str(bundle), "--key", key).returncode == 0
        proven = verify_chain.verify(bundle.read_text(), key)
        assert proven.chain == rotated["chain"] and proven.sealed
    other = Gateway(tmp_path / "other", settings_for(tmp_path, Storage()))
    with other:
        pass
    stranger = other.run("activity", "key").stdout.strip()
    assert elsewhere_home.run("activity", "verify", str(bundle), "--key", stranger).returncode == FAILED
    with pytest.raises(verify_chain.Bad):
        verify_chain.verify(bundle.read_text(), stranger)


def test_the_commands_of_the_page_run(postgres: Postgres, tmp_path: Path) -> None:  # noqa: F811
    """Console blocks run with the book. These are the others, which need a stopped gateway or PostgreSQL."""
    page = (peers.ROOT / "docs" / "backup.md").read_text()
    blocks = re.findall(r"^```sh\n(.*?)^```$", page, re.M | re.S)
    lines = [line for block in blocks for line in block.splitlines()]
    assert len(lines) == 5 and all(line.startswith("mcpproxy ") for line in lines), lines
    gateway = Gateway(tmp_path / "home", settings_for(tmp_path, Storage()))
    with gateway:
        calls(gateway, range(3))
        succeeded(gateway.run("backup", str(tmp_path / "monday.tar"), "-o", "json"))
    (tmp_path / "bin").mkdir()
    (tmp_path / "bin" / "mcpproxy").symlink_to(peers.MCPPROXY)
    for line in lines:
        database = postgres.create()
        own = line.replace("db.example.com/mcpproxy", f"127.0.0.1:{postgres.port}/{database}")
        environment = {
            **gateway.environment(),
            "PATH": f"{tmp_path / 'bin'}:/usr/bin:/bin",
            "MCPPROXY_HOME": str(tmp_path / "home"),
            "DATABASE_URL": postgres.url(database),
            "DATABASE_PASSWORD": postgres.password,
        }
        done = subprocess.run(["sh", "-c", own], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
        assert done.returncode == 0, f"{line}\n{done.stdout}{done.stderr}"
        assert postgres.password not in done.stdout + done.stderr
    assert verify(Gateway(tmp_path / "elsewhere")).returncode == 0
