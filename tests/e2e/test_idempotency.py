"""Repeated calls: the first is sent, the others get its answer, and nothing is sent twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Any

import pytest

from approvals import SECONDS, House, code, said
from gateway import until
from wire import LEGACY, MODERN

PARALLEL = 100


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    one = House(tmp_path_factory.mktemp("repeats"))
    with one.gateway:
        yield one


def is_replayed(result: dict[str, Any]) -> bool:
    return result.get("_meta", {}).get("mcpproxy/replayed", result.get("_meta", {}).get("replayed", False)) is True


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_the_first_answer_again(house: House, era: str) -> None:
    agent, args = house.agent(era=era), house.fresh()
    first, second = (agent.call("pay", args, idempotency_key=f"k-{era}") for _ in range(2))
    assert said(first) == said(second) == args
    assert (is_replayed(first), is_replayed(second)) == (False, True), second
    assert house.executed("pay").count(args) == 1
    assert said(agent.call("pay", args, idempotency_key=f"other-{era}")) == args
    assert house.executed("pay").count(args) == 2, "another key is another call"


def test_a_hundred_at_once(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    results = agent.at_once(PARALLEL, "pay", args, idempotency_key="all-together")
    assert Counter(map(code, results)) == {"ok": PARALLEL}
    assert Counter(map(is_replayed, results)) == {False: 1, True: PARALLEL - 1}
    assert all(said(one) == args for one in results)
    assert house.executed("pay").count(args) == 1


def test_a_hundred_at_once_while_the_first_is_still_running(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    calls = [agent.later("slow_pay", args, idempotency_key="slowly") for _ in range(PARALLEL)]
    until(lambda: args in house.executed("slow_pay"), SECONDS, "the first call arrived")
    assert not any(one.done() for one in calls)
    go = house.ledger.with_name(house.ledger.name + ".go")
    go.touch()
    try:
        results = [one.result(60) for one in calls]
    finally:
        go.unlink()
    assert Counter(map(code, results)) == {"ok": PARALLEL}
    assert house.executed("slow_pay").count(args) == 1


def test_other_arguments_are_a_conflict(house: House) -> None:
    agent, one, other = house.agent(), house.fresh(), house.fresh()
    assert said(agent.call("pay", one, idempotency_key="k1")) == one
    assert code(agent.call("pay", other, idempotency_key="k1")) == "idempotency_conflict"
    assert other not in house.executed("pay")
    assert code(agent.call("pay", f'{{"id": {one["id"]}.0}}', idempotency_key="k1")) == "idempotency_conflict"
    assert said(agent.call("pay", f'{{ "id": {one["id"]} }}', idempotency_key="k1")) == one, "space is nothing"
    assert house.executed("pay").count(one) == 1


def test_a_key_belongs_to_one_agent_and_one_tool(house: House) -> None:
    first, second, args = house.agent(), house.agent(), house.fresh()
    for agent in (first, second):
        assert said(agent.call("pay", args, idempotency_key="mine")) == args
    assert house.executed("pay").count(args) == 2
    assert said(first.call("note", {**args, "title": "own key"}, idempotency_key="mine"))


def test_a_token_that_is_replaced_repeats_nothing(house: House) -> None:
    """A new token under the same agent name keeps the agent's idempotency keys."""
    agent, args = house.agent(), house.fresh()
    assert said(agent.call("pay", args, idempotency_key="rotated")) == args
    assert is_replayed(house.heir_of(agent).call("pay", args, idempotency_key="rotated"))
    assert house.executed("pay").count(args) == 1


def test_a_key_made_from_arguments(house: House) -> None:
    agent = house.agent()
    title = f"title {house.fresh()['id']}"
    note, other = {"title": title, "body": "one"}, {"title": title, "body": "two"}
    results = agent.at_once(10, "note", note)
    assert Counter(map(code, results)) == {"ok": 10}
    assert house.executed("note").count(note) == 1
    assert code(agent.call("note", other)) == "idempotency_conflict"
    assert other not in house.executed("note")
    assert said(agent.call("note", {**other, "title": title + "!"}))


@pytest.mark.parametrize("key", ["", "k" * 256, "a\nb", "é", " ", "a b\t", "\x7f"])
def test_keys_that_are_none(house: House, key: str) -> None:
    agent, args = house.agent(), house.fresh()
    refused = agent.call("pay", args, idempotency_key=key)
    assert code(refused) == "invalid_idempotency_key"
    assert "1–255 visible ASCII" in refused["content"][0]["text"]
    assert args not in house.executed("pay")


def test_the_longest_key(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    assert said(agent.call("pay", args, idempotency_key="!" + "k" * 253 + "~")) == args


def test_a_key_after_its_time(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    assert said(agent.call("pay", args, idempotency_key="old")) == args
    house.storage.sql(house.gateway.home, "UPDATE claims SET expires_ms = 1")
    assert said(agent.call("pay", args, idempotency_key="old")) == args
    assert house.executed("pay").count(args) == 2


def test_an_answer_survives_a_restart(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    first = agent.call("pay", args, idempotency_key="kept")
    house.gateway.stop()
    house.gateway.start()
    agent.move()
    again = agent.call("pay", args, idempotency_key="kept")
    assert said(first) == said(again) and is_replayed(again)
    assert house.executed("pay").count(args) == 1


def test_a_dry_run_takes_no_key(house: House) -> None:
    agent, args = house.agent(), house.fresh()
    assert code(agent.call("pay", args, idempotency_key="dry", dry_run=True)) == "ok"
    assert house.executed("pay").count(args) == 0
    assert said(agent.call("pay", args, idempotency_key="dry")) == args


def test_a_key_is_no_approval(house: House) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("plain", args, idempotency_key="asked")
    assert house.gateway.run("approvals", "deny", approval, "--comment", "no").returncode == 0
    for more in ({"approval_id": approval}, {}):
        assert code(agent.call("plain", args, idempotency_key="asked", **more)) == "approval_denied"
    assert args not in house.executed("plain")
