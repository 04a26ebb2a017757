"""The judgement of a run of `scripts/cluster-test`, on answers and ledgers that are made up."""

from __future__ import annotations

import importlib.util
import sys
from collections import Counter

import peers

# Loaded by its path, because tests/soak has a module of the same name.
_spec = importlib.util.spec_from_file_location("cluster_judge", peers.ROOT / "tests" / "cluster" / "judge.py")
assert _spec and _spec.loader
judge = importlib.util.module_from_spec(_spec)
sys.modules["cluster_judge"] = judge
_spec.loader.exec_module(judge)

TOLD = judge.Told(succeeded={1, 2}, refused={3}, unknown={4, 5})


def test_answers_that_fit_the_ledger_pass() -> None:
    for arrived in ([1, 2], [1, 2, 4], [1, 2, 4, 5], [1, 2, judge.OTHERS_FROM]):
        assert judge.differences("plain", TOLD, Counter(arrived)) == []


def test_each_difference_is_named() -> None:
    def check(arrived: list[int], expected: str) -> None:
        assert judge.differences("plain", TOLD, Counter(arrived)) == [expected]

    check([1, 2, 2], "1 calls plain ran twice: [2]")
    check([1, 2, 4, 4], "1 calls plain ran twice: [4]")
    check([1], "1 calls plain succeeded and never arrived: [2]")
    check([1, 2, 3], "1 calls plain were refused and arrived: [3]")
    check([1, 2, 9], "1 calls plain arrived and nobody made them: [9]")


def test_each_difference_to_the_log_is_named() -> None:
    def check(statuses: dict[int, str], *expected: str) -> None:
        arrived = Counter([1, 2, 4])
        found = judge.log_differences(TOLD, arrived, statuses)
        assert found == [f"1 calls in the log {one}" for one in expected]

    good = {1: "success", 2: "success", 4: "interrupted"}
    check(good)
    check({1: "success", 2: "success"}, "arrived and have no record: [4]")
    check({**good, 2: "error"}, "succeeded, and their record says otherwise: [2]")
    check({**good, 3: "success"}, "were refused, and their record says that they succeeded: [3]")
