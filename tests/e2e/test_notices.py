"""Notifications of approval requests: terminal output, `approvals list --watch`, events, a webhook and a command."""

from __future__ import annotations

import hashlib
import hmac
import json
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import httpx
import pytest

import peers
from approvals import SECONDS, Agent, House, error
from gateway import until
from user import at_localhost

SECRET = "the secret of a webhook"
HIDDEN = "do-not-tell-anybody"


class Mailbox:
    """A webhook receiver that rejects the first request."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        mailbox = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["Content-Length"]))
                mailbox.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(503 if len(mailbox.heard) == 1 else 204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/hook"
        threading.Thread(target=self.server.serve_forever, daemon=True).start()


@pytest.fixture(scope="module")
def mailbox() -> Iterator[Mailbox]:
    one = Mailbox()
    yield one
    one.server.shutdown()


@pytest.fixture(scope="module")
def noticed(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("noticed") / "commands.jsonl"


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory, mailbox: Mailbox, noticed: Path) -> Iterator[House]:
    script = "import json, os, sys; open(sys.argv[1], 'a').write(json.dumps(dict(os.environ)) + '\\n')"
    notify = {
        "webhook": {"url": mailbox.url, "secret": SECRET},
        "command": [sys.executable, "-c", script, str(noticed)],
    }
    one = House(tmp_path_factory.mktemp("notices"), notify=notify)
    with one.gateway:
        yield one


def asks(house: House) -> tuple[Agent, str]:
    agent = house.in_a_hurry()
    asked = error(agent.call("send_external", {"to": "a@b.example", "body": HIDDEN, "token": HIDDEN}))
    return agent, asked["details"]["approval_id"]


def test_a_webhook_is_signed_repeated_and_says_nothing_it_should_not(house: House, mailbox: Mailbox) -> None:
    agent, approval = asks(house)
    heard = lambda: [one for one in mailbox.heard if approval.encode() in one[1]]  # noqa: E731
    until(lambda: len(heard()) == 2, SECONDS, "the webhook comes again after it was turned away")
    headers, body = heard()[-1]
    notice = json.loads(body)
    for word in (
        approval,
        agent.name,
        "fx:send_external",
        "critical",
        f"{at_localhost(house.gateway)}/ui/approvals/{approval}",
    ):
        assert word in json.dumps(notice), word
    assert HIDDEN.encode() not in body and b"a@b.example" not in body and agent.token.encode() not in body
    assert is_signed(headers, body), headers


def is_signed(headers: dict[str, str], body: bytes) -> bool:
    """Verifies `t=SECONDS,v1=HEX`: HMAC-SHA-256 over the time and the body."""
    parts = dict(part.split("=", 1) for part in headers["x-mcpproxy-signature"].split(","))
    expected = hmac.digest(SECRET.encode(), f"{parts['t']}.".encode() + body, hashlib.sha256).hex()
    return parts["v1"] == expected and abs(int(parts["t"]) - time.time()) < 60


def test_a_command_is_run(house: House, noticed: Path) -> None:
    agent, approval = asks(house)

    def environments() -> list[dict[str, str]]:
        found = [json.loads(line) for line in noticed.read_text().splitlines()] if noticed.exists() else []
        return [one for one in found if one["MCPPROXY_APPROVAL_ID"] == approval]

    (told,) = until(environments, SECONDS, "the command ran")
    assert (told["MCPPROXY_AGENT"], told["MCPPROXY_TOOL"]) == (agent.name, "fx:send_external")
    assert told["MCPPROXY_RISK_LEVEL"] == "critical"
    assert told["MCPPROXY_APPROVE_URL"] == f"{at_localhost(house.gateway)}/ui/approvals/{approval}"
    assert HIDDEN not in str(told) and agent.token not in str(told)


def test_a_line_in_the_terminal(house: House) -> None:
    agent, approval = asks(house)

    def line() -> str | None:
        screen = house.gateway.words().splitlines()
        return next((one for one in screen if f"/ui/approvals/{approval}" in one), None)

    found = until(line, SECONDS, "serve says that somebody is asked")
    assert agent.name in found and "fx:send_external" in found and HIDDEN not in house.gateway.words()
    assert "\a" not in house.gateway.words(), "a bell is for terminals"


def test_events(house: House) -> None:
    heard: queue.Queue[str] = queue.Queue()
    with httpx.Client(timeout=60) as http:
        stream = http.stream(
            "GET", f"{house.gateway.base}/api/v1/events", headers={"X-API-Key": house.gateway.admin_key}
        )
        with stream as answer:
            assert answer.status_code == 200
            lines = answer.iter_lines()
            threading.Thread(target=lambda: _listen(lines, heard), daemon=True).start()
            _, approval = asks(house)
            kinds = _events(heard, approval)
            assert house.gateway.run("approvals", "deny", approval, "--comment", "no").returncode == 0
            later = _events(heard, "denied")
    assert kinds["id"] == approval and kinds["state"] == "pending" and kinds["tool"] == "fx:send_external"
    assert later["id"] == approval and later["state"] == "denied"
    assert HIDDEN not in json.dumps([kinds, later])


def _listen(lines: Iterator[str], heard: queue.Queue[str]) -> None:
    try:
        event = ""
        for line in lines:
            if line.startswith("event:"):
                event = line.removeprefix("event:").strip()
            elif line.startswith("data:") and event == "approval":
                heard.put(line.removeprefix("data:").strip())
            elif not line:
                event = ""
    except (httpx.HTTPError, httpx.StreamError):
        pass


def _events(heard: queue.Queue[str], word: str) -> dict[str, str]:
    """Returns the first event of an approval request that contains this word."""
    for _ in range(20):
        data = heard.get(timeout=SECONDS)
        if word in data:
            return json.loads(data)
    raise AssertionError(f"no event with {word}")


def test_a_list_that_watches(house: House) -> None:
    watching = subprocess.Popen(
        [peers.MCPPROXY, "approvals", "list", "--watch", "--home", str(house.gateway.home)],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env=house.gateway.environment(),
    )
    try:
        assert watching.stdout
        heard: queue.Queue[str] = queue.Queue()
        threading.Thread(target=lambda: [heard.put(line) for line in watching.stdout], daemon=True).start()
        agent, approval = asks(house)
        seen = ""
        while approval not in seen and agent.name not in seen:
            seen += heard.get(timeout=SECONDS)
        assert HIDDEN not in seen
    finally:
        watching.terminate()
        watching.wait(10)
