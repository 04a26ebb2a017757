"""Runs three gateways behind nginx through trouble, and compares what agents were told with what servers did.

    scripts/cluster-test [MINUTES|--short] [--leave-out PART]

Agents with the official SDKs, with sessions and without, call all the time. Meanwhile gateways are killed, PostgreSQL is
restarted, crashes and freezes, and the gateways are restarted one by one. In between, users approve calls and grant
standing approvals, and a rate limit is used up. At the end, nothing may be lost and nothing may have run twice: the
servers' own ledger, the answers to agents and the activity log must agree. Exit code 1 if anything is wrong.

`--short` runs every kind of trouble once. `--leave-out` names a part that a binary does not support: `sessions`, `limits`
or `drain`. The output says so.
"""

from __future__ import annotations

import argparse
import itertools
import logging
import random
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import rig
from approvals import code
from clients import LEGACY_KINDS, MODERN_KINDS, call, play
from gateway import until
from log import assert_verified, numbered, records
from judge import OTHERS_FROM, differences, log_differences
from load import Load
from rig import Fleet
from wire import LEGACY, MODERN, Wire

AGENTS = 6
# Calls that must succeed in a phase before the next one begins.
PROGRESS = 20
PROGRESS_SECONDS = 60
FREEZE_SECONDS = 8
AWAY_SECONDS = 3
# Shorter than `shutdown_grace`.
SLOW_SECONDS = 2
# The SDK warns about sessions that cannot be closed, because their gateway is gone.
logging.getLogger("mcp").setLevel(logging.ERROR)
PARTS = ("sessions", "limits", "drain")


