"""Measures what one agent, stranger or server can do to another agent.

    scripts/floods [SECONDS] [--only NAME,...] [--check] [-o json]

One gateway runs with the default limits. A bystander makes read calls, one after the other on one connection: first
while nothing else happens, then during each flood of `attackers.py`, and again without a flood. The table has the
50th and 99th percentile of these calls, and the most memory of the gateway meanwhile. The ratio compares the 99th
percentile with its value without a flood.

With `--check`, the exit code is 1 if a ratio is above 10 or the memory above 600 MiB. Floods have their own process
with a lower priority, because a load generator on another machine would not take CPU time from the gateway.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import json
import math
import os
import shutil
import signal
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import peers  # noqa: E402
from attackers import FLOODS, NICENESS, Target, flooding  # noqa: E402
from floods import KINDS  # noqa: E402
from gateway import Gateway  # noqa: E402
from judge import PEAK_MAX_BYTES  # noqa: E402
from pump import READ_BYTES, connect, response  # noqa: E402
from user import set_up_plainly  # noqa: E402

RATIO_MAX = 10
# The 99th percentile is the 10th slowest call of these.
CALLS_MIN = 1000
# With so few calls a second, the row fails for its 50th percentile.
ROW_MAX_SECONDS = 60
WARM_UP_CALLS = 500
# A flood needs a moment to begin, and the gateway one to clean up after it.
BEGIN_SECONDS = 1
SETTLE_SECONDS = 3
IDLE = "idle"


@dataclass(frozen=True)
class Row:
    """One row of the table."""

    flood: str
    calls: int
    p50_ms: float
    p99_ms: float
    peak_rss: int
    # Calls of the bystander without a result.
    failed: int = 0
    # What the flood did: its answers by status or error code, and the connections that it held or lost.
    did: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True)
class Report:
    """All rows of a run. The first and the last one are without a flood."""

    rows: list[Row]
    machine: str

    @property
    def idle_p99_ms(self) -> float:
        return statistics.median(row.p99_ms for row in self.rows if row.flood == IDLE)

    def ratio(self, row: Row) -> float:
        return row.p99_ms / self.idle_p99_ms

    def wrong(self) -> list[str]:
        found = []
        for row in self.rows:
            if row.flood != IDLE and self.ratio(row) > RATIO_MAX:
                found.append(f"{row.flood}: p99 is {self.ratio(row):.1f} times the idle one (limit {RATIO_MAX})")
            if row.peak_rss > PEAK_MAX_BYTES:
                found.append(f"{row.flood}: memory reached {mib(row.peak_rss)} MiB (limit {mib(PEAK_MAX_BYTES)})")
            if row.failed:
                found.append(f"{row.flood}: {row.failed} calls of the bystander failed")
            if row.calls < CALLS_MIN:
                found.append(f"{row.flood}: only {row.calls} calls in {ROW_MAX_SECONDS} s, too few for a p99")
            if row.flood != IDLE and not sum(row.did.values()):
                found.append(f"{row.flood}: nothing was flooded")
        return found

    def table(self) -> str:
        lines = [
            self.machine,
            "",
            f"{'flood':<18}{'requests':>9}{'calls':>8}{'p50 ms':>9}{'p99 ms':>9}{'ratio':>7}{'peak MiB':>10}",
        ]
        for row in self.rows:
            did = str(sum(row.did.values())) if row.flood != IDLE else "-"
            ratio = f"{self.ratio(row):.1f}" if row.flood != IDLE else "-"
            figures = f"{did:>9}{row.calls:>8}{row.p50_ms:>9.2f}{row.p99_ms:>9.2f}{ratio:>7}{mib(row.peak_rss):>10}"
            lines.append(f"{row.flood:<18}{figures}")
        return "\n".join(lines)

    def json(self) -> dict[str, Any]:
        rows = [{**asdict(row), "ratio": None if row.flood == IDLE else self.ratio(row)} for row in self.rows]
        return {"machine": self.machine, "idle_p99_ms": self.idle_p99_ms, "rows": rows, "wrong": self.wrong()}


class Bystander:
    """An agent that makes one read call after the other on one connection."""

    def __init__(self, target: Target) -> None:
        self.target = target
        self.content = target.call("shared:echo", word="bystander")
        self.socket = connect(target.address)
        self.failed = 0

    def call(self) -> float:
        """Returns the milliseconds that the call took."""
        began = time.perf_counter()
        try:
            self.socket.sendall(self.content)
            received = bytearray()
            while (found := response(received)) is None:
                got = self.socket.recv(READ_BYTES)
                if not got:
                    raise ConnectionResetError
                received += got
            is_success = found.status == 200 and b"bystander" in found.text and b'"isError":true' not in found.text
        except OSError:
            self.socket.close()
            self.socket = connect(self.target.address)
            is_success = False
        self.failed += not is_success
        return (time.perf_counter() - began) * 1000

    def calls(self, seconds: float) -> list[float]:
        """Calls for so many seconds, or longer if that is too short for a percentile."""
        began = time.monotonic()
        taken: list[float] = []
        while (passed := time.monotonic() - began) < ROW_MAX_SECONDS:
            if passed >= seconds and len(taken) >= CALLS_MIN:
                break
            taken.append(self.call())
        return taken


class Fairness:
    """One gateway, a bystander, and an agent that floods."""

    def __init__(self, folder: Path, seconds: float) -> None:
        self.seconds = seconds
        quick = {"command": peers.PYTHON, "args": [str(HERE / "quick_server.py")]}
        servers = {"shared": quick, "elsewhere": quick, **{kind: hostile() for kind in KINDS}}
        self.gateway = Gateway(folder, {"mcpServers": servers})

    def run(self, names: list[str]) -> Report:
        with self.gateway:
            self.gateway.connected()
            set_up_plainly(self.gateway, "ada")
            target, bystander = self.target("hostile"), Bystander(self.target("bystander"))
            for _ in range(WARM_UP_CALLS):
                bystander.call()
            load = os.getloadavg()[0]
            rows = [self.row(IDLE, bystander)]
            for name in names:
                with flooding(name, target) as running:
                    time.sleep(BEGIN_SECONDS)
                    row = self.row(name, bystander)
                rows.append(replace(row, did=dict(running.counted)))
                time.sleep(SETTLE_SECONDS)
            rows.append(self.row(IDLE, bystander))
        machine = f"{os.cpu_count()} cores, load average {load:.1f} at first and {os.getloadavg()[0]:.1f} at last"
        return Report(rows, f"{machine}; floods have nice {NICENESS}")

    def target(self, name: str) -> Target:
        token = self.gateway.run("token", "create", name, "--grant", "*").stdout.strip()
        assert token, name
        return Target(self.gateway.address, token)

    def row(self, flood: str, bystander: Bystander) -> Row:
        print(f"floods: {flood}", file=sys.stderr, flush=True)
        assert self.gateway.child is not None
        process = Path(f"/proc/{self.gateway.child.pid}")
        # Resets the peak.
        process.joinpath("clear_refs").write_text("5")
        bystander.failed = 0
        with without_garbage_collection():
            taken = bystander.calls(self.seconds)
        return Row(flood, len(taken), percentile(taken, 50), percentile(taken, 99), peak(process), bystander.failed)


def hostile() -> dict[str, Any]:
    """A server that floods on demand. It is a load generator, and gets the priority of one."""
    nice = shutil.which("nice")
    assert nice
    server = peers.misbehaving("--floods")
    return {**server, "command": nice, "args": ["-n", str(NICENESS), server["command"], *server["args"]]}


@contextlib.contextmanager
def without_garbage_collection() -> Iterator[None]:
    gc.disable()
    try:
        yield
    finally:
        gc.enable()


def percentile(values: list[float], percent: int) -> float:
    return sorted(values)[max(0, math.ceil(len(values) * percent / 100) - 1)]


def peak(process: Path) -> int:
    (line,) = (one for one in process.joinpath("status").read_text().splitlines() if one.startswith("VmHWM:"))
    return int(line.split()[1]) * 1024


def mib(count: int) -> int:
    return round(count / 2**20)


def main() -> int:
    options = argparse.ArgumentParser(description="Measures what a flood does to the calls of another agent.")
    options.add_argument("seconds", type=float, nargs="?", default=10, help="for each row (default: 10)")
    options.add_argument("--only", help=f"floods, with commas between them: {', '.join(FLOODS)}")
    options.add_argument("--check", action="store_true", help="exit with 1 if a flood does too much")
    options.add_argument("-o", "--output", choices=["table", "json"], default="table")
    given = options.parse_args()
    names = given.only.split(",") if given.only else list(FLOODS)
    unknown = [name for name in names if name not in FLOODS]
    if unknown:
        options.error(f"unknown flood: {', '.join(unknown)}")
    # Without this, a run that is stopped would leave its gateway behind.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    with tempfile.TemporaryDirectory(prefix="mcpproxy-floods-") as folder:
        report = Fairness(Path(folder) / "home", given.seconds).run(names)
    print(json.dumps(report.json(), indent=2) if given.output == "json" else report.table())
    wrong = report.wrong()
    for one in wrong:
        print(f"floods: {one}", file=sys.stderr)
    return 1 if given.check and wrong else 0


if __name__ == "__main__":
    sys.exit(main())
