"""Creating a token, and revoking one: the agent is refused from then on."""

from __future__ import annotations

import httpx

from office import Office
from user import PASSWORD, Browser, User
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


def allow_reading(ada: User) -> None:
    """Chooses all servers and reading. The form begins with nothing chosen."""
    ada.do("tick", field="servers_of")
    ada.do("tick", field="read")


def test_create_a_token(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        ada.do("unfold", summary="^create a token$")
        ada.do("fill", field="name", value="newcomer")
        allow_reading(ada)
        ada.do("press", button="^create the token$")
        token = ada.do("evaluate", script="document.querySelector('#token').innerText").strip()
        assert Wire(office.gateway.mcp, token, MODERN).ask("tools/list")["tools"]
        texts = "[...document.querySelectorAll('.client pre')].map(one => one.textContent)"
        snippets = ada.do("evaluate", script=texts)
        assert snippets and all(token in one for one in snippets), "settings to paste"
        ada.open("/ui/agents")
        assert "newcomer" in ada.text and token not in ada.do("html"), "shown once"
        assert ada.look()["complaints"] == []


def test_reload_the_page_with_a_new_token(office: Office, browser: Browser) -> None:
    """The token is gone after a reload. No second one is created, and the page says what to do."""
    for name, javascript in (("reloader", True), ("plain", False)):
        with office.visitor(browser, javascript=javascript) as ada:
            ada.open("/ui/agents")
            ada.do("unfold", summary="^create a token$")
            ada.do("fill", field="name", value=name)
            allow_reading(ada)
            if not javascript:
                ada.do("fill", field="password", value=PASSWORD)
            ada.do("press", button="^create the token$")
            token = ada.do("evaluate", script="document.querySelector('#token').innerText").strip()
            ada.do("reload")
            assert "It was shown once and cannot be shown again." in ada.text
            assert "revoke it below and create another" in ada.text
            assert token not in ada.do("html")
            assert ada.text.count(f"Revoke\n{name}\n") == 1, "no second token"
            assert Wire(office.gateway.mcp, token, MODERN).ask("tools/list")["tools"], "the token works"
            assert ada.look()["complaints"] == []


def test_change_a_token(office: Office, browser: Browser) -> None:
    office.hire("mover")
    note = {"projectId": "p_website", "title": "By mover"}
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        ada.do("follow", link="^change what mover may do$")
        ada.do("tick", field="write", on=False)
        ada.do("tick", field="destructive", on=False)
        ada.do("press", button="^save$")
        assert "The token was changed." in ada.text
        assert office.call("mover", "write", "demo:create_note", note)["isError"]
        ada.do("follow", link="^change what mover may do$")
        ada.do("tick", field="write")
        ada.do("press", button="^save$")
        assert not office.call("mover", "write", "demo:create_note", note).get("isError")
        ada.open("/ui/activity?type=auth")
        assert "Token of mover changed" in ada.text
        assert ada.look()["complaints"] == []


def test_copy_a_token(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        ada.do("unfold", summary="^create a token$")
        ada.do("fill", field="name", value="copied")
        allow_reading(ada)
        ada.do("press", button="^create the token$")
        ada.do("press", button="^copy the token$", then="Copied")
        assert ada.look()["complaints"] == []
    with office.visitor(browser, javascript=False) as plain:
        plain.open("/ui/agents")
        assert "Copy" not in plain.do("html").partition("<main")[2], "no button that does nothing"
