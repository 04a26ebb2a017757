"""Running a dry run on the page of a tool: in a browser with and without scripts, in the name of an agent."""

from __future__ import annotations

import json
from typing import Any

import pytest

from office import HOSTILE, Office
from user import Browser, User

PHONE_WIDTH = 390
DELETE = "/ui/tools/demo/delete_user"
CAMPAIGN = {"templateId": "tmpl_newsletter_q3", "segmentId": "seg_active_customers"}


def run(user: User, page: str, agent: str, args: dict[str, Any]) -> None:
    user.open(page)
    user.do("choose", field="agent", value=agent)
    user.do("fill", field="arguments", value=json.dumps(args))
    if not user.javascript:
        user.do("fill", region="what would happen", field="password", value=user.password)
    user.do("press", button="^run the dry run$")


def made_by_users(office: Office, tool: str) -> list[dict[str, Any]]:
    return [one for one in office.gateway.records() if one["tool"] == tool and "user" in one["metadata"]]


@pytest.mark.parametrize("javascript", [True, False])
def test_the_server_simulates_the_call(office: Office, browser: Browser, javascript: bool) -> None:
    before = len(made_by_users(office, "delete_user"))
    with office.visitor(browser, javascript=javascript) as ada:
        run(ada, DELETE, "cursor", {"userId": "u_max"})
        shown = ada.text
        assert "The server simulated exactly this call" in shown, shown
        assert "unassignedTaskIds" in shown and "user › id" in shown, shown
        assert "It does not count as a dry run of the agent." in shown
        if javascript:
            raw = "document.querySelector('.ran').innerText.includes('\"dryRun\"')"
            assert not ada.do("evaluate", script=raw), "the JSON is folded"
            assert ada.do("evaluate", script="document.activeElement.className") == "ran"
            assert ada.do("axe") == []
            assert ada.do("reload") == 200, "a reload shows the page of the tool"
            assert "The server simulated" not in ada.text
        made = made_by_users(office, "delete_user")
        assert len(made) == before + 1, "a reload repeats nothing"
        assert made[0]["agent"] == "cursor" and made[0]["metadata"]["user"] == "ada"
        assert made[0]["metadata"]["dry_run"] == "server"
        ada.open(f"/ui/activity/{made[0]['id']}")
        assert "ada tried out demo:delete_user" in ada.text and "in the name of agent cursor" in ada.text
        assert ada.look()["complaints"] == []


def test_the_agent_still_has_to_make_its_own(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        run(ada, "/ui/tools/demo/emails.bulk_send", "cursor", CAMPAIGN)
        assert "It does not count as a dry run of the agent." in ada.text, ada.text
    refused = office.call("cursor", "destructive", "demo:emails.bulk_send", CAMPAIGN)
    assert refused["structuredContent"]["error"]["code"] == "dry_run_required", refused


def test_what_is_refused_says_what_to_do(office: Office, browser: Browser) -> None:
    office.hire("reader", "--operations", "read")
    with office.visitor(browser, phone=True, width=PHONE_WIDTH) as ada:
        run(ada, DELETE, "", {"userId": "u_max"})
        assert "Choose an agent for the dry run." in ada.text
        run(ada, DELETE, "reader", {"userId": "u_max"})
        assert "Nothing was sent to the server." in ada.text and "Choose another agent" in ada.text, ada.text
        assert "Refused here" in ada.text, "the check that refused it"
        run(ada, DELETE, "cursor", {"userId": "u_gone"})
        assert "The server answered the dry run with an error" in ada.text, ada.text
        assert not ada.is_too_wide()
        assert ada.do("axe") == []


def test_a_lost_page_key_asks_for_the_password(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.do("evaluate", script="localStorage.setItem('mcpproxy-page-key', 'page_wrong')")
        before = len(made_by_users(office, "delete_user"))
        run(ada, DELETE, "cursor", {"userId": "u_max"})
        assert "Enter your password." in ada.text
        assert ada.do("evaluate", script="document.activeElement.id") == "run-password"
        assert len(made_by_users(office, "delete_user")) == before
        ada.do("fill", region="what would happen", field="password", value=ada.password)
        ada.do("press", button="^run the dry run$")
        assert "The server simulated exactly this call" in ada.text, ada.text


def test_hostile_arguments_stay_inert(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        run(ada, "/ui/tools/odd/repeat", "cursor", {"words": HOSTILE, "<i data-hostile>": [HOSTILE]})
        assert ada.do("evaluate", script="document.querySelectorAll('.ran').length") == 1, ada.text
        assert ada.do("evaluate", script="document.querySelectorAll('[data-hostile]').length") == 0
        assert ada.do("evaluate", script="'hacked' in window") is False
        assert ada.look()["complaints"] == []
