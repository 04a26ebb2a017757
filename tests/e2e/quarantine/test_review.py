"""Reviews: who may decide, what a decision covers, and who is told that something waits."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from changing import (
    HIDDEN,
    PASSWORD,
    SIGN_IN,
    Changing,
    Gateway,
    Reviewer,
    agent,
    call,
    code,
    in_front_of,
    is_out_of_reach,
    listed,
    records,
    settle,
    shown,
    shows,
    tool,
    typed,
    until,
    waiting,
    waits,
)

SECONDS = 15
NAMES = ("accepted", "rejected", "rejected_once", "taken_back", "some", "stale", "guarded", "counted", "typed", "typed_some", "typed_late", "old", "upgraded")


class Office:
    def __init__(self, gateway: Gateway, servers: dict[str, Changing], ada: Reviewer) -> None:
        self.gateway = gateway
        self.servers = servers
        self.ada = ada

    def change(self, name: str, *more: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Changes the only tool of a server. Returns what waits then."""
        self.servers[name].offer(second(name), *more)
        return waits(self.gateway, name, f"file_{name}", *(one["name"] for one in more))


def first(name: str) -> dict[str, Any]:
    return tool(f"file_{name}", destructiveHint=True)


def second(name: str) -> dict[str, Any]:
    return tool(f"file_{name}", f"Keeps the {name} files of two offices.", readOnlyHint=True)


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    folder = tmp_path_factory.mktemp("review")
    servers = {name: Changing(folder, name, first(name)) for name in NAMES}
    with in_front_of(folder, servers.values()) as gateway:
        yield Office(gateway, servers, settle(gateway))


def test_what_is_accepted_is_available(office: Office) -> None:
    gateway, server = office.gateway, office.servers["accepted"]
    entry = office.change("accepted")["file_accepted"]
    assert (entry["kind"], entry["reason"], entry["times"]) == ("tool", "changed", 1)
    assert (entry["old"], entry["new"]) == (first("accepted"), second("accepted"))
    assert entry["changes"] and set(entry["kinds"]) & {"hints", "annotations"}, entry
    is_out_of_reach(gateway, server, "file_accepted")
    assert office.ada.decide("accepted", accept=[entry]) == ["done"]
    shows(gateway, "accepted", "file_accepted")
    assert waiting(gateway, "accepted") == {}
    assert code(call(agent(gateway), "accepted", "file_accepted", "read")) == "ok"
    assert server.calls()[-1]["version"] == "v2"

    (done,) = records(gateway, "accepted", "definitions_reviewed")
    assert done["metadata"]["user"] == "ada" and done["status"] == "success"
    assert [one["pin"] for one in done["metadata"]["accepted"]] == [entry["pin"]]
    (held,) = records(gateway, "accepted", "definitions_quarantined")
    assert [one["name"] for one in held["metadata"]["definitions"]] == ["file_accepted"]
    # Decided once.
    assert office.ada.decide("accepted", accept=[entry]) == ["gone"]


def test_what_is_rejected_is_not_asked_again(office: Office) -> None:
    gateway, server, ada = office.gateway, office.servers["rejected"], office.ada
    entry = office.change("rejected")["file_rejected"]
    assert ada.decide("rejected", reject=[entry]) == ["done"]
    waits(gateway, "rejected")
    # The same definition again, after a change of something else, and after a reconnect.
    server.offer(second("rejected"), tool("unrelated_rejected"))
    waits(gateway, "rejected", "unrelated_rejected")
    assert gateway.run("servers", "restart", "rejected").returncode == 0
    waits(gateway, "rejected", "unrelated_rejected")
    is_out_of_reach(gateway, server, "file_rejected")


