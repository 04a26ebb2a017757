"""Simulated users: one in Chromium with an authenticator app or a passkey, and one who sends plain HTTP requests."""

from __future__ import annotations

import base64
import hashlib
import hmac
import itertools
import json
import re
import shutil
import struct
import subprocess
import time
from pathlib import Path
from types import TracebackType
from typing import Any

import httpx

from gateway import Gateway, until
from peers import NODE, NODE_DIR

PASSWORD = "correct horse battery staple"
STEP_SECONDS = 30
COOKIE = "mcpproxy_session"
SETUP_LINK = re.compile(r"https?://\S+/ui/setup/[\w-]+")


class Browser:
    """One Chromium. Every user in it has a separate profile."""

    def __init__(self) -> None:
        chromium = shutil.which("chromium")
        assert chromium, "chromium is missing; scripts/setup installs it"
        self.child = subprocess.Popen(
            [NODE, NODE_DIR / "browser.mjs", chromium], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )
        self.numbers = itertools.count(1)
        self._answer(0)

    def ask(self, person: str, action: str, **more: Any) -> Any:
        assert self.child.stdin
        number = next(self.numbers)
        self.child.stdin.write(json.dumps({"id": number, "person": person, "do": action, **more}) + "\n")
        self.child.stdin.flush()
        return self._answer(number)

    def close(self) -> None:
        assert self.child.stdin
        self.child.stdin.close()
        self.child.wait(20)

    def _answer(self, number: int) -> Any:
        assert self.child.stdout
        line = self.child.stdout.readline()
        assert line, "the browser ended"
        answer = json.loads(line)
        assert answer["id"] == number, answer
        assert "error" not in answer, answer["error"]
        return answer["result"]


class Totp:
    """An authenticator app that never shows the same code twice."""

    def __init__(self, secret: str) -> None:
        self.key = base64.b32decode(secret + "=" * (-len(secret) % 8))
        self.shown = 0

    def is_worn_out(self) -> bool:
        """Returns true if all valid codes were shown. Three are valid at a time, because clocks may differ."""
        return self.shown > self._now()

    def code(self) -> str:
        """Returns a valid code that was not shown before."""
        until(lambda: not self.is_worn_out(), STEP_SECONDS + 5, "the next code")
        # The previous code is valid unless the time step ends before the request arrives.
        has_time = STEP_SECONDS - time.time() % STEP_SECONDS > STEP_SECONDS / 3
        self.shown = max(self.shown + 1, self._now() - 1 if has_time else self._now())
        return self.at(self.shown)

    def at(self, step: int) -> str:
        """Returns the code of RFC 6238, with the parameters that every app supports."""
        mac = hmac.digest(self.key, struct.pack(">Q", step), hashlib.sha1)
        (number,) = struct.unpack_from(">I", mac, mac[-1] & 15)
        return f"{(number & 0x7FFFFFFF) % 1_000_000:06}"

    @staticmethod
    def _now() -> int:
        return int(time.time()) // STEP_SECONDS


class User:
    """A user in front of Chromium, who reads the page and clicks buttons by their text."""

    def __init__(
        self,
        browser: Browser,
        gateway: Gateway,
        name: str = "ada",
        *,
        javascript: bool = True,
        phone: bool = False,
        **window: int | str,
    ) -> None:
        self.browser = browser
        self.gateway = gateway
        self.name = name
        self.password = PASSWORD
        self.totp: Totp | None = None
        self.person = f"{name}-{next(browser.numbers)}"
        self.javascript = javascript
        self.do("meet", javascript=javascript, phone=phone, **window)

    def __enter__(self) -> User:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        if kind is not None:
            print(f"--- {self.name} looks at\n{self.look()}")
        self.do("leave")

    def do(self, action: str, **more: Any) -> Any:
        return self.browser.ask(self.person, action, **more)

    # -- reading ------------------------------------------------------------------------------------------------

    def look(self) -> dict[str, Any]:
        return self.do("look")

    @property
    def text(self) -> str:
        return self.look()["text"]

    @property
    def url(self) -> str:
        return self.look()["url"]

    def open(self, url: str) -> int:
        """Opens a page. A path refers to this gateway. Returns the status."""
        return self.do("open", url=url if url.startswith("http") else at_localhost(self.gateway) + url)

    def sees(self, pattern: str) -> None:
        self.do("sees", text=pattern)

    def screenshot(self, path: Path, *, whole: bool = True) -> None:
        path.parent.mkdir(parents=True, exist_ok=True)
        self.do("screenshot", path=str(path), whole=whole)

    def is_too_wide(self) -> bool:
        """Returns true if the page scrolls sideways."""
        return self.do("evaluate", script="document.documentElement.scrollWidth > document.documentElement.clientWidth")

    # -- accounts -----------------------------------------------------------------------------------------------

    def set_up(self, link: str) -> None:
        """Follows a setup link: name, password and authenticator app."""
        self.open(link)
        self.do("fill", field="name", value=self.name)
        self.do("fill", field="password", value=self.password)
        self.do("fill", field="again", value=self.password)
        self.do("press", button="create")
        self.enrol()

    def enrol(self) -> None:
        self.totp = Totp(secret_on(self.do("html")))
        self.do("fill", field="code", value=self.totp.code())
        self.show_password()
        self.do("press", button="^turn on$")

    def sign_in(self) -> None:
        """Fills in the sign-in form, possibly after a redirect."""
        if "/ui/login" not in self.url:
            self.open("/ui/login")
        self.do("fill", field="name", value=self.name)
        self.do("fill", field="password", value=self.password)
        self.do("press", button="sign in|log in")

    def add_passkey(self, label: str = "laptop") -> None:
        assert self.totp
        self.do("authenticator")
        self.open("/ui/account")
        self.do("fill", region="passkeys", field="label", value=label)
        self.do("fill", region="passkeys", field="totp", value=self.totp.code())
        self.do("press", region="passkeys", button="^add a passkey$", then=f"{label} added")

    # -- deciding -----------------------------------------------------------------------------------------------

    def approve(self, factor: str | None = None) -> None:
        """Clicks the buttons that the current page offers."""
        match factor:
            case "totp":
                assert self.totp
                self.do("fill", field="totp", value=self.totp.code())
                self.do("press", button="^approve once$")
            case "passkey":
                self.do("press", button="^approve.* with a passkey$")
            case None:
                self.show_password()
                self.do("press", button="^approve once$")

    def show_password(self) -> None:
        """Types the password if there is no script. With a script, the page key proves presence."""
        if not self.javascript:
            self.do("fill", field="password", value=self.password)

    def page_key(self) -> str | None:
        """Returns the page key that the script stored."""
        return self.do("evaluate", script="localStorage.getItem('mcpproxy-page-key')")

    def deny(self, comment: str = "") -> None:
        if comment:
            self.do("unfold", summary="^deny and tell the agent why")
            self.do("fill", field="comment", value=comment)
            self.do("press", button="^deny with this message$")
        else:
            self.do("press", button="^deny$")


