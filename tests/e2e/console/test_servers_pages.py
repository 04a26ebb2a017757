"""Adding a server by pasting a client's JSON, reviewing it, and using it."""

from __future__ import annotations

import json
import sys

from approvals import code
from gateway import MARK, until
from office import HERE, SECONDS, Office
from user import Browser


def test_paste_and_review(office: Office, browser: Browser) -> None:
    entry = {"command": sys.executable, "args": [str(HERE / "odd_server.py")], "env": {MARK: office.gateway.mark}}
    with office.visitor(browser) as ada:
        ada.open("/ui/servers/add")
        ada.do("fill", field="pasted", value=json.dumps({"mcpServers": {"pasted": entry}}))
        ada.do("press", button="^(add|read|continue|check)")
        if "pasted" not in office.gateway.servers():
            # A page in between shows what was read.
            ada.do("press", button="^add")
        until(lambda: "pasted" in office.gateway.servers(), SECONDS, "the server is in the settings")
        assert code(office.call("cursor", "read", "pasted:repeat", {})) != "ok", "quarantined"
        until(lambda: "repeat" in office.get("/ui/servers/pasted/review").text, SECONDS, "there is something to review")
        ada.open("/ui/servers/pasted/review")
        assert "repeat" in ada.text and "fail" in ada.text
        ada.do("press", button="^accept")
        until(lambda: code(office.call("cursor", "read", "pasted:repeat", {})) == "ok", SECONDS, "agents may use it")
        ada.open("/ui/servers")
        assert "pasted" in ada.text
        assert ada.look()["complaints"] == []


def test_what_is_no_json_is_explained(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/servers/add")
        ada.do("fill", field="pasted", value='{"mcpServers": {"x": <script>}')
        ada.do("press", button="^(add|read|continue|check)")
        assert ada.do("evaluate", script="document.querySelector('[role=alert]') !== null")
        assert "<script>" in ada.do("evaluate", script="document.querySelector('[name=pasted]').value"), "the text stays"


def test_a_broken_server_shows_why(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/servers")
        assert "broken" in ada.text
        ada.open("/ui/servers/broken")
        assert "cannot start" in ada.text
