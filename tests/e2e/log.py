"""Reads the activity log as an operator does, and makes numbered calls that can be found in it."""

from __future__ import annotations

import itertools
import json
import sqlite3
import subprocess
import threading
import time
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway
from postgres import Postgres
from wire import MODERN, Wire, messages

VARIANTS = ("read", "write", "destructive")
# The gateway refuses calls within five seconds if the log cannot be written. The rest is reserve for a busy machine.
REFUSED_SECONDS = 15.0
TURNED_AWAY = "HTTP 503"
PAGE = 500
DATABASE = "mcpproxy.db"


# -- databases --------------------------------------------------------------------------------------------------


class Storage:
    """The database of one test."""

    kind = "sqlite"

    def settings(self) -> dict[str, Any]:
        return {}

    def sql(self, home: Path, script: str) -> list[list[Any]]:
        """Runs one statement on the database, bypassing the gateway."""
        with closing(sqlite3.connect(home / DATABASE, timeout=60)) as database, database:
            return [list(row) for row in database.execute(script)]

    def copy(self) -> Storage:
        """Returns the storage for a second gateway with the same records."""
        return self


class SqliteStorage(Storage):
    """The SQLite file in the data folder. A copy of the folder includes the log."""


class PostgresStorage(Storage):
    kind = "postgres"

    def __init__(self, server: Postgres, database: str) -> None:
        self.server = server
        self.database = database

    def settings(self) -> dict[str, Any]:
        return {"storage": {"url": self.server.url(self.database)}}

    def sql(self, home: Path, script: str) -> list[list[Any]]:
        return self.server.sql(self.database, script)

    def copy(self) -> Storage:
        return PostgresStorage(self.server, self.server.create(self.database))


def storage_of(kind: str, request: pytest.FixtureRequest) -> Storage:
    if kind == "sqlite":
        return SqliteStorage()
    server: Postgres = request.getfixturevalue("postgres")
    return PostgresStorage(server, server.create())


@pytest.fixture(params=["sqlite", "postgres"])
def storage(request: pytest.FixtureRequest) -> Storage:
    """Runs the test with SQLite and with PostgreSQL."""
    return storage_of(request.param, request)


# -- reading ----------------------------------------------------------------------------------------------------


def records(gateway: Gateway, **filters: str) -> Iterator[dict[str, Any]]:
    """Returns all records, newest first, from all pages."""
    query = {"limit": str(PAGE), **filters}
    while True:
        page = gateway.admin(f"/activity?{httpx.QueryParams(query)}")
        yield from page["activities"]
        if not page["next"]:
            return
        query["cursor"] = page["next"]


def record(gateway: Gateway, name: str) -> dict[str, Any]:
    return gateway.admin(f"/activity/{name}")


def verify(gateway: Gateway, *args: str) -> subprocess.CompletedProcess[str]:
    """Verifies the log. A machine that stands still for 10 seconds looks like a silent database, so that is tried again."""
    for _ in range(3):
        done = gateway.run("activity", "verify", *args)
        if "the database does not respond" not in done.stderr:
            break
    return done


def assert_verified(gateway: Gateway) -> None:
    done = verify(gateway)
    assert done.returncode == 0, f"{done.stdout}{done.stderr}"


def assert_unavailable(gateway: Gateway) -> str:
    """Checks that the gateway runs, is not ready, and reports why."""
    assert gateway.probe("/healthz") == 200
    answer = httpx.get(f"{gateway.base}/readyz", timeout=60)
    assert (answer.status_code, answer.json()) == (503, {"ready": False}), answer.text
    log = gateway.admin("/status")["log"]
    assert log["state"] == "unavailable" and log["reason"], log
    return log["reason"]


def number_of(found: dict[str, Any]) -> int | None:
    """Returns the number of the call in a record. It is in the reason, because lists contain no arguments."""
    word, _, number = found["metadata"].get("intent", {}).get("reason", "").partition(" ")
    return int(number) if word == "number" else None


def numbered(found: Iterator[dict[str, Any]]) -> dict[int, dict[str, Any]]:
    """Returns the records by the number of their call. Each call must have only one."""
    by_number: dict[int, dict[str, Any]] = {}
    for one in found:
        number = number_of(one)
        if number is not None:
            assert number not in by_number, f"two records of one call: {by_number[number]} and {one}"
            by_number[number] = one
    return by_number


