"""The activity page: a call appears by itself, filters are in the address, and an export has what the page shows."""

from __future__ import annotations

import csv
import io
import json

from office import Office
from user import Browser


ROWS = "document.querySelectorAll('#records a[href^=\"/ui/activity/\"]').length"


def test_a_call_appears_by_itself(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/activity?tool=demo:create_note")
        ada.do("evaluate", script="window.mark = 'the same page'")
        before = ada.do("evaluate", script=ROWS)
        note = {"projectId": "p_website", "title": "Appears by itself"}
        office.call("cursor", "write", "demo:create_note", note, intent_reason="Appears by itself")
        ada.do("wait", script=f"{ROWS} > {before}")
        assert ada.do("evaluate", script="window.mark") == "the same page", "nothing was loaded again"
        assert ada.look()["complaints"] == []


def test_filters_are_in_the_address(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada, office.visitor(browser, javascript=False) as plain:
        for one in (ada, plain):
            one.open("/ui/activity")
            one.do("choose", field="agent", value="cursor")
            one.do("choose", field="status", value="refused")
            one.do("press", button="^filter$")
            assert "agent=cursor" in one.url and "status=refused" in one.url
            address = one.url
            shown = one.do("html").partition('id="records"')[2].replace("<wbr>", "")
            assert "no_such_tool" in shown and "search_contacts" not in shown
            one.open(address)
            assert "no_such_tool" in one.text, "an address that can be shared"


def test_an_export_has_what_the_page_shows(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/activity?agent=claude-code")
        ada.do("unfold", summary="^export$")
        lines = ada.do("download", link="^json lines$")["text"]
        records = [json.loads(one) for one in lines.splitlines()]
        assert records and {one["agent"] for one in records} == {"claude-code"}, lines[:500]
        assert ada.do("evaluate", script=ROWS) >= len(records), "as many as the page shows"
        table = list(csv.DictReader(io.StringIO(ada.do("download", link="^csv$")["text"])))
        assert len(table) == len(records)


def test_the_steps_of_an_approved_call_are_joined(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/activity?tool=demo:change_project_status")
        assert "Same call:" in ada.text and f"approved by {office.name}" in ada.text
        ada.open(f"/ui/approvals/{office.ran}")
        ada.do("follow", link="open the record of the call")
        steps = ada.do("evaluate", script="document.querySelector('#story').innerText")
        assert steps.index("asked") < steps.index(f"approved by {office.name}") < steps.index("ran"), steps
        ada.do("follow", link="^asked$")
        assert "asked for approval" in ada.text


def test_a_record_says_everything(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open(f"/ui/approvals/{office.ran}")
        ada.do("follow", link="open the record of the call")
        shown = ada.text
        for word in ("cursor", "change_project_status", "ada", "on_hold", "The user asked for it"):
            assert word in shown, word
