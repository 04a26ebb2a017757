"""Runs the gateway for a long time under a mixed load, with servers that die and settings that change.

    scripts/soak MINUTES

Agents read, write, search and open sessions. One server is killed every 10 seconds, and the settings are reloaded every
30. Strangers leave requests half sent. Each minute, the load stops for a moment, and the log is compared with the calls
that agents made and with those that reached a server. At the end, `judge.py` looks at memory, file descriptors, threads
and zombies. Exit code 1 if anything is wrong.
"""

from __future__ import annotations

import argparse
import itertools
import os
import random
import signal
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from gateway import Gateway, until  # noqa: E402
from judge import Sample, verdict  # noqa: E402
from log import VARIANTS, Agent, Answer, Ledger, assert_verified, numbered, records  # noqa: E402
from wire import LEGACY, Wire  # noqa: E402

AGENTS = 6
SAMPLE_SECONDS = 5
KILL_SECONDS = 10
RELOAD_SECONDS = 30
CHECK_SECONDS = 60
# A short rest after each call. The run looks for leaks, not for speed.
REST_SECONDS = 0.01
QUERIES = ["echo a text", "delete everything", "weather in Berlin", "", "send an email and list invoices"]
HALF_REQUESTS = 20


class Soak:
    """One gateway, its servers, and everything that happens to it."""

    def __init__(self, folder: Path, minutes: float) -> None:
        self.ledgers = {name: Ledger(folder / f"{name}.jsonl") for name in ("one", "two")}
        self.gateway = Gateway(folder / "home", self.settings(0))
        self.end = time.monotonic() + minutes * 60
        self.numbers = itertools.count(1)
        self.chance = random.Random(17)
        self.is_open = threading.Event()
        self.is_open.set()
        self.lock = threading.Lock()
        self.in_flight = 0
        self.answers: dict[int, Answer] = {}
        self.calls = 0
        self.newest: str | None = None
        self.seen_in_ledgers: set[int] = set()
        self.samples: list[Sample] = []
        self.wrong: list[str] = []

    def settings(self, turn: int) -> dict[str, Any]:
        """Every second turn has one more server."""
        servers = {name: ledger.server() for name, ledger in self.ledgers.items()}
        more = {"extra": self.ledgers["one"].server()} if turn % 2 else {}
        return {"mcpServers": {**servers, **more}, "activity": {"durability": "all"}}

    # -- load -----------------------------------------------------------------------------------------------------

    def call_on(self, turn: int) -> None:
        agent = Agent(self.gateway)
        kinds = itertools.cycle(itertools.product(VARIANTS, self.ledgers))
        for variant, server in itertools.islice(kinds, turn, None):
            if not self.goes_on():
                return
            self.is_open.wait()
            with self.lock:
                number = next(self.numbers)
                self.in_flight += 1
            try:
                answer = agent.call(variant, number, f"{server}:echo")
                with self.lock:
                    self.answers[number] = answer
            finally:
                with self.lock:
                    self.in_flight -= 1
            time.sleep(REST_SECONDS)

    def search(self) -> None:
        wire = Agent(self.gateway).wire
        for query in itertools.cycle(QUERIES):
            if not self.goes_on():
                return
            wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": query}})
            wire.ask("tools/list")
            time.sleep(10 * REST_SECONDS)

    def open_sessions(self) -> None:
        """Opens sessions and leaves them, as clients that crash do."""
        while self.goes_on():
            with Wire(self.gateway.mcp, self.gateway.token, LEGACY).http:
                pass
            time.sleep(0.2)

    def leave_half_requests(self) -> None:
        host, _, port = self.gateway.address.rpartition(":")
        while self.goes_on():
            half = [socket.create_connection((host, int(port)), timeout=30) for _ in range(HALF_REQUESTS)]
            for one in half:
                one.sendall(b"POST /api/v1/login HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n\r\n{")
            self.sleep(2)
            for one in half:
                one.close()

    # -- trouble --------------------------------------------------------------------------------------------------

    def kill_servers(self) -> None:
        while self.sleep(KILL_SECONDS):
            assert self.gateway.child is not None
            servers = [pid for pid in self.gateway.processes() if pid != self.gateway.child.pid]
            if servers:
                os.kill(self.chance.choice(servers), signal.SIGKILL)

    def reload(self) -> None:
        for turn in itertools.count(1):
            if not self.sleep(RELOAD_SECONDS):
                return
            self.gateway.write_settings(self.settings(turn))

    # -- watching -------------------------------------------------------------------------------------------------

    def sample(self) -> None:
        began = time.monotonic()
        while self.sleep(SAMPLE_SECONDS):
            assert self.gateway.child is not None
            self.samples.append(measure(self.gateway.child.pid, time.monotonic() - began))

    def check_log(self) -> None:
        """Stops the load for a moment, and compares the log with what agents and servers know."""
        self.is_open.clear()
        try:
            until(lambda: self.in_flight == 0, 30, "every call is answered")
            with self.lock:
                answers, self.answers = self.answers, {}
            found = list(itertools.takewhile(lambda one: one["id"] != self.newest, records(self.gateway)))
            self.newest = found[0]["id"] if found else self.newest
            recorded = numbered(iter(found))
            for number, answer in answers.items():
                if number not in recorded:
                    self.wrong.append(f"call {number} was answered and has no record: {answer}")
                elif answer.is_success and recorded[number]["status"] != "success":
                    self.wrong.append(f"call {number} succeeded, and its record says {recorded[number]['status']}")
            arrived = {number for ledger in self.ledgers.values() for number in ledger.numbers()} - self.seen_in_ledgers
            self.seen_in_ledgers |= arrived
            self.wrong += [f"call {number} reached a server and has no record" for number in arrived - set(recorded)]
            self.calls += len(answers)
        finally:
            self.is_open.set()

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> list[str]:
        work: list[Callable[[], None]] = [lambda turn=turn: self.call_on(turn) for turn in range(AGENTS)]
        work += [self.search, self.open_sessions, self.leave_half_requests]
        work += [self.kill_servers, self.reload, self.sample]
        with self.gateway:
            threads = [threading.Thread(target=self.guard, args=[one], daemon=True) for one in work]
            for one in threads:
                one.start()
            while self.sleep(CHECK_SECONDS):
                self.check_log()
                self.report()
            for one in threads:
                one.join(120)
            self.check_log()
            assert_verified(self.gateway)
        if not self.calls:
            self.wrong.append("no call was answered")
        return self.wrong + verdict(self.samples)

    def guard(self, work: Callable[[], None]) -> None:
        """Runs one part of the load. If it breaks, the run ends and says so."""
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self.wrong.append(f"{getattr(work, '__name__', 'an agent')} stopped: {error!r}")
            self.end = 0

    def goes_on(self) -> bool:
        return time.monotonic() < self.end

    def sleep(self, seconds: float) -> bool:
        """Waits, but not beyond the end of the run. Returns `False` at the end."""
        until_then = time.monotonic() + seconds
        while self.goes_on() and time.monotonic() < until_then:
            time.sleep(0.1)
        return self.goes_on()

    def report(self) -> None:
        last = self.samples[-1]
        print(
            f"{last.seconds / 60:6.1f} min  {self.calls} calls  {last.rss / 2**20:.1f} MiB  {last.fds} fds  "
            f"{last.threads} threads  {len(self.wrong)} wrong",
            flush=True,
        )


def measure(pid: int, seconds: float) -> Sample:
    status = dict(
        line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":" in line
    )
    zombies = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            try:
                state, parent, *_ = entry.joinpath("stat").read_text().rpartition(")")[2].split()
            except (FileNotFoundError, ProcessLookupError):
                continue
            if state == "Z" and int(parent) == pid:
                zombies.add(int(entry.name))
    rss = int(status["VmRSS"].split()[0]) * 1024
    fds = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    return Sample(seconds, rss, fds, int(status["Threads"]), frozenset(zombies))


def main() -> int:
    options = argparse.ArgumentParser(description="Runs the gateway under a mixed load, and fails on leaks.")
    options.add_argument("minutes", type=float)
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-soak-") as folder:
        wrong = Soak(Path(folder), given.minutes).run()
    for one in wrong[:20]:
        print(f"soak: {one}", file=sys.stderr)
    if len(wrong) > 20:
        print(f"soak: and {len(wrong) - 20} more", file=sys.stderr)
    print("soak: failed" if wrong else "soak: nothing leaked, and every call is recorded")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
