"""The settings page in a browser: where values come from, and the list of open sessions."""

from __future__ import annotations

import hashlib

from office import Office
from user import COOKIE, Browser

ROW = "[...document.querySelectorAll('tr')].map(one => one.innerText.replace(/\\s+/g, ' '))"


def rows(look: list[str], start: str) -> list[str]:
    return [row for row in look if row.startswith(start)]


def test_the_command_line_is_named_as_a_source(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/settings")
        (listen,) = rows(ada.do("evaluate", script=ROW), "listen ")
        assert office.gateway.address in listen, listen
        assert "command line (--listen)" in listen and "Without it: 127.0.0.1:8080 (default)" in listen
        (wait,) = rows(ada.do("evaluate", script=ROW), "approvals.wait ")
        assert "30s" in wait and "mcp_config.json:" in wait


def test_end_a_session(office: Office, browser: Browser) -> None:
    """The page names a session by the digest of its secret."""
    with office.visitor(browser) as ada, office.visitor(browser, phone=True) as lost:
        lost.open("/ui/settings")
        assert not lost.is_too_wide()
        (secret,) = [one["value"] for one in lost.do("cookies") if one["name"] == COOKIE]
        ada.open("/ui/settings")
        assert "this browser" in ada.text and "127.0.0.1" in ada.text and "Chrome on" in ada.text
        form = f"document.querySelector('[name=session][value=\"{hashlib.sha256(secret.encode()).hexdigest()}\"]')"
        ada.do("evaluate", script=f"{form}.form.querySelector('button').click()")
        ada.do("sees", text="The session has ended.")
        assert ada.do("evaluate", script=f"{form} === null")
        assert ada.look()["complaints"] == []
        lost.open("/ui/settings")
        assert "/ui/login" in lost.url, "signed out"
        ada.open("/ui/activity?type=auth")
        assert "Session of ada ended" in ada.text


def test_end_ones_own_session(office: Office, browser: Browser) -> None:
    with office.visitor(browser, javascript=False) as ada:
        ada.open("/ui/settings")
        ada.do("press", button="^end this session and sign out$")
        assert "/ui/login" in ada.url
        ada.open("/ui/settings")
        assert "/ui/login" in ada.url, "signed out"