class Ledger:
    """A server's own ledger: one line for each call that reached it, on disk before the server answers."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def server(self, *switches: str) -> dict[str, Any]:
        return peers.misbehaving(*switches, MISBEHAVING_LEDGER=str(self.path))

    def numbers(self) -> list[int]:
        if not self.path.exists():
            return []
        return [json.loads(line)["arguments"]["n"] for line in self.path.read_text().splitlines()]


def record_in(result: dict[str, Any]) -> str:
    """Returns the record id in an answer, from the result or from the error."""
    found = result["error"]["data"] if "error" in result else result["_meta"]
    return found["mcpproxy/record"]


# -- calls ------------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class Answer:
    """The answer to a call, and its duration."""

    variant: str
    result: dict[str, Any]
    seconds: float
    # The error if the gateway could not authenticate the agent, instead of an answer.
    turned_away: str | None = None

    @property
    def is_success(self) -> bool:
        return "content" in self.result and not self.result.get("isError")

    @property
    def code(self) -> str | None:
        if self.turned_away is not None:
            return TURNED_AWAY
        return self.result.get("structuredContent", {}).get("error", {}).get("code")

    @property
    def record(self) -> str:
        return record_in(self.result)


class Agent:
    """Makes numbered calls. It survives a restart of the gateway, which may change the address."""

    def __init__(self, gateway: Gateway) -> None:
        self.wire = Wire(gateway.mcp, gateway.token, MODERN)

    def move(self, gateway: Gateway) -> None:
        self.wire.url = gateway.mcp

    def call(self, variant: str, number: int, tool: str = "echo:echo", **args: Any) -> Answer:
        parameters = {"name": tool, "args": {"n": number, **args}, "intent_reason": f"number {number}"}
        message = self.wire.message("tools/call", {"name": f"call_tool_{variant}", "arguments": parameters})
        began = time.monotonic()
        answer = self.wire.post(message)
        seconds = time.monotonic() - began
        if answer.status_code == httpx.codes.SERVICE_UNAVAILABLE:
            return Answer(variant, {}, seconds, turned_away=answer.text)
        (heard,) = [one for one in messages(answer) if "result" in one or "error" in one]
        return Answer(variant, heard.get("result", heard), seconds)

    def refused(self, variant: str, number: int) -> Answer:
        """Makes a call that must be refused promptly, because it cannot be recorded."""
        answer = self.call(variant, number)
        assert answer.code == "audit_unavailable", answer
        assert answer.seconds < REFUSED_SECONDS, f"{variant}: refused after {answer.seconds:.2f} s"
        return answer


@dataclass
class Load:
    """Several agents that call without a pause until they are stopped, or until the gateway is gone."""

    agents: list[Agent]
    numbers: Iterator[int]
    tools: list[str]
    # True if the test expects the gateway to go away.
    may_vanish: bool = False
    sent: dict[int, str] = field(default_factory=dict)
    answers: dict[int, Answer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.changed = threading.Condition()
        self.over = False
        self.left = 0
        self.pool = ThreadPoolExecutor(len(self.agents))
        self.work: list[Future[None]] = []

    def __enter__(self) -> Load:
        self.work = [self.pool.submit(self._call, agent, turn) for turn, agent in enumerate(self.agents)]
        return self

    def __exit__(self, kind: Any, _value: Any, _trace: Any) -> None:
        self.over = True
        self.pool.shutdown()
        if kind is None:
            for one in self.work:
                one.result()

    def wait(self, what: str, enough: Any, seconds: float = 30) -> None:
        """Waits until `enough` is true of this load."""
        with self.changed:
            met = self.changed.wait_for(lambda: enough(self) or self.left, seconds)
            if met and enough(self):
                return
        self.over = True
        for one in self.work:
            one.result()
        raise AssertionError(f"not within {seconds} s: {what}")

    def successes(self) -> dict[int, Answer]:
        with self.changed:
            return {number: answer for number, answer in self.answers.items() if answer.is_success}

    def refusals(self) -> int:
        with self.changed:
            return sum(not answer.is_success for answer in self.answers.values())

    def _call(self, agent: Agent, turn: int) -> None:
        try:
            self._call_on(agent, turn)
        finally:
            with self.changed:
                self.left += 1
                self.changed.notify_all()

    def _call_on(self, agent: Agent, turn: int) -> None:
        choices = itertools.cycle(itertools.product(VARIANTS, self.tools))
        for variant, tool in itertools.islice(choices, turn, None):
            if self.over:
                return
            with self.changed:
                number = next(self.numbers)
                self.sent[number] = variant
                self.changed.notify_all()
            try:
                answer = agent.call(variant, number, tool)
            except httpx.HTTPError:
                if self.may_vanish:
                    return
                raise
            with self.changed:
                self.answers[number] = answer
                self.changed.notify_all()
