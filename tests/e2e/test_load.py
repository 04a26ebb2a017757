"""Many parallel calls, long calls and large calls: none is lost, mixed up or refused."""

from __future__ import annotations

import json
import time
from concurrent.futures import ThreadPoolExecutor

import pytest

from gateway import Gateway
from wire import LEGACY, MODERN, Wire

AGENTS = 60
CALLS_EACH = 5
LARGE_BYTES = 4 * 1024 * 1024 - 2048


def echo(wire: Wire, **args: object) -> object:
    result = wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": "echo:echo", "args": args}})
    assert not result.get("isError") and "content" in result, str(result)[:500]
    return json.loads(result["content"][0]["text"])


def test_every_agent_gets_its_own_answers(small: Gateway) -> None:
    def work(number: int) -> list[object]:
        wire = Wire(small.mcp, small.token, MODERN if number % 2 else LEGACY)
        return [echo(wire, agent=number, call=each) for each in range(CALLS_EACH)]

    with ThreadPoolExecutor(AGENTS) as pool:
        answers = list(pool.map(work, range(AGENTS)))
    assert answers == [[{"agent": agent, "call": each} for each in range(CALLS_EACH)] for agent in range(AGENTS)]


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_call_as_large_as_a_request_may_be(small: Gateway, era: str) -> None:
    large = "x" * LARGE_BYTES
    assert echo(Wire(small.mcp, small.token, era), large=large) == {"large": large}


def test_a_call_takes_no_flat_forty_milliseconds(small: Gateway) -> None:
    """Without TCP_NODELAY every call takes 40 ms longer. The fastest of many calls must be far below that."""
    wire = Wire(small.mcp, small.token, MODERN)

    def seconds() -> float:
        began = time.perf_counter()
        echo(wire)
        return time.perf_counter() - began

    assert min(seconds() for _ in range(50)) < 0.02
