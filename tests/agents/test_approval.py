"""A user approves a critical call on the web page while the gateway holds it, and it runs in the same turn."""

from __future__ import annotations

from pathlib import Path

import script
from agents import Agent
from desk import Approver, Desk
from fleet import every_agent

CRITICAL = {"write": ("bulk_export", script.critical_write), "destructive": ("delete_user", script.critical_destructive)}


@every_agent
def test_a_critical_call_runs_in_the_same_turn(agent: Agent, tmp_path: Path) -> None:
    calls = [CRITICAL[variant] for variant in agent.open_variants]
    steps = [step() for _, step in calls]
    desk = Desk(agent, tmp_path, *steps)
    with desk.model, desk.gateway:
        desk.settle(is_open=True)
        desk.connect()
        user = Approver(desk.gateway)
        with desk.run(*agent.open_options) as run:
            for number, (tool, _) in enumerate(calls):
                request = user.sees_request(run)
                assert (request["agent"], request["tool"]) == (agent.name, f"demo:{tool}"), request
                assert len(desk.ran()) == number, "the call waits for the user"
                user.approves(request)
            run.finish()
            for step in steps:
                assert step.result and "confirmation_required" not in step.result, run.words()
            assert desk.model.is_done, run.words()
        desk.checks(*[(tool, step.args["args"]) for (tool, _), step in zip(calls, steps, strict=True)])
        assert user.pending() == []
        steps_of = ("approval_requested", "approval_approved")
        assert desk.decisions() == [(tool, code) for tool, _ in calls for code in steps_of]
        assert ("u_max" in desk.projects()) == ("destructive" not in agent.open_variants)
