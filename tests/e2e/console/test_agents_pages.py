"""Creating a token, and revoking one: the agent is refused from then on."""

from __future__ import annotations

import re

import httpx
import pytest

from gateway import until
from office import SECONDS, Office
from user import Browser
from wire import MODERN, Wire


def test_revoke_a_token(office: Office, browser: Browser) -> None:
    office.hire("leaver")
    office.call("leaver", "read", "demo:list_projects", {})
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        assert "leaver" in ada.text
        ada.do("press", button="revoke.*leaver")
        until(lambda: "leaver" not in str(office.gateway.admin("/tokens")), SECONDS, "the token is gone")
        with pytest.raises((httpx.HTTPError, AssertionError, KeyError)):
            office.call("leaver", "read", "demo:list_projects", {})
        refused = httpx.post(
            office.gateway.mcp, headers={"Authorization": f"Bearer {office.tokens['leaver']}"}, json={}, timeout=30
        )
        assert refused.status_code == 401
        assert ada.look()["complaints"] == []


def test_create_a_token(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/agents")
        ada.do("fill", field="name", value="newcomer")
        ada.do("press", button="^create")
        (token, *_) = re.findall(r"mcpp_[\w-]{20,}|mcp[a-z]*_[0-9A-Za-z_-]{20,}", ada.text)
        wire = Wire(office.gateway.mcp, token, MODERN)
        assert wire.ask("tools/list")["tools"]
        assert "mcpServers" in ada.text, "settings to paste"
        ada.open("/ui/agents")
        assert token not in ada.do("html"), "shown once"
