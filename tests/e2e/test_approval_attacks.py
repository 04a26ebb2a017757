"""An agent that tries to approve its own calls with everything it can reach on the machine. Every attempt fails."""

from __future__ import annotations

import json
import os
import re
import secrets
import subprocess
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from approvals import Ada, House, code, details, house_with_ada, said
from gateway import Gateway, until
from typist import typed
from user import COOKIE, PASSWORD, Session, at_localhost, set_up_plainly, setup_link

NO_FACTOR = "a user factor is required; approvals cannot be given non-interactively"
REFUSED = 3
FORBIDDEN = {401, 403, 404, 405, 415}


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("attacks"))


@pytest.fixture
def house(home: tuple[House, Ada]) -> House:
    return home[0]


@pytest.fixture
def ada(home: tuple[House, Ada]) -> Ada:
    return home[1]


def credentials(house: House, token: str, ada: Ada) -> dict[str, dict[str, str]]:
    """Credentials of an attacker with the agent's token and the data folder, and invented ones."""
    key = house.gateway.admin_key
    return {
        "nothing": {},
        "token": {"Authorization": f"Bearer {token}"},
        "admin key": {"X-API-Key": key},
        "admin key as a token": {"Authorization": f"Bearer {key}"},
        "token as a key": {"X-API-Key": token},
        "both": {"Authorization": f"Bearer {token}", "X-API-Key": key},
        "a guessed cookie": {"Cookie": f"{COOKIE}={secrets.token_hex(32)}"},
        "an empty cookie": {"Cookie": f"{COOKIE}="},
        "the key as a cookie": {"Cookie": f"{COOKIE}={key}"},
        "the token as a cookie": {"Cookie": f"{COOKIE}={token}"},
        "from a proxy of this machine": {"X-Forwarded-For": "127.0.0.1", "X-Real-IP": "127.0.0.1", "X-API-Key": key},
        "a name": {"X-Forwarded-User": ada.name, "Remote-User": ada.name, "X-API-Key": key},
    }


def requests(approval: str, csrf: str) -> list[dict[str, Any]]:
    """Every way to approve, at every address that accepts decisions, and at some that might."""
    forms = {"action": "approve", "decision": "approve", "csrf": csrf, "totp": "000000"}
    rest = f"/api/v1/approvals/{approval}"
    grant = {"from": approval, "schema": "{}", "minutes": 15, "uses": 100, "totp": "000000"}
    return [
        {"method": "POST", "url": f"{rest}/approve", "json": {}},
        {"method": "POST", "url": f"{rest}/approve", "json": {"totp": "000000"}},
        {"method": "POST", "url": f"{rest}/approve?decision=approve", "data": forms},
        {"method": "POST", "url": f"{rest}/APPROVE", "json": {}},
        {"method": "POST", "url": f"{rest}//approve", "json": {}},
        {"method": "POST", "url": f"{rest}/status/../approve", "json": {}},
        {"method": "POST", "url": f"{rest}/deny%2f..%2fapprove", "json": {}},
        {"method": "PUT", "url": rest, "json": {"state": "approved"}},
        {"method": "PATCH", "url": rest, "json": {"state": "approved", "given": "factor"}},
        {"method": "POST", "url": rest, "json": {"decision": "approve"}},
        {"method": "GET", "url": f"{rest}/approve"},
        {"method": "POST", "url": "/api/v1/grants", "json": grant},
        {"method": "POST", "url": f"/ui/approvals/{approval}", "data": forms},
        {"method": "POST", "url": f"/ui/approvals/{approval}", "json": forms},
        {"method": "GET", "url": f"/ui/approvals/{approval}?action=approve&totp=000000"},
        {"method": "POST", "url": f"/ui/approvals/{approval}/passkey", "json": {}},
        {
            "method": "POST",
            "url": "/ui/setup/",
            "data": {"name": "eve", "password": "x" * 20, "again": "x" * 20},
        },
        {"method": "POST", "url": f"/ui/setup/{approval}", "data": {"name": "eve", "password": "x" * 20}},
        {"method": "POST", "url": "/ui/account/invite", "data": forms},
        {"method": "POST", "url": "/ui/account/totp", "data": {"code": "000000", "csrf": csrf}},
    ]


