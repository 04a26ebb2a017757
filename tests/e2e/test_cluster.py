"""Three gateways on one PostgreSQL database: shared rate limits, the list of gateways, and drift between them."""

from __future__ import annotations

import json
import shutil
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from approvals import CONTRACTS, Ada, Agent, House, code, details, said
from gateway import Gateway, until
from log import PostgresStorage
from postgres import Postgres, postgres  # noqa: F401
from user import COOKIE, Session

SECONDS = 15
LIMITED = CONTRACTS.replace(
    "- tool: fx:pay\n", "- tool: fx:pay\n  rateLimit: { calls: 5, per: 1h }\n"
)
# The same contract, except for the tool that an approval is asked for.
OTHER = LIMITED.replace("Changes a customer's data.", "Changes the data of a customer.")


@dataclass
class Trio:
    house: House
    gateways: list[Gateway]
    ada: Ada

    def agents(self, *options: str) -> list[Agent]:
        """Returns the same agent at every gateway."""
        one = self.house.agent(*options)
        return [Agent(self.house, gateway, one.name, one.token, one.era) for gateway in self.gateways]

    def members(self, gateway: Gateway) -> dict[str, str]:
        """Returns the states of all gateways by address, as one of them sees them."""
        return {one["address"]: one["state"] for one in gateway.admin("/cluster")["members"]}

    def drift(self, gateway: Gateway) -> list[str]:
        return [one["part"] for one in gateway.admin("/cluster")["drift"]]


@pytest.fixture
def trio(tmp_path: Path, postgres: Postgres) -> Iterator[Trio]:  # noqa: F811
    house = House(tmp_path, PostgresStorage(postgres, postgres.create()))
    others = [Gateway(tmp_path / name, house.settings()) for name in ("second", "third")]
    gateways = [house.gateway, *others]
    for gateway in gateways:
        gateway.write("contracts/fx.yaml", LIMITED)
    with house.gateway:
        ada = house.settle()
        for gateway in others:
            shutil.copy(house.gateway.home / "admin.key", gateway.home / "admin.key")
        with others[0], others[1]:
            yield Trio(house, gateways, ada)


def test_a_limit_counts_for_all_gateways_and_survives_restarts(trio: Trio) -> None:
    agents = trio.agents()
    calls = [one.later("pay", trio.house.fresh()) for one in agents * 10]
    assert Counter(code(one.result(60)) for one in calls) == {"ok": 5, "rate_limit_exceeded": 25}
    assert len(trio.house.executed("pay")) == 5
    for agent in agents:
        refused = agent.call("pay", trio.house.fresh())
        assert code(refused) == "rate_limit_exceeded"
        assert 0 < details(refused)["retry_after_ms"] <= 3_600_000
    for gateway in trio.gateways:
        gateway.stop()
        gateway.start()
    for agent in agents:
        agent.move()
        assert code(agent.call("pay", trio.house.fresh())) == "rate_limit_exceeded"
    assert len(trio.house.executed("pay")) == 5
    explained = trio.gateways[1].run("policy", "explain", "fx:pay", "--variant", "write", "-o", "json")
    assert "rate_limit_exceeded" in explained.stdout, explained.stdout + explained.stderr


def test_gateways_are_listed_lost_and_leave(trio: Trio) -> None:
    first, second, third = trio.gateways
    everyone = {gateway.address: "running" for gateway in trio.gateways}
    for gateway in trio.gateways:
        until(lambda: trio.members(gateway) == everyone, SECONDS, "every gateway lists all three")
        own = [one["address"] for one in gateway.admin("/cluster")["members"] if one["this"]]
        assert own == [gateway.address]
        assert trio.drift(gateway) == []
    status = json.loads(first.run("status", "-o", "json").stdout)
    assert {**status["gateway"]["cluster"], "drift": []} == {"shared": True, "running": 3, "lost": 0, "drift": []}
    assert "3 running" in first.run("status").stdout

    third.stop()
    until(lambda: third.address not in trio.members(first), SECONDS, "a stopped gateway leaves the list")
    assert second.child is not None
    second.child.send_signal(signal.SIGKILL)
    second.child.wait()
    second.child = None
    until(lambda: trio.members(first).get(second.address) == "lost", SECONDS, "a killed gateway is lost")
    assert "1 running, 1 lost" in first.run("status").stdout
    second.start()
    until(lambda: trio.members(first) == {first.address: "running", second.address: "running"}, SECONDS, "it is back")


def test_drift_is_shown_everywhere_and_an_approval_waits_for_the_right_gateway(trio: Trio) -> None:
    first, second, third = trio.gateways
    elsewhere = Session(third, trio.ada.name)
    here, _, there = trio.agents("--headless")
    args = trio.house.fresh()
    approval = here.asks("update_customer", args)

    third.write("contracts/fx.yaml", OTHER)
    for gateway in trio.gateways:
        until(lambda: trio.drift(gateway) == ["contracts"], 3, "all gateways notice the drift")
    (drift,) = first.admin("/status")["cluster"]["drift"]
    assert third.address in drift["message"] and "config apply" in drift["next"], drift
    assert [len(group["members"]) for group in drift["values"]] == [2, 1]
    status = first.run("status").stdout
    assert "gateways_differ contracts" in status and "not all the same" in status, status
    until(lambda: "Gateways have different contracts" in second.words(), SECONDS, "the terminal of `serve` warns")
    page = Session(second, trio.ada.name)
    for path in ("/ui/", "/ui/settings"):
        shown = page.http.get(second.base + path, headers={"Cookie": f"{COOKIE}={page.secret}"})
        assert shown.status_code == 200 and "Gateways have different contracts" in shown.text, (path, shown.text)

    refused = [elsewhere.approve(approval), elsewhere.deny(approval)]
    assert [(one.status_code, one.json()["error"]["code"]) for one in refused] == [(409, "contracts_differ")] * 2
    assert trio.house.state(approval) == "pending"
    # The agent's own retry at the wrong gateway ends nothing either.
    assert code(there.call("update_customer", args, approval_id=approval)) == "contracts_differ"
    assert trio.house.state(approval) == "pending"
    trio.ada.say_yes(approval)
    assert code(there.call("update_customer", args, approval_id=approval)) == "contracts_differ"
    assert trio.house.executed("update_customer") == []
    assert said(here.call("update_customer", args, approval_id=approval)) == args
    assert trio.house.executed("update_customer") == [args]

    third.write("contracts/fx.yaml", LIMITED)
    for gateway in trio.gateways:
        until(lambda: trio.drift(gateway) == [], 3, "the drift is over")
    until(lambda: "All gateways run the same version" in second.words(), SECONDS, "the terminal says so")


def test_a_changed_contract_without_drift_still_ends_a_request(trio: Trio) -> None:
    here, there, _ = trio.agents("--headless")
    args = trio.house.fresh()
    approval = here.asks("update_customer", args)
    before = digest_of(trio.gateways[0])
    for gateway in trio.gateways:
        gateway.write("contracts/fx.yaml", OTHER)
    for gateway in trio.gateways:
        until(lambda: digest_of(gateway) != before, SECONDS, "the new contract is in force")
    for gateway in trio.gateways:
        until(lambda: trio.drift(gateway) == [], SECONDS, "every gateway has announced it")
    assert code(there.call("update_customer", args, approval_id=approval)) == "approval_stale"
    assert trio.house.state(approval) == "cancelled"


def digest_of(gateway: Gateway) -> str:
    """Returns the digest of the contracts that are in force at a gateway."""
    (own,) = [one for one in gateway.admin("/cluster")["members"] if one["this"]]
    return own["contracts"]
