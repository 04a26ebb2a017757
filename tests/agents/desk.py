"""One agent at work: its home folder, the gateway with the demo server, a user, and a witness of the calls that ran."""

from __future__ import annotations

import json
import shlex
import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import peers
from agents import Agent, fill
from gateway import MARK, Gateway, until
from model import Model, Step
from terminal import Terminal, end_group
from user import Session, Totp, set_up_plainly

USER = "ada"
# A cold start on two cores that others use as well, several model turns, and an approval.
RUN_SECONDS = 300
NOT_SHOWN = "approval_not_shown"
APPROVED = ("approval_requested", "approval_approved")
Files = dict[str, bytes]
T = TypeVar("T")


@dataclass
class Run:
    """A client process. Its whole process group ends with the `with` block of `Desk.run`."""

    child: subprocess.Popen[bytes]
    log: Path
    model: Model

    def is_alive(self) -> bool:
        return self.child.poll() is None

    def finish(self) -> int:
        """Waits for the exit of the client, and returns its exit code."""
        until_shown(lambda: not self.is_alive(), "the client ends", self)
        return self.child.returncode

    def words(self) -> str:
        """Returns the script so far and the client's output, for a failing test."""
        steps = "\n".join(f"{step.tool} {json.dumps(step.args)}\n  -> {step.result}" for step in self.model.steps)
        return f"--- script\n{steps}\n--- output of the client\n{self.log.read_text(errors='replace')[-6000:]}"


def until_shown(probe: Callable[[], T], what: str, client: Run | Terminal) -> T:
    """Waits like `until`. If it fails, shows the output of the client at that moment."""
    try:
        return until(probe, RUN_SECONDS, what)
    except AssertionError as late:
        raise AssertionError(f"{late}\n{client.words()}") from None


