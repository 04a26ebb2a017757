"""A gateway in front of servers that ask for OAuth, and a user who signs in at the terminal and in a browser."""

from __future__ import annotations

import hashlib
import os
import pty
import re
import select
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx

import peers
from gateway import Gateway, until
from identity_provider import IdentityProvider, ProtectedServer
from user import PASSWORD, Session, set_up_plainly
from wire import MODERN, Wire

SECONDS = 15
USER = "anna"
ADA = "ada@example.com"
CLIENT_SECRET = "a secret of the gateway"
LINK = re.compile(r"(https?://\S+)\s")


class Desk:
    """A gateway, its user, a provider, and the protected server `notes`."""

    def __init__(self, gateway: Gateway, provider: IdentityProvider, notes: ProtectedServer) -> None:
        self.gateway = gateway
        self.provider = provider
        self.notes = notes

    # -- looking ------------------------------------------------------------------------------------------------

    def server(self, name: str = "notes") -> dict[str, Any]:
        return self.gateway.servers()[name]

    def becomes(self, state: str, name: str = "notes") -> dict[str, Any]:
        """Waits for a state of the server, and returns it. A server that was just added to the settings appears soon."""
        found = lambda: self.gateway.servers().get(name, {})  # noqa: E731
        try:
            return until(lambda: (one := found()).get("state") == state and one, SECONDS, f"{name} is {state}")
        except AssertionError as error:
            raise AssertionError(f"{error}: {found()}\n{self.gateway.words()}") from None

    def call(self, tool: str, variant: str = "read", name: str = "notes") -> dict[str, Any]:
        """Calls a tool as an agent. Returns the result."""
        wire = Wire(self.gateway.mcp, self.gateway.token, MODERN)
        arguments = {"name": f"{name}:{tool}", "args": {}, "intent": {"operation_type": variant}}
        return wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": arguments})

    def says(self, tool: str, variant: str = "read", name: str = "notes") -> str:
        """Calls a tool that works. Returns its text."""
        result = self.call(tool, variant, name)
        assert not result.get("isError"), result
        return result["content"][0]["text"]

    def refused(self, tool: str = "read_note", variant: str = "read", name: str = "notes") -> str:
        """Calls a tool that needs a sign-in. Returns the message for the agent."""
        result = self.call(tool, variant, name)
        assert result.get("isError"), result
        error = result["structuredContent"]["error"]
        assert error["code"] == "sign_in_required", error
        return error["message"]

    def records(self, code: str) -> list[dict[str, Any]]:
        return self.gateway.records("--code", code)

    def refreshes(self) -> int:
        return len(self.provider.requests("token", grant_type="refresh_token"))

    # -- signing in ---------------------------------------------------------------------------------------------

    def login(self, *words: str, name: str = "notes", visit: Callable[[str, str], Any] | None = None) -> tuple[int, str]:
        """Runs `servers login` at a terminal. Returns the exit code and the screen."""
        words = words or ("--no-browser",)
        return at_terminal(self.gateway, ["servers", "login", name, *words], visit or (lambda link, _screen: arrive(link)))

    def signed_in(self, *words: str, name: str = "notes", visit: Callable[[str, str], Any] | None = None) -> str:
        """Signs in, and returns the screen."""
        code, screen = self.login(*words, name=name, visit=visit)
        assert code == 0, screen
        return screen

    def begin(self, session: Session, name: str = "notes") -> dict[str, Any]:
        """Begins a sign-in with plain requests."""
        answer = session.post(f"/servers/{name}/login", {"page_key": session.page_key})
        assert answer.status_code == 200, answer.text
        return answer.json()