class Session:
    """The same user with plain requests: the REST API, a session cookie and a CSRF token."""

    def __init__(self, gateway: Gateway, name: str, password: str = PASSWORD) -> None:
        self.gateway = gateway
        self.name = name
        self.http = httpx.Client(timeout=60)
        answer = self.http.post(self._url("/login"), json={"name": name, "password": password})
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        self.csrf, self.page_key = answer.json()["csrf"], answer.json()["page_key"]
        self.secret = self.http.cookies[COOKIE]
        self.http.cookies.clear()

    def post(self, path: str, body: dict[str, Any] | None = None) -> httpx.Response:
        return self.http.post(self._url(path), json=body or {}, headers=self._headers())

    def delete(self, path: str) -> httpx.Response:
        return self.http.delete(self._url(path), headers=self._headers())

    def get(self, path: str) -> httpx.Response:
        return self.http.get(self._url(path), headers=self._headers())

    def approve(self, approval: str, totp: str | None = None) -> httpx.Response:
        return self.post(f"/approvals/{approval}/approve", {"totp": totp} if totp else {"page_key": self.page_key})

    def deny(self, approval: str, comment: str | None = None) -> httpx.Response:
        return self.post(f"/approvals/{approval}/deny", {"comment": comment} if comment else {})

    def _headers(self) -> dict[str, str]:
        # Set by hand: the cookie belongs to a host, and the gateway has another port after a restart.
        return {"Cookie": f"{COOKIE}={self.secret}", "X-CSRF-Token": self.csrf}

    def _url(self, path: str) -> str:
        return f"{self.gateway.base}/api/v1{path}"


def set_up_plainly(gateway: Gateway, name: str) -> Totp:
    """Creates the first user with plain requests, without a browser or scripts."""
    with httpx.Client(base_url=at_localhost(gateway), follow_redirects=True, timeout=60) as http:
        # Only browsers resolve names below `localhost`.
        link = re.sub("^http://[^/]*", at_localhost(gateway), setup_link(gateway))
        account = http.post(link, data={"name": name, "password": PASSWORD, "again": PASSWORD})
        assert account.status_code == 200, f"{account.status_code} {account.text[:500]}"
        totp = Totp(secret_on(account.text))
        (csrf, *_) = re.findall(r'name="csrf" value="([^"]+)"', account.text)
        done = http.post("/ui/account/totp", data={"code": totp.code(), "password": PASSWORD, "csrf": csrf})
        assert done.status_code == 200, f"{done.status_code} {done.text[:500]}"
        return totp


def at_localhost(gateway: Gateway) -> str:
    """Returns the address of the pages. A passkey needs a host name, not an IP address."""
    scheme = gateway.base.partition(":")[0]
    return f"{scheme}://localhost:{gateway.address.rpartition(':')[2]}"


def setup_link(gateway: Gateway) -> str:
    """Returns the setup link that the gateway prints while there is no user."""
    found = until(lambda: SETUP_LINK.search(gateway.words()), 10, "a link to create the first user")
    return found.group()


def secret_on(page: str) -> str:
    """Returns the secret for an authenticator app, from the link in the page or from the text."""
    found = re.search(r"secret=([A-Z2-7]+)", page) or re.search(r">\s*([A-Z2-7]{4}(?:\s?[A-Z2-7]{4}){3,})\s*<", page)
    assert found, "no secret on the page"
    return found.group(1).replace(" ", "")
