"""The activity page: a call appears by itself, filters are in the address, and an export has what the page shows."""

from __future__ import annotations

import csv
import io
import json

from office import Office
from user import Browser


def test_a_call_appears_by_itself(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/activity")
        assert "Appears by itself" not in ada.text
        marked = "window.mark = 'the same page'"
        ada.do("evaluate", script=marked)
        note = {"projectId": "p_website", "title": "Appears by itself"}
        office.call("cursor", "write", "demo:create_note", note, intent_reason="Appears by itself")
        ada.sees("create_note")
        before = ada.do("evaluate", script="document.querySelectorAll('main time').length")
        office.call("cursor", "read", "demo:list_projects", {}, intent_reason="And one more")
        ada.do("wait", script=f"document.querySelectorAll('main time').length !== {before} || document.body.innerText.includes('list_projects')")
        assert ada.do("evaluate", script="window.mark") == "the same page", "nothing was loaded again"
        assert ada.look()["complaints"] == []


def test_filters_are_in_the_address(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada, office.visitor(browser, javascript=False) as plain:
        for one in (ada, plain):
            one.open("/ui/activity?agent=cursor&status=refused")
            rows = one.do("html").partition("<main")[2]
            assert "cursor" in rows and "list_projects" not in rows.partition("<table")[2], "only refusals of cursor"


def test_an_export_has_what_the_page_shows(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/activity?agent=claude-code")
        saved = ada.do("download", link="export|download|csv|json")
        assert saved["name"].rpartition(".")[2] in ("csv", "json", "jsonl", "ndjson"), saved["name"]
        if saved["name"].endswith("csv"):
            records = list(csv.DictReader(io.StringIO(saved["text"])))
        elif saved["text"].lstrip().startswith("["):
            records = json.loads(saved["text"])
        else:
            records = [json.loads(line) for line in saved["text"].splitlines()]
        assert records and {one.get("agent") for one in records} == {"claude-code"}, saved["text"][:500]


def test_a_record_says_everything(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open(f"/ui/approvals/{office.ran}")
        ada.do("follow", link="open the record of the call")
        shown = ada.text
        for word in ("cursor", "change_project_status", "ada", "on_hold", "The user asked for it"):
            assert word in shown, word