@pytest.mark.parametrize("tool", ["update_customer", "send_external"])
def test_every_route_with_every_credential_an_agent_may_have(house: House, ada: Ada, tool: str) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks(tool, args)
    # The gateway may close a connection when it rejects a request early, so never reuse one.
    once = httpx.Limits(max_keepalive_connections=0)
    with httpx.Client(base_url=house.gateway.base, timeout=60, limits=once) as http:
        for who, headers in credentials(house, agent.token, ada).items():
            for one in requests(approval, secrets.token_hex(16)):
                for more in ({}, {"X-HTTP-Method-Override": "POST"}, {"Origin": house.gateway.base}):
                    answer = http.request(**one, headers={**headers, **more})
                    said_no = answer.status_code in FORBIDDEN or (
                        answer.status_code in (302, 303) and "/ui/login" in answer.headers["location"]
                    )
                    # A GET request may succeed with the admin key. It must not change anything.
                    assert said_no or one["method"] == "GET", (who, one, answer.status_code, answer.text[:200])
    assert house.state(approval) == "pending"
    assert agent.call(tool, args, approval_id=approval).get("isError") is True
    assert args not in house.executed(tool)
    assert house.gateway.admin("/grants")["grants"] == []


def test_an_agent_is_told_why_and_it_is_recorded(house: House) -> None:
    agent = house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    answer = httpx.post(
        f"{house.gateway.base}/api/v1/approvals/{approval}/approve",
        json={},
        headers={"Authorization": f"Bearer {agent.token}"},
    )
    assert answer.status_code == 403, answer.text
    assert answer.json()["error"]["code"] == "permission_denied"
    assert "agents cannot approve or deny calls" in answer.text
    found = house.gateway.records("--limit", "20")
    assert any(one["code"] == "approval_decision_refused" for one in found), [one["code"] for one in found]


def test_an_agent_sees_only_its_own_requests(house: House) -> None:
    agent, other = house.in_a_hurry(), house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    path = f"{house.gateway.base}/api/v1/approvals/{approval}"
    mine, yours = ({"Authorization": f"Bearer {one.token}"} for one in (agent, other))
    own = httpx.get(f"{path}/status", headers=mine)
    assert own.status_code == 200 and own.json()["state"] == "pending", own.text
    assert httpx.get(f"{path}/status", headers=yours).status_code == 404
    assert httpx.get(f"{path}/status").status_code == 401
    for rest in ("", "/../"):
        assert httpx.get(path + rest, headers=mine).status_code in (403, 404)
    assert httpx.get(f"{house.gateway.base}/api/v1/approvals", headers=mine).status_code == 403


def test_the_admin_key_may_look_and_deny(house: House) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    path, key = f"{house.gateway.base}/api/v1/approvals/{approval}", {"X-API-Key": house.gateway.admin_key}
    assert httpx.get(path, headers=key).status_code == 200
    assert httpx.post(f"{path}/approve", json={}, headers=key).status_code == 403
    assert httpx.post(f"{path}/deny", json={"comment": "No."}, headers=key).status_code == 200
    assert code(agent.call("update_customer", args, approval_id=approval)) == "approval_denied"


# -- a stolen session -------------------------------------------------------------------------------------------


