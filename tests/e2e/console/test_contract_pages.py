"""Changing a contract: the form, the difference, the replay of recorded calls, and the operator's file."""

from __future__ import annotations

import re

from gateway import until
from office import SECONDS, Office
from user import Browser
from wire import MODERN, Wire


def test_change_a_contract_with_replay(office: Office, browser: Browser) -> None:
    gateway = office.gateway
    page = "/ui/tools/demo/create_note/contract"
    with office.visitor(browser) as ada:
        ada.open(page)
        ada.do("choose", field="riskLevel", value="high")
        ada.do("press", button="^preview$")
        shown = ada.text
        assert "riskLevel: high" in shown, "the difference of the file"
        assert "Last week, with this contract" in shown
        assert re.search(r"[1-9]\d* of \d+ recorded calls of the last 7 days would be decided differently", shown)
        assert gateway.admin("/contracts/demo/create_note")["risk_level"] != "high", "nothing is saved yet"
        ada.do("press", button="^save and apply$")
        until(lambda: gateway.admin("/contracts/demo/create_note")["risk_level"] == "high", SECONDS, "it is in force")
        written = "".join(one.read_text() for one in (gateway.home / "contracts").glob("*.yaml"))
        assert "demo:create_note" in written and "riskLevel: high" in written
        assert ada.look()["complaints"] == []
    note = {"projectId": "p_website", "title": "Now it needs an approval"}
    assert office.asks("cursor", "write", "demo:create_note", note)


def test_search_as_agents_do(office: Office, browser: Browser) -> None:
    with office.visitor(browser, javascript=False) as ada:
        ada.open("/ui/tools")
        ada.do("fill", field="q", value="delete a user")
        ada.do("press", button="search")
        assert "q=delete" in ada.url, "the query is in the address"
        assert ada.text.partition("demo:")[2].startswith("delete_user"), "the best comes first"
        asked = {"name": "retrieve_tools", "arguments": {"query": "delete a user"}}
        found = Wire(office.gateway.mcp, office.tokens["cursor"], MODERN).ask("tools/call", asked)
        names = re.findall(r"demo:\w+", str(found))
        shown = re.findall(r"demo:\w+", ada.text)
        assert list(dict.fromkeys(names))[:3] == list(dict.fromkeys(shown))[:3], "exactly what agents get"
