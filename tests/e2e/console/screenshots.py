"""Takes pictures of the console with demo data. `scripts/screenshots` runs this.

Usage: screenshots.py FOLDER IMAGES

FOLDER gets every page in light, dark and at 390 pixels. IMAGES gets the few that README and docs show.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from office import Office  # noqa: E402
from user import Browser, User  # noqa: E402

WIDE, PHONE = 1200, 390
# What a reader of the README sees without scrolling.
HEIGHT = 720
MOST_BYTES = 150_000
LOOKS = {"light": (WIDE, "light"), "dark": (WIDE, "dark"), "390": (PHONE, "light")}


def main() -> None:
    folder, images = Path(sys.argv[1]), Path(sys.argv[2])
    browser = Browser()
    try:
        with tempfile.TemporaryDirectory() as home:
            office = Office(Path(home), hostile=False)
            with office.gateway:
                office.settle("anna")
                more_work(office)
                with office.visitor(browser) as anna:
                    every_page(office, anna, folder)
                    shown_ones(office, anna, images)
    finally:
        browser.close()


def more_work(office: Office) -> None:
    """Makes enough calls for charts and lists."""
    for number in range(12):
        agent = ("claude-code", "cursor")[number % 2]
        office.call(agent, "read", "demo:list_projects", {}, intent_reason="See what is open")
        office.call(agent, "read", "demo:search_contacts", {"query": "max"}, intent_reason="Find the customer")
        if number % 3 == 0:
            note = {"projectId": "p_website", "title": f"Meeting {number // 3 + 1}"}
            office.call(agent, "write", "demo:create_note", note, intent_reason="Notes of the meeting")
        if number % 4 == 0:
            office.call(agent, "read", "demo:create_note", {"projectId": "p_website", "title": "Draft"})


def every_page(office: Office, anna: User, folder: Path) -> None:
    pages = office.pages()
    for look, (width, scheme) in LOOKS.items():
        anna.do("resize", width=width, height=HEIGHT)
        anna.do("theme", scheme=scheme)
        for page in pages:
            anna.open(page)
            anna.screenshot(folder / f"{office.file_name(page)}-{look}.png")
    print(f"{len(pages)} pages in {folder}")


def shown_ones(office: Office, anna: User, images: Path) -> None:
    anna.do("resize", width=WIDE, height=HEIGHT)
    anna.do("theme", scheme="light")
    record = f"/ui/activity/{office.records['change_project_status']}"
    shown = {"overview": "/ui/", "approval": f"/ui/approvals/{office.waiting}", "record": record}
    for name, page in shown.items():
        anna.open(page)
        # The page fetches nothing any more, and the button has been released.
        anna.do("wait", script="![...document.querySelectorAll('[data-wait]')].some(one => one.disabled)")
        picture = images / f"console-{name}.png"
        anna.screenshot(picture, whole=False)
        size = picture.stat().st_size
        assert size < MOST_BYTES, f"{picture} has {size} bytes, more than {MOST_BYTES}"
        print(f"{picture}: {size} bytes")


if __name__ == "__main__":
    main()
