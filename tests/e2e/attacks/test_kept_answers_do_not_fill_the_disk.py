"""Defends the disk: large answers of calls with an idempotency key are not kept, and still nothing is sent twice."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from approvals import House, said
from log import DATABASE

LARGE_BYTES = 2 * 1024 * 1024
# Beside the answers, the log keeps 64 KiB each of the arguments and of the result.
GROWTH_MAX_BYTES = 24 * 1024 * 1024
CALLS = 12


def large(number: int) -> dict[str, Any]:
    """Arguments that `pay` sends back as they are."""
    return {"id": number, "filling": "x" * LARGE_BYTES}


def size(home: Path) -> int:
    return sum(file.stat().st_size for file in home.glob(f"{DATABASE}*"))


def test_large_answers_are_repeated_as_done(tmp_path: Path) -> None:
    house = House(tmp_path)
    with house.gateway:
        agent, before = house.agent(), size(house.gateway.home)
        for number in range(CALLS):
            args = large(number)
            first, again = (agent.call("pay", args, idempotency_key=f"k-{number}") for _ in range(2))
            assert said(first) == args
            meta, (content,) = again["_meta"], again["content"]
            assert meta["mcpproxy/replayed"] is True and not again.get("isError"), again
            assert "Already done" in content["text"], content
            assert meta["mcpproxy/first_record"] == first["_meta"]["mcpproxy/record"]
            assert meta["mcpproxy/first_record"] in content["text"]
            assert [one["id"] for one in house.executed("pay")].count(number) == 1, "nothing was sent twice"
        assert size(house.gateway.home) - before < GROWTH_MAX_BYTES


def test_a_small_answer_is_still_kept(tmp_path: Path) -> None:
    house = House(tmp_path)
    with house.gateway:
        agent = house.agent()
        first, again = (agent.call("pay", {"id": 1}, idempotency_key="k") for _ in range(2))
        assert said(first) == said(again) == {"id": 1}
