"""The approval page: its content and order, on a phone, and without JavaScript."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from approvals import Ada, House, code, details, house_with_ada, said
from user import Browser, User, at_localhost, setup_link

HOSTILE = "</pre><script>alert(1)</script> \u202egnp.exe\u2066 \u200bzero \x1b[2J \r\n<b>bold</b>"
TOUCH_PIXELS = 44


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[House, Ada]]:
    yield from house_with_ada(tmp_path_factory.mktemp("page"))


@pytest.fixture
def house(home: tuple[House, Ada]) -> House:
    return home[0]


def visitor(browser: Browser, home: tuple[House, Ada], **how: bool) -> User:
    """Ada on another device."""
    user = User(browser, home[0].gateway, home[1].name, **how)
    user.totp = home[1].totp
    return user


@pytest.mark.parametrize("how", [{"javascript": False}, {"javascript": True}, {"phone": True}], ids=str)
def test_sign_in_on_the_way_and_decide(
    home: tuple[House, Ada], browser: Browser, how: dict[str, bool], tmp_path_factory: pytest.TempPathFactory
) -> None:
    house, _ = home
    agent, yes, no = house.in_a_hurry(), house.fresh(), house.fresh()
    approval, other = agent.asks("update_customer", yes), agent.asks("update_customer", no)
    with visitor(browser, home, **how) as ada:
        ada.open(f"/ui/approvals/{approval}")
        assert "/ui/login" in ada.url, "the address alone opens nothing"
        assert "update_customer" not in ada.text
        ada.sign_in()
        (address, *key) = ada.url.split("#key=")
        assert address.endswith(f"/ui/approvals/{approval}"), "back to where the address led"
        assert ada.javascript != bool(key), "the script takes the key away from the address"
        fields = ada.do("html") if not ada.javascript else ""
        assert ('type="password"' in fields) is not ada.javascript
        shown = ada.text
        for word in ("high", "update_customer", "fx", "The customer's data change.", agent.name, str(yes["id"])):
            assert word.lower() in shown.lower(), word
        buttons = [one["name"] for one in ada.do("buttons")]
        decisions = [name for name in buttons if re.match("deny|approve", name, re.I)]
        assert decisions[0].lower().startswith("deny") and decisions[-1].lower().startswith("approve"), buttons
        if how.get("phone"):
            small = [one for one in ada.do("buttons") if one["name"] in decisions and one["height"] < TOUCH_PIXELS]
            assert not small, small
            wide = ada.do("evaluate", script="document.documentElement.scrollWidth - window.innerWidth")
            assert wide <= 0, f"{wide} pixels too wide for a phone"
        ada.screenshot(tmp_path_factory.mktemp("shots") / f"{'-'.join(how)}.png")
        ada.approve()
        assert "approved" in ada.text.lower()
        ada.open(f"/ui/approvals/{other}")
        ada.deny("Not this one.")
        assert "denied" in ada.text.lower()
        assert ada.look()["complaints"] == []
        ada.open("/ui/approvals")
        assert ada.do("press", button="sign out|log out") is None
        ada.open(f"/ui/approvals/{other}")
        assert "/ui/login" in ada.url
    assert said(agent.call("update_customer", yes, approval_id=approval)) == yes
    refused = agent.call("update_customer", no, approval_id=other)
    assert (code(refused), details(refused)["comment"]) == ("approval_denied", "Not this one.")


def test_enter_denies(home: tuple[House, Ada], browser: Browser) -> None:
    """Pressing Enter too quickly does not approve."""
    house, _ = home
    agent = house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh())
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        ada.do("key", key="Enter")
        ada.sees("denied")
    assert house.state(approval) == "denied"


def test_reading_does_not_decide(home: tuple[House, Ada], browser: Browser) -> None:
    house, _ = home
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    with visitor(browser, home, phone=True) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        ada.do("key", key="Space")
        assert ada.do("evaluate", script="window.scrollY > 0"), "it scrolls"
        ada.do("key", key="Space")
        assert house.state(approval) == "pending"
        ada.deny()


def test_a_wrong_code_is_seen_at_once(home: tuple[House, Ada], browser: Browser) -> None:
    """The page is long, so the error is shown next to the buttons, far down on a phone."""
    house, _ = home
    approval = house.in_a_hurry().asks("send_external", {"to": ["a@b.example"], "body": "words " * 900})
    with visitor(browser, home, phone=True) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        ada.do("fill", field="totp", value="000000")
        ada.do("press", button="approve once")
        place = "document.querySelector('[role=alert]').getBoundingClientRect()"
        assert ada.do("evaluate", script=f"{place}.top >= 0 && {place}.bottom <= innerHeight"), "on the screen"
        ada.do("key", key="Enter")
        assert house.state(approval) == "pending", "Enter after the code that was meant does nothing"
        ada.deny()


def test_the_countdown_is_the_gateways(home: tuple[House, Ada], browser: Browser) -> None:
    """A phone with a wrong clock still shows the right remaining time."""
    house, _ = home
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        left = ada.do("evaluate", script="Number(document.querySelector('[data-left]').dataset.left)")
        assert 0 < left <= 24 * 3600 * 1000, "what is left, not a moment of somebody's clock"
        ada.deny()


def test_hostile_words_are_plain_text(home: tuple[House, Ada], browser: Browser) -> None:
    house, _ = home
    agent = house.in_a_hurry()
    args = {"id": 7, "note": HOSTILE, "<i>key</i>": "javascript:alert(2)"}
    approval = agent.asks("update_customer", args, intent_reason=HOSTILE)
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        shown, page = ada.text, ada.do("html")
        assert "<script>alert(1)</script>" in shown, "shown as it is"
        assert "<script>alert(1)" not in page and "<b>bold</b>" not in page and "<i>key</i>" not in page
        assert not re.search("[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x1b]", page), "an invisible character is left"
        assert "202e" in shown.lower(), "and it is made visible"
        assert not any("dialog" in one for one in ada.look()["complaints"])
        assert "not verified" in shown.lower() or "unverified" in shown.lower()
        links = ada.do("evaluate", script="[...document.querySelectorAll('a')].map(one => one.href)")
        assert all(one.startswith(at_localhost(house.gateway)) for one in links), links
        ada.deny()


def test_what_changed_since_the_last_time(home: tuple[House, Ada], browser: Browser) -> None:
    house, session = home
    agent = house.in_a_hurry()
    first, second = {"to": "anna@acme.example", "cc": "same"}, {"to": "eve@evil.example", "cc": "same"}
    approval = agent.asks("update_customer", first)
    session.say_yes(approval)
    said(agent.call("update_customer", first, approval_id=approval))
    approval = agent.asks("update_customer", second)
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        assert "anna@acme.example" in ada.text and "eve@evil.example" in ada.text
        ada.deny()


def test_only_the_approver_sees_sensitive_values(home: tuple[House, Ada], browser: Browser) -> None:
    """The approver sees sensitive values unmasked. Other users, and everyone after the decision, see them masked."""
    house, session = home
    agent = house.in_a_hurry()
    approval = agent.asks("send_external", {"to": ["a@b.example"], "body": "the-secret-body"})
    rest = house.gateway.admin(f"/approvals/{approval}")
    assert rest["arguments"] == {"to": ["a@b.example"], "body": "***"} and "the-secret-body" not in str(rest)
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        assert "a@b.example" in ada.text and "the-secret-body" in ada.text
        ada.deny()
        ada.open(f"/ui/approvals/{approval}")
        assert "the-secret-body" not in ada.do("html")
    for place in (session.get(f"/approvals/{approval}").text, str(house.gateway.records("--limit", "20"))):
        assert "the-secret-body" not in place


def test_what_does_not_fit_is_said_beside_the_buttons(home: tuple[House, Ada], browser: Browser) -> None:
    """An approver must see everything. If something does not fit, the page says so and links to the full text."""
    house, session = home
    agent = house.in_a_hurry()
    people = [f"user{number}@corp.example" for number in range(500)]
    args = {"to": [*people, "eve@evil.example"], "script": "echo ok; " * 3000 + "rm -rf /", "name": "\u202egnp.exe"}
    approval = agent.asks("update_customer", args)
    path = f"/ui/approvals/{approval}/whole"
    with visitor(browser, home) as ada:
        ada.open(path)
        assert "/ui/login" in ada.url, "the address alone opens nothing"
        ada.sign_in()
        ada.open(f"/ui/approvals/{approval}")
        assert "eve@evil.example" not in ada.text
        note = ada.do("evaluate", script="document.querySelector('.decide .missing').innerText")
        assert "This page does not show 103 argument values" in note, note
        hidden = ada.do("evaluate", script="document.querySelector('.decide .missing').closest('details') !== null")
        assert hidden is False
        ada.do("follow", link="^read the full call$")
        assert ada.url.endswith(path)
        assert "eve@evil.example" in ada.text and "rm -rf /" in ada.text
        assert "\u202e" not in ada.text and "\\u{202e}gnp.exe" in ada.text
        ada.open(f"/ui/approvals/{approval}")
        ada.deny()
    cookie = {"Cookie": f"mcpproxy_session={session.secret}"}
    answer = httpx.get(house.gateway.base + path, headers=cookie)
    assert answer.headers["content-type"] == "text/plain; charset=utf-8"
    assert answer.headers["x-content-type-options"] == "nosniff"
    for headers in ({"X-API-Key": house.gateway.admin_key}, {"Authorization": f"Bearer {agent.token}"}):
        for place in (path, f"/api/v1/approvals/{approval}/whole"):
            assert httpx.get(house.gateway.base + place, headers=headers).status_code == 403, place


def test_statements_name_their_source(home: tuple[House, Ada], browser: Browser) -> None:
    house, _ = home
    agent = house.in_a_hurry()
    approval = agent.asks("update_customer", house.fresh(), intent_reason="Policy check passed")
    client = house.gateway.admin(f"/approvals/{approval}")["client"]
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        cards = ada.do("evaluate", script="[...document.querySelectorAll('.facts .card')].map(one => one.innerText)")
        (happens,) = [one for one in cards if one.startswith("What will happen")]
        assert "from the operator’s contract" in happens and "The customer's data change." in happens
        (agents,) = [one for one in cards if one.startswith("What the agent says")]
        assert "not verified" in agents and "Policy check passed" in agents and client in agents
        (facts,) = [one for one in cards if one.startswith("Facts")]
        assert client not in facts and "Policy check passed" not in facts
        ada.deny()


def test_the_page_and_the_inbox_live(home: tuple[House, Ada], browser: Browser) -> None:
    """Both pages update by themselves when a request arrives or another user decides."""
    house, session = home
    agent = house.in_a_hurry()
    with visitor(browser, home) as ada, visitor(browser, home) as inbox:
        inbox.open("/ui/approvals")
        inbox.sign_in()
        args = {"id": 4711, "agent": agent.name}
        approval = agent.asks("update_customer", args)
        inbox.sees(agent.name)
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        session.say_no(approval, "Somebody else was faster.")
        ada.sees("denied")
        assert ada.look()["complaints"] == [] and inbox.look()["complaints"] == []


def test_a_second_user_is_invited(home: tuple[House, Ada], browser: Browser) -> None:
    house, session = home
    with visitor(browser, home) as ada, User(browser, house.gateway, "grace") as grace:
        ada.open("/ui/account")
        ada.sign_in()
        ada.open("/ui/account")
        ada.do("press", region="invite", button="^create invitation link$")
        assert "/ui/setup/" not in ada.do("html"), "not without a factor"
        ada.do("fill", region="invite", field="totp", value=session.code())
        ada.do("press", region="invite", button="^create invitation link$")
        (link,) = re.findall(r"http://localhost:\d+/ui/setup/[\w-]+", ada.text)
        grace.set_up(link)
        agent, args = house.in_a_hurry(), house.fresh()
        approval = agent.asks("update_customer", args)
        grace.open(f"/ui/approvals/{approval}")
        grace.approve()
        assert "grace approved" in grace.text
    assert said(agent.call("update_customer", args, approval_id=approval)) == args
    assert house.gateway.admin(f"/approvals/{approval}")["decided_by"] == "grace"


def test_a_standing_approval_on_the_page(home: tuple[House, Ada], browser: Browser) -> None:
    house, session = home
    agent, args = house.in_a_hurry(), house.fresh()
    approval = agent.asks("update_customer", args)
    with visitor(browser, home) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        ada.do("unfold", summary="also allow similar calls")
        ada.do("choose", field="uses", value="2")
        ada.do("unfold", summary="advanced")
        ada.do("fill", field="schema", value='{"required": ["id"]}')
        ada.do("fill", field="totp", value=session.code())
        ada.do("press", button="^create standing approval$")
        assert said(agent.call("update_customer", args, approval_id=approval)) == args, "this call is approved too"
        assert house.state(approval) == "consumed", "who names an approval spends it, not the grant"
        assert said(agent.call("update_customer", {"id": "any"})) == {"id": "any"}
        ada.open("/ui/grants")
        assert agent.name in ada.text and "fx:update_customer" in ada.text
        ada.do("press", button="^revoke")
        assert "revoked" in ada.text.lower() or agent.name not in ada.text
    assert code(agent.call("update_customer", {"id": "another"})) == "confirmation_required"


def test_a_standing_approval_by_choices(home: tuple[House, Ada], browser: Browser) -> None:
    """A ticked argument stays the same, and another one may vary. Nobody has to read a schema."""
    house, session = home
    agent, args = house.in_a_hurry(), {"project": "web", "title": "Launch", "count": 1}
    approval = agent.asks("update_customer", args)
    with visitor(browser, home, phone=True) as ada:
        ada.open(f"/ui/approvals/{approval}")
        ada.sign_in()
        ada.do("unfold", summary="also allow similar calls")
        ada.do("tick", field="keep1", on=False)
        ada.do("choose", field="minutes", value="5")
        ada.do("choose", field="uses", value="2")
        ada.do("fill", field="totp", value="000000")
        ada.do("press", button="^create standing approval$")
        ticked = "[...document.querySelectorAll('.standing [type=checkbox]')].map(one => one.checked)"
        assert ada.do("evaluate", script=ticked) == [True, False, True], "a refused form keeps its choices"
        ada.do("fill", field="totp", value=session.code())
        ada.do("press", button="^create standing approval$")
        allowed = ada.do("evaluate", script="[...document.querySelectorAll('.allowed li')].map(one => one.innerText)")
        assert allowed[:3] == ["project stays web", "title may be any text", "count stays 1"]
        assert not ada.is_too_wide()
    assert said(agent.call("update_customer", {**args, "title": "Other"}))["title"] == "Other"
    for other in ({**args, "project": "app"}, {**args, "title": 7}, {**args, "more": 1}, {"project": "web"}):
        assert code(agent.call("update_customer", other)) == "confirmation_required", other


def test_the_decision_is_on_the_first_screen_of_a_phone(home: tuple[House, Ada], browser: Browser) -> None:
    house, _ = home
    agent = house.in_a_hurry()
    long = {"to": ["a@b.example"], "body": "words " * 200}
    for tool in ("update_customer", "send_external"):
        approval = agent.asks(tool, long, intent_reason="The user asked to tell everybody about it today.")
        with User(browser, house.gateway, home[1].name, phone=True, width=390, height=664) as ada:
            ada.open(f"/ui/approvals/{approval}")
            ada.sign_in()
            bottoms = (
                "[...document.querySelectorAll('.verdict button')].filter(one => one.offsetParent)"
                ".map(one => Math.round(one.getBoundingClientRect().bottom))"
            )
            found = ada.do("evaluate", script=bottoms)
            assert len(found) == 2 and max(found) <= 664, f"{tool}: {found}"
            folded = "document.querySelector('.facts').innerText.includes('SHA-256')"
            assert not ada.do("evaluate", script=folded), "hashes are folded away"
            ada.deny()


def test_enrolment_leads_to_the_waiting_call(tmp_path: Path, browser: Browser) -> None:
    house = House(tmp_path)
    with house.gateway, User(browser, house.gateway) as ada:
        agent, args = house.in_a_hurry(), house.fresh()
        approval = agent.asks("update_customer", args)
        ada.set_up(setup_link(house.gateway))
        assert "1 call is waiting for your decision" in ada.text
        ada.do("follow", link="^review and decide$")
        assert ada.url.endswith(f"/ui/approvals/{approval}")
        ada.approve()
        assert re.search(r"may run update_customer on fx once; approved by ada, not yet run", ada.text)
        assert said(agent.call("update_customer", args, approval_id=approval)) == args
        ada.open(f"/ui/approvals/{approval}")
        ran = rf"update_customer on fx ran at \d\d:\d\d\S* for agent {agent.name}; approved by ada"
        assert re.search(ran, ada.text)


def test_headers_of_the_pages(home: tuple[House, Ada]) -> None:
    house, session = home
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    cookie = {"Cookie": f"mcpproxy_session={session.secret}"}
    for path, headers in (
        ("/ui/login", {}),
        ("/ui/approvals", cookie),
        (f"/ui/approvals/{approval}", cookie),
        ("/ui/account", cookie),
        ("/ui/grants", cookie),
    ):
        answer = httpx.get(house.gateway.base + path, headers=headers)
        assert answer.status_code == 200, path
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "frame-ancestors 'none'" in policy, path
        assert "unsafe" not in policy and "no-store" in answer.headers["cache-control"], path
        assert answer.headers["referrer-policy"] == "same-origin", path
        assert answer.headers["x-content-type-options"] == "nosniff", path
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son\w+=|style=", answer.text), f"{path}: something is inline"
        # The sign-in page links to the address of the gateway's own links.
        elsewhere = re.search(r"src=\"(?:https?:)?//|href=\"(?:https?:)?//(?!localhost[:/])", answer.text)
        assert not elsewhere, f"{path}: something comes from elsewhere"
