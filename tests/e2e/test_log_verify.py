"""A large log is verified from the last verified checkpoint on, and `verify` says what it did not read again."""

from __future__ import annotations

import base64
import hashlib
import itertools
import json
import os
import re
import subprocess
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat

from gateway import Gateway
from log import Agent, Ledger, Load, Storage, storage, verify  # noqa: F401
from postgres import postgres  # noqa: F401
from typist import typed

FAILED = 1
# A chain with more lines is not read in full each time. A debug build takes a lower number, because it reads slowly.
SMALL_LINES = 200_000 if "MCPPROXY_BIN" in os.environ else 30_000
# As many lines, and some more, as the program writes them.
LARGE = rf"{SMALL_LINES // 1000},\d{{3}}"
ROWS = 5_000
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"
TIME = "2026-01-31T12:00:00.000Z"


@dataclass
class Log:
    """The log of a gateway. It can grow faster than by calls, with the key of the gateway."""

    gateway: Gateway
    storage: Storage

    def run(self, sql: str) -> list[list[Any]]:
        return self.storage.sql(self.gateway.home, sql)

    def blob(self, value: bytes) -> str:
        return f"decode('{value.hex()}', 'hex')" if self.storage.kind == "postgres" else f"X'{value.hex()}'"

    def head(self) -> tuple[int, int, bytes]:
        """Returns the greatest key, the last position and its hash."""
        ((key,),) = self.run("SELECT max(key) FROM records")
        hashes = "encode({0}, 'hex')" if self.storage.kind == "postgres" else "hex({0})"
        lines = [
            f"SELECT {seq}, {hashes.format(name)} FROM records WHERE {seq} IS NOT NULL"
            for seq, name in (("seq", "hash"), ("end_seq", "end_hash"))
        ]
        ((seq, text),) = self.run(f"SELECT * FROM ({' UNION ALL '.join(lines)}) AS lines ORDER BY 1 DESC LIMIT 1")
        return int(key), int(seq), bytes.fromhex(text)

    def grow(self, lines: int) -> None:
        """Appends records, chained and signed as the gateway does it."""
        key, seq, hashed = self.head()
        rows: list[str] = []
        for _ in range(lines):
            key, seq = next_key(key), seq + 1
            members = f'"type":"refusal","status":"refused","metadata":{{"n":{seq}}}'
            line = f'{{"seq":{seq},"id":"{name_of(key)}","line":"whole",{members}}}'
            hashed = hashlib.sha256(hashed + hashlib.sha256(line.encode()).digest()).digest()
            rows.append(f"({key},0,0,{seq},{self.blob(hashed)},'refusal','refused','{{\"n\":{seq}}}')")
            if len(rows) == ROWS:
                self.insert(rows)
        self.insert(rows)
        note = self.sign(seq, hashed)
        self.run(f"INSERT INTO checkpoints (chain, seq, note) VALUES (0, {seq}, '{note}')")
        (self.gateway.home / "checkpoint.txt").write_text(note)

    def insert(self, rows: list[str]) -> None:
        if rows:
            names = "key, tail, chain, seq, hash, kind, status, metadata"
            self.run(f"INSERT INTO records ({names}) VALUES {','.join(rows)}")
            rows.clear()

    def sign(self, seq: int, hashed: bytes) -> str:
        key = Ed25519PrivateKey.from_private_bytes(bytes.fromhex((self.gateway.home / "signing.key").read_text()))
        public = b"\x01" + key.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        ((chain,),) = self.run("SELECT name FROM chains")
        name = f"mcpproxy/{chain}"
        text = f"{name}\n{seq}\n{base64.b64encode(hashed).decode()}\n{TIME}\n"
        identity = hashlib.sha256(f"{name}\n".encode() + public).digest()[:4]
        return f"{text}\n\u2014 {name} {base64.b64encode(identity + key.sign(text.encode())).decode()}\n"


class GatewayWithLargeLog(Gateway):
    def environment(self) -> dict[str, str]:
        return {**super().environment(), "MCPPROXY_SMALL_CHAIN_LINES": str(SMALL_LINES)}


def next_key(key: int) -> int:
    """Returns the next key of chain 0: 42 bits milliseconds, 12 bits chain, 9 bits count."""
    return key + 1 if key & 511 != 511 else (key >> 21) + 1 << 21


def name_of(key: int) -> str:
    """Returns the id of a record whose random part is 0."""
    number = (key >> 21) << 80 | (key & ((1 << 21) - 1)) << 59
    return "".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(26)))


