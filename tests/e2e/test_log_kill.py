"""The log of a gateway that is killed repeatedly while it works: no call is missing."""

from __future__ import annotations

import itertools
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway import Gateway, until
from log import Agent, Ledger, Load, Storage, assert_verified, numbered, record, records, storage  # noqa: F401
from postgres import postgres  # noqa: F401

ROUNDS = {"sqlite": 25, "postgres": 10}
AGENTS = 4
# Calls are at different points when the gateway dies. The seed makes every run the same.
SEED = 4
MOST_CALLS = 40


class House:
    """One data folder, its servers with their ledgers, and the agents that call them."""

    def __init__(self, folder: Path, place: Storage) -> None:
        self.storage = place
        self.ledgers = {name: Ledger(folder / f"{name}.jsonl") for name in ("echo", "other", "hang")}
        self.gateway = Gateway(folder / "home")
        self.numbers = itertools.count(1)
        self.newest: str | None = None

    def start(self, durability: str) -> None:
        servers = {name: ledger.server("--hang") for name, ledger in self.ledgers.items()}
        settings = {"mcpServers": servers, "activity": {"durability": durability}, **self.storage.settings()}
        self.gateway.write_settings(settings)
        self.gateway.start()

    def kill(self) -> None:
        assert self.gateway.child is not None
        self.gateway.child.kill()
        self.gateway.child.wait()
        # A message that is already in a pipe may still reach a server, so read its ledger after the server has exited.
        until(lambda: not self.gateway.processes(), 10, "every server noticed that the gateway is gone")
        self.gateway.child = None

    def arrived(self) -> list[int]:
        return [number for ledger in self.ledgers.values() for number in ledger.numbers()]

    def fresh(self) -> dict[int, dict[str, Any]]:
        """Returns the new records since the last call, by the number of their call."""
        found = list(itertools.takewhile(lambda one: one["id"] != self.newest, records(self.gateway)))
        self.newest = found[0]["id"]
        return numbered(iter(found))


def one_round(house: House, agents: list[Agent], chance: random.Random) -> tuple[Load, int]:
    """Kills the gateway while all agents work and one call is certainly open."""
    for agent in agents:
        agent.move(house.gateway)
    calls, watched = chance.randrange(MOST_CALLS), chance.choice(["sent", "answers"])
    open_call = next(house.numbers)
    load = Load(agents[1:], house.numbers, ["echo:echo", "other:echo"], may_vanish=True)
    with ThreadPoolExecutor(1) as waiting, load:
        never = waiting.submit(agents[0].call, "destructive", open_call, "hang:hang")
        until(lambda: open_call in house.ledgers["hang"].numbers(), 20, "the call without an answer arrived")
        load.wait(f"{calls} calls {watched}", lambda load: len(getattr(load, watched)) > calls)
        house.kill()
    assert isinstance(never.exception(), httpx.HTTPError)
    return load, open_call


def check_round(house: House, load: Load, open_call: int, durable: set[str]) -> None:
    arrived = house.arrived()
    assert len(arrived) == len(set(arrived)), "a call was sent twice"
    found = house.fresh()
    must = {number for number, variant in load.sent.items() if variant in durable}
    unknown = (must & set(arrived)) - set(found)
    assert not unknown, f"the server saw calls without a record: {sorted(unknown)}"
    for number, answer in load.answers.items():
        assert answer.is_success, answer.result
        if number in must:
            assert number in found, f"an answered {answer.variant} call has no record"
            assert (found[number]["status"], found[number]["id"]) == ("success", answer.record)
    assert found[open_call]["status"] == "interrupted", found[open_call]
    unanswered = {number: one["status"] for number, one in found.items() if number not in load.answers}
    assert set(unanswered.values()) <= {"interrupted", "success"}, unanswered
    last = max((number for number in load.answers if number in must), default=open_call)
    assert record(house.gateway, found[last]["id"])["arguments"]["n"] == last
    assert_verified(house.gateway)


@pytest.mark.timeout(400)
def test_killed_again_and_again(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    house, chance = House(tmp_path, storage), random.Random(SEED)
    house.start("all")
    agents = [Agent(house.gateway) for _ in range(AGENTS + 1)]
    acknowledged: dict[int, str] = {}
    must_arrive_once: list[int] = []
    try:
        for turn in range(ROUNDS[storage.kind]):
            durable = {"write", "destructive"} if turn % 2 else {"read", "write", "destructive"}
            load, open_call = one_round(house, agents, chance)
            house.start("all" if turn % 2 else "writes")
            check_round(house, load, open_call, durable)
            acknowledged |= {n: answer.record for n, answer in load.answers.items() if answer.variant in durable}
            must_arrive_once.append(open_call)
        found = numbered(records(house.gateway))
        assert {number: found[number]["id"] for number in acknowledged} == acknowledged
        assert all(found[number]["status"] == "success" for number in acknowledged)
        assert [house.arrived().count(number) for number in must_arrive_once] == [1] * len(must_arrive_once)
        assert len(acknowledged) > 5 * ROUNDS[storage.kind], "too few calls to mean anything"
    finally:
        house.gateway.stop()
