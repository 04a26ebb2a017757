"""After `connect --permissions`, an agent without a terminal finds tools and reads unasked, and changes nothing."""

from __future__ import annotations

import re
from pathlib import Path

import script
from agents import Agent
from desk import Desk
from fleet import every_agent


@every_agent
def test_reads_run_and_changes_do_not(agent: Agent, tmp_path: Path) -> None:
    search, read, write, destructive = script.search(), script.read(), script.write(), script.critical_destructive()
    desk = Desk(agent, tmp_path, search, read, write, destructive)
    with desk.model, desk.gateway:
        desk.settle()
        before = desk.files()
        desk.connect("--permissions")
        connected = desk.files()
        with desk.run() as run:
            run.finish()
            assert search.result and "demo:delete_user" in search.result, run.words()
            assert read.result and "Website relaunch" in read.result, run.words()
            assert refused(write.result, agent.refuses_write), run.words()
            assert refused(destructive.result, agent.refuses_destructive), run.words()
            assert desk.model.is_done == (agent.refuses_write is not None), run.words()
        desk.checks(("list_projects", {}))
        assert desk.decisions() == []
        projects = desk.projects()
        assert "u_max" in projects and script.NOTE["title"] not in projects
        used = desk.files()
        desk.connect("--undo")
        after = desk.files()
        for name in connected:
            if used[name] == connected[name]:
                assert after.get(name) == before.get(name), f"{name} is not as before"
            else:
                # The agent keeps its own state in this file, which must survive.
                assert b"mcpproxy" not in after[name], after[name]


def refused(result: str | None, pattern: str | None) -> bool:
    """Returns true if the model got the client's own refusal or, for `None`, if the run ended before it."""
    if pattern is None or result is None:
        return pattern is result
    return re.search(pattern, result) is not None
