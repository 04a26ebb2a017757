"""A gateway with everything that the console shows: servers, agents, calls, refusals and approval requests."""

from __future__ import annotations

import html
import re
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import httpx

import peers
from gateway import Gateway, until
from user import COOKIE, Browser, Session, Totp, User, set_up_plainly
from wire import MODERN, Wire

SECONDS = 15
HERE = Path(__file__).resolve().parent
# Kept after the tests, for people to look at.
SHOTS = peers.ROOT / "target" / "screenshots"
PINNED = (
    "/ui/",
    "/ui/activity",
    "/ui/approvals",
    "/ui/tools",
    "/ui/servers",
    "/ui/agents",
    "/ui/settings",
)
# Pages that the navigation does not name.
FURTHER = ("/ui/approvals?state=all", "/ui/grants", "/ui/account")
# Tools whose records are looked at: with an approval, a dry run, a hostile result, a long one and an error.
RECORDED = ("change_project_status", "delete_user", "create_note", "repeat", "huge", "fail")
# A tag that becomes an element, a script, direction marks, an invisible character, a terminal escape.
HOSTILE = '"><b data-hostile>bold</b><script>window.hacked = 1</script>\u202egnp.exe\u2066\u200b\x1b[2J</script>'
INVISIBLE = "[\u202a-\u202e\u2066-\u2069\u200b-\u200f\x1b]"


