"""Judges what a soak run measured: memory that grows, and descriptors, threads or zombies that pile up.

A short run cannot show everything. What it cannot show is neither right nor wrong, and the verdict names it.
"""

from __future__ import annotations

import statistics
from dataclasses import dataclass

RSS_GROWTH_PER_HOUR = 0.01
# The first third of a run warms caches up. A connection more or less is no leak.
WARM_UP_SHARE = 1 / 3
SPARE_FDS = 8
SPARE_THREADS = 3
# A process is a zombie until the gateway has noticed its end.
ZOMBIE_SAMPLES = 3
POINTS_MAX = 300
SAMPLES_MIN = 8
# In less time, the ups and downs of a flood are larger than a leak of a percent per hour.
GROWTH_MIN_MINUTES = 15
# No agent, stranger or server may use more of the machine.
PEAK_MAX_BYTES = 600 * 2**20


@dataclass(frozen=True)
class Sample:
    """The state of the gateway's process at one moment."""

    seconds: float
    rss: int
    fds: int
    threads: int
    zombies: frozenset[int] = frozenset()
    # The most memory so far.
    peak: int = 0


@dataclass(frozen=True)
class Verdict:
    """What is wrong, and what the run was too short to show. Both in words."""

    wrong: list[str]
    unjudged: list[str]

    def __str__(self) -> str:
        if self.wrong:
            return "failed"
        if self.unjudged:
            return "passed, but too short to judge everything"
        return "nothing leaked, and every call is recorded"


def verdict(samples: list[Sample]) -> Verdict:
    last = samples[-1].seconds if samples else 0
    warm = [one for one in samples if one.seconds >= last * WARM_UP_SHARE]
    found, unjudged = [peak(samples), zombies(samples)], []
    if len(warm) < SAMPLES_MIN:
        unjudged.append(f"leaks: only {len(warm)} samples after the warm-up; run for longer")
    else:
        found += [piling(warm, "file descriptors", "fds", SPARE_FDS), piling(warm, "threads", "threads", SPARE_THREADS)]
        if round(last / 60) >= GROWTH_MIN_MINUTES:
            found.append(rss_growth(warm))
        else:
            unjudged.append(
                f"growth of memory, from {warm[0].rss / 2**20:.1f} to {warm[-1].rss / 2**20:.1f} MiB; "
                f"run for {GROWTH_MIN_MINUTES} minutes or more"
            )
    return Verdict([one for one in found if one], unjudged)


def peak(samples: list[Sample]) -> str | None:
    most = max((max(one.peak, one.rss) for one in samples), default=0)
    if most <= PEAK_MAX_BYTES:
        return None
    return f"memory reached {most / 2**20:.0f} MiB (limit {PEAK_MAX_BYTES / 2**20:.0f})"


def rss_growth(samples: list[Sample]) -> str | None:
    """Compares the slope of the memory with the limit. Growth that is smaller than the usual ups and downs is none."""
    points = samples[:: max(1, len(samples) // POINTS_MAX)]
    # The median of all slopes between two points. A few peaks do not move it, as they would move a mean.
    slopes = [
        (later.rss - one.rss) / (later.seconds - one.seconds)
        for at, one in enumerate(points)
        for later in points[at + 1 :]
        if later.seconds > one.seconds
    ]
    slope = statistics.median(slopes)
    level = statistics.median(one.rss for one in points)
    per_hour = slope * 3600 / level
    rest = [one.rss - slope * (one.seconds - points[0].seconds) for one in points]
    middle = statistics.median(rest)
    noise = statistics.median(abs(one - middle) for one in rest)
    grown = slope * (points[-1].seconds - points[0].seconds)
    if per_hour <= RSS_GROWTH_PER_HOUR or grown <= 2 * noise:
        return None
    return f"memory grows by {per_hour:.1%} per hour (limit {RSS_GROWTH_PER_HOUR:.0%}), from {level / 2**20:.1f} MiB"


def piling(samples: list[Sample], what: str, name: str, spare: int) -> str | None:
    quarter = max(1, len(samples) // 4)
    first = statistics.median(getattr(one, name) for one in samples[:quarter])
    last = statistics.median(getattr(one, name) for one in samples[-quarter:])
    return f"{what}: {first:.0f} at first, {last:.0f} at last" if last > first + spare else None


def zombies(samples: list[Sample]) -> str | None:
    windows = zip(*(samples[at:] for at in range(ZOMBIE_SAMPLES)))
    stay = set().union(*(frozenset.intersection(*(one.zombies for one in window)) for window in windows))
    return f"{len(stay)} ended processes were never waited for" if stay else None