class Run:
    """One run: a fleet, its load, and what went wrong."""

    def __init__(self, fleet: Fleet, left_out: set[str]) -> None:
        self.fleet = fleet
        self.left_out = left_out
        self.wrong: list[str] = []
        self.chance = random.Random(29)
        self.pool = ThreadPoolExecutor(32)
        self.extra = itertools.count(OTHERS_FROM)
        eras = [MODERN] if "sessions" in left_out else [MODERN, LEGACY]
        self.load = Load(fleet.url, fleet.token("load"), [eras[turn % len(eras)] for turn in range(AGENTS)])

    def whole(self, seconds: float) -> None:
        """Runs every phase once, and then again until the time is over."""
        end = time.monotonic() + seconds
        with self.load:
            self.phase("calm", self.calm)
            while True:
                self.phase("a gateway is killed", self.kill_a_gateway)
                self.phase("PostgreSQL restarts", lambda: self.restart_postgres("fast"))
                self.phase("PostgreSQL crashes", lambda: self.restart_postgres("immediate"))
                self.phase("PostgreSQL freezes", self.freeze_postgres)
                self.phase("gateways restart one by one", self.rolling_restart)
                if time.monotonic() >= end or self.load.broken:
                    break
            self.phase("calm again", self.calm)
        self.wrong += self.load.broken
        self.phase("compare", self.compare)

    def phase(self, name: str, work: Callable[[], None]) -> None:
        began, calls, failures = time.monotonic(), self.load.calls(), len(self.load.failures)
        try:
            work()
        except Exception as error:  # noqa: BLE001
            self.wrong.append(f"{name}: {error!r}"[:2000])
        seconds = time.monotonic() - began
        made, failed = self.load.calls() - calls, len(self.load.failures) - failures
        print(f"cluster: {name:<28} {seconds:5.1f} s  {made:5} calls  {failed:3} without an answer", flush=True)

    # -- trouble --------------------------------------------------------------------------------------------------

    def calm(self) -> None:
        """Makes every single check. Without trouble, no call of the load may fail."""
        before = len(self.load.failures)
        self.progress()
        self.sdk_clients()
        self.approvals()
        self.standing_approvals()
        self.one_key_for_all()
        if "limits" not in self.left_out:
            self.limits()
        if failures := self.load.failures[before:]:
            self.wrong.append(f"{len(failures)} calls failed without any trouble: {failures[:3]}")

    def kill_a_gateway(self) -> None:
        number = self.chance.randrange(rig.GATEWAYS)
        self.fleet.kill(number)
        self.progress("with one gateway less")
        self.fleet.gateways[number].start()
        self.fleet.all_ready()
        self.progress()

    def restart_postgres(self, mode: str) -> None:
        self.fleet.postgres.stop(mode)
        time.sleep(AWAY_SECONDS)
        self.fleet.postgres.start()
        self.fleet.all_ready()
        self.progress()

    def freeze_postgres(self) -> None:
        with self.fleet.postgres.frozen():
            time.sleep(FREEZE_SECONDS)
        self.fleet.all_ready()
        self.progress()

    def rolling_restart(self) -> None:
        before = len(self.load.failures)
        for number in range(rig.GATEWAYS):
            self.restart_with_running_calls(number)
            self.progress()
        failures = self.load.failures[before:]
        if failures and "drain" not in self.left_out:
            self.wrong.append(f"{len(failures)} calls failed while gateways restarted one by one: {failures[:3]}")

    def restart_with_running_calls(self, number: int) -> None:
        """Stops a gateway while calls run on all of them. Those end well, and later ones reach another gateway."""
        token, go = self.fleet.token(f"slow-{next(self.extra)}"), self.fleet.ledger.with_name("ledger.jsonl.go")
        numbers = [next(self.extra) for _ in range(2 * rig.GATEWAYS)]
        calls = [self.pool.submit(self.at_once, 1, token, {"name": "fx:slow_pay", "args": {"n": n}}) for n in numbers]
        until(lambda: set(numbers) <= set(self.fleet.arrived("slow_pay")), 30, "the slow calls arrive")
        restart = self.pool.submit(self.fleet.restart, number)
        time.sleep(SLOW_SECONDS)
        go.touch()
        try:
            found = sum((one.result(60) for one in calls), Counter())
        finally:
            go.unlink()
        self.expect("calls that ran when their gateway stopped", found, {"ok": len(numbers)})
        restart.result(120)

    def progress(self, when: str = "") -> None:
        """Waits until more calls have succeeded."""
        before = self.load.successes()
        until(
            lambda: self.load.successes() >= before + PROGRESS or self.load.broken,
            PROGRESS_SECONDS,
            f"calls succeed {when}",
        )

    # -- single checks --------------------------------------------------------------------------------------------

    def wire(self, token: str) -> Wire:
        return Wire(self.fleet.url, token, MODERN)

    def at_once(self, times: int, token: str, arguments: dict[str, object], variant: str = "write") -> Counter[str]:
        """Makes the same call many times at once, each over a connection of its own."""
        wanted = {"name": f"call_tool_{variant}", "arguments": arguments}
        calls = [self.pool.submit(lambda: code(self.wire(token).ask("tools/call", wanted))) for _ in range(times)]
        return Counter(one.result(120) for one in calls)

    def expect(self, what: str, found: object, wanted: object) -> None:
        if found != wanted:
            self.wrong.append(f"{what}: {found}, and should be {wanted}")

    def sdk_clients(self) -> None:
        """Plays a few calls with each official SDK, every request at another gateway."""
        kinds = MODERN_KINDS if "sessions" in self.left_out else [*MODERN_KINDS, *LEGACY_KINDS]
        token = self.fleet.token(f"sdk-{next(self.extra)}")
        for kind in kinds:
            numbers = [next(self.extra) for _ in range(6)]
            steps = [call("call_tool_write", {"name": "fx:plain", "args": {"n": number}}) for number in numbers]
            heard = play(kind, self.fleet.url, token, steps)
            self.expect(f"{kind}", [one.get("isError", False) for one in heard.results], [False] * 6)
            arrived = self.fleet.arrived("plain")
            self.expect(f"{kind}: calls that arrived", [arrived[number] for number in numbers], [1] * 6)

    def approvals(self) -> None:
        """Requests an approval, gives it at one gateway, and uses it many times at once at all of them."""
        token, number = self.fleet.token(f"asks-{next(self.extra)}", "--headless"), next(self.extra)
        wanted = {"name": "fx:update_customer", "args": {"n": number}}
        refused = self.wire(token).ask("tools/call", {"name": "call_tool_write", "arguments": wanted})
        approval = refused["structuredContent"]["error"]["details"]["approval_id"]
        self.fleet.ada.say_yes(approval)
        found = self.at_once(12, token, {**wanted, "approval_id": approval})
        self.expect("one approval used at once", found, {"ok": 1, "approval_already_used": 11})
        self.expect("approved calls that arrived", self.fleet.arrived("update_customer")[number], 1)

    def standing_approvals(self) -> None:
        """Grants a standing approval for three calls, and makes many at once."""
        token, first = self.fleet.token(f"stands-{next(self.extra)}", "--headless"), next(self.extra)
        wanted = {"name": "call_tool_write", "arguments": {"name": "fx:update_customer", "args": {"n": first}}}
        refused = self.wire(token).ask("tools/call", wanted)
        approval = refused["structuredContent"]["error"]["details"]["approval_id"]
        wish = {"from": approval, "schema": '{"required": ["n"]}', "minutes": 15, "uses": 3}
        granted = self.fleet.ada.post("/grants", {**wish, "totp": self.fleet.ada.code()})
        if granted.status_code not in (200, 201):
            self.wrong.append(f"no standing approval: {granted.status_code} {granted.text}")
            return
        numbers = [next(self.extra) for _ in range(12)]
        calls = [self.pool.submit(self.at_once, 1, token, {"name": "fx:update_customer", "args": {"n": n}}) for n in numbers]
        found = sum((one.result(120) for one in calls), Counter())
        # A call that was decided when the last use was still free, and lost it to another one, is `approval_stale`.
        self.expect("a standing approval for three calls", found["ok"], 3)
        self.expect("calls beyond it", set(found) - {"ok", "confirmation_required", "approval_stale"}, set())
        arrived = self.fleet.arrived("update_customer")
        self.expect("calls under it that arrived", sum(arrived[number] for number in numbers), 3)

    def one_key_for_all(self) -> None:
        token, number = self.fleet.token(f"keys-{next(self.extra)}"), next(self.extra)
        wanted = {"name": "fx:pay", "args": {"n": number}, "idempotency_key": f"all-{number}"}
        self.expect("one key at once", self.at_once(12, token, wanted), {"ok": 12})
        self.expect("calls with one key that arrived", self.fleet.arrived("pay")[number], 1)

    def limits(self) -> None:
        """Uses up a rate limit once in the run. Later calls are all refused, whichever gateway counts."""
        token = self.fleet.token(f"seldom-{next(self.extra)}")
        before = sum(self.fleet.arrived("seldom").values())
        found = self.at_once(2 * rig.LIMIT, token, {"name": "fx:seldom", "args": {"n": 0}}, "read")
        left = rig.LIMIT - before
        self.expect("a rate limit of all gateways", found["ok"], left)
        self.expect("calls within it", sum(self.fleet.arrived("seldom").values()), rig.LIMIT)

    # -- the end --------------------------------------------------------------------------------------------------

    def compare(self) -> None:
        """Compares what agents were told with the servers' ledger and with the activity log."""
        self.fleet.all_ready()
        load = self.load
        self.wrong += differences("without a key", load.plain, self.fleet.arrived("plain"))
        self.wrong += differences("with a key", load.keyed, self.fleet.arrived("pay"))
        self.expect("slow calls that ran twice", [n for n, times in self.fleet.arrived("slow_pay").items() if times > 1], [])
        self.compare_log()
        for gateway in self.fleet.gateways:
            assert_verified(gateway)
        self.expect("calls that succeeded at all", load.successes() > 0, True)

    def compare_log(self) -> None:
        """Every call without a key that arrived has exactly one record, and one that succeeded says so."""
        until(lambda: not self.open_calls(), 30, "no call is open in the log")
        found = numbered(records(self.fleet.gateway, agent="load"))
        statuses = {number: record["status"] for number, record in found.items()}
        self.wrong += log_differences(self.load.plain, self.fleet.arrived("plain"), statuses)

    def open_calls(self) -> list[int]:
        found = numbered(records(self.fleet.gateway, agent="load", status="started"))
        return list(found)