class Office:
    """The gateway, its user `ada`, and the agents that work through it."""

    def __init__(self, folder: Path, *, hostile: bool = True) -> None:
        demo = {"command": peers.MCPPROXY, "args": ["demo-server"]}
        servers = {"demo": demo}
        if hostile:
            servers["odd"] = {"command": sys.executable, "args": [str(HERE / "odd_server.py")]}
            servers["broken"] = {
                "command": sys.executable,
                "args": ["-c", f"import sys; sys.exit({'cannot start: ' + HOSTILE!r})"],
            }
        # Tests add servers under the running gateway and look at the review.
        self.settings = {"mcpServers": servers, "approvals": {"wait": "30s"}, "contracts": {"weakening": "apply"}}
        self.hostile = hostile
        self.gateway = Gateway(folder / "home", self.settings)
        self.pool = ThreadPoolExecutor(16)
        self.tokens: dict[str, str] = {}

    def settle(self, name: str = "ada") -> Office:
        """Creates the user and makes the first calls."""
        self.name = name
        self.totp: Totp = set_up_plainly(self.gateway, name)
        self.session = Session(self.gateway, name)
        for agent in ("claude-code", "cursor"):
            self.hire(agent)
        self.work()
        return self

    def hire(self, agent: str, *options: str) -> str:
        """Creates a token for an agent."""
        done = self.gateway.run("token", "create", agent, "--grant", "*", *options)
        assert done.returncode == 0, done.stderr
        self.tokens[agent] = done.stdout.strip()
        return self.tokens[agent]

    # -- calls --------------------------------------------------------------------------------------------------

    def call(self, agent: str, variant: str, tool: str, args: dict[str, Any], **more: Any) -> dict[str, Any]:
        wire = Wire(self.gateway.mcp, self.tokens[agent], MODERN)
        asked = {"name": f"call_tool_{variant}", "arguments": {"name": tool, "args": args, **more}}
        return wire.ask("tools/call", asked)

    def later(self, agent: str, variant: str, tool: str, args: dict[str, Any], **more: Any) -> Future[dict[str, Any]]:
        return self.pool.submit(self.call, agent, variant, tool, args, **more)

    def work(self) -> None:
        """Makes calls that succeed, fail and are refused, and leaves two approval requests open."""
        why = {"intent_reason": "The user asked for it"}
        self.call("claude-code", "read", "demo:list_projects", {}, **why)
        self.call("claude-code", "read", "demo:search_contacts", {"query": "a"}, intent_reason="Look for the customer")
        note = {"projectId": "p_website", "title": "Launch on Monday"}
        self.call("claude-code", "write", "demo:create_note", note, intent_reason="Decided in the meeting")
        self.call("cursor", "read", "demo:create_note", note, intent_reason="Only a note")
        self.call("cursor", "write", "demo:create_note", {"projectId": "p_gone", "title": "Lost"}, **why)
        self.call("cursor", "read", "demo:no_such_tool", {})
        self.ran = self.asks("cursor", "write", "demo:change_project_status", self.status("on_hold"), **why)
        assert self.session.approve(self.ran).status_code == 200
        assert not self.held.result(60).get("isError")
        self.denied = self.asks("cursor", "write", "demo:change_project_status", self.status("completed"), **why)
        assert self.session.deny(self.denied, "Not before the launch.").status_code == 200
        max_ = {"userId": "u_max"}
        self.call("claude-code", "destructive", "demo:delete_user", max_, dry_run=True, **why)
        self.waiting = self.asks("claude-code", "destructive", "demo:delete_user", max_, intent_reason="Max has left")
        if self.hostile:
            odd = {"words": HOSTILE, "<i data-hostile>": [HOSTILE]}
            self.call("cursor", "read", "odd:repeat", odd, intent_reason=HOSTILE)
            self.call("cursor", "read", "odd:huge", {}, intent_reason="x" * 500)
            self.call("cursor", "read", "odd:fail", odd, intent_reason=HOSTILE)
            active = self.status("active")
            self.strange = self.asks("cursor", "write", "demo:change_project_status", active, reason=HOSTILE)

    @staticmethod
    def status(status: str) -> dict[str, Any]:
        return {"projectId": "p_website", "status": status}

    def asks(self, agent: str, variant: str, tool: str, args: dict[str, Any], reason: str = "", **more: Any) -> str:
        """Makes a call that waits for an approval. Returns the id of the approval request."""
        if reason:
            more["intent_reason"] = reason
        self.held = held = self.later(agent, variant, tool, args, **more)
        found = until(lambda: self.pending(agent, tool) or held.done() and "done", SECONDS, "an approval request")
        assert found != "done", held.result()
        return found

    def pending(self, agent: str, tool: str) -> str:
        filters = httpx.QueryParams({"state": "pending", "agent": agent, "tool": tool})
        found = self.gateway.admin(f"/approvals?{filters}")["approvals"]
        return found[0]["id"] if found else ""

    # -- users --------------------------------------------------------------------------------------------------

    @contextmanager
    def visitor(self, browser: Browser, **how: Any) -> Iterator[User]:
        """Ada at another window, signed in."""
        with User(browser, self.gateway, self.name, **how) as ada:
            ada.totp = self.totp
            ada.open("/ui/login")
            ada.sign_in()
            yield ada

    def code(self) -> str:
        return self.totp.code()

    # -- pages --------------------------------------------------------------------------------------------------

    def get(self, path: str) -> httpx.Response:
        headers = {"Cookie": f"{COOKIE}={self.session.secret}"}
        return httpx.get(self.gateway.base + path, headers=headers, timeout=30)

    def pages(self) -> list[str]:
        """Returns the addresses of all pages: those of the navigation, and one of each kind that links lead to."""
        own = self.own_pages()
        found, kinds, queue = [], set(), [*PINNED, *FURTHER, *own]
        while queue:
            path = queue.pop(0)
            # Requests and records of our own differ in what they show.
            kind = path if path in own else kind_of(path)
            if kind in kinds:
                continue
            kinds.add(kind)
            answer = self.get(path)
            if path in (*PINNED, *FURTHER):
                assert answer.status_code == 200, f"{path}: {answer.status_code}"
            assert answer.status_code < 400, f"{path}: {answer.status_code}"
            # Links also lead to downloads and plain texts.
            is_page = answer.headers.get("content-type", "").startswith("text/html")
            if answer.status_code != 200 or not is_page or "content-disposition" in answer.headers:
                continue
            found.append(path)
            main = answer.text.partition("<main")[2]
            links = [html.unescape(link) for link in re.findall(r'href="(/ui/[^"]*)', main)]
            queue += [link.partition("#")[0] for link in links]
        return found

    def own_pages(self) -> list[str]:
        """Returns the pages of the approval requests, and of the newest record of some tools."""
        self.records = {}
        for one in self.gateway.records("--type", "call", "--limit", "200"):
            self.records.setdefault(one["tool"], one["id"])
        shown = [self.records[tool] for tool in RECORDED if tool in self.records]
        return [f"/ui/approvals/{one}" for one in (self.waiting, self.ran, self.denied)] + [
            f"/ui/activity/{one}" for one in shown
        ]

    def file_name(self, page: str) -> str:
        """Returns a name for a picture of the page that is the same in every run."""
        for name in ("waiting", "ran", "denied", "strange"):
            page = page.replace(getattr(self, name, "-"), name)
        for tool, record in self.records.items():
            page = page.replace(record, tool)
        page = re.sub(r"\b[0-9A-Z]{12,}\b", "one", page)
        return re.sub(r"[^a-z0-9]+", "-", page.removeprefix("/ui/").lower()).strip("-")[:80] or "overview"


def kind_of(path: str) -> str:
    """Returns the same text for pages of the same kind: ids and names are left out, and values of filters."""
    parts = urlsplit(path)
    names = re.sub(r"/[0-9A-Z]{12,}(?=/|$)", "/ID", parts.path)
    # One tool of each server is enough, and one agent.
    names = re.sub(r"^(/ui/tools/[^/]+)/[^/]+", r"\1/TOOL", names)
    names = re.sub(r"^/ui/agents/(?!new$)[^/]+", "/ui/agents/NAME", names)
    keys = sorted({pair.partition("=")[0] for pair in parts.query.split("&") if pair})
    return f"{names}?{'&'.join(keys)}"
