"""Defends the disk: a database at its limit refuses calls with the reason, and every call that was sent has its end."""

from __future__ import annotations

import itertools
from pathlib import Path

from gateway import Gateway, until
from log import DATABASE, Agent, Ledger, assert_unavailable, assert_verified, numbered, records

MIB = 1024 * 1024
LIMIT_MIB = 64
MOST_CALLS = 3000
# The log keeps 64 KiB of the arguments of each call.
FILLING = "x" * 60_000
NOTICE_SECONDS = 30


def settings(ledger: Ledger, disk: str) -> dict[str, object]:
    return {"mcpServers": {"echo": ledger.server()}, "limits": {"disk": disk}}


def test_calls_are_refused_before_the_limit(tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "ledger.jsonl")
    gateway = Gateway(tmp_path / "home", settings(ledger, f"{LIMIT_MIB}MiB"))
    with gateway:
        agent, sent = Agent(gateway), []
        for number in itertools.count(1):
            assert number < MOST_CALLS, "the limit is reached"
            answer = agent.call("write", number, filling=FILLING)
            if not answer.is_success:
                break
            sent.append(number)
        assert answer.code == "audit_unavailable", answer.result
        assert "limits.disk" in assert_unavailable(gateway)
        agent.refused("write", MOST_CALLS + 1)
        agent.refused("read", MOST_CALLS + 2)
        assert ledger.numbers() == sent, "nothing was sent that is not recorded"
        found = numbered(records(gateway))
        assert {found[number]["status"] for number in sent} == {"success"}
        assert (gateway.home / DATABASE).stat().st_size < LIMIT_MIB * MIB, "the reserve is left"
        assert "`limits.disk` allows" in gateway.words(), "there was a warning before"
    assert_verified(gateway)
    gateway.write_settings(settings(ledger, "1GiB"))
    with gateway:
        until(lambda: gateway.probe("/readyz") == 200, NOTICE_SECONDS, "the gateway is ready with a higher limit")
        agent.move(gateway)
        assert agent.call("write", MOST_CALLS + 3).is_success
    assert_verified(gateway)
