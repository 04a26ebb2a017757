"""Versions of settings, contracts and policies in a browser: the list, the differences, and publishing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from gateway import MARK, until
from postgres import Postgres, postgres  # noqa: F401
from team import FORBIDDEN, SECONDS, TAKE_OVER, Team, code, running
from user import Browser, User

LIST = "/ui/settings/versions"
PAGES = ("/ui/settings", LIST, f"{LIST}/1", f"{LIST}/2")
PHONE_WIDTH = 375
# Folded parts are read too. A menu lies above the rest of the page, so it stays closed.
UNFOLD = (
    "document.querySelectorAll('details').forEach(one => { one.open = true;"
    " one.open = ![...one.children].some(part => getComputedStyle(part).position === 'absolute'); })"
)


@pytest.fixture
def team(tmp_path: Path, postgres: Postgres) -> Iterator[Team]:  # noqa: F811
    """Version 2 forbids a tool that version 1 allows."""
    with running(tmp_path, postgres) as team:
        team.publish(with_code=True)
        team.write("contracts/fx.yaml", FORBIDDEN)
        team.publish()
        team.have(2)
        yield team


@contextmanager
def visitor(team: Team, browser: Browser, **how: bool | int) -> Iterator[User]:
    with User(browser, team.first, "ada", **how) as ada:
        ada.totp = team.totp
        ada.open("/ui/login")
        ada.sign_in()
        yield ada


def everywhere(team: Team, expected: str) -> None:
    for gateway in team.gateways:
        until(lambda: code(gateway) == expected, SECONDS, f"{expected} at {gateway.home.name}")


def test_publish_a_version_again(team: Team, browser: Browser) -> None:
    everywhere(team, "tool_not_found")
    with visitor(team, browser) as ada:
        ada.open("/ui/settings")
        assert "Version 2 is active." in ada.text and "Published by ada" in ada.text
        assert "version 2, mcp_config.json:" in ada.text, "the place of a published setting"
        ada.do("follow", link="^all versions$")
        assert "contracts/fx.yaml (new)" in ada.text and "Active" in ada.text
        ada.do("follow", link="^version 1$")
        for part in ("Differences to version 2, the active one", "riskLevel: forbidden", "This allows more than before"):
            assert part in ada.text, ada.text
        ada.do("fill", field="totp", value=team.totp.code())
        ada.do("press", button="^publish as version 3$")
        assert ada.url.endswith(f"{LIST}/3?done=published"), ada.url
        assert "This gateway has taken it over." in ada.text
        for gateway in team.gateways:
            until(lambda: code(gateway) == "ok", TAKE_OVER, f"allowed at {gateway.home.name}")

        # What is stricter needs the key of the page only.
        ada.open(f"{LIST}/2")
        assert "No rule becomes weaker." in ada.text
        ada.do("press", button="^publish as version 4$")
        everywhere(team, "tool_not_found")
        assert ada.look()["complaints"] == []
    listed = team.versions()
    assert [(one["number"], one["changes"]) for one in listed[:2]] == [
        (4, "back to version 2: contracts/fx.yaml (new)"),
        (3, "back to version 1: contracts/fx.yaml (removed)"),
    ]
    found = lambda: [one for one in team.first.records("--type", "settings") if one["metadata"].get("version") == 4]  # noqa: E731
    until(lambda: len(found()) == 3, SECONDS, "one record of the user, and one of each gateway")


def test_publish_without_a_script(team: Team, browser: Browser) -> None:
    """Another user published meanwhile. Then the form publishes nothing, and shows the new differences."""
    team.write("contracts/fx.yaml", FORBIDDEN.replace("note", "pay"))
    team.publish(with_code=True)
    team.have(3)
    with visitor(team, browser, javascript=False) as ada, visitor(team, browser) as other:
        ada.open(f"{LIST}/2")
        other.open(f"{LIST}/1")
        other.do("fill", field="totp", value=team.totp.code())
        other.do("press", button="^publish as version 4$")
        ada.do("fill", field="totp", value=team.totp.code())
        ada.do("press", button="^publish as version 4$")
        assert "Another version was published after you opened this page." in ada.text
        assert "Differences to version 4, the active one" in ada.text and "No rule becomes weaker." in ada.text
        ada.show_password()
        ada.do("press", button="^publish as version 5$")
        assert ada.url.endswith(f"{LIST}/5?done=published"), ada.url
    everywhere(team, "tool_not_found")


def test_only_a_user_opens_and_publishes(team: Team) -> None:
    key = {"X-API-Key": team.first.admin_key}
    for headers in (key, {"Authorization": f"Bearer {team.first.token}"}):
        for page in (LIST, f"{LIST}/1"):
            assert httpx.get(team.first.base + page, headers=headers).status_code == 403
        assert httpx.post(f"{team.first.base}{LIST}/1", headers=headers, data={"after": "2"}).status_code == 403
    assert team.versions()[0]["number"] == 2


def test_publish_a_contract(team: Team, browser: Browser) -> None:
    page = "/ui/tools/fx/pay/contract"
    first, second = team.gateways
    first.connected()
    with visitor(team, browser) as ada:
        ada.open(page)
        ada.do("choose", field="riskLevel", value="critical")
        ada.do("press", button="^preview$")
        assert "Nothing is published yet." in ada.text and "riskLevel: critical" in ada.text
        assert team.versions()[0]["number"] == 2
        ada.do("press", button="^publish as version 3$")
        assert ada.url.endswith(f"{LIST}/3?done=published"), ada.url
        for gateway in (first, second.connected()):
            risk = lambda: gateway.admin("/contracts/fx/pay")["risk_level"]  # noqa: B023, E731
            until(lambda: risk() == "critical", SECONDS, f"in force at {gateway.home.name}")
        # The tool that is forbidden stays so: the other contract of the file was kept.
        everywhere(team, "tool_not_found")

        ada.open(page)
        ada.do("choose", field="riskLevel", value="low")
        ada.do("press", button="^preview$")
        assert "This allows more than before." in ada.text
        ada.do("fill", field="totp", value=team.totp.code())
        ada.do("press", button="^publish as version 4$")
        assert ada.look()["complaints"] == []
    listed = team.versions()
    assert [(one["published_by"], one["changes"]) for one in listed[:2]] == [("ada", "contracts/fx.yaml")] * 2
    assert not (first.home / "contracts").exists(), "nothing is written into the data folder"


def test_publish_servers(team: Team, browser: Browser) -> None:
    first, second = team.gateways
    first.connected()
    with visitor(team, browser) as ada:
        ada.open("/ui/servers/fx")
        ada.do("press", button="^disable$")
        assert "Nothing is published yet." in ada.text and '"enabled": false' in ada.text, ada.text
        assert team.versions()[0]["number"] == 2
        ada.do("press", button="^publish as version 3$")
        assert "The server is disabled." in ada.text, ada.text
        for gateway in (first, second):
            until(lambda: gateway.servers()["fx"]["state"] == "disabled", SECONDS, f"disabled at {gateway.home.name}")

        ada.open("/ui/servers/add")
        ada.do("fill", field="name", value="docs")
        ada.do("fill", field="start", value="http://127.0.0.1:9/mcp")
        ada.do("fill", field="headers", value="Authorization: Bearer abcdefgh12345678")
        ada.do("press", region="fill in a form", button="^show the differences$")
        assert "contains a secret, and published settings are stored in the database" in ada.text, ada.text
        ada.do("fill", field="headers", value=f"Authorization: Bearer ${{env:{MARK}}}")
        ada.do("press", region="fill in a form", button="^show the differences$")
        assert "http://127.0.0.1:9/mcp" in ada.text and f"${{env:{MARK}}}" in ada.text, ada.text
        assert not ada.is_too_wide()
        ada.do("press", button="^publish as version 4$")
        for gateway in (first, second):
            until(lambda: "docs" in gateway.servers(), SECONDS, f"added at {gateway.home.name}")

        ada.open("/ui/servers/docs")
        ada.do("unfold", summary="^remove this server$")
        ada.do("fill", field="name", value="docs")
        ada.do("press", button="^remove docs$")
        ada.do("press", button="^publish as version 5$")
        for gateway in (first, second):
            until(lambda: "docs" not in gateway.servers(), SECONDS, f"removed at {gateway.home.name}")
        complaints = [one for one in ada.look()["complaints"] if "status of 4" not in one]
        assert complaints == []
    assert [(one["published_by"], one["changes"]) for one in team.versions()[:3]] == [("ada", "mcp_config.json")] * 3


def test_pages_for_everybody(team: Team, browser: Browser) -> None:
    team.first.connected()
    found = []
    for theme in ("light", "dark"):
        with visitor(team, browser, phone=True, width=PHONE_WIDTH) as ada:
            ada.do("theme", scheme=theme)
            for page in PAGES:
                assert ada.open(page) == 200, page
                ada.do("evaluate", script=UNFOLD)
                assert not ada.is_too_wide(), page
                serious = [one for one in ada.do("axe") if one["impact"] in ("serious", "critical")]
                found += [f"{page} {theme}: {one}" for one in serious]
    assert not found, "\n".join(found)


def test_publish_with_the_keyboard(team: Team, browser: Browser) -> None:
    with visitor(team, browser) as ada:
        ada.open(f"{LIST}/1")
        ada.do("evaluate", script="document.querySelector('[name=totp]').focus()")
        for digit in team.totp.code():
            ada.do("key", key=digit)
        ada.do("key", key="Enter")
        ada.do("sees", text="This version is published for all gateways.")
    assert team.versions()[0]["number"] == 3
