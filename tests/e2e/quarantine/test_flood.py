"""A server that changes its tools with every list floods neither the log nor the reviewer."""

from __future__ import annotations

from pathlib import Path

from changing import Changing, agent, call, code, in_front_of, is_out_of_reach, records, shows, tool, until, waiting

LISTS = 40
# The gateway stores at most one version a second at first, and then fewer and fewer.
RECORDS_MAX = 8


def test_one_entry_and_a_count(tmp_path: Path) -> None:
    restless, calm = Changing(tmp_path, "restless", tool("spin_wheel")), Changing(tmp_path, "calm", tool("hold_still"))
    lists = Path(f"{restless.path}.lists")
    with in_front_of(tmp_path, [restless, calm]) as gateway:
        shows(gateway, "restless", "spin_wheel")
        restless.offer(tool("spin_wheel"), restless=True)
        shows(gateway, "restless")

        def many() -> bool:
            assert code(call(agent(gateway), "calm", "hold_still")) == "ok"
            return lists.exists() and len(lists.read_text()) >= LISTS and waiting(gateway, "restless")["spin_wheel"]["times"] > 1

        until(many, 30, f"{LISTS} lists")
        (entry,) = waiting(gateway, "restless").values()
        assert 1 < entry["times"] < LISTS
        assert len(records(gateway, "restless")) <= RECORDS_MAX
        is_out_of_reach(gateway, restless, "spin_wheel")
        assert gateway.words().count("servers review restless") <= RECORDS_MAX
        # It calms down, and what was accepted works again.
        restless.offer(tool("spin_wheel"))
        shows(gateway, "restless", "spin_wheel")