def test_a_session_without_its_token_against_forged_forms(house: House, ada: Ada) -> None:
    """A page of another site can make a browser send a cookie, but does not know the CSRF token."""
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    cookie = {"Cookie": f"{COOKIE}={ada.secret}"}
    base, yes = house.gateway.base, {"action": "approve"}
    foreign = {"Origin": "https://evil.example", "X-CSRF-Token": ada.csrf}
    rest, page = f"{base}/api/v1/approvals/{approval}/approve", f"{base}/ui/approvals/{approval}"
    attempts = [
        httpx.post(rest, json={}, headers=cookie),
        httpx.post(rest, json={}, headers={**cookie, "X-CSRF-Token": secrets.token_hex(16)}),
        httpx.post(rest, json={}, headers={**cookie, "X-CSRF-Token": ""}),
        httpx.post(rest, json={}, headers={**cookie, **foreign}),
        httpx.post(rest, json={}, headers={**cookie, **foreign, "Origin": "null"}),
        httpx.post(rest, json={}, headers={**cookie, **foreign, "Origin": at_localhost(house.gateway) + "0"}),
        httpx.post(page, data=yes, headers=cookie),
        httpx.post(page, data={**yes, "csrf": secrets.token_hex(16)}, headers=cookie),
        httpx.post(page, data={**yes, "csrf": ada.csrf}, headers={**cookie, "Origin": "https://evil.example"}),
        httpx.delete(f"{base}/api/v1/grants/{approval}", headers=cookie),
        httpx.post(f"{base}/ui/account/invite", data={}, headers=cookie),
    ]
    assert {answer.status_code for answer in attempts} == {403}, [
        (one.request.url, one.status_code) for one in attempts
    ]
    assert house.state(approval) == "pending"


def test_a_session_is_over_when_its_owner_says_so(house: House, ada: Ada) -> None:
    session = Session(house.gateway, ada.name)
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    assert session.get("/approvals").status_code == 200
    assert session.post("/logout").status_code in (200, 204)
    assert session.get("/approvals").status_code == 401
    assert session.approve(approval).status_code == 401


def test_cookies_are_out_of_reach_of_pages(house: House, ada: Ada) -> None:
    answer = httpx.post(f"{house.gateway.base}/api/v1/login", json={"name": ada.name, "password": PASSWORD})
    cookie = answer.headers["set-cookie"].lower()
    assert "httponly" in cookie and "samesite=strict" in cookie and "path=/" in cookie
    assert "secure" not in cookie, "a cookie for https alone would not work on http://localhost"


def test_passwords_cannot_be_tried_out(tmp_path_factory: pytest.TempPathFactory) -> None:
    """Uses its own gateway, because wrong passwords lock their user out for a while."""
    house = House(tmp_path_factory.mktemp("guesses"))
    with house.gateway:
        house.settle()
        login = f"{house.gateway.base}/api/v1/login"

        def attempt(name: str, password: str) -> httpx.Response:
            return httpx.post(login, json={"name": name, "password": password}, timeout=60)

        unknown, wrong = attempt("nobody", "wrong"), attempt("ada", "wrong")
        assert unknown.status_code == wrong.status_code == 401
        assert unknown.text == wrong.text, "whether there is such a person is nobody's business"
        statuses = [attempt("ada", f"wrong {number}").status_code for number in range(5)]
        assert statuses == [401] * 4 + [429], statuses
        assert attempt("ada", PASSWORD).status_code == 429, "also with the right one"
        assert any(one["type"] == "auth" for one in house.gateway.records("--limit", "50"))
        assert "wrong" not in str(house.gateway.records("--limit", "50"))


def test_a_one_time_link_works_one_time(tmp_path: Path) -> None:
    """A setup link works once and expires, because links of earlier starts are in logs that agents may read."""
    gateway = Gateway(tmp_path)
    with gateway:
        links = [setup_link(gateway)]
    with gateway:
        links.append(setup_link(gateway))
        set_up_plainly(gateway, "ada")
        for link in links:
            path = re.sub("^http://[^/]*", gateway.base, link)
            again = httpx.post(path, data={"name": "eve", "password": PASSWORD, "again": PASSWORD})
            assert (again.status_code, httpx.get(path).status_code) == (404, 404)
        answer = httpx.post(f"{gateway.base}/api/v1/login", json={"name": "eve", "password": PASSWORD})
        assert answer.status_code == 401
    with gateway:
        assert "/ui/setup/" not in gateway.words(), "there is a user now"


# -- codes ------------------------------------------------------------------------------------------------------


