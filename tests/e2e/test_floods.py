"""The judgement of `scripts/floods` on measurements that are made up, and a short run."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).resolve().parents[1] / "soak"
sys.path.insert(0, str(SOAK))

from fairness import CALLS_MIN, Report, Row, percentile  # noqa: E402

MIB = 2**20
DID = {"200": 7, "429": 2}
IDLE = Row("idle", CALLS_MIN, 0.5, 1.0, 90 * MIB)


def report(*rows: Row) -> Report:
    return Report([IDLE, *rows, Row("idle", CALLS_MIN, 0.5, 3.0, 90 * MIB)], "2 cores")


def test_a_flood_without_effect_passes() -> None:
    found = report(Row("sessions", CALLS_MIN, 1.0, 20.0, 600 * MIB, did=DID))
    assert found.idle_p99_ms == 2.0, "between both rows without a flood"
    assert found.wrong() == []


def test_each_effect_is_named() -> None:
    def wrong(calls: int = CALLS_MIN, p99: float = 2.0, peak: int = 90, failed: int = 0, did: dict[str, int] = DID) -> list[str]:
        return report(Row("sessions", calls, 0.5, p99, peak * MIB, failed, did)).wrong()

    assert wrong(p99=21) == ["sessions: p99 is 10.5 times the idle one (limit 10)"]
    assert wrong(peak=601) == ["sessions: memory reached 601 MiB (limit 600)"]
    assert wrong(failed=3) == ["sessions: 3 calls of the bystander failed"]
    assert wrong(calls=999) == ["sessions: only 999 calls in 60 s, too few for a p99"]
    assert wrong(did={}) == ["sessions: nothing was flooded"]


def test_percentiles_are_calls_that_were_made() -> None:
    values = [float(number) for number in range(1000, 0, -1)]
    assert (percentile(values, 50), percentile(values, 99), percentile([4.0], 99)) == (500, 990, 4)


def test_the_table() -> None:
    found = report(Row("large-arguments", 12345, 1234.567, 12345.6, 1234 * MIB, did=DID))
    assert found.table().splitlines() == [
        "2 cores",
        "",
        "flood              requests   calls   p50 ms   p99 ms  ratio  peak MiB",
        "idle                      -    1000     0.50     1.00      -        90",
        "large-arguments           9   12345  1234.57 12345.60 6172.8      1234",
        "idle                      -    1000     0.50     3.00      -        90",
    ]


def test_a_short_run() -> None:
    """Every part works. Its figures say nothing, because other tests run at the same time."""
    command = [sys.executable, str(SOAK / "fairness.py"), "1", "--only", "sessions,server-line", "-o", "json"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=170, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(done.stdout)
    assert [row["flood"] for row in found["rows"]] == ["idle", "sessions", "server-line", "idle"]
    for row in found["rows"]:
        assert row["calls"] >= CALLS_MIN and not row["failed"], row
        assert 0 < row["p50_ms"] <= row["p99_ms"] and row["peak_rss"] > MIB, row
    assert found["rows"][1]["did"].get("200"), "sessions were opened"
    assert set(found["rows"][2]["did"]) & {"result_too_large", "upstream_unavailable"}, "the server flooded"
