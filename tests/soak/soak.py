"""Runs the gateway for a long time under a mixed load, with servers that die and settings that change.

    scripts/soak MINUTES [--postgres]

Agents read, write, search and open sessions. One server is killed every 10 seconds, and the settings are reloaded every
30. `floods.py` floods the gateway from all sides. With `--postgres`, the database is restarted every 45 seconds. Each
minute, the load stops for a moment, and the log is compared with the calls that agents made and with those that reached
a server. At the end, `judge.py` looks at memory, file descriptors, threads and zombies. Exit code 1 if anything is wrong.
If the run was too short to judge something, the last lines say so.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import os
import random
import signal
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from floods import CONTRACTS, Floods  # noqa: E402
from gateway import Gateway, until  # noqa: E402
from judge import Sample, Verdict, verdict  # noqa: E402
from log import TURNED_AWAY, VARIANTS, Agent, Answer, Ledger, assert_verified, numbered, records  # noqa: E402
from postgres import Postgres  # noqa: E402
from wire import LEGACY, Wire  # noqa: E402

AGENTS = 6
SAMPLE_SECONDS = 5
KILL_SECONDS = 10
RELOAD_SECONDS = 30
CHECK_SECONDS = 60
# A short rest after each call. The run looks for leaks, not for speed.
REST_SECONDS = 0.01
QUERIES = ["echo a text", "delete everything", "weather in Berlin", "", "send an email and list invoices"]
RESTART_SECONDS = 45
AWAY_SECONDS = 3
RECOVERY_SECONDS = 15
# A call that cannot be recorded is not made, and so has no record.
UNRECORDED = ("audit_unavailable", TURNED_AWAY)


class Soak:
    """One gateway, its servers, and everything that happens to it."""

    def __init__(self, folder: Path, minutes: float, postgres: Postgres | None = None) -> None:
        self.ledgers = {name: Ledger(folder / f"{name}.jsonl") for name in ("one", "two")}
        self.postgres = postgres
        self.storage = {"storage": {"url": postgres.url(postgres.create())}} if postgres else {}
        self.has_database = threading.Lock()
        self.floods = Floods(self, folder)
        self.gateway = Gateway(folder / "home", self.settings(0))
        self.gateway.write("contracts/fx.yaml", CONTRACTS)
        self.seconds = minutes * 60
        self.end = float("inf")
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
        self.restarts = 0

    def settings(self, turn: int) -> dict[str, Any]:
        """Every second turn has one more server."""
        servers = {name: ledger.server() for name, ledger in self.ledgers.items()}
        more = {"extra": self.ledgers["one"].server()} if turn % 2 else {}
        servers = {**servers, **self.floods.servers(), **more}
        return {"mcpServers": servers, "activity": {"durability": "all"}, **self.storage}

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
            with self.through_outages():
                wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": query}})
                wire.ask("tools/list")
            time.sleep(10 * REST_SECONDS)

    def open_sessions(self) -> None:
        """Opens sessions and leaves them, as clients that crash do."""
        while self.goes_on():
            with self.through_outages():
                Wire(self.gateway.mcp, self.gateway.token, LEGACY).http.close()
            time.sleep(0.2)

    @contextlib.contextmanager
    def through_outages(self) -> Iterator[None]:
        """Ignores a request without an answer if the database may be away."""
        try:
            yield
        except (AssertionError, ValueError):
            if self.postgres is None:
                raise

    # -- trouble --------------------------------------------------------------------------------------------------

    def kill_servers(self) -> None:
        while self.sleep(KILL_SECONDS):
            assert self.gateway.child is not None
            servers = [pid for pid in self.gateway.processes() if pid != self.gateway.child.pid]
            if not servers:
                continue
            # A server that floods may have ended by itself.
            with contextlib.suppress(ProcessLookupError):
                os.kill(self.chance.choice(servers), signal.SIGKILL)

    def reload(self) -> None:
        for turn in itertools.count(1):
            if not self.sleep(RELOAD_SECONDS):
                return
            self.gateway.write_settings(self.settings(turn))

    def restart_database(self) -> None:
        assert self.postgres is not None
        while self.sleep(RESTART_SECONDS):
            with self.has_database:
                self.postgres.stop(self.chance.choice(["fast", "immediate"]))
                self.sleep(AWAY_SECONDS)
                self.postgres.start()
                self.restarts += 1
                until(lambda: self.gateway.probe("/readyz") == 200, RECOVERY_SECONDS, "the gateway is ready again")

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
            until(lambda: self.in_flight == 0, 60, "every call is answered")
            with self.lock:
                answers, self.answers = self.answers, {}
            with self.has_database:
                (found,) = until(self.ended_records, RECOVERY_SECONDS, "every call on the record has its end")
            self.newest = found[0]["id"] if found else self.newest
            recorded = numbered(iter(found))
            for number, answer in answers.items():
                if number not in recorded:
                    if answer.code not in UNRECORDED or self.postgres is None:
                        self.wrong.append(f"call {number} was answered and has no record: {answer}")
                elif answer.is_success and recorded[number]["status"] != "success":
                    self.wrong.append(f"call {number} succeeded, and its record says {recorded[number]['status']}")
            arrived = {number for ledger in self.ledgers.values() for number in ledger.numbers()} - self.seen_in_ledgers
            self.seen_in_ledgers |= arrived
            self.wrong += [f"call {number} reached a server and has no record" for number in arrived - set(recorded)]
            self.calls += len(answers)
        finally:
            self.is_open.set()

    def ended_records(self) -> tuple[list[dict[str, Any]]] | None:
        """Returns the records since the last check. `None` while one of a numbered call is open."""
        found = list(itertools.takewhile(lambda one: one["id"] != self.newest, records(self.gateway)))
        is_open = any(one["status"] == "started" for one in numbered(iter(found)).values())
        return None if is_open else (found,)

    # -- the run --------------------------------------------------------------------------------------------------

    def run(self) -> Verdict:
        try:
            with self.gateway:
                self.load()
        except Exception as error:  # noqa: BLE001
            self.wrong.append(f"the run broke off: {error!r}")
        self.floods.check()
        if not self.calls:
            self.wrong.append("no call was answered")
        if self.postgres and not self.restarts:
            self.wrong.append("the database was never restarted")
        judged = verdict(self.samples)
        return Verdict(self.wrong + judged.wrong, judged.unjudged)

    def load(self) -> None:
        work: list[Callable[[], None]] = [lambda turn=turn: self.call_on(turn) for turn in range(AGENTS)]
        work += [self.search, self.open_sessions, self.kill_servers, self.reload, self.sample]
        work += [self.restart_database] if self.postgres else []
        work += self.floods.work()
        self.end = time.monotonic() + self.seconds
        threads = [threading.Thread(target=self.guard, args=[one], daemon=True) for one in work]
        for one in threads:
            one.start()
        while self.sleep(CHECK_SECONDS):
            self.check_log()
            self.report()
        for one in threads:
            one.join(180)
        self.wrong += [f"a part of the load did not end: {one.name}" for one in threads if one.is_alive()]
        self.check_log()
        assert_verified(self.gateway)

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
            f"{last.threads} threads  {len(self.wrong)} wrong\n            {self.floods.report()}",
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
    peak = int(status["VmHWM"].split()[0]) * 1024
    return Sample(seconds, rss, fds, int(status["Threads"]), frozenset(zombies), peak)


def main() -> int:
    options = argparse.ArgumentParser(description="Runs the gateway under a mixed load, and fails on leaks.")
    options.add_argument("minutes", type=float)
    options.add_argument("--postgres", action="store_true", help="store everything in PostgreSQL, and restart it")
    given = options.parse_args()
    with tempfile.TemporaryDirectory(prefix="mcpproxy-soak-") as folder, database(given.postgres) as postgres:
        found = Soak(Path(folder), given.minutes, postgres).run()
    for one in found.wrong[:20]:
        print(f"soak: {one}", file=sys.stderr)
    if len(found.wrong) > 20:
        print(f"soak: and {len(found.wrong) - 20} more", file=sys.stderr)
    for one in found.unjudged:
        print(f"soak: not judged: {one}")
    print(f"soak: {found}")
    return 1 if found.wrong else 0


@contextlib.contextmanager
def database(is_wanted: bool) -> Iterator[Postgres | None]:
    if not is_wanted:
        yield None
        return
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()


if __name__ == "__main__":
    sys.exit(main())
