"""Creating a token, and revoking one: the agent is refused from then on."""

from __future__ import annotations

import httpx

from office import Office
from user import Browser
from wire import MODERN, Wire


def test_revoke_a_token(office: Office, browser: Browser) -> None:
    token = office.hire("leaver")
    assert not office.call("leaver", "read", "demo:list_projects", {}).get("isError")
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        assert "leaver" in ada.text
        ada.do("unfold", summary="^revoke leaver$")
        ada.do("press", button="^revoke the token of leaver$")
        refused = httpx.post(office.gateway.mcp, headers={"Authorization": f"Bearer {token}"}, json={}, timeout=30)
        assert refused.status_code == 401
        assert "1 revoked" in ada.text
        assert ada.look()["complaints"] == []


def test_create_a_token(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        ada.do("unfold", summary="^create a token$")
        ada.do("fill", field="name", value="newcomer")
        ada.do("press", button="^create the token$")
        token = ada.do("evaluate", script="document.querySelector('#token').innerText").strip()
        assert Wire(office.gateway.mcp, token, MODERN).ask("tools/list")["tools"]
        texts = "[...document.querySelectorAll('.client pre')].map(one => one.textContent)"
        snippets = ada.do("evaluate", script=texts)
        assert snippets and all(token in one for one in snippets), "settings to paste"
        ada.open("/ui/agents")
        assert "newcomer" in ada.text and token not in ada.do("html"), "shown once"
        assert ada.look()["complaints"] == []
