"""Changing a contract: the form, the difference, the replay of recorded calls, and the operator's file."""

from __future__ import annotations

from gateway import until
from office import SECONDS, Office
from user import Browser


def test_change_a_contract_with_replay(office: Office, browser: Browser) -> None:
    gateway = office.gateway
    page = "/ui/tools/demo/create_note/contract"
    with office.visitor(browser) as ada:
        ada.open(page)
        ada.do("choose", field="riskLevel", value="high")
        ada.do("press", button="preview|compare|show|replay|check")
        shown = ada.text
        assert "riskLevel" in shown and "high" in shown, "the difference of the file"
        assert "would" in shown.lower(), "what would have happened to recorded calls"
        assert gateway.admin("/contracts/demo/create_note")["risk_level"] != "high", "nothing is saved yet"
        ada.do("press", button="^save")
        until(lambda: gateway.admin("/contracts/demo/create_note")["risk_level"] == "high", SECONDS, "it is in force")
        written = "".join(one.read_text() for one in (gateway.home / "contracts").glob("*.yaml"))
        assert "demo:create_note" in written and "riskLevel: high" in written
        assert ada.look()["complaints"] == []


def test_search_as_agents_do(office: Office, browser: Browser) -> None:
    with office.visitor(browser, javascript=False) as ada:
        ada.open("/ui/tools")
        ada.do("fill", field="q", value="delete a user")
        ada.do("press", button="search")
        assert "q=delete" in ada.url, "the query is in the address"
        first = ada.text.partition("demo:")[2]
        assert "delete_user" in first
