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
        ada.do("fill", field="json", value=json.dumps({"mcpServers": {"pasted": entry}}))
        ada.do("press", region="paste", button="^add and review$")
        until(lambda: "pasted" in office.gateway.servers(), SECONDS, "the server is in the settings")
        assert code(office.call("cursor", "read", "pasted:repeat", {})) != "ok", "quarantined"
        ada.open("/ui/servers/pasted/review")
        # The page shows what the server lists as soon as it is connected.
        ada.sees("with a severe finding")
        assert "repeat" in ada.text and "Repeats the words as an error." in ada.text
        ada.do("press", button="^accept all 3 without a severe finding$")
        until(lambda: code(office.call("cursor", "read", "pasted:repeat", {})) == "ok", SECONDS, "agents may use it")
        assert code(office.call("cursor", "read", "pasted:echo", {})) != "ok", "nobody accepted this one"
        ada.open("/ui/servers")
        assert "pasted" in ada.text
        assert ada.look()["complaints"] == []
    accepted = [one for one in office.gateway.records("--limit", "100") if "pasted" in json.dumps(one)]
    assert any("ada" in json.dumps(one["metadata"]) for one in accepted), "the log says who accepted it"


def test_reject_and_take_it_back(office: Office, browser: Browser) -> None:
    entry = {"command": sys.executable, "args": [str(HERE / "odd_server.py")], "env": {MARK: office.gateway.mark}}
    with office.visitor(browser) as ada:
        ada.open("/ui/servers/add")
        ada.do("fill", field="json", value=json.dumps({"mcpServers": {"doubted": entry}}))
        ada.do("press", region="paste", button="^add and review$")
        ada.open("/ui/servers/doubted/review")
        ada.sees("with a severe finding")
        ada.do("tick", field="pick-3")
        ada.do("press", button="^reject selected$")
        assert "You rejected 1 definition." in ada.text
        ada.do("follow", link="^look at it again$")
        assert f"Rejected by {office.name}" in ada.text
        ada.do("tick", field="pick-0")
        ada.do("press", button="^accept selected$")
        assert "You accepted 1 definition." in ada.text
        assert ada.look()["complaints"] == []


def test_what_is_no_json_is_explained(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/servers/add")
        ada.do("fill", field="json", value='{"mcpServers": {"x": <script>}')
        ada.do("press", region="paste", button="^add and review$")
        assert ada.do("evaluate", script="document.querySelector('[role=alert]') !== null")
        assert "<script>" in ada.do("evaluate", script="document.querySelector('[name=json]').value"), "the text stays"


def test_a_broken_server_shows_why(office: Office, browser: Browser) -> None:
    with office.visitor(browser) as ada:
        ada.open("/ui/servers")
        assert "broken" in ada.text
        ada.open("/ui/servers/broken")
        assert "cannot start" in ada.text