@contextmanager
def desk(
    folder: Path,
    *,
    provider: dict[str, Any] | None = None,
    notes: dict[str, Any] | None = None,
    oauth: dict[str, Any] | None = None,
    people: bool = False,
    **settings: Any,
) -> Iterator[Desk]:
    """Starts everything, with a user account. `provider` and `notes` are settings of the two Node.js scripts.

    With `people`, the provider's user `ada@example.com` may sign in to the gateway too.
    """
    listen = f"127.0.0.1:{free_port() if people else 0}"
    provider = {"clients": [own_client(listen)], **(provider or {})} if people else provider or {}
    with ExitStack() as stack:
        issuing = stack.enter_context(IdentityProvider(**provider))
        if people:
            settings = {"people": {"oidc": sign_in_with(issuing.issuer)}, **settings}
        protected = stack.enter_context(ProtectedServer(issuer=issuing.issuer, **(notes or {})))
        server = {"url": protected.url, **({"oauth": oauth} if oauth is not None else {})}
        if (notes or {}).get("sse"):
            server["type"] = "sse"
        servers = {"notes": server, "demo": {"type": "demo"}}
        gateway = Gateway(folder / "home", {"mcpServers": servers, **settings})
        gateway.listen = listen
        stack.enter_context(gateway)
        set_up_plainly(gateway, USER)
        yield Desk(gateway, issuing, protected)


def free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def own_client(listen: str) -> dict[str, Any]:
    """The gateway as a client of the provider, for users who sign in to the gateway."""
    callback = f"http://localhost:{listen.rpartition(':')[2]}/ui/sign-in/oidc/callback"
    grants = {"grant_types": ["authorization_code"], "response_types": ["code"]}
    return {"client_id": "gate", "client_secret": CLIENT_SECRET, "redirect_uris": [callback], **grants}


def sign_in_with(issuer: str) -> dict[str, Any]:
    """`people.oidc` of the settings."""
    client = {"issuer": issuer, "client_id": "gate", "client_secret": CLIENT_SECRET}
    return {**client, "name": "Test SSO", "allowed": {"emails": [ADA]}}


def arrive(link: str, press: str | None = None) -> httpx.Response:
    """Opens a link as a browser does, with cookies and redirects. `press` is the user to choose at the provider."""
    with httpx.Client(follow_redirects=True, timeout=30) as browser:
        page = browser.get(link)
        if press is not None:
            action = re.search(r'action="([^"]+)"', page.text)
            assert action, page.text
            page = browser.post(str(page.url.join(action.group(1))), data={"user": press})
        return page


def redirect_path(issuer: str) -> str:
    """Returns the path to which the provider sends browsers back."""
    return f"/oauth/callback/{hashlib.sha256(issuer.encode()).hexdigest()[:32]}"


def callback_of(link: str) -> str:
    """Returns the URL with which a provider sends the browser back, without opening it."""
    with httpx.Client(follow_redirects=False, timeout=30) as browser:
        answer = browser.get(link)
        while answer.is_redirect and "/oauth/callback" not in answer.headers["location"]:
            answer = browser.get(answer.headers["location"] if "://" in answer.headers["location"] else
                                 str(answer.url.join(answer.headers["location"])))
        return answer.headers["location"]


def at_terminal(
    gateway: Gateway,
    words: list[str],
    visit: Callable[[str, str], Any],
    answers: list[tuple[str, str]] | None = None,
) -> tuple[int, str]:
    """Runs a command at a terminal, signs in to the gateway, and opens the link that it prints.

    `visit` may return bytes, which are typed at the terminal.
    """
    child, terminal = pty.fork()
    if child == 0:
        environment = {**gateway.environment(), "TERM": "xterm", "COLUMNS": "200", "NO_COLOR": "1"}
        os.execve(peers.MCPPROXY, [peers.MCPPROXY, "--home", str(gateway.home), *words], environment)
    answers = [(r"Name: ", USER), (r"Password: ", PASSWORD)] if answers is None else list(answers)
    heard, seen, visiting = "", 0, None
    end = time.monotonic() + 90

    def act(link: str, screen: str) -> None:
        typed = visit(link, screen)
        if isinstance(typed, bytes):
            os.write(terminal, typed)

    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.05)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            heard += piece.decode(errors="replace")
        if answers and re.search(answers[0][0], heard[seen:]):
            seen = len(heard)
            os.write(terminal, answers.pop(0)[1].encode() + b"\n")
        wanted = "confirm this code: " if "--device" in words else "Open this link"
        shown = heard.partition("Open this link")[2] if wanted in heard else ""
        found = LINK.search(shown)
        if visiting is None and found and (wanted != "confirm this code: " or re.search(r"code: \S+\s", heard)):
            visiting = threading.Thread(target=act, args=(found.group(1), heard))
            visiting.start()
    else:
        os.kill(child, 9)
    os.close(terminal)
    if visiting is not None:
        visiting.join(30)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), heard
