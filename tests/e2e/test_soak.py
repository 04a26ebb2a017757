"""The judgement of a soak run on measurements that are made up, and a short run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SOAK = Path(__file__).resolve().parents[1] / "soak"
sys.path.insert(0, str(SOAK))

from judge import Sample, verdict  # noqa: E402

MIB = 2**20


def run(rss: float = 0, fds: float = 0, threads: float = 0, zombies: frozenset[int] = frozenset()) -> list[str]:
    """Judges half an hour in which everything grows by so much an hour, beside ups and downs of a tenth of a MiB."""

    def at(turn: int) -> Sample:
        hours = turn * 5 / 3600
        noise = (turn * 7 % 11 - 5) / 50
        return Sample(turn * 5, int((80 + rss * hours + noise) * MIB), int(60 + fds * hours), int(12 + threads * hours), zombies)

    found = verdict([at(turn) for turn in range(360)])
    assert not found.unjudged, found.unjudged
    return found.wrong


def test_a_steady_gateway_passes() -> None:
    assert run() == []
    assert run(rss=0.5) == [], "below a percent an hour"
    assert run(rss=-10, fds=-10) == []


def test_each_leak_is_named() -> None:
    assert run(rss=4)[0].startswith("memory grows by"), run(rss=4)
    assert run(fds=200)[0].startswith("file descriptors"), run(fds=200)
    assert run(threads=60)[0].startswith("threads"), run(threads=60)
    assert run(zombies=frozenset({7})) == ["1 ended processes were never waited for"]


def test_a_peak_is_named_in_a_run_of_any_length() -> None:
    found = verdict([Sample(0, MIB, 9, 9), Sample(5, MIB, 9, 9, peak=601 * MIB)])
    assert found.wrong == ["memory reached 601 MiB (limit 600)"]


def test_a_run_that_is_too_short_proves_nothing() -> None:
    found = verdict([Sample(0, MIB, 9, 9), Sample(5, MIB, 9, 9)])
    assert not found.wrong and "run for longer" in found.unjudged[0]
    assert str(found) == "passed, but too short to judge everything"
    assert not verdict([]).wrong


def test_a_few_minutes_show_everything_but_slow_growth() -> None:
    def minutes(rss: float, fds: int) -> list[Sample]:
        return [Sample(turn * 5, int((80 + rss * turn) * MIB), 60 + fds * turn, 12) for turn in range(48)]

    steady = verdict(minutes(rss=0.1, fds=0))
    assert not steady.wrong and steady.unjudged[0].startswith("growth of memory"), steady
    assert verdict(minutes(rss=0, fds=1)).wrong[0].startswith("file descriptors")


def test_a_short_run_passes() -> None:
    """Every part of the load and every flood runs, so that a long run does not fail at its first step."""
    command = [sys.executable, str(SOAK / "soak.py"), "0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "too short to judge everything" in done.stdout, done.stdout
