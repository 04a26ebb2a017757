"""Every kind of client sends an external email, which a user approves in Chromium."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

import peers
from approvals import SECONDS, code, details, error
from clients import ALL_KINDS, LEGACY_KINDS, MODERN_KINDS, Kind, Transcript, call, play
from gateway import Gateway, until
from user import Browser, User, setup_link
from test_agents import create
from wire import MODERN, Wire

BOTH = ("form", "url")
SEND = "demo:emails.send_external"
UPDATE = "demo:update_customer_data"
# The contract requires a second factor if there are attachments.
EMPTY = {
    "nothing": {"action": "accept"},
    "empty": {"action": "accept", "content": {}},
    "blank": {"action": "accept", "content": {"decision": ""}},
    "other": {"action": "accept", "content": {"decision": "yes"}},
    "elsewhere": {"action": "accept", "content": {"confirm": True}},
    "cancel": {"action": "cancel"},
}
ATTACHED = {"attachments": ["f_report"]}


@dataclass
class Office:
    """The demo server behind a gateway, a recorder between them, and Ada with a passkey and an authenticator app."""

    gateway: Gateway
    sent: Path
    ada: User
    pool: ThreadPoolExecutor = field(default_factory=lambda: ThreadPoolExecutor(8))

    def arrived(self, tool: str) -> list[dict[str, Any]]:
        messages = [json.loads(line) for line in self.sent.read_text().splitlines()]
        calls = [one["params"] for one in messages if one.get("method") == "tools/call"]
        return [one["arguments"] for one in calls if one["name"] == tool]

    def plays(self, kind: Kind, token: str, *steps: dict[str, Any], **more: Any) -> Future[Transcript]:
        return self.pool.submit(play, kind, self.gateway.mcp, token, list(steps), **more)

    def question(self, agent: str) -> dict[str, Any]:
        found = until(
            lambda: self.gateway.admin(f"/approvals?state=pending&agent={agent}")["approvals"], SECONDS, "a question"
        )
        assert len(found) == 1, found
        return found[0]

    def page(self, approval: str) -> str:
        return self.gateway.admin(f"/approvals/{approval}")["url"]


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory, browser: Browser) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("office")
    demo = {"command": str(peers.BUILD / "demo-server"), "args": []}
    # Forms are accepted for high-risk calls, because the operator trusts the agents' clients.
    approvals = {"wait": "40s", "channels": {"high": "form"}}
    settings = {"mcpServers": {"demo": peers.tapped(demo, folder / "sent.jsonl")}, "approvals": approvals}
    with Gateway(folder / "home", settings) as gateway, User(browser, gateway) as ada:
        ada.set_up(setup_link(gateway))
        ada.add_passkey()
        yield Office(gateway, folder / "sent.jsonl", ada)


def mail(body: str, **more: Any) -> dict[str, Any]:
    return {"to": ["priya@northwind.example"], "subject": "Hello", "body": body, **more}


def sends(args: dict[str, Any], **more: Any) -> dict[str, Any]:
    return call("call_tool_destructive", {"name": SEND, "args": args, "intent_reason": "asked to", **more})


def email_of(result: dict[str, Any]) -> str:
    assert not result.get("isError"), result
    return result["structuredContent"]["emailId"]


# -- the three channels to a user ------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_client_that_opens_addresses(office: Office, kind: Kind) -> None:
    """`InputRequiredResult` in 2026-07-28, `elicitation/create` in earlier revisions: always a link, never a form."""
    token = create(office.gateway, f"opens-{kind}", "--grant", "*")
    args = mail(f"from {kind}")
    playing = office.plays(kind, token, sends(args), answers={"elicitation": {"action": "accept"}}, modes=BOTH)
    approval = office.question(f"opens-{kind}")["id"]
    assert args not in office.arrived("emails.send_external")
    office.ada.open(office.page(approval))
    office.ada.approve()
    heard = playing.result(60)
    assert email_of(heard.results[0])
    assert {asked["params"]["mode"] for asked in heard.asked} == {"url"}
    assert {asked["params"]["url"] for asked in heard.asked} == {office.page(approval)}
    assert office.arrived("emails.send_external").count(args) == 1


@pytest.mark.parametrize("kind", [*LEGACY_KINDS[1:], MODERN_KINDS[1]], ids=str)
def test_a_client_that_only_draws_forms_is_not_asked_about_critical_things(office: Office, kind: Kind) -> None:
    token = create(office.gateway, f"draws-{kind}", "--grant", "*")
    args = mail(f"only forms, {kind}")
    yes = {"action": "accept", "content": {"decision": "approve"}}
    playing = office.plays(kind, token, sends(args), answers={"elicitation": yes})
    approval = office.question(f"draws-{kind}")["id"]
    office.ada.open(office.page(approval))
    office.ada.approve()
    heard = playing.result(60)
    assert email_of(heard.results[0]) and heard.asked == []
    assert office.arrived("emails.send_external").count(args) == 1


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_client_without_prompts(office: Office, kind: Kind) -> None:
    """The call is held while the user decides on the web page."""
    token = create(office.gateway, f"waits-{kind}", "--grant", "*")
    args = mail(f"held for {kind}")
    playing = office.plays(kind, token, sends(args))
    approval = office.question(f"waits-{kind}")["id"]
    office.ada.open(office.page(approval))
    office.ada.approve()
    heard = playing.result(60)
    assert email_of(heard.results[0]) and heard.asked == []
    assert heard.progress, "a client that shows progress learns that the call waits"
    assert office.arrived("emails.send_external").count(args) == 1


@pytest.mark.parametrize("kind", [LEGACY_KINDS[2], MODERN_KINDS[0]], ids=str)
def test_a_client_that_must_not_wait(office: Office, kind: Kind) -> None:
    """An unattended agent gets a link, and repeats its call after a user approved it."""
    token = create(office.gateway, f"hurries-{kind}", "--grant", "*", "--headless")
    args = mail(f"in a hurry, {kind}")
    first = office.plays(kind, token, sends(args)).result(60)
    asked = error(first.results[0])
    assert asked["code"] == "confirmation_required"
    office.ada.open(asked["details"]["approve_url"])
    office.ada.approve()
    again = office.plays(kind, token, sends(args, approval_id=asked["details"]["approval_id"])).result(60)
    assert email_of(again.results[0])
    assert office.arrived("emails.send_external").count(args) == 1


@pytest.mark.parametrize("factor", ["totp", "passkey"])
def test_step_up(office: Office, factor: str) -> None:
    token = create(office.gateway, f"steps-{factor}", "--grant", "*")
    args = mail(f"with an attachment, {factor}", **ATTACHED)
    playing = office.plays(
        MODERN_KINDS[1], token, sends(args), answers={"elicitation": {"action": "accept"}}, modes=BOTH
    )
    approval = office.question(f"steps-{factor}")["id"]
    office.ada.open(office.page(approval))
    before = office.ada.do("passkeys")[0]["count"]
    office.ada.approve(factor)
    assert email_of(playing.result(60).results[0])
    assert (office.ada.do("passkeys")[0]["count"] > before) == (factor == "passkey")
    assert office.gateway.admin(f"/approvals/{approval}")["given"] == "factor"
    assert office.arrived("emails.send_external").count(args) == 1


def test_no_code_no_step_up(office: Office) -> None:
    """An empty, wrong or malformed code is rejected."""
    token = create(office.gateway, "wants-all", "--grant", "*", "--headless")
    wire = Wire(office.gateway.mcp, token, MODERN)
    args = mail("not without a factor", **ATTACHED)
    asked = details(wire.ask("tools/call", sends(args)["params"]))
    ada = office.ada
    ada.open(asked["approve_url"])
    for wrong in ("", "000000", "12345", "abcdef"):
        ada.do("evaluate", script="document.querySelectorAll('form').forEach(one => one.noValidate = true)")
        ada.do("fill", field="totp", value=wrong)
        ada.do("press", button="^approve once$")
        assert office.gateway.admin(f"/approvals/{asked['approval_id']}")["state"] == "pending", wrong
        ada.open(asked["approve_url"])
    assert args not in office.arrived("emails.send_external")
    ada.deny()


# Signs for the approval request ONE, as a script in the page could. `post` sends a form, and `passkey(change)` is the
# signed answer with a change to its signature.
SIGN_FOR_ONE = """(async () => {
  const bytes = text => Uint8Array.from(atob(text.replace(/-/g, '+').replace(/_/g, '/')), c => c.charCodeAt(0));
  const text = buffer => btoa(String.fromCharCode(...new Uint8Array(buffer)))
    .replace(/\\+/g, '-').replace(/\\//g, '_').replace(/=+$/, '');
  const csrf = document.querySelector('[name=csrf]').value;
  const post = (path, fields) =>
    fetch(path, { method: 'POST', redirect: 'manual', body: new URLSearchParams({ csrf, ...fields }) });
  const answer = await post('/ui/approvals/ONE/passkey', { for: '/ui/approvals/ONE' });
  const { publicKey } = await answer.json();
  publicKey.challenge = bytes(publicKey.challenge);
  (publicKey.allowCredentials || []).forEach(one => { one.id = bytes(one.id); });
  const got = await navigator.credentials.get({ publicKey });
  const { authenticatorData, clientDataJSON, signature, userHandle } = got.response;
  const passkey = change => JSON.stringify({
    id: got.id, rawId: text(got.rawId), type: got.type, extensions: {},
    response: {
      authenticatorData: text(authenticatorData), clientDataJSON: text(clientDataJSON),
      signature: text(change(new Uint8Array(signature))), userHandle: userHandle ? text(userHandle) : null
    }
  });
"""

SIGN_FOR_ONE_USE_FOR_ANOTHER = SIGN_FOR_ONE + """
  const signed = passkey(bytes => bytes);
  const wrong = await post('/ui/approvals/OTHER', { action: 'approve', passkey: signed });
  const again = await post('/ui/approvals/ONE', { action: 'approve', passkey: signed });
  return [wrong.status, again.status];
})()"""

FORGED_PASSKEYS = SIGN_FOR_ONE + """
  const flipped = passkey(bytes => { bytes[bytes.length - 1] ^= 1; return bytes; });
  const statuses = [];
  for (const forged of ['', '{}', 'not JSON', flipped]) {
    statuses.push((await post('/ui/approvals/ONE', { action: 'approve', passkey: forged })).status);
  }
  return statuses;
})()"""


def test_no_passkey_no_step_up(office: Office) -> None:
    """An empty or malformed answer, and one with a wrong signature, are rejected."""
    wire = Wire(office.gateway.mcp, create(office.gateway, "forges", "--grant", "*", "--headless"), MODERN)
    args = mail("not without a passkey", **ATTACHED)
    asked = details(wire.ask("tools/call", sends(args)["params"]))
    office.ada.open(asked["approve_url"])
    statuses = office.ada.do("evaluate", script=FORGED_PASSKEYS.replace("ONE", asked["approval_id"]))
    assert len(statuses) == 4 and all(400 <= status < 500 for status in statuses), statuses
    assert office.gateway.admin(f"/approvals/{asked['approval_id']}")["state"] == "pending"
    assert args not in office.arrived("emails.send_external")
    assert office.gateway.run("approvals", "deny", asked["approval_id"], "--comment", "enough").returncode == 0


def test_a_passkey_signs_for_one_approval(office: Office) -> None:
    wire = Wire(office.gateway.mcp, create(office.gateway, "signs", "--grant", "*", "--headless"), MODERN)
    asked = [details(wire.ask("tools/call", sends(mail(f"number {n}", **ATTACHED))["params"])) for n in (1, 2)]
    one, other = (question["approval_id"] for question in asked)
    office.ada.open(asked[0]["approve_url"])
    script = SIGN_FOR_ONE_USE_FOR_ANOTHER.replace("ONE", one).replace("OTHER", other)
    wrong, again = office.ada.do("evaluate", script=script)
    assert 400 <= wrong < 500, wrong
    states = [office.gateway.admin(f"/approvals/{approval}")["state"] for approval in (one, other)]
    assert states[1] == "pending", "the signature was for something else"
    # Afterwards the gateway may accept or reject the signature for its own request.
    assert (states[0], again) in (("approved", 0), ("pending", again)), (states, again)
    for approval in (one, other):
        assert office.gateway.run("approvals", "deny", approval, "--comment", "enough").returncode == 0


# -- forms ------------------------------------------------------------------------------------------------------


def updates(args: dict[str, Any]) -> dict[str, Any]:
    return call("call_tool_write", {"name": UPDATE, "args": args})


def customer(note: str) -> dict[str, Any]:
    return {"customerId": "c_1", "changes": {"company": note}}


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_form_can_be_enough_for_high(office: Office, kind: Kind) -> None:
    name = f"fills-{kind}"
    token = create(office.gateway, name, "--grant", "*")
    args = customer(f"by {kind}")
    yes = {"action": "accept", "content": {"decision": "approve"}}
    heard = office.plays(kind, token, updates(args), answers={"elicitation": yes}, modes=BOTH).result(60)
    assert not heard.results[0].get("isError"), heard.results
    (asked,) = heard.asked
    form = asked["params"]["requestedSchema"]
    assert "decision" in form["required"] and "default" not in form["properties"]["decision"]
    assert set(form["properties"]["decision"]["enum"]) == {"approve", "deny"}
    assert UPDATE in asked["params"]["message"]
    assert office.arrived("update_customer_data").count(args) == 1
    (approval,) = office.gateway.admin(f"/approvals?agent={name}")["approvals"]
    assert (approval["state"], approval["given"]) == ("consumed", "form")


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_denial_in_a_form_counts(office: Office, kind: Kind) -> None:
    token = create(office.gateway, f"refuses-{kind}", "--grant", "*")
    args = customer(f"never {kind}")
    no = {"action": "accept", "content": {"decision": "deny"}}
    heard = office.plays(kind, token, updates(args), answers={"elicitation": no}, modes=BOTH).result(60)
    refused = error(heard.results[0])
    assert refused["code"] == "approval_denied"
    assert refused["message"].startswith("This call was declined in the client "), "no user of the gateway said no"
    assert refused["details"]["decided_by"].startswith("client ")
    assert args not in office.arrived("update_customer_data")


@pytest.mark.parametrize("step", [updates, sends], ids=["form", "link"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_prompt_that_is_declined_at_once_was_not_shown(
    office: Office, kind: Kind, step: Callable[..., dict[str, Any]]
) -> None:
    """Codex declines without asking its user. The call then waits for the web page, and runs in the same turn."""
    name = f"unshown-{kind}-{step.__name__}"
    token = create(office.gateway, name, "--grant", "*")
    args = customer(name) if step is updates else mail(name)
    playing = office.plays(kind, token, step(args), answers={"elicitation": {"action": "decline"}}, modes=BOTH)
    approval = office.question(name)["id"]
    until(lambda: "approval_not_shown" in steps_of(office, approval), SECONDS, "the record of what the client did")
    office.ada.open(office.page(approval))
    office.ada.approve()
    heard = playing.result(60)
    assert not heard.results[0].get("isError"), heard.results
    assert office.gateway.admin(f"/approvals/{approval}")["decided_by"] == "ada"
    assert steps_of(office, approval) == ["approval_requested", "approval_not_shown", "approval_approved"]


def steps_of(office: Office, approval: str) -> list[str]:
    """Returns the codes of an approval's records, oldest first."""
    found = office.gateway.records("--type", "approval", "--limit", "200")
    return [one["code"] for one in reversed(found) if one["metadata"].get("approval_id") == approval]


