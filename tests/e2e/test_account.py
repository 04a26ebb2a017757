"""Account pages, with and without JavaScript. `test_people.py` has recovery codes and resets."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from approvals import Ada, House, house_with_ada
from user import PASSWORD, Browser, User, Session

NEW = "a horse that is not the other one"


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("account"))


def login(house: House, name: str, password: str) -> int:
    url = f"{house.gateway.base}/api/v1/login"
    return httpx.post(url, json={"name": name, "password": password}).status_code


@pytest.mark.parametrize("how", [{"javascript": False}, {"javascript": True}, {"phone": True}], ids=str)
def test_a_user_changes_the_password_and_is_removed(
    home: tuple[House, Ada], browser: Browser, how: dict[str, bool]
) -> None:
    house, session = home
    with User(browser, house.gateway, session.name, **how) as ada:
        ada.open("/ui/account")
        ada.sign_in()
        ada.do("fill", region="invite", field="totp", value=session.code())
        ada.do("press", region="invite", button="^create invitation link$")
        (link,) = re.findall(r"http://localhost:\d+/ui/setup/[\w-]+", ada.text)
        with User(browser, house.gateway, "grace", **how) as grace:
            grace.set_up(link)
            assert grace.totp
            elsewhere = Session(house.gateway, "grace")
            grace.open("/ui/account")
            for field, value in (("current", PASSWORD), ("new", NEW), ("again", NEW), ("totp", grace.totp.code())):
                grace.do("fill", region="password", field=field, value=value)
            grace.do("press", region="password", button="^change password$")
            assert "The password was changed" in grace.text
            assert elsewhere.get("/approvals").status_code == 401, "all other sessions have ended"
            assert (login(house, "grace", PASSWORD), login(house, "grace", NEW)) == (401, 200)

            ada.open("/ui/account")
            wide = ada.do("evaluate", script="document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{wide} pixels too wide"
            ada.do("unfold", summary="^remove grace$")
            ada.do("press", region="other approvers", button="^remove grace$")
            assert "needs a second factor" in ada.text, "not without a factor"
            ada.do("unfold", summary="^remove grace$")
            ada.do("fill", region="other approvers", field="totp", value=session.code())
            ada.do("press", region="other approvers", button="^remove grace$")
            assert "The approver was removed" in ada.text and "You are the only approver" in ada.text
            grace.open("/ui/approvals")
            assert "/ui/login" in grace.url, "at once"
        assert login(house, "grace", NEW) == 401
    codes = [one["code"] for one in house.gateway.records("--type", "auth", "--limit", "50")]
    assert {"password_changed", "user_removed"} <= set(codes)