class Desk:
    """A fresh home folder, and a gateway whose demo server records every message that it receives."""

    def __init__(self, agent: Agent, folder: Path, *steps: Step) -> None:
        self.agent = agent
        self.folder = folder
        self.home = folder / "home"
        self.work = folder / "work"
        self.work.mkdir(parents=True)
        self.programs = folder / "bin"
        self._install()
        self.received = folder / "received.jsonl"
        self.model = Model(list(steps))
        demo = {"command": str(peers.BUILD / "demo-server"), "args": []}
        # Longer than a test waits for the user, so that a slow machine does not turn a hold into a refusal.
        settings = {"mcpServers": {"demo": peers.tapped(demo, self.received)}, "approvals": {"wait": "60s"}}
        self.gateway = Gateway(folder / "gateway", settings)

    # -- the agent ----------------------------------------------------------------------------------------------

    def settle(self, *, is_open: bool = False) -> None:
        """Writes the files that the user had before. `is_open` adds those that let the agent run every call."""
        subprocess.run(["git", "init", "-q", str(self.work)], check=True)
        files = {**self.agent.files, **(self.agent.open_files if is_open else {})}
        for name, text in files.items():
            path = self.home / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(fill(text, self.work, self.model.url))
            path.chmod(0o600)

    def connect(self, *options: str) -> subprocess.CompletedProcess[str]:
        """Runs `mcpproxy connect AGENT` as the user of the home folder."""
        done = subprocess.run(
            [peers.MCPPROXY, "connect", self.agent.name, *options, "--yes", "--home", str(self.gateway.home)],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=60,
            env=self.environment(),
        )
        assert done.returncode == 0, f"connect {self.agent} {options}: {done.returncode}\n{done.stdout}\n{done.stderr}"
        return done

    @contextmanager
    def run(self, *options: str) -> Iterator[Run]:
        """Starts the agent without a terminal."""
        log = self.folder / "client.txt"
        with open(log, "wb") as out:
            child = subprocess.Popen(
                [*self.agent.command(), *self.agent.headless, *options],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=subprocess.STDOUT,
                cwd=self.work,
                env=self.environment(),
                start_new_session=True,
            )
        try:
            yield Run(child, log, self.model)
        finally:
            end_group(child)

    def open_terminal(self) -> Terminal:
        """Starts the agent in a terminal."""
        return Terminal([*self.agent.command(), *self.agent.dialog.options], self.work, self.environment())

    def environment(self) -> dict[str, str]:
        # The gateway's own mark: `Gateway.stop` fails if a process with this mark is left behind.
        known = self.agent.environment(self.home, self.work, self.model.url)
        return {**known, "PATH": f"{self.programs}:{known['PATH']}", MARK: self.gateway.mark}

    def _install(self) -> None:
        """Puts the agent on `PATH`, where `mcpproxy connect` looks for it."""
        self.programs.mkdir()
        program = self.programs / self.agent.program
        program.write_text(f'#!/bin/sh\nexec {shlex.join(self.agent.command())} "$@"\n')
        program.chmod(0o755)

    def files(self) -> Files:
        """Returns every file in the home folder with its content."""
        return {
            str(path.relative_to(self.home)): path.read_bytes()
            for path in sorted(self.home.rglob("*"))
            if path.is_file() and not path.is_symlink()
        }

    # -- what happened ------------------------------------------------------------------------------------------

    def ran(self) -> list[tuple[str, dict[str, Any]]]:
        """Returns the calls that reached the demo server, in order."""
        messages = [json.loads(line) for line in self.received.read_text().splitlines()]
        calls = [message["params"] for message in messages if message.get("method") == "tools/call"]
        return [(call["name"], call.get("arguments") or {}) for call in calls]

    def recorded(self) -> list[dict[str, Any]]:
        """Returns what the activity log has about this agent, oldest first."""
        return self.gateway.records("--agent", self.agent.name, "--limit", "200")[::-1]

    def checks(self, *calls: tuple[str, dict[str, Any]]) -> None:
        """Checks that exactly these calls ran, according to the server and according to the activity log."""
        assert self.ran() == list(calls)
        records = [record for record in self.recorded() if record["type"] != "approval"]
        assert [(record["type"], record["tool"], record["status"]) for record in records] == [
            ("call", tool, "success") for tool, _ in calls
        ]
        verified = self.gateway.run("activity", "verify")
        assert verified.returncode == 0, verified.stderr

    def decisions(self) -> list[tuple[str, str]]:
        """Returns the tool and the code of each decision about an approval request, oldest first.

        A prompt that the client closed before a user could read it decides nothing.
        """
        records = [record for record in self.recorded() if record["type"] == "approval"]
        return [(record["tool"], record["code"]) for record in records if record["code"] != NOT_SHOWN]

    def has_declined(self, tool: str) -> bool:
        """Returns true if the log says that the client closed the prompt for a tool without showing it."""
        return any(record["tool"] == tool and record["code"] == NOT_SHOWN for record in self.recorded())

    def projects(self) -> str:
        """Returns the state of the demo server: its projects with notes and the users that tasks belong to."""
        done = self.gateway.run("call", "tool-read", "demo:list_projects", "-o", "json")
        assert done.returncode == 0, done.stderr
        return done.stdout


class Approver(Session):
    """A signed-in user with an authenticator app, who decides through the API of the web page."""

    def __init__(self, gateway: Gateway) -> None:
        self.totp: Totp = set_up_plainly(gateway, USER)
        super().__init__(gateway, USER)

    def pending(self) -> list[dict[str, Any]]:
        answer = self.get("/approvals?state=pending")
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()["approvals"]

    def sees_request(self, client: Run | Terminal) -> dict[str, Any]:
        """Waits for exactly one approval request, while the client still runs."""

        def look() -> list[dict[str, Any]]:
            found = self.pending()
            assert found or client.is_alive(), "the client ended without an approval request"
            return found

        found = until_shown(look, "an approval request", client)
        assert len(found) == 1, found
        return found[0]

    def approves(self, request: dict[str, Any], desk: Desk, client: Run | Terminal) -> None:
        """Approves with a code of the authenticator app. If the client declines prompts unseen, it declines first."""
        if desk.agent.declines_links:
            tool = request["tool"].removeprefix("demo:")
            until_shown(lambda: desk.has_declined(tool), "the client declines the prompt", client)
        answer = self.approve(request["id"], self.totp.code())
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
