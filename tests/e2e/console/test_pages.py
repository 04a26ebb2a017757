"""Every page of the console: for everybody, on a phone, without a script, and with hostile texts in it."""

from __future__ import annotations

import re

import httpx
import pytest

from office import HOSTILE, INVISIBLE, PINNED, SHOTS, Office
from user import Browser

THEMES = ("light", "dark")
PHONE_WIDTH = 360
SHOT_WIDTHS = {"wide": 1200, "phone": 390}
# Folded parts are read too. A menu lies above the rest of the page, so it stays closed.
UNFOLD = (
    "document.querySelectorAll('details').forEach(one => { one.open = true;"
    " one.open = ![...one.children].some(part => getComputedStyle(part).position === 'absolute'); })"
)
# Pairs of cards of which neither contains the other, and which share more than a border.
OVERLAPS = """(() => {
  const cards = [...document.querySelectorAll('main .card')].map(one => [one, one.getBoundingClientRect()]);
  return cards.flatMap(([one, a]) => cards.filter(([other, b]) => one !== other && !one.contains(other) &&
    !other.contains(one) && Math.min(a.right, b.right) - Math.max(a.left, b.left) > 2 &&
    Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top) > 2).map(() => one.innerText.slice(0, 40)));
})()"""
HEADINGS = "[...document.querySelectorAll('main h1, main h2, main h3, main h4')].map(one => Number(one.tagName[1]))"


@pytest.fixture(scope="module")
def pages(office: Office) -> list[str]:
    found = office.pages()
    assert set(PINNED) <= set(found)
    return found


def test_a_stranger_signs_in_first(office: Office) -> None:
    for page in PINNED:
        answer = httpx.get(office.gateway.base + page)
        assert (answer.status_code, answer.headers["location"].partition("?")[0]) == (303, "/ui/login"), page
    root = httpx.get(office.gateway.base + "/")
    assert root.status_code in (303, 307, 308) and root.headers["location"] == "/ui/", "the root opens the console"


@pytest.mark.parametrize("theme", THEMES)
def test_everybody_can_use_every_page(office: Office, pages: list[str], browser: Browser, theme: str) -> None:
    found = []
    with office.visitor(browser) as ada:
        ada.do("theme", scheme=theme)
        for page in pages:
            assert ada.open(page) == 200, page
            ada.do("evaluate", script=UNFOLD)
            for one in ada.do("axe"):
                # Two landmarks with the same name confuse those who jump from one to the next.
                if one["impact"] in ("serious", "critical") or one["id"] in ("landmark-unique", "empty-heading"):
                    found.append(f"{page}: {one['id']} ({one['help']}): {one['places']}")
    assert not found, "\n".join(found)


def test_no_page_scrolls_sideways(office: Office, pages: list[str], browser: Browser) -> None:
    with office.visitor(browser, phone=True, width=PHONE_WIDTH) as ada:
        wide = []
        for page in pages:
            ada.open(page)
            # Menus too.
            ada.do("evaluate", script="document.querySelectorAll('details').forEach(one => { one.open = true; })")
            if ada.is_too_wide():
                reaching = (
                    "[...document.querySelectorAll('body *')].filter(one => !one.closest('.scroll') &&"
                    " one.getBoundingClientRect().right > document.documentElement.clientWidth).slice(0, 3)"
                    ".map(one => one.outerHTML.slice(0, 120))"
                )
                wide.append(f"{page}: {ada.do('evaluate', script=reaching)}")
    assert not wide, "\n".join(wide)


def test_the_navigation_is_a_menu_on_a_phone(office: Office, browser: Browser) -> None:
    with office.visitor(browser, phone=True, width=PHONE_WIDTH, javascript=False) as ada:
        ada.open("/ui/servers")
        ada.do("unfold", summary="^menu")
        ada.do("follow", link="^tools$")
        assert ada.url.endswith("/ui/tools")


def test_nothing_is_cut_or_covered(office: Office, pages: list[str], browser: Browser) -> None:
    """The styles of one page neither shorten the list of another nor put one card above another."""
    cut = (
        "[...document.querySelectorAll('main ul, main ol, main table')].filter(one => one.scrollHeight >"
        " one.clientHeight + 4 && getComputedStyle(one).overflowY !== 'visible').map(one => one.className)"
    )
    with office.visitor(browser) as ada:
        for width in SHOT_WIDTHS.values():
            ada.do("resize", width=width)
            for page in pages:
                ada.open(page)
                assert ada.do("evaluate", script=cut) == [], f"{page} at {width} pixels"
                assert ada.do("evaluate", script=OVERLAPS) == [], f"{page} at {width} pixels"


