"""The tools of the console in a browser: search, explained calls, and a contract that is changed after its replay."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from gateway import Gateway
from user import Browser, User, setup_link

OURS = """\
# Ours, reviewed in May.
- tool: demo:get_help_article
  riskLevel: low # only reads
"""


@pytest.fixture
def ada(tmp_path: Path, browser: Browser) -> Iterator[User]:
    """A user of a gateway in front of the demo server, with one contract file."""
    gateway = Gateway(tmp_path)
    gateway.write("contracts/demo.yaml", OURS)
    with gateway, User(browser, gateway, "ada") as user:
        user.set_up(setup_link(gateway))
        yield user


def choose(user: User, field: str, value: str) -> None:
    user.do("evaluate", script=f"document.getElementById('{field}').value = '{value}'")


def contracts(user: User) -> str:
    return (user.gateway.home / "contracts" / "demo.yaml").read_text()


def test_a_tool_is_found_and_a_call_explained(ada: User) -> None:
    ada.open("/ui/tools?q=delete+a+user")
    ada.do("follow", link="^demo:delete_user$")
    assert "The approval needs a fresh second factor." in ada.text
    ada.do("press", button="^explain the decision$")
    assert "This call would wait until a user approves it with a second factor." in ada.text
    assert [one for one in ada.gateway.records() if one["tool"] == "delete_user"] == [], "nothing is recorded"
    assert ada.look()["complaints"] == []


def test_a_contract_is_changed_after_its_replay(ada: User) -> None:
    for _ in range(2):
        assert ada.gateway.run("call", "tool-read", "demo:list_projects").returncode == 0
    ada.open("/ui/tools/demo/list_projects")
    ada.do("follow", link="^change the contract$")
    choose(ada, "riskLevel", "critical")
    ada.do("press", button="^preview$")
    assert "2 of 2 recorded calls" in ada.text and "waits for an approval with a second factor" in ada.text
    assert contracts(ada) == OURS, "a preview writes nothing"
    ada.do("press", button="^save and apply$")
    assert "Saved. The contract below is in force." in ada.text
    assert contracts(ada) == OURS + "\n- tool: demo:list_projects\n  riskLevel: critical\n"
    assert "confirmation" in ada.gateway.run("policy", "explain", "demo:list_projects", "--variant", "read").stdout

    # The way back allows more than before, so it needs a second factor, and then it is in force at once.
    ada.open("/ui/tools/demo/list_projects/contract")
    choose(ada, "riskLevel", "low")
    ada.do("press", button="^preview$")
    assert "This allows more than before." in ada.text and ada.totp
    ada.do("fill", field="totp", value=ada.totp.code())
    ada.do("press", button="^save and apply$")
    assert "Saved. The contract below is in force." in ada.text
    assert ada.gateway.run("call", "tool-read", "demo:list_projects").returncode == 0
    saved = [one["metadata"] for one in ada.gateway.records() if one["code"] == "contract_saved"]
    assert [(one["user"], one["tool"]) for one in saved] == [("ada", "demo:list_projects")] * 2
    assert ada.look()["complaints"] == []