def test_a_form_that_is_declined_later_is_a_no(office: Office) -> None:
    _, ask, args = asks_by_form(office, "reads-first")
    asked = ask(args)
    # Within a second, nobody reads a form. The gateway goes by the clock, so the clock is the event to wait for.
    shown = time.monotonic() + 1.1
    until(lambda: time.monotonic() > shown, 10, "the time in which a user can have read the form")
    declined = {"inputResponses": {key: {"action": "decline"} for key in asked["inputRequests"]}}
    refused = error(ask(args, **declined, requestState=asked["requestState"]))
    assert (refused["code"], refused["details"]["comment"]) == ("approval_denied", None)
    assert "declined in the client" in refused["message"] and "ser denied" not in refused["message"]


@pytest.mark.parametrize("kind", [LEGACY_KINDS[0], MODERN_KINDS[0]], ids=str)
@pytest.mark.parametrize("nothing", EMPTY)
def test_an_empty_form_is_not_a_decision(office: Office, kind: Kind, nothing: str) -> None:
    """Some clients accept forms that no user has seen. The approval request then stays open for the web page."""
    name = f"nods-{kind}-{nothing}"
    token = create(office.gateway, name, "--grant", "*")
    args = customer(f"unseen {name}")
    playing = office.plays(kind, token, updates(args), answers={"elicitation": EMPTY[nothing]}, modes=BOTH)
    approval = office.question(name)["id"]
    done = office.gateway.run("approvals", "deny", approval, "--comment", "Nobody looked.")
    assert done.returncode == 0, done
    assert code(playing.result(60).results[0]) == "approval_denied"
    assert args not in office.arrived("update_customer_data")


