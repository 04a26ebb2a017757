"""Changes of the log in the database are detected, with the position of the damaged record."""

from __future__ import annotations

import base64
import hashlib
import json
import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import peers
import verify_chain
from gateway import Gateway
from log import Agent, Ledger, Storage, storage_of, verify
from postgres import postgres  # noqa: F401

Row = dict[str, Any]
FAILED = 1
CROCKFORD = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"


# -- a log to damage --------------------------------------------------------------------------------------------


@dataclass
class Log:
    """The log of a stopped gateway, and a copy of it for each test."""

    gateway: Gateway
    storage: Storage
    # Copies of the checkpoints, out of reach of an attacker with the database.
    elsewhere: Path
    rows: list[Row] = field(default_factory=list)

    def copy(self, folder: Path) -> Log:
        shutil.copytree(self.gateway.home, folder / "home")
        shutil.copy(self.elsewhere, folder / "checkpoints.txt")
        copy = Log(Gateway(folder / "home"), self.storage.copy(), folder / "checkpoints.txt")
        settings = json.loads((folder / "home" / "mcp_config.json").read_text())
        copy.gateway.write_settings(json.dumps({**settings, **copy.storage.settings()}))
        return copy.read()

    def read(self) -> Log:
        self.rows = self.table("records", "key")
        return self

    def table(self, name: str, order: str) -> list[Row]:
        if self.storage.kind == "postgres":
            rows = self.storage.sql(self.gateway.home, f"SELECT row_to_json(t) FROM {name} t ORDER BY {order}")
            return [json.loads(row) for (row,) in rows]
        columns = [row[1] for row in self.storage.sql(self.gateway.home, f"PRAGMA table_info({name})")]
        rows = self.storage.sql(self.gateway.home, f"SELECT * FROM {name} ORDER BY {order}")
        return [dict(zip(columns, row, strict=True)) for row in rows]

    def run(self, sql: str) -> None:
        self.storage.sql(self.gateway.home, sql)

    def change(self, row: Row, **columns: Any) -> None:
        """Changes columns of a row."""
        changes = ", ".join(f"{name} = {literal(value)}" for name, value in columns.items())
        self.run(f"UPDATE records SET {changes} WHERE key = {row['key']}")

    def insert(self, row: Row) -> None:
        self.run(f"INSERT INTO records ({', '.join(row)}) VALUES ({', '.join(map(literal, row.values()))})")

    def delete(self, *rows: Row, table: str = "records") -> None:
        self.run(f"DELETE FROM {table} WHERE key IN ({', '.join(str(row['key']) for row in rows)})")

    def row(self, **facts: Any) -> Row:
        """Returns a record with these fields from the middle of the log."""
        found = [row for row in self.rows if facts.items() <= row.items()]
        return found[len(found) // 2]

    @property
    def last_seq(self) -> int:
        return max(max(row["seq"], row["end_seq"] or 0) for row in self.rows)


def literal(value: Any) -> str:
    match value:
        case None:
            return "NULL"
        case bytes():
            return f"X'{value.hex()}'"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case _:
            return str(value)


def flipped(value: Any) -> Any:
    """Returns the value with one bit changed. In text, letters, digits and hexadecimal digits keep their class."""
    match value:
        case int():
            return value ^ 1
        case bytes():
            return value[:-1] + bytes([value[-1] ^ 1])
        case str():
            keeps_its_kind = "[b-e0-9]" if value.startswith("\\x") else "[b-yB-Y0-9]"
            at = [match.start() for match in re.finditer(keeps_its_kind, value)][-1]
            return value[:at] + chr(ord(value[at]) ^ 1) + value[at + 1 :]
    raise TypeError(value)


def name_of(row: Row) -> str:
    """Returns the id of a record: the time, the low bits of the key and the tail, in Crockford's base 32."""
    key, low_bits, tail_bits = row["key"], 21, 59
    number = (key >> low_bits) << 80 | (key & ((1 << low_bits) - 1)) << tail_bits | row["tail"]
    return "".join(CROCKFORD[number >> 5 * place & 31] for place in reversed(range(26)))


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def whole(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Log]:
    """A log with every kind of record, signed to its end."""
    folder = tmp_path_factory.mktemp("whole")
    storage = storage_of(request.param, request)
    ledger = Ledger(folder / "ledger.jsonl")
    hints = {"command": peers.PYTHON, "args": [str(peers.HERE / "hints_server.py"), str(folder / "hints.jsonl")]}
    elsewhere = folder / "checkpoints.txt"
    settings = {
        "mcpServers": {"echo": ledger.server(), "hints": hints},
        "activity": {"checkpoints_to": str(elsewhere)},
        **storage.settings(),
    }
    with Gateway(folder / "home", settings) as gateway:
        agent = Agent(gateway)
        for number in range(8):
            for variant in ("read", "write", "destructive"):
                assert agent.call(variant, number).is_success
            assert agent.call("read", number, "hints:destructive").code == "SERVER_MISMATCH"
            assert agent.call("destructive", number, "hints:broken").result["isError"]
    yield Log(gateway, storage, elsewhere).read()


@pytest.fixture
def log(whole: Log, tmp_path: Path) -> Log:
    return whole.copy(tmp_path)


# -- helpers ----------------------------------------------------------------------------------------------------


def damage(log: Log, *args: str) -> dict[str, Any]:
    """Returns the detected damage, as text and as JSON. The text names the position."""
    done = verify(log.gateway, *args, "-o", "json")
    assert done.returncode == FAILED, f"{done.returncode}\n{done.stdout}{done.stderr}"
    (found,) = [chain["damage"] for chain in json.loads(done.stdout)["chains"] if not chain["intact"]]
    words = verify(log.gateway, *args)
    assert words.returncode == FAILED and found["what"] in words.stdout, words.stdout + words.stderr
    if found["seq"]:
        assert found["what"].startswith(f"position {found['seq']}"), found
    return found


def assert_found(log: Log, *positions: int, args: tuple[str, ...] = ()) -> dict[str, Any]:
    """Checks that the damage is found at one of these positions."""
    found = damage(log, *args)
    assert found["seq"] in positions, f"{found}, not at {positions}"
    return found


def assert_row_found(log: Log, row: Row) -> None:
    """Checks that the damage is found at one of the two lines of this record."""
    assert_found(log, *(seq for seq in (row["seq"], row["end_seq"]) if seq))


def test_nothing_is_found_where_nothing_was_done(log: Log) -> None:
    assert {row["kind"] for row in log.rows} >= {"call", "refusal"}
    assert {row["status"] for row in log.rows} >= {"success", "error", "refused"}
    assert [row for row in log.rows if row["end_seq"]] and [row for row in log.rows if not row["end_seq"]]
    done = verify(log.gateway)
    assert done.returncode == 0, done.stdout + done.stderr
    done = verify(log.gateway, "--checkpoint", str(log.elsewhere))
    assert done.returncode == 0, done.stdout + done.stderr
    shown = log.gateway.run("activity", "show", name_of(log.row(kind="refusal")))
    assert shown.returncode == 0, "this test knows how records are named"


COLUMNS = [
    "key",
    "tail",
    "chain",
    "seq",
    "hash",
    "kind",
    "status",
    "agent",
    "client",
    "server",
    "tool",
    "intent_type",
    "code",
    "message",
    "duration_us",
    "metadata",
    "args_bytes",
    "args_digest",
    "result_bytes",
    "result_digest",
    "end_seq",
    "end_hash",
    "end_metadata",
]


@pytest.mark.parametrize("column", COLUMNS)
def test_one_bit_of_one_column(whole: Log, column: str) -> None:
    """Changes the log itself and undoes it afterwards, because a copy for each case takes too long."""
    log = whole
    having = [row for row in log.rows if row[column] is not None and row["seq"] > 3]
    if not having:
        assert column == "end_metadata", f"no record has a {column}"
        return
    row = having[len(having) // 2]
    changed = flipped(row[column])
    if column in ("key", "seq", "end_seq"):
        # The next value belongs to another record, so the database would reject it.
        changed = row[column] + 1_000_000
    log.change(row, **{column: changed})
    try:
        if column == "chain":
            # Its own chain misses the record, and the other chain does not know it.
            assert verify(log.gateway).returncode == FAILED
        else:
            assert_row_found(log, row)
    finally:
        log.change({"key": changed} if column == "key" else row, **{column: row[column]})


@pytest.mark.parametrize("column", ["status", "kind", "intent_type", "risk"])
def test_a_changed_word(log: Log, column: str) -> None:
    words = {"status": "cancelled", "kind": "settings", "intent_type": "read", "risk": "low"}
    row = log.row(kind="call", status="error", intent_type="destructive")
    log.change(row, **{column: words[column]})
    assert_row_found(log, row)


@pytest.mark.parametrize("column", ["agent", "message", "code", "duration_us", "intent_type", "args_digest"])
def test_a_value_where_there_was_none_and_the_other_way_round(log: Log, column: str) -> None:
    row = next((row for row in log.rows[5:] if row[column] is not None), None)
    assert row is not None, f"no record has a {column}"
    log.change(row, **{column: None})
    assert_row_found(log, row)


@pytest.mark.parametrize("part", ["args", "result"])
def test_one_bit_of_a_payload(log: Log, part: str) -> None:
    texts = {row["key"]: row[part] for row in log.table("payloads", "key") if row[part]}
    row = [row for row in log.rows if row["key"] in texts][7]
    log.run(f"UPDATE payloads SET {part} = {literal(flipped(texts[row['key']]))} WHERE key = {row['key']}")
    assert_row_found(log, row)


def test_payloads_of_two_records_swapped(log: Log) -> None:
    texts = {row["key"]: row["args"] for row in log.table("payloads", "key") if row["args"]}
    one, other = [row for row in log.rows if row["key"] in texts][4:6]
    for row, text in ((one, texts[other["key"]]), (other, texts[one["key"]])):
        log.run(f"UPDATE payloads SET args = {literal(text)} WHERE key = {row['key']}")
    assert_row_found(log, one)


def test_a_payload_for_a_record_that_has_none(log: Log) -> None:
    row = next(row for row in log.rows if row["args_digest"] is None)
    log.run(f"DELETE FROM payloads WHERE key = {row['key']}")
    log.run(f"INSERT INTO payloads (key, args) VALUES ({row['key']}, '{{}}')")
    assert_row_found(log, row)


def test_metadata_that_swallows_what_follows_it(log: Log) -> None:
    """The line would stay the same, but the record would not."""
    row = log.row(kind="refusal")
    digest = row["args_digest"]
    text = digest.hex() if isinstance(digest, bytes) else digest.removeprefix("\\x")
    swallowed = f'{row["metadata"]},"args":{{"bytes":{row["args_bytes"]},"sha256":"{text}"}}'
    log.change(row, metadata=swallowed, args_bytes=None, args_digest=None)
    assert_row_found(log, row)


def test_text_that_is_no_text(log: Log) -> None:
    if log.storage.kind == "postgres":
        return  # PostgreSQL rejects such text.
    row = log.row(kind="call")
    log.run(f"UPDATE records SET tool = CAST(X'65ff6f' AS TEXT) WHERE key = {row['key']}")
    assert_row_found(log, row)


@pytest.mark.parametrize("place", ["first", "second", "middle", "last"])
def test_a_row_removed(log: Log, place: str) -> None:
    by_seq = sorted(log.rows, key=lambda row: row["seq"])
    row = by_seq[{"first": 0, "second": 1, "middle": len(by_seq) // 2, "last": -1}[place]]
    log.delete(row, table="payloads")
    log.delete(row)
    assert_row_found(log, row)


def test_two_rows_swapped(log: Log) -> None:
    one, other = [row for row in log.rows if row["kind"] == "call" and row["end_seq"]][3:5]
    names = [name for name in one if name not in ("key", "chain")]
    log.delete(one, other)
    log.insert({**one, **{name: other[name] for name in names}})
    log.insert({**other, **{name: one[name] for name in names}})
    assert_found(log, one["seq"])


def test_the_positions_of_two_rows_swapped(log: Log) -> None:
    one, other = [row for row in log.rows if row["kind"] == "refusal"][2:4]
    log.delete(one, other)
    log.insert({**one, "seq": other["seq"], "hash": other["hash"]})
    log.insert({**other, "seq": one["seq"], "hash": one["hash"]})
    assert_found(log, one["seq"])


def test_a_row_put_in(log: Log) -> None:
    """Its position is past the end, because all others are taken."""
    row = {**log.row(kind="refusal"), "seq": log.last_seq + 1}
    row["key"] = max(row["key"] for row in log.rows) + 1
    log.insert(row)
    assert_found(log, row["seq"])


def test_a_row_put_in_the_place_of_another(log: Log) -> None:
    row = log.row(kind="refusal")
    log.delete(row)
    row = {**row, "key": row["key"] + 1}
    log.insert(row)
    found = assert_found(log, row["seq"])
    assert found["id"] == name_of(row), "the record that stands there now"


def test_the_end_of_a_call_taken_back(log: Log) -> None:
    """Makes the call look as if the gateway was killed before the answer."""
    row = log.row(status="error", intent_type="destructive")
    names = ("end_seq", "end_hash", "end_metadata", "duration_us", "code", "message", "result_bytes", "result_digest")
    log.change(row, status="started", **dict.fromkeys(names))
    assert_row_found(log, row)


# -- the end of the log -----------------------------------------------------------------------------------------


def cut(log: Log, rows: int) -> list[Row]:
    """Removes the last records and their payloads. The rest is a valid chain."""
    last = sorted(log.rows, key=lambda row: row["seq"])[-rows:]
    kept_ends = [row for row in log.rows if row not in last and row["end_seq"] and row["end_seq"] > last[0]["seq"]]
    assert not kept_ends, "this cut is clean"
    log.delete(*last, table="payloads")
    log.delete(*last)
    return last


@pytest.mark.parametrize("rows", [1, 5])
def test_the_tail_cut(log: Log, rows: int) -> None:
    last = cut(log, rows)
    assert_found(log, last[0]["seq"])


def test_the_tail_cut_with_its_checkpoints(log: Log) -> None:
    """The newest checkpoint is also in a file next to the database."""
    last = cut(log, 5)
    log.run(f"DELETE FROM checkpoints WHERE seq >= {last[0]['seq']}")
    assert_found(log, last[0]["seq"])


def test_the_tail_cut_with_every_checkpoint_in_reach(log: Log) -> None:
    """Only the copies of the checkpoints in another place reveal it."""
    last = cut(log, 5)
    log.run("DELETE FROM checkpoints")
    (log.gateway.home / "checkpoint.txt").unlink()
    assert verify(log.gateway).returncode == 0, "nothing in reach tells"
    assert_found(log, last[0]["seq"], args=("--checkpoint", str(log.elsewhere)))


def test_all_records_removed(log: Log) -> None:
    log.run("DELETE FROM payloads")
    log.run("DELETE FROM records")
    assert_found(log, 1)


def test_the_whole_database_removed(log: Log) -> None:
    if log.storage.kind == "postgres":
        for table in ("payloads", "records", "checkpoints", "chains"):
            log.run(f"DELETE FROM {table}")
    else:
        for file in log.gateway.home.glob("mcpproxy.db*"):
            file.unlink()
    done = verify(log.gateway)
    assert done.returncode == FAILED, done.stdout + done.stderr


# -- attackers who know the format ------------------------------------------------------------------------------


def lines_of(log: Log) -> list[tuple[int, str]]:
    """Returns the exact text of every line."""
    done = log.gateway.run("activity", "export", "--signed")
    assert done.returncode == 0, done.stderr
    found = [json.loads(row) for row in done.stdout.splitlines()]
    texts = [row["line"] for row in found if "line" in row]
    return [(json.loads(text)["seq"], text) for text in texts]


def rehash(log: Log, lines: list[tuple[int, str]], origin: bytes) -> None:
    """Recomputes the hashes of these lines, so that each follows from the previous one."""
    places = {row["seq"]: (row, "hash") for row in log.rows}
    places |= {row["end_seq"]: (row, "end_hash") for row in log.rows if row["end_seq"]}
    before = origin
    for seq, text in lines:
        before = hashlib.sha256(before + hashlib.sha256(text.encode()).digest()).digest()
        row, column = places[seq]
        value = before if log.storage.kind == "sqlite" else f"\\x{before.hex()}"
        if row[column] != value:
            log.change(row, **{column: value})


def test_a_record_changed_and_every_hash_after_it_made_anew(log: Log) -> None:
    """The chain is consistent again, but the signatures do not match."""
    (chain,) = log.table("chains", "number")
    lines = lines_of(log)
    assert [seq for seq, _ in lines] == list(range(1, log.last_seq + 1))
    origin = hashlib.sha256(f"mcpproxy chain {chain['name']}".encode()).digest()
    rehash(log, lines, origin)
    assert verify(log.gateway).returncode == 0, "this test knows how lines are hashed"
    row = log.row(kind="refusal")
    forged = [
        (seq, text.replace('"code":"SERVER_MISMATCH"', '"code":"tool_not_found"') if seq == row["seq"] else text)
        for seq, text in lines
    ]
    assert forged != lines
    rehash(log, forged, origin)
    log.change(row, code="tool_not_found")
    found = assert_found(log, log.last_seq)
    assert "checkpoint" in found["what"], found


def test_the_first_records_removed_as_if_their_time_was_over(log: Log) -> None:
    """No retention is configured, and no checkpoint covers the removal."""
    by_seq = sorted(log.rows, key=lambda row: row["seq"])
    gone = by_seq[: len(by_seq) // 3]
    last = gone[-1]
    seq, mark = (last["end_seq"], last["end_hash"]) if last["end_seq"] else (last["seq"], last["hash"])
    log.delete(*gone, table="payloads")
    log.delete(*gone)
    log.run(f"DELETE FROM checkpoints WHERE seq <= {seq}")
    log.run(f"UPDATE chains SET removed_seq = {seq}, removed_hash = {literal(mark)}")
    done = verify(log.gateway)
    assert done.returncode == FAILED, done.stdout + done.stderr


def test_a_record_replaced_by_its_digests(log: Log) -> None:
    """Retention does this to the ends of calls that began before the oldest kept record."""
    row = log.row(status="error", intent_type="destructive")
    texts = {seq: text for seq, text in lines_of(log) if seq in (row["seq"], row["end_seq"])}
    log.delete(row, table="payloads")
    log.delete(row)
    for seq, text in texts.items():
        digest = hashlib.sha256(text.encode()).digest()
        value = literal(digest if log.storage.kind == "sqlite" else f"\\x{digest.hex()}")
        log.run(f"INSERT INTO stubs (chain, seq, digest) VALUES ({row['chain']}, {seq}, {value})")
    done = verify(log.gateway)
    assert done.returncode == FAILED, done.stdout + done.stderr


def test_a_checkpoint_changed(log: Log) -> None:
    (*_, last) = log.table("checkpoints", "seq")
    log.run(f"UPDATE checkpoints SET note = {literal(flipped(last['note']))} WHERE seq = {last['seq']}")
    assert_found(log, last["seq"])


def test_signed_with_another_key(log: Log, whole: Log, tmp_path: Path) -> None:
    """A new key in the folder does not match the old chain."""
    key = log.gateway.home / "signing.key"
    key.write_text(f"{int.from_bytes(hashlib.sha256(b'another').digest()):064x}\n")
    done = verify(log.gateway)
    assert done.returncode != 0, done.stdout


def test_the_independent_verifier_reads_checkpoints(log: Log) -> None:
    """Every checkpoint is a valid signed note, wherever it is stored."""
    (chain,) = log.table("chains", "number")
    key = verify_chain.Key.parse(chain["verifier"], chain["name"])
    notes = [row["note"] for row in log.table("checkpoints", "seq")]
    assert notes[-1].strip() == (log.gateway.home / "checkpoint.txt").read_text().strip()
    assert notes[-1].strip() in log.elsewhere.read_text()
    for note in notes:
        name, seq, encoded, time, _ = key.text_of(note).split("\n")
        assert name == f"mcpproxy/{chain['name']}" and time.endswith("Z")
        assert len(base64.b64decode(encoded)) == hashlib.sha256().digest_size
        assert 1 <= int(seq) <= log.last_seq
