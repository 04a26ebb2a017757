"""A user approves a critical call on the web page while the gateway holds it, and it runs in the same turn."""

from __future__ import annotations

import re
from pathlib import Path

import script
from agents import Agent
from desk import APPROVED, Approver, Desk
from fleet import every_agent

CRITICAL = {
    "write": ("bulk_export", script.critical_write),
    "destructive": ("delete_user", script.critical_destructive),
}


@every_agent
def test_a_critical_call_runs_in_the_same_turn(agent: Agent, tmp_path: Path) -> None:
    calls = {variant: (tool, step()) for variant, (tool, step) in CRITICAL.items()}
    held = [calls[variant] for variant in agent.open_variants]
    desk = Desk(agent, tmp_path, *[step for _, step in calls.values()])
    with desk.model, desk.gateway:
        desk.settle(is_open=True)
        desk.connect()
        user = Approver(desk.gateway)
        with desk.run(*agent.open_options) as run:
            for number, (tool, _) in enumerate(held):
                request = user.sees_request(run)
                assert (request["agent"], request["tool"]) == (agent.name, f"demo:{tool}"), request
                assert len(desk.ran()) == number, "the call waits for the user"
                user.approves(request, desk, run)
            run.finish()
            assert desk.model.is_done, run.words()
            for _, step in held:
                assert step.result and "confirmation_required" not in step.result, run.words()
            for variant, (_, step) in calls.items():
                if variant not in agent.open_variants:
                    assert agent.refuses_destructive and step.result, run.words()
                    assert re.search(agent.refuses_destructive, step.result), run.words()
        desk.checks(*[(tool, step.args["args"]) for tool, step in held])
        assert user.pending() == []
        assert desk.decisions() == [(tool, code) for tool, _ in held for code in APPROVED]
        assert ("u_max" in desk.projects()) == ("destructive" not in agent.open_variants)
