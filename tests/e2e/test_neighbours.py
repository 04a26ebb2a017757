"""A page on another port of the same host receives the session cookie. The cookie alone cannot approve a call."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

from approvals import Ada, House, said
from user import COOKIE, PASSWORD, Browser, User

STORED = "localStorage.setItem('mcpproxy-page-key', 'page_' + '0'.repeat(64))"


class Neighbour:
    """A server of another program on this machine. It keeps the cookies that browsers send."""

    def __init__(self) -> None:
        self.cookies: list[str] = []
        neighbour = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                neighbour.cookies.append(self.headers.get("Cookie", ""))
                self.send_response(200)
                self.send_header("Content-Type", "text/html")
                self.end_headers()
                self.wfile.write(b"<h1>A harmless page</h1>")

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def neighbour() -> Iterator[Neighbour]:
    one = Neighbour()
    yield one
    one.server.shutdown()


class Home:
    """A gateway whose pages are at one of two host names."""

    def __init__(self, folder: Path, name: str) -> None:
        with socket.create_server(("127.0.0.1", 0)) as free:
            port = free.getsockname()[1]
        self.name, self.url = name, f"http://{name}:{port}"
        self.house = House(folder, public_url=self.url)
        self.house.gateway.listen = f"127.0.0.1:{port}"

    def ada(self, browser: Browser, totp: Ada, **how: bool) -> User:
        user = User(browser, self.house.gateway, totp.name, **how)
        user.totp = totp.totp
        user.open(f"{self.url}/ui/login")
        user.sign_in()
        return user


@pytest.fixture(scope="module", params=["localhost", "gate.localhost"])
def home(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Home, Ada]]:
    home = Home(tmp_path_factory.mktemp("neighbours"), request.param)
    with home.house.gateway:
        yield home, home.house.settle()


@pytest.mark.parametrize("tool", ["update_customer", "delete_thing"], ids=["high", "critical"])
def test_the_cookie_comes_and_approves_nothing(
    home: tuple[Home, Ada], browser: Browser, neighbour: Neighbour, tool: str
) -> None:
    (where, ada), house = home, home[0].house
    agent, args, other = house.in_a_hurry(), house.fresh(), house.fresh()
    approval, denied = agent.asks(tool, args), agent.asks(tool, other)
    with where.ada(browser, ada) as user:
        key = user.page_key()
        assert key and key.startswith("page_")
        user.open(f"http://{where.name}:{neighbour.port}/")
        assert user.page_key() is None, "what a page keeps is for its own port"
        found = re.search(rf"{COOKIE}=(\w+)", neighbour.cookies[-1])
        assert found, f"browsers tell hosts apart, not ports: {neighbour.cookies}"

        # The other server sends the cookie itself, as if it were the browser.
        base = house.gateway.base
        headers = {"Cookie": f"{COOKIE}={found.group(1)}", "Host": where.url.removeprefix("http://")}
        page = httpx.get(f"{base}/ui/approvals/{approval}", headers=headers)
        assert page.status_code == 200, "it can read, for as long as the session lasts"
        csrf = re.findall(r'name="csrf" value="([^"]+)"', page.text)[0]
        forms = [{}, {"page_key": ""}, {"page_key": csrf}, {"page_key": found.group(1)}, {"password": "guess"}]
        for more in forms:
            for origin in ({}, {"Origin": where.url}):
                form = {"action": "approve", "csrf": csrf, **more}
                answer = httpx.post(f"{base}/ui/approvals/{approval}", data=form, headers={**headers, **origin})
                assert answer.status_code == 403 and 'name="password"' in answer.text, (more, answer.status_code)
            body = {name: value for name, value in more.items() if name == "page_key"}
            rest = f"{base}/api/v1/approvals/{approval}/approve"
            answer = httpx.post(rest, json=body, headers={**headers, "X-CSRF-Token": csrf})
            assert (answer.status_code, answer.json()["error"]["code"]) == (403, "page_key_required")
        # The other page sends the request in the browser.
        script = f"""fetch('{where.url}/ui/approvals/{approval}', {{
            method: 'POST', mode: 'no-cors', credentials: 'include',
            body: new URLSearchParams({{ action: 'approve', csrf: '{csrf}', page_key: '' }})
        }}).then(() => 'sent', () => 'not sent')"""
        user.do("evaluate", script=script)
        assert house.state(approval) == "pending"
        no = {"action": "deny", "csrf": csrf}
        assert httpx.post(f"{base}/ui/approvals/{denied}", data=no, headers=headers).status_code == 303
        assert house.state(denied) == "denied", "saying no is all it can"

        # The user who owns the cookie can approve without typing anything.
        user.open(f"{where.url}/ui/approvals/{approval}")
        assert user.do("evaluate", script="document.querySelector('[name=password]').checkVisibility()") is False
        user.approve()
        assert "ada approved" in user.text
        (complaint,) = user.look()["complaints"]
        assert "403" in complaint, "the one request of the neighbour's page"
    assert said(agent.call(tool, args, approval_id=approval)) == args
    kept = [path.read_bytes() for path in house.gateway.home.glob("*.db*")]
    assert kept and not any(key.removeprefix("page_").encode() in one or key.encode() in one for one in kept)
    assert key not in house.gateway.words() and key not in str(house.gateway.records("--limit", "200"))


def test_without_the_key_the_password_is_asked_for(home: tuple[Home, Ada], browser: Browser) -> None:
    (where, ada), house = home, home[0].house
    approval = house.in_a_hurry().asks("update_customer", house.fresh())
    with where.ada(browser, ada) as user:
        user.do("evaluate", script=STORED)
        user.open(f"{where.url}/ui/approvals/{approval}")
        user.do("press", button="^approve once$")
        assert "Enter your password" in user.text and house.state(approval) == "pending"
        assert user.page_key() is None, "a key that does not count is forgotten"
        user.do("fill", field="password", value=PASSWORD)
        user.do("press", button="^approve once$")
        assert "ada approved" in user.text
    assert house.state(approval) == "approved"


def test_without_a_script_the_password_is_typed(home: tuple[Home, Ada], browser: Browser) -> None:
    (where, ada), house = home, home[0].house
    approval = house.in_a_hurry().asks("delete_thing", house.fresh())
    with where.ada(browser, ada, javascript=False) as user:
        user.open(f"{where.url}/ui/approvals/{approval}")
        user.do("fill", field="password", value="not the password")
        user.do("press", button="^approve once$")
        assert "The password is wrong" in user.text and house.state(approval) == "pending"
        user.approve()
        assert "ada approved" in user.text


def test_signing_out_takes_the_key_along(home: tuple[Home, Ada], browser: Browser) -> None:
    where, ada = home
    with where.ada(browser, ada) as user:
        assert user.page_key()
        user.do("press", button="^sign out$")
        assert "/ui/login" in user.url and user.page_key() is None