def test_a_rejection_is_taken_back(office: Office) -> None:
    gateway, server, ada = office.gateway, office.servers["taken_back"], office.ada
    entry = office.change("taken_back")["file_taken_back"]
    assert ada.decide("taken_back", reject=[entry]) == ["done"]
    waits(gateway, "taken_back")
    shown_again = gateway.admin("/servers/taken_back/review?rejected=true")
    (again,) = shown_again["entries"]
    assert (again["reason"], again["rejected_by"], again["pin"]) == ("rejected", "ada", entry["pin"])
    assert (again["old"], again["new"]) == (entry["old"], entry["new"]) and again["changes"] == entry["changes"]
    # Somebody who still sees it as waiting does not take the rejection back by accident.
    assert ada.decide("taken_back", accept=[entry]) == ["gone"]
    is_out_of_reach(gateway, server, "file_taken_back")
    words = ["servers", "review", "taken_back", "--accept", "file_taken_back"]
    exit_code, heard = typed(gateway, words, SIGN_IN)
    assert exit_code == 0 and "rejected by ada" in heard.lower() and "accepted 1" in heard, heard
    shows(gateway, "taken_back", "file_taken_back")
    assert gateway.admin("/servers/taken_back/review?rejected=true")["entries"] == []
    # The server changes it, and comes back to what was accepted.
    server.offer(tool("file_taken_back", "Keeps files of three offices."))
    waits(gateway, "taken_back", "file_taken_back")
    server.offer(second("taken_back"))
    shows(gateway, "taken_back", "file_taken_back")


def test_another_version_than_the_rejected_one_is_asked(office: Office) -> None:
    gateway, server = office.gateway, office.servers["rejected_once"]
    assert office.ada.decide("rejected_once", reject=office.change("rejected_once").values()) == ["done"]
    third = tool("file_rejected_once", "Keeps the files of three offices.", readOnlyHint=True)
    server.offer(third)
    assert waits(gateway, "rejected_once", "file_rejected_once")["file_rejected_once"]["new"] == third
    # The accepted version needs no review.
    server.offer(first("rejected_once"))
    shows(gateway, "rejected_once", "file_rejected_once")


def test_some_are_accepted(office: Office) -> None:
    gateway = office.gateway
    entries = office.change("some", tool("sort_some"), tool("burn_some"), tool("read_some"))
    accept, reject = [entries["sort_some"], entries["file_some"]], [entries["burn_some"]]
    assert office.ada.decide("some", accept=accept, reject=reject) == ["done", "done", "done"]
    shows(gateway, "some", "sort_some", "file_some")
    waits(gateway, "some", "read_some")


def test_the_version_that_was_shown_is_the_version_that_is_accepted(office: Office) -> None:
    gateway, server, ada = office.gateway, office.servers["stale"], office.ada
    entry = office.change("stale")["file_stale"]
    # The list changes while the difference is on the screen.
    worse = tool("file_stale", "Keeps the stale files of two offices and mails them.", readOnlyHint=True)
    server.offer(worse)
    newer = until(
        lambda: (found := waiting(gateway, "stale")["file_stale"])["pin"] != entry["pin"] and found, SECONDS, "a change"
    )
    for choice in ("accept", "reject"):
        assert ada.decide("stale", **{choice: [entry]}) == ["changed"]
    is_out_of_reach(gateway, server, "file_stale")
    assert newer["times"] == 2 and newer["new"] == worse
    # The version that was shown comes back. It may be accepted, and the other one may not.
    server.offer(second("stale"))
    until(lambda: waiting(gateway, "stale")["file_stale"]["pin"] == entry["pin"], SECONDS, "the shown version")
    assert ada.decide("stale", accept=[newer]) == ["changed"]
    assert ada.decide("stale", accept=[entry]) == ["done"]
    shows(gateway, "stale", "file_stale")


