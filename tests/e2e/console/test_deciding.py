"""Approving and denying calls that really wait, from the inbox."""

from __future__ import annotations

import re

from approvals import code, details
from gateway import until
from office import SECONDS, Office
from user import Browser


ROWS = "[...document.querySelectorAll('.row')].map(one => one.innerText)"


def test_approve_and_deny_a_waiting_call(office: Office, browser: Browser) -> None:
    yes = {"customerId": "c_1", "changes": {"company": "New & Sons"}}
    no = {"customerId": "c_2", "changes": {"company": "X"}}
    with office.visitor(browser) as ada:
        ada.open("/ui/approvals")
        held = office.later("cursor", "write", "demo:update_customer_data", yes, intent_reason="They have a new name")
        ada.sees("They have a new name")
        (row,) = [one for one in ada.do("evaluate", script=ROWS) if "They have a new name" in one]
        assert "demo:update_customer_data" in row and "customerId: c_1" in row and "cursor" in row
        ada.do("follow", link="They have a new name")
        ada.approve()
        done = held.result(60)
        assert done.get("isError") is not True and "New & Sons" in str(done)
        ada.sees("update_customer_data on demo ran at .* for agent cursor; approved by ada")

        held = office.later("cursor", "write", "demo:update_customer_data", no, intent_reason="Their name is X")
        ada.open("/ui/approvals")
        ada.sees("Their name is X")
        ada.do("follow", link="Their name is X")
        ada.deny("Ask them first.")
        refused = held.result(60)
        assert (code(refused), details(refused)["comment"]) == ("approval_denied", "Ask them first.")
        assert re.search("did not run for agent cursor; denied by ada at", ada.text)
        ada.open("/ui/approvals?state=all")
        rows = ada.do("evaluate", script=ROWS)
        assert any("Ran" in row and "approved by ada" in row for row in rows), rows
        assert any("Denied" in row and "by ada" in row for row in rows), rows
        assert ada.look()["complaints"] == []


def test_a_dry_run_in_sentences(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open(f"/ui/approvals/{office.waiting}")
        shown = ada.text
        assert "Dry run" in shown and "Expected:" in shown, shown
        assert "unassignedTaskIds" in shown and "user › id" in shown, shown
        raw = "document.querySelector('#preview').closest('section').innerText.includes('\"dryRun\"')"
        assert not ada.do("evaluate", script=raw), "the JSON is folded"


def test_a_critical_call_takes_a_code(office: Office, browser: Browser) -> None:
    anna = {"userId": "u_anna"}
    with office.visitor(browser) as ada:
        held = office.later("cursor", "destructive", "demo:delete_user", anna, intent_reason="Anna has left")
        approval = until(lambda: office.pending("cursor", "demo:delete_user"), SECONDS, "a request")
        ada.open(f"/ui/approvals/{approval}")
        ada.approve("totp")
        assert "approved by ada" in ada.text
        held.result(60)
