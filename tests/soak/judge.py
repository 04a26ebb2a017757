"""Judges what a soak run measured: memory that grows, and descriptors, threads or zombies that pile up."""

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


@dataclass(frozen=True)
class Sample:
    """The state of the gateway's process at one moment."""

    seconds: float
    rss: int
    fds: int
    threads: int
    zombies: frozenset[int] = frozenset()


def verdict(samples: list[Sample]) -> list[str]:
    """Returns what is wrong, in words. Empty if nothing is."""
    warm = [one for one in samples if one.seconds >= samples[-1].seconds * WARM_UP_SHARE]
    if len(warm) < 8:
        return [f"only {len(warm)} samples after the warm-up; run for longer"]
    found = [rss_growth(warm)]
    found += [piling(warm, "file descriptors", "fds", SPARE_FDS), piling(warm, "threads", "threads", SPARE_THREADS)]
    found.append(zombies(samples))
    return [one for one in found if one]


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
