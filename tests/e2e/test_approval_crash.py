"""A gateway that crashes between an approval and the outcome: no call is made twice or lost unnoticed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from approvals import Ada, Agent, House, code, details
from log import assert_verified, storage_of
from postgres import postgres  # noqa: F401

# Crash points of the debug build, in the order of a call. Each has the calls that the server must have seen by then,
# and the answer to the returning agent: made now, made before, or unknown.
POINTS = {
    "approved": (0, "ok"),
    "before_open": (0, "ok"),
    "after_open": (0, "approval_already_used"),
    "after_forward": (1, "approval_already_used"),
    "before_close": (1, "approval_already_used"),
    "after_close": (1, "approval_already_used"),
}
# The same for a call with an idempotency key. Its answer is available again once it is recorded.
WITH_KEY = {
    "after_open": "outcome_unknown",
    "after_forward": "outcome_unknown",
    "before_close": "outcome_unknown",
    "after_close": "ok",
}


@pytest.fixture(scope="module")
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    house = House(tmp_path_factory.mktemp("crash"), storage_of(request.param, request))
    with house.gateway:
        yield house, house.settle()


def crash(house: House, ada: Ada, agent: Agent, point: str, tool: str, args: dict[str, Any], **more: Any) -> str:
    """Approves a call and makes it, with a gateway that aborts at `point`. Returns the id of the approval request."""
    gateway = house.gateway
    approval = agent.asks(tool, args, **more)
    ada.say_yes(approval)
    gateway.stop()
    gateway.start(MCPPROXY_CRASH_AT=point)
    agent.move()
    with pytest.raises(httpx.HTTPError):
        agent.call(tool, args, approval_id=approval, **more)
    gateway.crashed()
    gateway.start()
    agent.move()
    return approval


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize(
    ("home", "tool"),
    [("sqlite", "update_customer"), ("sqlite", "plain"), ("postgres", "plain")],
    indirect=["home"],
    scope="module",
)
def test_never_twice(home: tuple[House, Ada], point: str, tool: str) -> None:
    house, ada = home
    agent, args = house.in_a_hurry(), house.fresh()
    key = {"idempotency_key": f"{point}-{args['id']}"} if tool == "plain" else {}
    seen, expected = POINTS[point]
    approval = crash(house, ada, agent, point, tool, args, **key)
    assert house.executed(tool).count(args) == seen
    if tool == "plain":
        expected = WITH_KEY.get(point, expected)
    results = agent.at_once(5, tool, args, approval_id=approval, **key)
    codes = [code(one) for one in results]
    if expected == "ok":
        assert "ok" in codes and set(codes) <= {"ok", "approval_already_used"}, codes
    else:
        assert set(codes) == {expected}, codes
        assert all(details(one)["record"] for one in results), "where to look what became of it"
    assert house.executed(tool).count(args) == (1 if point in ("approved", "before_open") else seen)
    assert house.state(approval) == "consumed"
    if expected != "ok":
        record = house.gateway.admin(f"/activity/{details(results[0])['record']}")
        assert record["status"] == ("success" if point == "after_close" else "interrupted"), record
    assert_verified(house.gateway)
