"""Times on the pages: in the zone of the viewer, with the zone named once, and ages that advance."""

from __future__ import annotations

import re
from datetime import datetime, timedelta, timezone

import pytest

from office import Office
from user import Browser

TOKYO = timezone(timedelta(hours=9))
CLOCKS = (
    "[...document.querySelectorAll('time[data-clock]')].map(one => [one.dateTime, one.textContent, one.title])"
)
AGE = "document.querySelector('main time:not([data-clock]):not([data-left])').textContent"


@pytest.mark.parametrize("page", ["/ui/activity", "/ui/tools/demo/create_note"])
def test_times_are_in_the_zone_of_the_viewer(office: Office, browser: Browser, page: str) -> None:
    with office.visitor(browser, zone="Asia/Tokyo") as ada:
        ada.open(page)
        shown = ada.do("evaluate", script=CLOCKS)
        assert shown
        for iso, text, title in shown:
            there = datetime.fromisoformat(iso).astimezone(TOKYO)
            assert text.endswith(f"{there:%H:%M:%S}"), (iso, text)
            assert str(there.year) in title and "GMT+9" in title, title
        assert "Times are in your time zone, Asia/Tokyo (UTC+09:00)." in ada.text


def test_without_a_script_times_are_in_utc(office: Office, browser: Browser) -> None:
    with office.visitor(browser, javascript=False, zone="Asia/Tokyo") as ada:
        ada.open("/ui/activity")
        assert "Times are in UTC." in ada.text
        assert "by themselves" not in ada.text, "nothing appears by itself without a script"


def test_ages_advance(office: Office, browser: Browser) -> None:
    denied = office.asks("claude-code", "write", "demo:change_project_status", office.status("completed"))
    assert office.session.deny(denied, "No.").status_code == 200
    with office.visitor(browser) as ada:
        ada.open(f"/ui/approvals/{denied}")
        first = ada.do("evaluate", script=AGE)
        assert re.fullmatch(r"just now|\d+ seconds? ago", first), first
        ada.do("wait", script=f"{AGE} !== {first!r}")