def test_a_critical_request_needs_a_fresh_factor(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("send_external", args)
    refused = ada.approve(approval)
    assert refused.status_code == 403 and refused.json()["error"]["code"] == "step_up_required", refused.text
    assert "totp" in str(refused.json()["error"].get("details")), "the accepted factors are named"
    assert house.state(approval) == "pending"


def test_an_approval_covers_everything_that_reaches_the_server(house: House, ada: Ada) -> None:
    """An approval covers input responses as well as arguments. Members that an agent adds later are not sent."""
    agent, args = house.in_a_hurry(), house.fresh()
    answers = {"inputResponses": {"who": {"action": "accept", "content": {"name": "Max"}}}}
    asked = agent.wire.ask("tools/call", {**agent.parameters("delete_thing", args), **answers, "_meta": {"account": "own"}})
    approval = details(asked)["approval_id"]
    assert house.gateway.admin(f"/approvals/{approval}")["attached"] == {**answers, "_meta": {"account": "own"}}
    cookie = {"Cookie": f"{COOKIE}={ada.secret}"}
    page = httpx.get(f"{at_localhost(house.gateway)}/ui/approvals/{approval}", headers=cookie).text
    assert "Answers to the server’s questions" in page and "Max" in page
    shown = house.gateway.run("approvals", "show", approval).stdout
    assert "Also sent to the server" in shown and "Max" in shown
    ada.say_yes(approval)
    named = agent.parameters("delete_thing", args, approval_id=approval)
    others: list[dict[str, Any]] = [
        {},
        {"inputResponses": {"who": {"action": "accept", "content": {"name": "all"}}}},
        {**answers, "requestState": "evil"},
        {**answers, "unknown": {"admin": True}},
    ]
    for other in others:
        assert code(agent.wire.ask("tools/call", {**named, **other})) == "approval_args_mismatch", other
    assert args not in house.executed("delete_thing")
    assert code(agent.wire.ask("tools/call", {**named, **answers, "_meta": {"account": "all"}})) == "ok"
    (sent,) = [one for one in house.arrived("delete_thing") if one["arguments"] == args]
    assert (sent["inputResponses"], sent["_meta"]) == (answers["inputResponses"], {"account": "own"})


def test_an_approval_is_valid_from_the_decision(house: House, ada: Ada) -> None:
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    asked = house.gateway.admin(f"/approvals/{approval}")
    assert seconds(asked["created"], asked["expires"]) == 24 * 3600
    ada.say_yes(approval)
    given = house.gateway.admin(f"/approvals/{approval}")
    assert seconds(given["decided"], given["expires"]) == 600


def seconds(begin: str, end: str) -> float:
    return (datetime.fromisoformat(end) - datetime.fromisoformat(begin)).total_seconds()


def test_a_code_counts_once(house: House, ada: Ada) -> None:
    agent, first, second = house.in_a_hurry(), house.fresh(), house.fresh()
    one, two = agent.asks("send_external", first), agent.asks("send_external", second)
    used = ada.code()
    assert ada.approve(one, used).status_code == 200
    # The previous code would be valid if none had been used since. Try only twice, because more failures lock the
    # factor.
    for replayed in (used, ada.totp.at(ada.totp.shown - 1)):
        answer = ada.approve(two, replayed)
        assert answer.status_code in (401, 403), (replayed, answer.status_code, answer.text)
        assert house.state(two) == "pending"
    assert said(agent.call("send_external", first, approval_id=one)) == first
    assert code(agent.call("send_external", second, approval_id=two)) == "confirmation_required"
    assert house.executed("send_external").count(second) == 0


# -- the command line -------------------------------------------------------------------------------------------


def approve_by_pipe(house: House, approval: str, stdin: Any, **env: str) -> subprocess.CompletedProcess[str]:
    """Runs the command in its own session, so that there is no controlling terminal."""
    return subprocess.run(
        [peers.MCPPROXY, "approvals", "approve", approval, "--home", str(house.gateway.home)],
        stdin=stdin,
        capture_output=True,
        text=True,
        timeout=60,
        env={**house.gateway.environment(), **env},
        start_new_session=True,
    )


def test_a_program_cannot_approve_on_the_command_line(house: House, ada: Ada, tmp_path: Path) -> None:
    agent = house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    answers = tmp_path / "answers"
    answers.write_text(f"{ada.name}\n{PASSWORD}\n")
    env = {"MCPPROXY_PASSWORD": PASSWORD, "MCPPROXY_USER": ada.name, "USER": ada.name, "MCPPROXY_NAME": ada.name}
    tries = [
        approve_by_pipe(house, approval, subprocess.DEVNULL),
        approve_by_pipe(house, approval, subprocess.DEVNULL, **env),
    ]
    with open(answers) as piped:
        tries.append(approve_by_pipe(house, approval, piped, **env))
    reading, writing = os.pipe()
    os.write(writing, answers.read_bytes())
    os.close(writing)
    tries.append(approve_by_pipe(house, approval, reading, **env))
    os.close(reading)
    for done in tries:
        assert (done.returncode, done.stdout) == (REFUSED, ""), done
        assert NO_FACTOR in done.stderr
    assert house.state(approval) == "pending"
    for more in (["--password", PASSWORD], ["--name", ada.name], ["--totp", "000000"], ["--yes"]):
        done = house.gateway.run("approvals", "approve", approval, *more)
        assert done.returncode != 0 and house.state(approval) == "pending", done


@pytest.mark.parametrize("tool", ["update_customer", "send_external"])
def test_a_user_at_a_terminal(house: House, ada: Ada, tool: str) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks(tool, args)
    name, password = ("Name: $", ada.name), ("Password: $", PASSWORD)
    answers = [name, password, ("Type approve or deny: $", "approve")]
    if tool == "send_external":
        answers.append(("Code from your authenticator app: $", ada.code()))
    else:
        hasty = [name, ("Password: $", "wrong"), ("Name: $", "")]
        exit_code, heard = typed(house.gateway, ["approvals", "approve", approval], hasty)
        assert exit_code == REFUSED and house.state(approval) == "pending", heard
    exit_code, heard = typed(house.gateway, ["approvals", "approve", approval], answers)
    assert exit_code == 0, heard
    assert PASSWORD not in heard, "what is typed is not shown"
    assert house.state(approval) == "approved"
    assert said(agent.call(tool, args, approval_id=approval)) == args


def test_requests_on_the_command_line(house: House, ada: Ada) -> None:
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", {**args, "note": "\x1b[2J\u202e"}, intent_reason="\x1b]0;title\x07")
    listed = house.gateway.run("approvals", "list")
    assert listed.returncode == 0 and "fx:update_customer" in listed.stdout, listed
    shown = house.gateway.run("approvals", "show", approval)
    assert shown.returncode == 0 and agent.name in shown.stdout and "high" in shown.stdout.lower()
    for text in (listed.stdout, shown.stdout):
        assert not re.search("[\x00-\x08\x0b-\x1f\x7f\u202e]", text), repr(text)
    listed = json.loads(house.gateway.run("approvals", "list", "-o", "json").stdout)["approvals"]
    assert approval in [one["id"] for one in listed]
    waiting = house.pool.submit(house.gateway.run, "approvals", "wait", approval, "--timeout", "30s")
    done = house.gateway.run("approvals", "deny", approval, "--comment", "From the terminal.")
    assert done.returncode == 0, done
    assert waiting.result(60).returncode == REFUSED
    assert house.state(approval) == "denied"
    unknown = house.gateway.run("approvals", "show", "01ARZ3NDEKTSV4RRFFQ69G5FAV")
    assert unknown.returncode not in (0, 101), unknown


def test_a_call_on_the_command_line_that_needs_a_user(house: House, ada: Ada) -> None:
    args = house.fresh()
    words = ["call", "tool-write", "fx:update_customer", "--args", json.dumps(args)]
    calling = house.pool.submit(house.gateway.run, *words)
    (asked,) = until(lambda: asked_about(house, args), 15, "the command asks")
    ada.say_yes(asked["id"])
    done = calling.result(60)
    assert done.returncode in (0, 4), done
    if done.returncode == 4:
        assert asked["id"] in done.stderr
        done = house.gateway.run(*words, "--approval-id", asked["id"])
    assert done.returncode == 0 and json.loads(done.stdout) == args, done
    assert house.executed("update_customer").count(args) == 1


def asked_about(house: House, args: dict[str, Any]) -> list[dict[str, Any]]:
    """Returns the open approval requests for these arguments."""
    ids = [one["id"] for one in house.questions(state="pending")]
    found = [house.gateway.admin(f"/approvals/{one}") for one in ids]
    return [one for one in found if one["arguments"] == args]