def test_buttons_are_large_enough_for_fingers(office: Office, pages: list[str], browser: Browser) -> None:
    """WCAG 2.2 asks for 24 pixels. The buttons that decide have 44."""
    with office.visitor(browser, phone=True, width=PHONE_WIDTH) as ada:
        small = []
        for page in pages:
            ada.open(page)
            buttons = [one for one in ada.do("buttons") if one["name"]]
            small += [f"{page}: {one}" for one in buttons if min(one["height"], one["width"]) < 24]
    assert not small, "\n".join(small)


def test_every_page_says_everything_without_a_script(office: Office, pages: list[str], browser: Browser) -> None:
    with office.visitor(browser, javascript=False) as plain, office.visitor(browser) as ada:
        for page in pages:
            assert plain.open(page) == 200, page
            assert ada.open(page) == 200, page
            heading = re.search(r"<h1[^>]*>(.*?)</h1>", plain.do("html"), re.S)
            assert heading and heading.group(1).strip(), page
            words = {word for word in re.findall(r"[A-Za-z]{6,}", ada.text)}
            missing = words - set(re.findall(r"[A-Za-z]{6,}", plain.text))
            # Relative times and the hints about scripts differ.
            assert len(missing) <= max(8, len(words) // 10), f"{page}: only with a script: {sorted(missing)}"
        assert plain.look()["complaints"] == []


def test_headings_are_in_order(office: Office, pages: list[str], browser: Browser) -> None:
    with office.visitor(browser) as ada:
        for page in pages:
            ada.open(page)
            levels = ada.do("evaluate", script=HEADINGS)
            assert levels.count(1) == 1 and levels[0] == 1, f"{page}: {levels}"
            pairs = zip(levels, levels[1:], strict=False)
            assert all(after <= before + 1 for before, after in pairs), f"{page}: {levels}"


def test_no_page_complains(office: Office, pages: list[str], browser: Browser) -> None:
    """Nothing is blocked by the content policy, and no script fails."""
    with office.visitor(browser) as ada:
        for page in pages:
            ada.open(page)
            assert ada.look()["complaints"] == [], page
    for page in pages:
        answer = office.get(page)
        policy = answer.headers["content-security-policy"]
        assert "default-src 'self'" in policy and "unsafe" not in policy, page
        assert not re.search(r"<script(?![^>]*\bsrc=)|\son[a-z]+=\"|\sstyle=\"", answer.text), f"{page}: inline"
        assert not re.search(r"(?:src|href)=\"(?:https?:)?//", answer.text), f"{page}: something comes from elsewhere"
        assert len(answer.content) < 400_000, f"{page}: {len(answer.content)} bytes"


def test_hostile_texts_do_nothing(office: Office, pages: list[str], browser: Browser) -> None:
    shown = 0
    with office.visitor(browser) as ada:
        for page in [*pages, f"/ui/approvals/{office.strange}"]:
            ada.open(page)
            html = ada.do("html")
            shown += "window.hacked = 1" in html
            assert ada.do("evaluate", script="window.hacked === undefined"), page
            assert ada.do("evaluate", script="document.querySelector('[data-hostile]') === null"), page
            assert not re.search(INVISIBLE, html), f"{page}: an invisible character is left"
            assert not any("dialog" in one for one in ada.look()["complaints"]), page
    assert shown >= 2, "the texts are on the pages, as texts"
    assert HOSTILE not in office.get("/ui/activity").text


def test_focus_is_visible(office: Office, browser: Browser) -> None:
    outlined = (
        "(() => { const style = getComputedStyle(document.activeElement);"
        " return style.outlineStyle !== 'none' && parseFloat(style.outlineWidth) >= 2; })()"
    )
    with office.visitor(browser) as ada:
        for page in PINNED:
            ada.open(page)
            ada.do("evaluate", script="document.activeElement.blur()")
            for _ in range(12):
                ada.do("key", key="Tab")
                where = ada.do("evaluate", script="document.activeElement.outerHTML.slice(0, 120)")
                if where.startswith("<body"):
                    break
                assert ada.do("evaluate", script=outlined), f"{page}: {where}"


@pytest.mark.slow
def test_screenshots(office: Office, pages: list[str], browser: Browser) -> None:
    """Keeps a picture of every page for people to look at."""
    with office.visitor(browser) as ada:
        for how, width in SHOT_WIDTHS.items():
            ada.do("resize", width=width)
            for theme in THEMES:
                ada.do("theme", scheme=theme)
                for page in pages:
                    ada.open(page)
                    picture = SHOTS / "tests" / f"{office.file_name(page)}-{how}-{theme}.png"
                    ada.screenshot(picture)
                    assert picture.stat().st_size > 1000
