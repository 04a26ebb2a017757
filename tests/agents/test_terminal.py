"""In a terminal, agents ask their user before each change, and the gateway asks an approver before a critical one."""

from __future__ import annotations

from pathlib import Path

import pytest

import script
from agents import AGENTS, ENTER, Agent
from desk import Approver, Desk, until_shown


@pytest.mark.slow
@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_each_change_is_asked_for(agent: Agent, tmp_path: Path) -> None:
    write, destructive = script.write(), script.critical_destructive()
    dialog = agent.dialog
    desk = Desk(agent, tmp_path, write, destructive)
    with desk.model, desk.gateway:
        desk.settle()
        desk.connect("--permissions")
        user = Approver(desk.gateway)
        with desk.open_terminal() as terminal:
            until_shown(lambda: terminal.shows(dialog.before_write), "the prompt before a write", terminal)
            assert desk.ran() == []
            terminal.press(ENTER)
            until_shown(
                lambda: terminal.shows(dialog.before_destructive), "the prompt before a destructive call", terminal
            )
            assert [tool for tool, _ in desk.ran()] == ["create_note"]
            assert user.pending() == []
            terminal.press(ENTER)
            request = user.sees_request(terminal)
            if dialog.shows_link:
                until_shown(lambda: terminal.shows(request["id"]), "the link to the approval request", terminal)
            assert [tool for tool, _ in desk.ran()] == ["create_note"], "the call waits for the approver"
            assert terminal.shows(request["id"]) == dialog.shows_link, terminal.words()
            user.approves(request)
            for pattern, keys in dialog.after_approval:
                until_shown(lambda: terminal.shows(pattern), f"{pattern!r} after the approval", terminal)
                until_shown(lambda: terminal.has_left(pattern, keys), f"{pattern!r} is answered", terminal)
            until_shown(lambda: desk.model.is_done, "the end of the script", terminal)
            assert destructive.result and "deletedUserId" in destructive.result, destructive.result
        desk.checks(("create_note", script.NOTE), ("delete_user", script.MAX))
        assert desk.decisions() == [("delete_user", "approval_requested"), ("delete_user", "approval_approved")]
        assert "u_max" not in desk.projects()