def main() -> int:
    options = argparse.ArgumentParser(prog="scripts/cluster-test", description="Runs three gateways through trouble.")
    options.add_argument("minutes", type=float, nargs="?", default=5.0, help="how long to repeat the trouble [default: 5]")
    options.add_argument("--short", action="store_true", help="every kind of trouble once")
    options.add_argument("--leave-out", action="append", default=[], choices=PARTS, help="a part that is not supported")
    given = options.parse_args()
    for part in given.leave_out:
        print(f"cluster: LEFT OUT: {part}", flush=True)
    with tempfile.TemporaryDirectory(prefix="mcpproxy-cluster-") as folder:
        fleet = Fleet(Path(folder))
        try:
            run = Run(fleet.start(), set(given.leave_out))
            run.whole(0 if given.short else given.minutes * 60)
            fleet.stop()
        finally:
            fleet.remove()
        complaints = fleet.complaints()
    load = run.load
    print(f"cluster: {load.calls()} calls, {load.successes()} succeeded, {dict(load.codes)}")
    for why, times in Counter(load.failures).most_common(10):
        print(f"cluster: {times} × no answer: {why}")
    for one in run.wrong[:20]:
        print(f"cluster: WRONG: {one}", file=sys.stderr)
    for one in complaints[-20:] if run.wrong else []:
        print(f"cluster: nginx: {one}", file=sys.stderr)
    print(f"cluster: {'failed' if run.wrong else 'passed'}")
    return 1 if run.wrong else 0


if __name__ == "__main__":
    sys.exit(main())
