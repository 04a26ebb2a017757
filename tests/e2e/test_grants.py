"""Standing approvals: one agent, one tool, matching arguments, limited time and uses, and never for critical calls."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from approvals import Ada, House, code, house_with_ada, said

SMALL = {
    "properties": {"id": {"type": "integer"}, "amount": {"maximum": 10}},
    "required": ["id"],
    "additionalProperties": False,
}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("grants"))


def wants(ada: Ada, approval: str, **more: Any) -> httpx.Response:
    wish = {"from": approval, "schema": json.dumps(SMALL), "minutes": 15, "uses": 3, **more}
    return ada.post("/grants", wish)


def test_a_standing_approval_covers_matching_calls(home: tuple[House, Ada]) -> None:
    house, ada = home
    agent, other = house.in_a_hurry(), house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    assert wants(ada, approval).status_code == 403, "a grant takes a fresh factor"
    created = wants(ada, approval, totp=ada.code())
    assert created.status_code in (200, 201), created.text
    grant = created.json()["id"]

    args = house.fresh()
    assert code(other.call("update_customer", args)) == "confirmation_required", "it is for one agent"
    assert code(agent.call("slow_update", args)) == "confirmation_required", "and for one tool"
    assert code(agent.call("update_customer", {**args, "amount": 11})) == "confirmation_required", "of this shape"
    assert code(agent.call("update_customer", {**args, "else": 1})) == "confirmation_required"
    assert [code(agent.call("update_customer", house.fresh())) for _ in range(4)] == ["ok"] * 3 + [
        "confirmation_required"
    ]
    codes = [one["code"] for one in house.gateway.records("--type", "approval", "--agent", agent.name)]
    assert codes.count("grant_created") == 1, codes
    calls = house.gateway.records("--type", "call", "--agent", agent.name, "--status", "success")
    assert [one["metadata"]["grant_id"] for one in calls] == [grant] * 3
    listed = house.gateway.admin("/grants")["grants"]
    assert all(one["id"] != grant or one["uses_left"] == 0 for one in listed)


def test_a_revoked_standing_approval_covers_nothing(home: tuple[House, Ada]) -> None:
    house, ada = home
    agent = house.in_a_hurry()
    grant = wants(ada, agent.asks("update_customer", house.fresh()), totp=ada.code()).json()["id"]
    args = house.fresh()
    assert said(agent.call("update_customer", args)) == args
    shown = house.gateway.run("approvals", "grants")
    assert shown.returncode == 0 and agent.name in shown.stdout, shown
    assert house.gateway.run("approvals", "revoke", grant).returncode == 0
    assert code(agent.call("update_customer", house.fresh())) == "confirmation_required"


@pytest.mark.parametrize("over", ["denied", "expired", "approved", "consumed"])
def test_no_standing_approval_from_a_closed_request(home: tuple[House, Ada], over: str) -> None:
    house, ada = home
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    match over:
        case "denied":
            ada.say_no(approval)
        case "expired":
            house.overtake(approval)
        case _:
            ada.say_yes(approval)
    if over == "consumed":
        assert code(agent.call("update_customer", args, approval_id=approval)) == "ok"
    before = house.gateway.admin("/grants?all=true")["grants"]
    late = wants(ada, approval, totp=ada.code())
    assert (late.status_code, late.json()["error"]["code"]) == (409, "approval_over"), late.text
    assert house.gateway.admin("/grants?all=true")["grants"] == before
    assert code(agent.call("update_customer", house.fresh())) == "confirmation_required"


def test_many_at_once_use_what_there_is(home: tuple[House, Ada]) -> None:
    house, ada = home
    agent = house.in_a_hurry()
    grant = wants(ada, agent.asks("update_customer", house.fresh()), totp=ada.code())
    assert grant.status_code in (200, 201), grant.text
    calls = [agent.later("update_customer", house.fresh()) for _ in range(20)]
    codes = [code(one.result(60)) for one in calls]
    assert codes.count("ok") == 3, codes


@pytest.mark.parametrize("tool", ["send_external", "delete_thing"])
def test_never_for_critical(home: tuple[House, Ada], tool: str) -> None:
    house, ada = home
    agent = house.in_a_hurry()
    refused = wants(ada, agent.asks(tool, house.fresh()), totp=ada.code())
    assert 400 <= refused.status_code < 500, refused.text
    assert "critical" in refused.text.lower()


@pytest.mark.parametrize(
    "wish", [{"minutes": 0}, {"minutes": 100_000}, {"uses": 0}, {"schema": "{"}, {"schema": '{"type":"x"}'}], ids=str
)
def test_wishes_that_make_no_sense(home: tuple[House, Ada], wish: dict[str, Any]) -> None:
    house, ada = home
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    before = len(house.gateway.admin("/grants")["grants"])
    answer = wants(ada, approval, totp=ada.code(), **wish)
    assert 400 <= answer.status_code < 500, answer.text
    assert len(house.gateway.admin("/grants")["grants"]) == before
