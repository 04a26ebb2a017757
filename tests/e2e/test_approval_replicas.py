"""Two gateways on one PostgreSQL database: requested at one, approved at the other, made once."""

from __future__ import annotations

import shutil
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from approvals import CONTRACTS, Ada, Agent, House, code, said
from gateway import Gateway
from user import Session
from log import PostgresStorage
from postgres import Postgres, postgres  # noqa: F401


@dataclass
class Pair:
    house: House
    second: Gateway
    ada: Ada
    elsewhere: Session

    def agent(self, *options: str) -> tuple[Agent, Agent]:
        """Returns the same agent at both gateways."""
        one = self.house.agent(*options)
        return one, Agent(self.house, self.second, one.name, one.token, one.era)


@pytest.fixture(scope="module")
def pair(
    tmp_path_factory: pytest.TempPathFactory,
    postgres: Postgres,  # noqa: F811
) -> Iterator[Pair]:
    folder = tmp_path_factory.mktemp("replicas")
    house = House(folder, PostgresStorage(postgres, postgres.create()), channels={"high": "form"})
    second = Gateway(folder / "second", house.settings())
    second.write("contracts/fx.yaml", CONTRACTS)
    with house.gateway:
        ada = house.settle()
        shutil.copy(house.gateway.home / "admin.key", second.home / "admin.key")
        with second:
            yield Pair(house, second, ada, Session(second, ada.name))


def test_a_held_call_hears_what_was_said_elsewhere(pair: Pair) -> None:
    here, _ = pair.agent()
    args = pair.house.fresh()
    held = here.later("update_customer", args)
    approval = pair.house.question(here)["id"]
    assert pair.elsewhere.approve(approval).status_code == 200
    assert said(held.result(60)) == args
    assert pair.house.executed("update_customer").count(args) == 1


def test_a_client_is_asked_at_one_and_answers_at_the_other(pair: Pair) -> None:
    here, there = pair.agent()
    wanted = here.parameters("update_customer", pair.house.fresh())
    asked = here.connect(elicitation={"form": {}}).ask("tools/call", wanted)
    yes = {"action": "accept", "content": {"decision": "approve"}}
    answer = {"inputResponses": dict.fromkeys(asked["inputRequests"], yes), "requestState": asked["requestState"]}
    done = there.connect(elicitation={"form": {}}).ask("tools/call", {**wanted, **answer})
    assert said(done) == wanted["arguments"]["args"]
    assert pair.house.executed("update_customer").count(wanted["arguments"]["args"]) == 1


def test_one_approval_counts_once_on_two_gateways(pair: Pair) -> None:
    here, there = pair.agent("--headless")
    args = pair.house.fresh()
    approval = here.asks("update_customer", args)
    assert there.asks("update_customer", args) == approval, "the same question is asked once"
    pair.ada.say_yes(approval)
    calls = [one.later("update_customer", args, approval_id=approval) for one in (here, there) * 10]
    codes = Counter(code(one.result(60)) for one in calls)
    assert codes == {"ok": 1, "approval_already_used": 19}
    assert pair.house.executed("update_customer").count(args) == 1


def test_one_key_counts_once_at_both(pair: Pair) -> None:
    here, there = pair.agent()
    args = pair.house.fresh()
    calls = [one.later("pay", args, idempotency_key="both") for one in (here, there) * 10]
    assert Counter(code(one.result(60)) for one in calls) == {"ok": 20}
    assert pair.house.executed("pay").count(args) == 1
