"""Agents that call without a pause through nginx, with the official Python SDK, and remember what they were told.

Each call has a number of its own. What an agent knows about a call is one of three things:

- it succeeded: the server ran it exactly once,
- the gateway refused it before it was sent: the server ran it never,
- unknown, such as after a lost connection: the server ran it at most once.

Calls with an idempotency key are repeated until they succeed, or until the gateway says that it does not know whether the
call ran.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from judge import Told

# Refusals that promise that the call was not sent.
NOT_SENT = ("audit_unavailable", "agent_limit", "upstream_busy")
# The gateway does not send a call again if it does not know whether the server ran it.
NEVER_AGAIN = "outcome_unknown"
# Not a code of the gateway: there was no proper answer.
LOST = "lost"
CALL_SECONDS = 30
KEPT_AT_SECONDS = 120
REST_SECONDS = 0.02


class Load:
    """Several agents of several eras. `failures` are requests without a proper answer."""

    def __init__(self, url: str, token: str, eras: list[str]) -> None:
        self.url = url
        self.token = token
        self.numbers = itertools.count(1)
        self.lock = threading.Lock()
        self.plain, self.keyed = Told(), Told()
        self.failures: list[str] = []
        self.codes: Counter[str] = Counter()
        self.over = False
        self.broken: list[str] = []
        self.threads = [threading.Thread(target=self._run, args=[turn, era], daemon=True) for turn, era in enumerate(eras)]

    def __enter__(self) -> Load:
        for one in self.threads:
            one.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.over = True
        for one in self.threads:
            one.join(KEPT_AT_SECONDS + CALL_SECONDS)
        self.broken += [f"{one.name} did not end" for one in self.threads if one.is_alive()]

    def calls(self) -> int:
        with self.lock:
            return len(self.plain) + len(self.keyed)

    def successes(self) -> int:
        with self.lock:
            return len(self.plain.succeeded) + len(self.keyed.succeeded)

    # -- one agent ------------------------------------------------------------------------------------------------

    def _run(self, turn: int, era: str) -> None:
        try:
            anyio.run(self._agent, turn, era)
        except BaseException as error:  # noqa: BLE001
            self.broken.append(f"agent {turn} ({era}) broke off: {error!r}")

    async def _agent(self, turn: int, era: str) -> None:
        """Connects, calls until a request has no proper answer, and connects again."""
        jobs = self._jobs(turn)
        job = next(jobs)
        while not self.over:
            try:
                async with connection(self.url, self.token, era) as client:
                    while not self.over:
                        code = await job.call(client)
                        job = job if self._goes_on(job, code) else next(jobs)
                        await anyio.sleep(REST_SECONDS)
            except Exception as error:  # noqa: BLE001
                if self.over and job.attempts == 0:
                    # The connection did not close well. No call is affected.
                    return
                with self.lock:
                    self.failures.append(f"{era}: {reason(error)}")
                job = job if self._goes_on(job, LOST) else next(jobs)
                await anyio.sleep(REST_SECONDS)
        if job.attempts:
            # The end of the run came before a repeated call had its answer.
            self._note(self.keyed if job.keyed else self.plain, job.number, LOST)

    def _jobs(self, turn: int) -> Iterator[Job]:
        for keyed in itertools.islice(itertools.cycle([False, True]), turn, None):
            with self.lock:
                number = next(self.numbers)
            yield Job(number, keyed)

    def _goes_on(self, job: Job, code: str) -> bool:
        """Notes what the agent was told. Returns true if it repeats the call."""
        is_final = not job.keyed or code in ("ok", NEVER_AGAIN)
        if is_final:
            self._note(self.keyed if job.keyed else self.plain, job.number, code)
        elif time.monotonic() > job.began + KEPT_AT_SECONDS:
            self.broken.append(f"call {job.number} has no answer after {KEPT_AT_SECONDS} s, always with the same key")
            is_final = True
        return not is_final

    def _note(self, told: Told, number: int, code: str) -> None:
        with self.lock:
            self.codes[code] += 1
            kind = told.succeeded if code == "ok" else told.refused if code in NOT_SENT else told.unknown
            kind.add(number)


@dataclass
class Job:
    """One call, which an agent may have to send several times."""

    number: int
    keyed: bool
    began: float = field(default_factory=time.monotonic)
    attempts: int = 0

    async def call(self, client: Client) -> str:
        """Returns `ok`, or the code of a refusal."""
        arguments: dict[str, Any] = {"name": "fx:plain", "args": {"n": self.number}}
        if self.keyed:
            arguments = {**arguments, "name": "fx:pay", "idempotency_key": f"key-{self.number}"}
        else:
            arguments["intent_reason"] = f"number {self.number}"
        self.attempts += 1
        with anyio.fail_after(CALL_SECONDS):
            result = await client.call_tool("call_tool_write", arguments)
        if not result.is_error:
            return "ok"
        return (result.structured_content or {}).get("error", {}).get("code", "no code")


@asynccontextmanager
async def connection(url: str, token: str, era: str) -> AsyncIterator[Client]:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=CALL_SECONDS) as http:
        async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
            yield client


def reason(error: BaseException) -> str:
    """Returns the innermost errors of a group."""
    if isinstance(error, BaseExceptionGroup):
        return "; ".join(reason(one) for one in error.exceptions)
    return f"{type(error).__name__}: {str(error)[:200]}"
