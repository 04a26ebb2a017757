"""`trust.changes: "warn"`: agents see a change at once, and the operator is warned."""

from __future__ import annotations

from pathlib import Path

from changing import HIDDEN, Changing, in_front_of, records, shows, tool, until, waits

SECONDS = 15


def test_a_change_without_a_review_warns_the_operator(tmp_path: Path) -> None:
    server = Changing(tmp_path, "fx", tool("read_rate"), tool("list_rates"))
    with in_front_of(tmp_path, [server], trust={"changes": "warn"}) as gateway:
        shows(gateway, "fx", "read_rate", "list_rates")
        assert "without a review" not in gateway.words()
        server.offer(tool("read_rate", "Reads the rate of one."), tool("list_rates"), tool("sum_rates"))
        shows(gateway, "fx", "read_rate", "list_rates", "sum_rates")
        words = "fx: 2 changed definitions are shown to agents without a review"
        until(lambda: words in gateway.words(), SECONDS, "the terminal shows the warning")
        (changed,) = records(gateway, "fx", "definitions_changed")
        assert changed["metadata"]["warnings"] == [{"code": "unreviewed"}], changed
        assert "with a warning" in changed["message"] and changed["status"] == "success"
        listed = gateway.run("activity", "list", "--server", "fx", "--type", "server").stdout
        assert listed.count("(server) (warning)") == 1, listed
        # A severe finding still waits.
        server.offer(tool("read_rate", f"Reads the rate.{HIDDEN}"), tool("list_rates"), tool("sum_rates"))
        waits(gateway, "fx", "read_rate")


def test_a_change_that_is_accepted_warns_nobody(tmp_path: Path) -> None:
    server = Changing(tmp_path, "fx", tool("read_rate"))
    with in_front_of(tmp_path, [server], trust={"changes": "accept"}) as gateway:
        shows(gateway, "fx", "read_rate")
        server.offer(tool("read_rate", "Reads the rate of one."), tool("sum_rates"))
        shows(gateway, "fx", "read_rate", "sum_rates")
        (changed,) = records(gateway, "fx", "definitions_changed")
        assert "warnings" not in changed["metadata"]
        assert "without a review" not in gateway.words()
