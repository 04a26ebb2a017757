"""Reading, verifying and exporting the log while agents work: each sees a consistent log."""

from __future__ import annotations

import itertools
from pathlib import Path

import verify_chain
from gateway import Gateway
from log import Agent, Ledger, Load, Storage, assert_verified, numbered, records, storage  # noqa: F401
from postgres import postgres  # noqa: F401

AGENTS = 4
LOOKS = 4
# Enough records for a checkpoint to be signed while the gateway works.
CALLS = 600


def test_looking_while_agents_work(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    ledger = Ledger(tmp_path / "ledger.jsonl")
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"echo": ledger.server()}, **storage.settings()})
    bundle = tmp_path / "bundle.jsonl"
    with gateway:
        agents = [Agent(gateway) for _ in range(AGENTS)]
        with Load(agents, itertools.count(1), ["echo:echo"]) as load:
            for look in range(1, LOOKS + 1):
                load.wait("the log grows", lambda load, look=look: len(load.answers) >= look * CALLS // LOOKS, 60)
                assert_verified(gateway)
                done = gateway.run("activity", "export", "--signed", "--out", str(bundle), "--intent-type", "write")
                assert done.returncode == 0, done.stderr
                assert verify_chain.verify(bundle.read_text()).lines
                done = gateway.run("activity", "verify", str(bundle))
                assert done.returncode == 0, done.stdout + done.stderr
                bundle.unlink()
                pages = [one["id"] for one in records(gateway)]
                assert pages == sorted(set(pages), reverse=True), "pages neither repeat nor skip backwards"
        found = numbered(records(gateway))
        assert {number: found[number]["id"] for number in load.answers} == {
            number: answer.record for number, answer in load.answers.items()
        }
    assert_verified(gateway)