# -- abuse by a client ------------------------------------------------------------------------------------------


def asks_by_form(office: Office, name: str) -> tuple[Wire, Callable[..., dict[str, Any]], dict[str, Any]]:
    token = create(office.gateway, name, "--grant", "*")
    wire = Wire(office.gateway.mcp, token, MODERN, {"elicitation": {"form": {}, "url": {}}})

    def ask(args: dict[str, Any], **more: Any) -> dict[str, Any]:
        return wire.ask("tools/call", {**updates(args)["params"], **more})

    return wire, ask, customer(name)


def answered(asked: dict[str, Any]) -> dict[str, Any]:
    yes = {"action": "accept", "content": {"decision": "approve"}}
    return {"inputResponses": {key: yes for key in asked["inputRequests"]}, "requestState": asked["requestState"]}


def test_a_sealed_state_is_for_one_call_of_one_agent(office: Office) -> None:
    _, ask, args = asks_by_form(office, "sealed")
    asked = ask(args)
    assert asked["resultType"] == "input_required", asked
    other = customer("something else entirely")
    state = asked["requestState"]
    forged = [
        (other, answered(asked)),
        (args, {**answered(asked), "requestState": state[:-4] + ("AAAA" if state[-4:] != "AAAA" else "BBBB")}),
        (args, {**answered(asked), "requestState": ""}),
        (args, {"inputResponses": answered(asked)["inputResponses"]}),
    ]
    for sent, more in forged:
        result = ask(sent, **more)
        assert result.get("resultType") == "input_required" or result.get("isError") or "error" in result, (
            more,
            result,
        )
    _, stranger, _ = asks_by_form(office, "sealed-stranger")
    result = stranger(args, **answered(asked))
    assert result.get("resultType") == "input_required" or result.get("isError") or "error" in result, result
    assert not [one for one in (args, other) if one in office.arrived("update_customer_data")]
    assert not ask(args, **answered(asked)).get("isError"), "the right one still counts"
    again = ask(args, **answered(asked))
    assert again.get("resultType") == "input_required" or code(again) == "approval_already_used", again
    assert office.arrived("update_customer_data").count(args) == 1


def test_an_accepted_address_is_not_an_approval(office: Office) -> None:
    """A client reports that its user opened the page, but no user decided there."""
    token = create(office.gateway, "only-says-so", "--grant", "*")
    wire = Wire(office.gateway.mcp, token, MODERN, {"elicitation": {"form": {}, "url": {}}})
    args = mail("nobody looked at this")
    asked = wire.ask("tools/call", sends(args)["params"])
    (question,) = asked["inputRequests"].values()
    assert question["params"]["mode"] == "url", "critical is never confirmed in a form"
    # Send the answer that would approve a form, instead of opening the page.
    held = office.pool.submit(wire.ask, "tools/call", {**sends(args)["params"], **answered(asked)})
    approval = office.question("only-says-so")["id"]
    office.ada.open(office.page(approval))
    assert office.gateway.admin(f"/approvals/{approval}")["state"] == "pending" and not held.done()
    office.ada.deny("I never saw it.")
    refused = held.result(60)
    assert (code(refused), details(refused)["comment"]) == ("approval_denied", "I never saw it.")
    assert args not in office.arrived("emails.send_external")