def test_only_a_signed_in_user_decides(office: Office) -> None:
    gateway = office.gateway
    entry = office.change("guarded")["file_guarded"]
    url, body = f"{gateway.base}/api/v1/servers/guarded/review", {"accept": [shown(entry)], "reject": []}
    key, token = {"X-API-Key": gateway.admin_key}, {"Authorization": f"Bearer {gateway.token}"}
    for headers in ({}, key, token, {**key, **token}):
        for more in ({}, {"page_key": office.ada.page_key}):
            refused = httpx.post(url, json={**body, **more}, headers=headers, timeout=60)
            assert refused.status_code in (401, 403), f"{headers} {refused.text}"
    assert httpx.get(url, headers=token, timeout=60).status_code in (401, 403), "agents do not read reviews"
    # The cookie alone does not count: another page in the same browser could send it.
    alone = office.ada.post("/servers/guarded/review", body)
    assert alone.status_code in (401, 403) and alone.json()["error"]["code"] == "page_key_required", alone.text
    wrong = office.ada.post("/servers/guarded/review", {**body, "totp": "000000"})
    assert wrong.status_code in (401, 403), wrong.text
    piped = gateway.run("servers", "review", "guarded", stdin=f"accept\nada\n{PASSWORD}\n")
    assert piped.returncode == 0 and "file_guarded" in piped.stdout and "terminal" in piped.stderr, piped
    for words in (["--accept", "file_guarded"], ["--accept-all", "--yes"]):
        piped = gateway.run("servers", "review", "guarded", *words, stdin=f"ada\n{PASSWORD}\n")
        assert piped.returncode == 3 and "run this command in a terminal" in piped.stderr, piped
    is_out_of_reach(gateway, office.servers["guarded"], "file_guarded")
    assert waiting(gateway, "guarded")["file_guarded"]["pin"] == entry["pin"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        ({}, "nothing to decide"),
        ({"accept": [{"kind": "tol", "name": "x", "pin": "0" * 64}]}, "tool, prompt, template"),
        ({"accept": [{"kind": "tool", "name": "x", "pin": "0"}]}, "64 hexadecimal digits"),
        ({"accept": [{"kind": "tool", "name": "x", "pin": "0" * 64}] * 2}, "two decisions"),
        ({"accepted": []}, "bad_body"),
    ],
)
def test_a_decision_that_makes_no_sense(office: Office, body: dict[str, Any], says: str) -> None:
    answer = office.ada.post("/servers/guarded/review", {**body, "page_key": office.ada.page_key})
    assert answer.status_code == 400 and says in answer.text, answer.text


def test_a_server_that_does_not_exist(office: Office) -> None:
    assert office.ada.get("/servers/nothing/review").status_code == 404
    done = office.gateway.run("servers", "review", "nothing")
    assert done.returncode not in (0, 101) and "nothing" in done.stderr, done


def test_what_waits_is_counted(office: Office) -> None:
    gateway = office.gateway
    before = gateway.admin("/status")["quarantined"]
    office.change("counted", tool("sort_counted"))
    until(lambda: gateway.admin("/status")["quarantined"] >= before + 2, SECONDS, "the status counts it")
    listed_servers = json.loads(gateway.run("servers", "list", "-o", "json").stdout)["servers"]
    (own,) = [one for one in listed_servers if one["name"] == "counted"]
    assert (own["quarantined"], own["tools"]) == (2, 0)
    for words in (["status"], ["doctor"], ["servers", "list"]):
        done = gateway.run(*words)
        # Lines fit the terminal, so a command may be on two of them.
        said = " ".join(f"{done.stdout} {done.stderr}".split())
        assert "servers review counted" in said, (words, said)
    assert "counted" in gateway.run("servers", "list").stdout
    until(lambda: "servers review counted" in gateway.words(), SECONDS, "the terminal of the gateway says it")


DECIDE = r"accept, reject, skip or quit\? $"
OVERVIEW = r"each, accept all, reject all or quit\? $"


def test_a_user_at_a_terminal(office: Office) -> None:
    gateway = office.gateway
    text = f"Keeps the typed files of two offices.{HIDDEN} \x1b[2J\u202e"
    office.servers["typed"].offer(tool("file_typed", text, readOnlyHint=True))
    waits(gateway, "typed", "file_typed")
    for answers in ([(DECIDE, "accept"), ("Name: $", "ada"), ("Password: $", "wrong"), ("Name: $", "")], [(DECIDE, "quit")]):
        exit_code, heard = typed(gateway, ["servers", "review", "typed"], answers)
        assert exit_code == 3 and "file_typed" in waiting(gateway, "typed"), heard
    exit_code, heard = typed(gateway, ["servers", "review", "typed"], [(DECIDE, "accept"), *SIGN_IN])
    assert exit_code == 0, heard
    assert PASSWORD not in heard and "\x1b[2J" not in heard and "\u202e" not in heard, repr(heard)
    assert not any(0xE0000 <= ord(letter) <= 0xE007F for letter in heard), "hidden letters are made visible"
    assert "file_typed" in heard and "two" in heard and "readOnlyHint" in heard, heard
    shows(gateway, "typed", "file_typed")
    (done,) = records(gateway, "typed", "definitions_reviewed")
    assert done["metadata"]["user"] == "ada"
    nothing = gateway.run("servers", "review", "typed")
    assert nothing.returncode == 0 and "nothing waits" in nothing.stdout, nothing