def calls(gateway: Gateway, numbers: range) -> None:
    agent = Agent(gateway)
    for number in numbers:
        assert agent.call("write", number).is_success


def verdict(gateway: Gateway, *args: str) -> dict[str, Any]:
    done = verify(gateway, *args, "-o", "json")
    found = json.loads(done.stdout)
    assert done.returncode == (0 if found["intact"] else FAILED), done.stdout + done.stderr
    return found


def succeeded(done: subprocess.CompletedProcess[str]) -> str:
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def log(storage: Storage, tmp_path: Path) -> Log:  # noqa: F811
    settings = {"mcpServers": {"echo": Ledger(tmp_path / "ledger.jsonl").server()}, **storage.settings()}
    return Log(GatewayWithLargeLog(tmp_path / "home", settings), storage)


def test_a_large_log_is_verified_from_the_last_checkpoint_on(log: Log) -> None:
    gateway = log.gateway
    with gateway:
        calls(gateway, range(3))
    log.grow(SMALL_LINES + 1)
    _, end, _ = log.head()

    found = verdict(gateway)
    assert found["intact"] and found["full"] and found["full_reason"] == "no earlier verification is known", found
    assert found["chains"][0]["lines"] == end and "verified_before" not in found["chains"][0]
    assert (gateway.home / "verified.json").stat().st_mode & 0o777 == 0o600

    # The gateway goes on, and only its new lines are read.
    with gateway:
        calls(gateway, range(3, 8))
        found = verdict(gateway)
        (chain,) = found["chains"]
        assert found["intact"] and not found["full"] and found["last_full"], found
        assert (chain["verified_before"]["position"], chain["verified_before"]["lines"]) == (end, end), chain
        assert 5 <= chain["lines"] <= 30, chain
    done = verify(gateway)
    assert done.returncode == 0
    assert re.search(rf": \d+ lines? after position {LARGE}, .*: intact since then\n", done.stdout), done.stdout
    assert re.search(rf"  not read again: {LARGE} lines, verified 20", done.stdout), done.stdout
    assert "Lines of earlier verifications were not read again." in done.stderr and "--full" in done.stderr

    # At a terminal, a full run shows how far it is.
    code, screen = typed(gateway, ["activity", "verify", "--full"], [])
    assert code == 0 and re.search(rf"[\d,]+ of {LARGE} lines…", screen), screen
    assert ": intact\r\n" in screen and "not read again" not in screen, screen
    doctor = json.loads(gateway.run("doctor", "-o", "json").stdout)
    (row,) = [row for row in doctor["checks"] if row["code"] == "chain_damaged"]
    assert row["result"] == "ok" and "every line was verified within 1 day" in row["message"], row

    # A change of an old line is outside of what is read. A full run finds it, and it is not forgotten.
    log.run("UPDATE records SET tool = 'other' WHERE seq = 100")
    found = verdict(gateway)
    assert found["intact"] and not found["full"], found
    for args in (("--full",), ()):
        found = verdict(gateway, *args)
        assert found["full"] and found["chains"][0]["damage"]["seq"] == 100, found
    assert found["full_reason"] == "the last verification found damage", found
    doctor = json.loads(gateway.run("doctor", "-o", "json").stdout)
    (row,) = [row for row in doctor["checks"] if row["code"] == "chain_damaged"]
    assert row["result"] == "error" and "the last verification found damage" in row["message"], row
    log.run("UPDATE records SET tool = NULL WHERE seq = 100")
    assert verdict(gateway)["full"]

    # A change of a new line is found at once.
    with gateway:
        calls(gateway, range(8, 12))
    _, end, _ = log.head()
    log.run(f"UPDATE records SET metadata = '{{}}' WHERE seq = {end - 1} OR end_seq = {end - 1}")
    found = verdict(gateway)
    assert not found["intact"] and not found["full"], found
    assert found["chains"][0]["damage"]["seq"] >= end - 5, found


def test_the_end_of_a_large_log_cannot_be_cut_off(log: Log) -> None:
    gateway = log.gateway
    with gateway:
        calls(gateway, range(3))
    log.grow(SMALL_LINES + 1)
    assert verdict(gateway)["full"]
    _, end, _ = log.head()
    # The checkpoint of the last verification is gone, too. But the data folder knows it.
    log.run(f"DELETE FROM records WHERE seq > {end - 10}")
    log.run(f"DELETE FROM checkpoints WHERE seq > {end - 10}")
    (gateway.home / "checkpoint.txt").unlink()
    found = verdict(gateway)
    assert found["full"] and "checkpoint of the last verification" in found["full_reason"], found
    assert found["chains"][0]["damage"]["what"].endswith("the last records are missing"), found


