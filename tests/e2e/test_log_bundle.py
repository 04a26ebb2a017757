"""Signed bundles: the gateway and an independent verifier agree on valid and damaged bundles."""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import peers
import verify_chain
from gateway import Gateway
from log import Agent, Ledger, storage_of
from postgres import postgres  # noqa: F401

Rows = list[dict[str, Any]]
LARGE_BYTES = 200_000


@dataclass
class Bundles:
    """A log and its exported bundles."""

    gateway: Gateway
    folder: Path
    whole: str
    destructive: str

    def verdict(self, text: str) -> str:
        """Returns the verdict that both give: `sealed`, `good` without a seal, or `bad`."""
        file = self.folder / "bundle.jsonl"
        file.write_text(text)
        done = self.gateway.run("activity", "verify", str(file), "-o", "json")
        assert done.returncode in (0, 1), done.stderr
        ours = "bad" if done.returncode else "sealed" if json.loads(done.stdout)["sealed"] else "good"
        try:
            theirs = "sealed" if verify_chain.verify(text).sealed else "good"
        except verify_chain.Bad as bad:
            theirs = "bad"
            assert ours == theirs, f"{bad}\n{done.stdout}"
        assert ours == theirs, f"{done.stdout}{done.stderr}"
        return ours


@pytest.fixture(scope="module", params=["sqlite", "postgres"])
def bundles(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bundles]:
    folder = tmp_path_factory.mktemp("bundle")
    storage = storage_of(request.param, request)
    ledger = Ledger(folder / "ledger.jsonl")
    settings = {"mcpServers": {"echo": ledger.server()}, **storage.settings()}
    with Gateway(folder / "home", settings) as gateway:
        agent = Agent(gateway)
        for number in range(6):
            for variant in ("read", "write", "destructive"):
                assert agent.call(variant, number).is_success
            assert agent.call("read", number, "echo:nothing").code == "tool_not_found"
        assert agent.call("write", 6, large="\u20ac" * (LARGE_BYTES // 3)).is_success
        export = lambda *args: exported(gateway, "--signed", *args)  # noqa: E731
        yield Bundles(gateway, folder, export(), export("--intent-type", "destructive"))


def exported(gateway: Gateway, *args: str) -> str:
    done = gateway.run("activity", "export", *args)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_both_call_a_good_bundle_good(bundles: Bundles) -> None:
    for text in (bundles.whole, bundles.destructive):
        assert bundles.verdict(text) == "sealed"
        assert bundles.verdict(unsealed(text)) == "good"
    whole, part = verify_chain.verify(bundles.whole), verify_chain.verify(bundles.destructive)
    assert whole.first == 1 and len(whole.lines) == whole.last
    calls = {line["id"] for line in whole.lines if line.get("intent_type") == "destructive"}
    assert len(calls) == 6 and {line["id"] for line in part.lines} == calls
    assert len(part.lines) < len(whole.lines), "the others are there as digests only"


def test_an_offline_machine_can_check_a_bundle(bundles: Bundles, tmp_path: Path) -> None:
    """A machine without data folder, database and gateway can verify the file."""
    file = tmp_path / "bundle.jsonl"
    file.write_text(bundles.destructive)
    stranger = Gateway(tmp_path / "empty")
    done = stranger.run("activity", "verify", str(file))
    assert done.returncode == 0, done.stderr
    assert not any(stranger.home.iterdir()), "looking at a bundle leaves nothing behind"


def test_one_call_from_the_answer_to_the_bundle(bundles: Bundles) -> None:
    """An auditor's steps: the id in the answer, the record, the line, and the proof."""
    answer = Agent(bundles.gateway).call("destructive", 7, about="the thing")
    text = exported(bundles.gateway, answer.record, "--signed")
    assert bundles.verdict(text) == "sealed"
    proved = verify_chain.verify(text).lines
    assert {line["id"] for line in proved} == {answer.record}
    assert proved and proved[-1]["status"] == "success"
    rows = [json.loads(row) for row in text.splitlines()]
    payloads = {row["payload"]["part"]: row["payload"]["text"] for row in rows if is_payload_of(row, answer.record)}
    assert json.loads(payloads["args"]) == {"n": 7, "about": "the thing"}
    assert "the thing" in payloads["result"]


def unsealed(text: str) -> str:
    """Removes the seal. The bundle still proves its lines."""
    return text[: text.rindex("\n", 0, -1) + 1]


def is_payload_of(row: dict[str, Any], name: str) -> bool:
    return "payload" in row and row["payload"]["id"] == name


def test_the_program_in_the_documents_agrees(bundles: Bundles, tmp_path: Path) -> None:
    """Runs the verifier in `docs/log-format.md`, which auditors copy from there."""
    document = (peers.ROOT / "docs" / "log-format.md").read_text()
    (program,) = re.findall(r"^```python\n(.*?)^```$", document, re.MULTILINE | re.DOTALL)
    (tmp_path / "check_bundle.py").write_text(program)
    key = bundles.gateway.run("activity", "key").stdout

    def check(text: str) -> subprocess.CompletedProcess[str]:
        (tmp_path / "bundle.jsonl").write_text(text)
        command = [peers.PYTHON, "check_bundle.py", "bundle.jsonl", key]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60)

    good = check(bundles.destructive)
    assert good.returncode == 0 and good.stdout.startswith("good"), good.stderr
    for damage in ("a line changed", "a payload changed", "the tail cut", "a signature changed", "another key"):
        rows = [json.loads(row) for row in unsealed(bundles.whole).splitlines()]
        DAMAGE[damage](rows)
        assert check(written(rows)).returncode != 0, damage


# -- damage -----------------------------------------------------------------------------------------------------


def nth(rows: Rows, member: str, number: int = -1) -> int:
    """Returns the position of a row with this member: the last, or another one."""
    return [at for at, row in enumerate(rows) if member in row][number]


def removed(member: str, number: int) -> Callable[[Rows], None]:
    return lambda rows: rows.pop(nth(rows, member, number)) and None


def turned(member: str, number: int, change: Callable[[Any], Any]) -> Callable[[Rows], None]:
    def change_row(rows: Rows) -> None:
        at = nth(rows, member, number)
        rows[at] = {**rows[at], member: change(rows[at][member])}

    return change_row


def swapped(rows: Rows) -> None:
    one, other = nth(rows, "line", 3), nth(rows, "line", 4)
    rows[one], rows[other] = rows[other], rows[one]


def without_tail(rows: Rows) -> None:
    del rows[nth(rows, "line", -3) :]


def twice(rows: Rows) -> None:
    rows.insert(nth(rows, "line", 5), rows[nth(rows, "line", 4)])


def started_later(rows: Rows) -> None:
    """Makes the chain begin at its third line."""
    third = nth(rows, "line", 2)
    hash_before = rows[nth(rows, "line", 1)]["hash"]
    del rows[2:third]
    rows[1] = {"start": {"seq": 0, "hash": hash_before}}


def other_bit(text: str) -> str:
    return text[:-1] + ("0" if text[-1] != "0" else "1")


def other_text(text: str) -> str:
    return text.replace("n", "m", 1)


DAMAGE: dict[str, Callable[[Rows], None]] = {
    "a line changed": turned("line", 4, lambda line: line.replace("success", "refused").replace("echo", "ecko")),
    "a space in a line": turned("line", 4, lambda line: line.replace(",", ", ", 1)),
    "a hash changed": turned("hash", 4, other_bit),
    "the last hash changed": turned("hash", -1, other_bit),
    "a line removed": removed("line", 4),
    "the first line removed": removed("line", 0),
    "two lines swapped": swapped,
    "a line twice": twice,
    "the tail cut": without_tail,
    "the last checkpoint removed": removed("checkpoint", -1),
    "the start removed": removed("start", 0),
    "another start": turned("start", 0, lambda start: {**start, "hash": other_bit(start["hash"])}),
    "a start at another position": turned("start", 0, lambda start: {**start, "seq": start["seq"] + 1}),
    "a later start": started_later,
    "a payload changed": turned("payload", 2, lambda payload: {**payload, "text": other_text(payload["text"])}),
    "a payload of another record": turned("payload", 2, lambda payload: {**payload, "id": "0" * 26}),
    "a payload for the other part": turned("payload", 0, lambda payload: {**payload, "part": "nothing"}),
    "a checkpoint for another position": turned("checkpoint", -1, lambda note: note.replace("\n", "\n1", 1)),
    "a checkpoint at another time": turned("checkpoint", -1, lambda note: note.replace("Z\n", "1Z\n", 1)),
    "a signature changed": turned("checkpoint", -1, lambda note: note[:-10] + other_bit(note[-10:-9]) + note[-9:]),
    "another chain": turned("chain", 0, other_bit),
    "another key": turned("verifier", 0, lambda key: key[:-6] + other_bit(key[-6:-5]) + key[-5:]),
    "another version": turned("version", 0, lambda version: version + 1),
    "no header": removed("bundle", 0),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_both_call_a_damaged_bundle_bad(bundles: Bundles, damage: str) -> None:
    """The damage is also detected without the seal."""
    rows = [json.loads(row) for row in unsealed(bundles.whole).splitlines()]
    before = json.dumps(rows)
    DAMAGE[damage](rows)
    assert json.dumps(rows) != before, "this damage damages"
    assert bundles.verdict(written(rows)) == "bad"


def withheld(rows: Rows) -> None:
    at = nth(rows, "line", 4)
    rows[at] = {"digest": hashlib.sha256(rows[at]["line"].encode()).hexdigest(), "hash": rows[at]["hash"]}
    while "payload" in rows[at + 1]:
        del rows[at + 1]


WITHHELD: dict[str, Callable[[Rows], None]] = {
    "a line": withheld,
    "a payload": removed("payload", 2),
    "the filter": turned("filter", 0, lambda _: {"server": "another"}),
    "the time": turned("exported", 0, lambda _: "2026-01-01T00:00:00.000Z"),
}


@pytest.mark.parametrize("what", WITHHELD)
def test_what_only_the_seal_tells(bundles: Bundles, what: str) -> None:
    """Only the seal detects omitted parts and a changed header. The rest of the bundle is still valid."""
    *rows, seal = [json.loads(row) for row in bundles.whole.splitlines()]
    WITHHELD[what](rows)
    assert bundles.verdict(written(rows)) == "good"
    assert bundles.verdict(written([*rows, seal])) == "bad"


def test_a_seal_of_another_bundle(bundles: Bundles) -> None:
    seal = bundles.whole.splitlines()[-1]
    assert bundles.verdict(f"{unsealed(bundles.destructive)}{seal}\n") == "bad"
    assert bundles.verdict(f"{bundles.whole}{seal}\n") == "bad"


def written(rows: Rows) -> str:
    return "".join(json.dumps(row, ensure_ascii=False, separators=(",", ":")) + "\n" for row in rows)


def test_damage_below_the_lines(bundles: Bundles) -> None:
    """Text that is not valid JSON Lines."""
    whole = bundles.whole
    without_checkpoint = unsealed(unsealed(whole))
    for text in ("", "\n", whole[: len(whole) // 2], without_checkpoint, f"{whole}{{}}\n", whole[:-1], "[]\n"):
        assert bundles.verdict(text) == "bad", text[-200:]


def test_a_bit_here_and_there(bundles: Bundles) -> None:
    """Changes one letter at a time, at sixty positions."""
    whole = bundles.destructive
    for at in range(0, len(whole), len(whole) // 60):
        damaged = f"{whole[:at]}{'0' if whole[at] != '0' else '1'}{whole[at + 1 :]}"
        assert bundles.verdict(damaged) == "bad", f"{at}: {damaged[max(0, at - 40) : at + 40]!r}"


def test_both_keep_to_the_key_they_are_given(bundles: Bundles) -> None:
    header = json.loads(bundles.whole.splitlines()[0])
    assert verify_chain.verify(bundles.whole, header["verifier"]).chain == header["chain"]
    with pytest.raises(verify_chain.Bad):
        verify_chain.verify(bundles.whole, header["verifier"][:-2])
