"""The first visit: from the setup link to an approved call, its record, and a verified chain, without documentation."""

from __future__ import annotations

import re
from pathlib import Path

from gateway import Gateway, until
from user import Browser, User, setup_link
from wire import MODERN, Wire

SECONDS = 15


def test_see_approve_find_and_verify(tmp_path: Path, browser: Browser) -> None:
    max_ = {"name": "demo:delete_user", "args": {"userId": "u_max"}, "intent_reason": "Max has left"}
    wanted = {"name": "call_tool_destructive", "arguments": max_}
    with Gateway(tmp_path) as gateway, User(browser, gateway) as ada:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": "demo:list_projects", "args": {}}})
        asked = wire.ask("tools/call", wanted)
        approval = asked["structuredContent"]["error"]["details"]["approval_id"]

        ada.set_up(setup_link(gateway))
        ada.do("follow", link="^review and decide$")
        ada.approve("totp")
        until(lambda: gateway.admin(f"/approvals/{approval}")["state"] == "approved", SECONDS, "approved")
        max_["approval_id"] = approval
        assert not wire.ask("tools/call", wanted).get("isError")
        ada.open("/")
        assert ada.url.endswith("/ui/"), "the root of the address is the console"
        ada.do("follow", link="^activity$")
        assert "list_projects" in ada.text and "delete_user" in ada.text
        ada.open(f"/ui/approvals/{approval}")
        assert re.search("delete_user on demo ran at .* for agent local; approved by ada", ada.text)
        ada.do("follow", link="open the record of the call")
        assert "Max has left" in ada.text
        ada.do("follow", link="^settings$")
        ada.do("press", button="verify now", then="intact|verified")
        assert ada.look()["complaints"] == []