def test_what_sets_the_log_back_makes_the_next_verification_read_everything(log: Log, tmp_path: Path) -> None:
    gateway, archive = log.gateway, tmp_path / "backup.tar"
    state = gateway.home / "verified.json"
    with gateway:
        calls(gateway, range(3))
        found = verdict(gateway)
        assert found["full"] and state.exists(), found
    small = verdict(gateway)
    assert small["full"] and small["full_reason"].startswith("at most 200,000 lines"), small
    assert verdict(gateway, "--full")["full_reason"] == "everything was asked for"

    succeeded(gateway.run("activity", "key", "rotate"))
    # The file is evidence of the old chain, so it stays.
    assert state.exists()
    assert verdict(gateway)["full_reason"] == "the records about restores and rotated keys have changed"
    succeeded(gateway.run("backup", str(archive)))
    listed = subprocess.run(["tar", "-tf", str(archive)], capture_output=True, text=True, check=True).stdout
    assert "signing.key" in listed and "verified.json" not in listed, listed
    succeeded(gateway.run("restore", str(archive), "--force"))
    assert not state.exists()
    assert verdict(gateway)["intact"] and state.exists()
    # Other users must not choose what is skipped.
    state.chmod(0o666)
    assert "other users can write it" in verdict(gateway)["full_reason"]
    assert state.stat().st_mode & 0o777 == 0o600
    succeeded(gateway.run("migrate", "--to", f"sqlite:{tmp_path / 'other.db'}"))
    assert not state.exists()


def test_an_export_is_continued_while_calls_run(log: Log, tmp_path: Path) -> None:
    gateway, file = log.gateway, tmp_path / "records.jsonl"
    mark = tmp_path / "records.jsonl.position"
    words = ("activity", "export", "--type", "call", "--continue", "--out", str(file))

    def exported() -> list[str]:
        return [json.loads(line)["id"] for line in file.read_text().splitlines()]

    with gateway:
        with Load([Agent(gateway) for _ in range(3)], itertools.count(1000), ["echo:echo"]) as load:
            for least in (30, 60, 90):
                load.wait("calls", lambda load, least=least: len(load.answers) > least)
                succeeded(gateway.run(*words))
        # As if an export had been interrupted.
        with file.open("a") as part:
            part.write('{"id": "half')
        succeeded(gateway.run(*words))
        ids = exported()
        assert len(ids) == len(set(ids)), "no record twice"
        assert set(ids) == {one["id"] for one in gateway.records("--type", "call", "--limit", "500")}
        succeeded(gateway.run(*words))
        assert exported() == ids and file.stat().st_mode & 0o777 == 0o600
        other = gateway.run(*words, "--format", "csv")
        assert other.returncode == 2 and "another format or other filters" in other.stderr, other.stderr

        # With a position of one's own.
        done = gateway.run("activity", "export", "--after", "f")
        (position,) = re.findall(r"--after (f\S+)", done.stderr)
        calls(gateway, range(2))
        done = gateway.run("activity", "export", "--type", "call", "--after", position)
        assert len(done.stdout.splitlines()) == 2, done.stdout
    # Another history has another line at this position.
    kept = json.loads(mark.read_text())
    assert kept["what"] == {"format": "jsonl", "type": "call"}, kept
    name, _ = kept["at"]["0"]
    mark.write_text(json.dumps({**kept, "at": {"0": [name, "00" * 32]}}))
    refused = gateway.run(*words)
    assert refused.returncode == FAILED and "restored or replaced" in refused.stderr, refused.stderr
    mark.write_text(json.dumps(kept))
    # A link may lead to any file.
    whole = file.rename(tmp_path / "whole.jsonl")
    file.symlink_to(whole)
    size = whole.stat().st_size
    assert gateway.run(*words).returncode == FAILED and whole.stat().st_size == size
    file.unlink()
    whole.rename(file)
    succeeded(gateway.run(*words))
    mark.unlink()
    refused = gateway.run(*words)
    assert refused.returncode == FAILED and "exists, but" in refused.stderr, refused.stderr
