"""Approvals of single calls: their scope, single use, expiry, and changes that invalidate them."""

from __future__ import annotations

import re
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from approvals import SECONDS, Ada, Agent, House, code, details, error, house_with_ada, said
from clients import call, play_stdio
from gateway import until
from test_stdio import command
from wire import LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]
NEVER_ISSUED = "01ARZ3NDEKTSV4RRFFQ69G5FAV"
RETRIES = 50
MOST_PENDING = 20
MANY = 10_000


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("approvals"))


@pytest.fixture(scope="module")
def brief(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    """A gateway that holds calls for one second only, and accepts forms."""
    yield from house_with_ada(tmp_path_factory.mktemp("brief"), wait="1s", channels={"high": "form"})


@pytest.fixture
def house(home: tuple[House, Ada]) -> House:
    return home[0]


@pytest.fixture
def ada(home: tuple[House, Ada]) -> Ada:
    return home[1]


# -- scope ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_asked_approved_repeated(house: House, ada: Ada, era: str) -> None:
    agent, args = house.agent("--headless", era=era), house.fresh()
    asked = agent.call("update_customer", args, intent_reason="asked to")
    question = details(asked)
    assert error(asked)["code"] == "confirmation_required"
    assert (question["tool"], question["risk_level"]) == ("fx:update_customer", "high")
    assert question["side_effects"] == ["The customer's data change."]
    assert question["expires_at"]
    port = house.gateway.address.rpartition(":")[2]
    assert question["approve_url"] == f"http://localhost:{port}/ui/approvals/{question['approval_id']}"
    sentence = asked["content"][0]["text"]
    assert "Do not change the arguments." in sentence
    assert question["approve_url"] in sentence and f"approval_id={question['approval_id']}" in sentence
    assert house.executed("update_customer").count(args) == 0

    waiting = agent.call("update_customer", args, approval_id=question["approval_id"])
    assert code(waiting) == "confirmation_required", "nobody has decided yet"
    assert details(waiting)["approval_id"] == question["approval_id"]
    ada.say_yes(question["approval_id"])
    assert house.executed("update_customer").count(args) == 0, "nothing runs before the agent comes back"
    done = agent.call("update_customer", args, approval_id=question["approval_id"])
    assert said(done) == args
    assert house.executed("update_customer").count(args) == 1
    assert house.state(question["approval_id"]) == "consumed"
    assert house.steps(question["approval_id"]) == ["approval_requested", "approval_approved"]
    record = house.gateway.admin(f"/activity/{done['_meta']['mcpproxy/record']}")
    assert record["metadata"]["approval_id"] == question["approval_id"]


def test_approve_one_thing_and_send_another(house: House, ada: Ada) -> None:
    agent, args, other = house.in_a_hurry(), house.fresh(), house.fresh()
    approval = agent.asks("update_customer", args)
    ada.say_yes(approval)
    stranger = house.in_a_hurry()
    attempts = [
        (agent, "update_customer", other, {}, "approval_args_mismatch"),
        (agent, "update_customer", {**args, "more": None}, {}, "approval_args_mismatch"),
        (agent, "update_customer", {"id": str(args["id"])}, {}, "approval_args_mismatch"),
        (agent, "update_customer", f'{{"id":{args["id"]}.0}}', {}, "approval_args_mismatch"),
        (agent, "slow_update", args, {}, "approval_not_found"),
        (agent, "update_customer", args, {"variant": "destructive"}, "approval_args_mismatch"),
        (stranger, "update_customer", args, {}, "approval_not_found"),
    ]
    for who, tool, sent, more, expected in attempts:
        assert code(who.call(tool, sent, approval_id=approval, **more)) == expected, (tool, sent, more)
    assert house.executed("slow_update") == []
    assert args not in house.executed("update_customer") and other not in house.executed("update_customer")
    assert said(agent.call("update_customer", args, approval_id=approval)) == args, "the word given still counts"


@pytest.mark.parametrize("era", ERAS)
def test_the_same_call_needs_no_id(house: House, ada: Ada, era: str) -> None:
    """A call that repeats exactly the approved one needs no id, so tools under their own names work too."""
    agent, args, own = house.agent("--headless", era=era), house.fresh(), house.fresh()
    ada.say_yes(agent.asks("update_customer", args))
    assert said(agent.call("update_customer", args)) == args
    assert code(agent.call("update_customer", args)) == "confirmation_required", "once"
    for path, name in (("/mcp/s/fx", "update_customer"), ("/mcp/direct", "fx__update_customer")):
        wire = Wire(house.gateway.base + path, agent.token, era)
        wanted = {"name": name, "arguments": {**own, "at": path}}
        asked = wire.ask("tools/call", wanted)
        assert code(asked) == "confirmation_required", asked
        ada.say_yes(details(asked)["approval_id"])
        assert said(wire.ask("tools/call", wanted)) == wanted["arguments"]
        assert code(wire.ask("tools/call", wanted)) == "confirmation_required"
        assert house.executed("update_customer").count(wanted["arguments"]) == 1


def test_the_order_of_keys_is_nothing_and_the_stored_bytes_are_sent(house: House, ada: Ada) -> None:
    agent = house.in_a_hurry()
    as_asked, as_repeated = '{ "b": 2.50, "a": "\\u0041é" }', '{"a":"Aé","b":2.50}'
    approval = agent.asks("update_customer", as_asked)
    ada.say_yes(approval)
    assert code(agent.call("update_customer", '{"a":"Aé","b":2.5}', approval_id=approval)) == "approval_args_mismatch"
    assert said(agent.call("update_customer", as_repeated, approval_id=approval)) == {"a": "Aé", "b": 2.5}
    assert as_asked in house.arrived("update_customer")[-1]["line"], "what was approved is what is sent"


# -- single use -------------------------------------------------------------------------------------------------


def test_approved_twice_runs_once_however_often_it_is_repeated(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    answers = [house.pool.submit(ada.approve, approval) for _ in range(2)]
    assert sorted(one.result(60).status_code for one in answers) == [200, 409]
    results = agent.at_once(RETRIES, "update_customer", args, approval_id=approval)
    assert Counter(map(code, results)) == {"ok": 1, "approval_already_used": RETRIES - 1}
    assert house.executed("update_customer").count(args) == 1
    (done,) = [one for one in results if code(one) == "ok"]
    named = {details(one)["record"] for one in results if code(one) != "ok"}
    assert named == {done["_meta"]["mcpproxy/record"]}, "the others are told where the first one is"
    assert ada.approve(approval).status_code == 409
    assert house.steps(approval).count("approval_approved") == 1


def test_identical_calls_share_one_request(house: House, ada: Ada) -> None:
    agent, args = house.agent(), house.fresh()
    held = [agent.later("update_customer", args) for _ in range(10)]
    approval = house.question(agent)["id"]
    quick = house.in_a_hurry()
    assert quick.asks("update_customer", args) != approval, "another agent's question is another"
    ada.say_yes(approval)
    codes = Counter(code(one.result(60)) for one in held)
    assert codes == {"ok": 1, "approval_already_used": 9}
    assert house.executed("update_customer").count(args) == 1
    # The same call afterwards opens a new approval request.
    assert agent.later("update_customer", args) and house.question(agent)["id"] != approval
    ada.say_no(house.question(agent)["id"])


def test_an_agent_has_at_most_twenty_requests(house: House, ada: Ada) -> None:
    agent = house.in_a_hurry()
    asked = [agent.asks("update_customer", house.fresh()) for _ in range(MOST_PENDING)]
    assert len(set(asked)) == MOST_PENDING
    assert code(agent.call("update_customer", house.fresh())) == "too_many_approvals"
    assert code(house.in_a_hurry().call("update_customer", house.fresh())) == "confirmation_required"
    ada.say_no(asked[0])
    assert code(agent.call("update_customer", house.fresh())) == "confirmation_required"


# -- outcomes ---------------------------------------------------------------------------------------------------


def test_denied_with_a_comment(house: House, ada: Ada) -> None:
    agent, args = house.agent(), house.fresh()
    held = agent.later("update_customer", args)
    approval = house.question(agent)["id"]
    ada.say_no(approval, "Not before Monday.")
    refused = held.result(60)
    assert (code(refused), details(refused)["comment"]) == ("approval_denied", "Not before Monday.")
    assert "Not before Monday." in refused["content"][0]["text"]
    assert code(agent.call("update_customer", args, approval_id=approval)) == "approval_denied"
    assert ada.approve(approval).status_code == 409, "no is no"
    assert args not in house.executed("update_customer")
    assert house.steps(approval) == ["approval_requested", "approval_denied"]


def test_denied_after_it_was_approved(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    ada.say_yes(approval)
    ada.say_no(approval, "Second thoughts.")
    assert code(agent.call("update_customer", args, approval_id=approval)) == "approval_denied"
    assert args not in house.executed("update_customer")


@pytest.mark.parametrize("approved", [False, True])
def test_expired(house: House, ada: Ada, approved: bool) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    if approved:
        ada.say_yes(approval)
    house.overtake(approval)
    refused = agent.call("update_customer", args, approval_id=approval)
    assert code(refused) == "approval_expired"
    assert args not in house.executed("update_customer")
    assert ada.approve(approval).status_code == 409
    assert house.state(approval) == "expired"
    until(lambda: house.steps(approval)[-1] == "approval_expired", SECONDS, "it is written down that its time is over")
    assert agent.asks("update_customer", args) != approval, "the same call is a new question"


def test_used_up(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    ada.say_yes(approval)
    done = agent.call("update_customer", args, approval_id=approval)
    again = agent.call("update_customer", args, approval_id=approval)
    assert (code(done), code(again)) == ("ok", "approval_already_used")
    assert details(again)["record"] == done["_meta"]["mcpproxy/record"]
    assert house.executed("update_customer").count(args) == 1


@pytest.mark.parametrize(
    "name", [NEVER_ISSUED, NEVER_ISSUED.lower(), "", "x", "../" + NEVER_ISSUED, NEVER_ISSUED + "0"]
)
def test_never_issued(house: House, name: str) -> None:
    assert code(house.in_a_hurry().call("update_customer", house.fresh(), approval_id=name)) == "approval_not_found"


# -- waiting ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_held_call_continues_after_approval(house: House, ada: Ada, era: str) -> None:
    agent, args = house.agent(era=era), house.fresh()
    wire = agent.connect()
    asked = {**agent.parameters("update_customer", args), "_meta": {"progressToken": "p"}}
    held = house.pool.submit(wire.ask, "tools/call", asked)
    question = house.question(agent)
    ada.say_yes(question["id"])
    assert said(held.result(60)) == args
    told = [one["params"] for one in wire.heard if one.get("method") == "notifications/progress"]
    assert told and all(one["progressToken"] == "p" for one in told), wire.heard
    assert question["id"] in str(told), "whoever waits is told for what"
    assert house.executed("update_customer").count(args) == 1


@pytest.mark.parametrize("era", ERAS)
def test_after_the_wait_the_call_is_handed_back(brief: tuple[House, Ada], era: str) -> None:
    house, ada = brief
    agent, args = house.agent(era=era), house.fresh()
    began = time.monotonic()
    approval = agent.asks("update_customer", args)
    assert time.monotonic() - began > 0.9, "it was not held"
    ada.say_yes(approval)
    assert said(agent.call("update_customer", args, approval_id=approval)) == args
    assert house.executed("update_customer").count(args) == 1


def test_an_agent_that_disconnects_leaves_its_request_open(house: House, ada: Ada) -> None:
    """The connection breaks while the call waits. An approval then does not run the call by itself."""
    agent, args = house.agent(), house.fresh()
    wire = agent.connect()
    wire.http.timeout = 1
    gone = house.pool.submit(wire.ask, "tools/call", agent.parameters("update_customer", args))
    approval = house.question(agent)["id"]
    assert gone.exception(30) is not None
    ada.say_yes(approval)
    assert args not in house.executed("update_customer")
    assert said(agent.call("update_customer", args, approval_id=approval)) == args
    assert house.executed("update_customer").count(args) == 1


@pytest.mark.parametrize("era", ERAS)
def test_a_form_over_standard_streams(brief: tuple[House, Ada], era: str) -> None:
    """`mcpproxy stdio` relays prompts to its client, and the answers back."""
    house, _ = brief
    args = house.fresh()
    yes = {"action": "accept", "content": {"decision": "approve"}}
    one = call("call_tool_write", {"name": "fx:update_customer", "args": args})
    heard = play_stdio(era, command(house.gateway), [one], {"elicitation": yes})
    assert said(heard.results[0]) == args and len(heard.asked) == 1
    assert house.executed("update_customer").count(args) == 1


def test_an_agent_cannot_answer_its_own_form(house: House) -> None:
    """A token holder can pretend to be a client whose user filled in a form."""
    agent, args = house.agent(), house.fresh()
    wanted = agent.parameters("update_customer", args)
    wire = agent.connect(elicitation={"form": {}, "url": {}})
    asked = wire.ask("tools/call", wanted)
    (question,) = asked["inputRequests"].values()
    assert question["params"]["mode"] == "url"
    yes = {"action": "accept", "content": {"decision": "approve"}}
    answer = {"inputResponses": dict.fromkeys(asked["inputRequests"], yes), "requestState": asked["requestState"]}
    held = house.pool.submit(wire.ask, "tools/call", {**wanted, **answer})
    approval = house.question(agent)["id"]
    assert house.gateway.run("approvals", "deny", approval, "--comment", "Nobody looked.").returncode == 0
    assert code(held.result(60)) == "approval_denied"
    assert args not in house.executed("update_customer")


def test_ten_thousand_requests_are_listed_page_by_page(tmp_path: Path) -> None:
    house = House(tmp_path)
    with house.gateway:
        house.in_a_hurry().asks("update_customer", house.fresh())
        columns = ", ".join(row[1] for row in house.storage.sql(house.gateway.home, "PRAGMA table_info(approvals)"))
        copies = columns.replace("id,", "substr(id, 1, 20) || printf('%06d', n),", 1).replace(
            "binding", "randomblob(32)", 1
        )
        house.storage.sql(
            house.gateway.home,
            f"WITH RECURSIVE numbers(n) AS (SELECT 0 UNION ALL SELECT n + 1 FROM numbers WHERE n < {MANY - 1}) "
            f"INSERT INTO approvals ({columns}) SELECT {copies} FROM approvals, numbers",
        )
        assert house.storage.sql(house.gateway.home, "SELECT count(*) FROM approvals") == [[MANY + 1]]

        # A store benchmark measures the cost of a page. This checks that pages work with any number of requests.
        seen, page = set(), house.gateway.admin("/approvals?state=pending&limit=500")
        for _ in range(MANY // 500 + 1):
            seen |= {one["id"] for one in page["approvals"]}
            assert len(page["approvals"]) <= 500
            if not page["next"]:
                break
            page = house.gateway.admin(f"/approvals?state=pending&limit=500&cursor={page['next']}")
        assert len(seen) == MANY + 1


# -- invalidation -----------------------------------------------------------------------------------------------


def refused_for_good(house: House, ada: Ada, agent: Agent, approval: str, held: dict, args: dict) -> str:
    """Checks that the call did not run and cannot be made to run. Returns the code of the held call's answer."""
    assert args not in house.executed("slow_update")
    ada.approve(approval)
    again = agent.call("slow_update", args, approval_id=approval)
    assert again.get("isError") is True, again
    assert args not in house.executed("slow_update")
    return code(held)


def test_the_tool_changes_while_waiting(house: House, ada: Ada) -> None:
    agent, args = house.agent(), house.fresh()
    held = agent.later("slow_update", args)
    approval = house.question(agent)["id"]
    gateway = house.gateway
    gateway.write_settings(house.settings("Differently."))
    try:
        until(lambda: "Differently." in str(gateway.admin("/tools?server=fx")), SECONDS, "the tool says something else")
        ada.approve(approval)
        assert refused_for_good(house, ada, agent, approval, held.result(60), args) == "approval_stale"
    finally:
        gateway.write_settings(house.settings())
        until(lambda: "Differently." not in str(gateway.admin("/tools?server=fx")), SECONDS, "the tool is as it was")


def test_the_contract_hardens_while_waiting(house: House, ada: Ada) -> None:
    agent, args = house.agent(), house.fresh()
    held = agent.later("slow_update", args)
    approval = house.question(agent)["id"]
    gateway = house.gateway
    contracts = (gateway.home / "contracts" / "fx.yaml").read_text()
    gateway.write("contracts/fx.yaml", re.sub("(fx:slow_update\n  riskLevel:) high", r"\1 forbidden", contracts))
    try:
        risk = lambda: gateway.admin("/contracts/fx/slow_update")["risk_level"]  # noqa: E731
        until(lambda: risk() == "forbidden", SECONDS, "the contract is taken over")
        ada.approve(approval)
        refused = held.result(60)
        assert refused_for_good(house, ada, agent, approval, refused, args) in ("tool_not_found", "approval_stale")
        assert "forbidden" not in str(refused).lower(), "an agent is not told that it exists"
    finally:
        gateway.write("contracts/fx.yaml", contracts)
        until(lambda: risk() == "high", SECONDS, "the contract is as it was")


def test_the_agent_is_revoked_while_waiting(house: House, ada: Ada) -> None:
    agent, args = house.agent(), house.fresh()
    held = agent.later("update_customer", args)
    approval = house.question(agent)["id"]
    assert house.gateway.run("token", "revoke", agent.name).returncode == 0
    ada.approve(approval)
    assert code(held.result(60)) != "ok"
    assert args not in house.executed("update_customer")


def test_a_new_agent_of_the_same_name_is_another(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    ada.say_yes(approval)
    heir = house.heir_of(agent)
    for more in ({"approval_id": approval}, {}):
        assert heir.call("update_customer", args, **more).get("isError") is True
    assert args not in house.executed("update_customer")


def test_permissions_are_taken_away_while_waiting(house: House, ada: Ada) -> None:
    """A held call is checked against the operator's policies again before it is sent."""
    agent, args = house.agent(), house.fresh()
    held = agent.later("update_customer", args)
    approval = house.question(agent)["id"]
    gateway = house.gateway
    gateway.write(
        "policies/no.cedar", f'@id("not-any-more")\nforbid (principal == Agent::"{agent.name}", action, resource);\n'
    )
    try:
        explain = ["policy", "explain", "fx:update_customer", "--variant", "write", "--agent", agent.name]
        until(lambda: "not-any-more" in gateway.run(*explain).stdout, SECONDS, "the policy is taken over")
        ada.approve(approval)
        assert code(held.result(60)) in ("policy_violation", "approval_stale")
        assert args not in house.executed("update_customer")
    finally:
        (gateway.home / "policies" / "no.cedar").unlink()


# -- restarts ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("end", ["stopped", "killed"])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_restart_in_the_middle(house: House, ada: Ada, end: str, when: str) -> None:
    """The gateway restarts while a call waits. The approval request survives and can be decided."""
    agent, args = house.agent(), house.fresh()
    held = agent.later("update_customer", args)
    approval = house.question(agent)["id"]
    gateway = house.gateway
    if when == "after":
        # The held call is gone, so the approval waits for the agent to repeat the call.
        quick = house.in_a_hurry()
        args = house.fresh()
        approval, agent = quick.asks("update_customer", args), quick
        ada.say_yes(approval)
    if end == "stopped":
        gateway.stop()
    else:
        gateway.child.kill()
        gateway.child.wait()
        until(lambda: not gateway.processes(), SECONDS, "the servers are gone")
    gateway.start()
    assert held.exception(40) is not None or held.result().get("isError") is True
    agent.move()
    assert args not in house.executed("update_customer")
    if when == "before":
        assert house.state(approval) == "pending"
        ada.say_yes(approval)
    assert house.state(approval) == "approved"
    assert said(agent.call("update_customer", args, approval_id=approval)) == args
    assert house.executed("update_customer").count(args) == 1
