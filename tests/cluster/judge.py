"""Compares what agents were told about their calls with what servers and the activity log know."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field

# The numbers of calls that single checks make. Those of the load are below.
OTHERS_FROM = 1_000_000
SHOWN = 10


@dataclass
class Told:
    """The numbers of calls, by what their agents were told."""

    succeeded: set[int] = field(default_factory=set)
    refused: set[int] = field(default_factory=set)
    unknown: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.succeeded) + len(self.refused) + len(self.unknown)


def differences(name: str, told: Told, arrived: Counter[int]) -> list[str]:
    """Compares the answers with a server's own ledger: nothing lost, nothing twice, nothing after a refusal."""
    load = {number for number in arrived if number < OTHERS_FROM}
    findings = {
        "ran twice": {number for number, times in arrived.items() if times > 1},
        "succeeded and never arrived": told.succeeded - load,
        "were refused and arrived": told.refused & load,
        "arrived and nobody made them": load - told.succeeded - told.refused - told.unknown,
    }
    return said(name, findings)


def log_differences(told: Told, arrived: Counter[int], statuses: dict[int, str]) -> list[str]:
    """Compares answers and ledger with the log. `statuses` has the status of each call's record."""
    load = {number for number in arrived if number < OTHERS_FROM}
    findings = {
        "arrived and have no record": load - set(statuses),
        "succeeded and have no record": told.succeeded - set(statuses),
        "succeeded, and their record says otherwise": {
            number for number in told.succeeded & set(statuses) if statuses[number] != "success"
        },
        "were refused, and their record says that they succeeded": {
            number for number in told.refused & set(statuses) if statuses[number] == "success"
        },
    }
    return said("in the log", findings)


def said(name: str, findings: dict[str, set[int]]) -> list[str]:
    return [f"{len(found)} calls {name} {what}: {sorted(found)[:SHOWN]}" for what, found in findings.items() if found]