def test_an_upgrade_at_a_terminal(office: Office) -> None:
    """A severe finding is never accepted with the rest."""
    gateway = office.gateway
    poisoned = tool("burn_typed_some", f"Burns a file.{HIDDEN}")
    office.change("typed_some", tool("sort_typed_some"), poisoned)
    answers = [(OVERVIEW, "accept all"), (DECIDE, "skip"), *SIGN_IN]
    exit_code, heard = typed(gateway, ["servers", "review", "typed_some"], answers)
    assert exit_code == 0 and "accepted 2" in heard and "1 still waiting" in heard, heard
    shows(gateway, "typed_some", "file_typed_some", "sort_typed_some")
    waits(gateway, "typed_some", "burn_typed_some")
    exit_code, heard = typed(gateway, ["servers", "review", "typed_some", "--accept-all"], SIGN_IN)
    assert exit_code == 3 and "burn_typed_some" in heard, heard
    words = ["servers", "review", "typed_some", "--reject", "burn_typed_some"]
    exit_code, heard = typed(gateway, words, SIGN_IN)
    assert exit_code == 0 and "rejected 1" in heard, heard
    waits(gateway, "typed_some")


def test_the_list_changes_while_the_difference_is_on_the_screen(office: Office) -> None:
    gateway = office.gateway
    entry = office.change("typed_late")["file_typed_late"]

    def change() -> None:
        office.servers["typed_late"].offer(tool("file_typed_late", "Keeps the files of three offices."))
        until(lambda: waiting(gateway, "typed_late")["file_typed_late"]["pin"] != entry["pin"], SECONDS, "a change")

    answers = [(DECIDE, "accept"), *SIGN_IN]
    exit_code, heard = typed(gateway, ["servers", "review", "typed_late"], answers, change)
    assert exit_code == 1 and "1 changed while you were reading" in heard, heard
    shows(gateway, "typed_late")


def test_who_accepted_is_kept(office: Office) -> None:
    gateway = office.gateway
    (chosen,) = gateway.admin("/servers/old/definitions")["definitions"]
    assert (chosen["kind"], chosen["name"], chosen["accepted_by"]) == ("tool", "file_old", "first_sight")
    entry = office.change("old")["file_old"]
    assert office.ada.decide("old", accept=[entry]) == ["done"]
    (accepted,) = gateway.admin("/servers/old/definitions")["definitions"]
    assert (accepted["pin"], accepted["accepted_by"]) == (entry["pin"], "ada")
    assert accepted["definition"] == second("old")
    assert chosen["first_seen_ms"] <= accepted["first_seen_ms"] <= accepted["accepted_ms"]
    history = json.loads(gateway.run("servers", "history", "old", "file_old", "-o", "json").stdout)
    versions = [(one["state"], one["pin"], one["decided_by"]) for one in history["versions"]]
    assert versions == [("accepted", accepted["pin"], "ada"), ("former", chosen["pin"], "first_sight")]
    shown = gateway.run("servers", "history", "old", "tool:file_old").stdout.splitlines()
    assert [line.split()[0] for line in shown] == ["STATE", "accepted", "former"]
    unknown = gateway.run("servers", "history", "old", "prompt:none")
    assert unknown.returncode == 1 and "Nobody has decided about prompt none of old." in unknown.stderr


def test_a_large_upgrade_is_one_decision(office: Office) -> None:
    gateway = office.gateway
    many = [tool(f"step_{number}_upgraded") for number in range(300)]
    entries = office.change("upgraded", *many)
    assert set(office.ada.decide("upgraded", accept=entries.values())) == {"done"}
    until(lambda: len(listed(gateway, "upgraded")) == 301, SECONDS, "all are available")
    assert len(records(gateway, "upgraded", "definitions_reviewed")) == 1
