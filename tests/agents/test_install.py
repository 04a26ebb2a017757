"""Every agent is installed in the pinned version. A missing agent fails here, and is never skipped."""

from __future__ import annotations

import json
import os

import pytest

from agents import AGENTS, MODULES, Agent

PINNED = json.loads((MODULES.parent / "package.json").read_text())["dependencies"]


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_the_pinned_version_is_installed(agent: Agent) -> None:
    program = agent.command()
    assert os.access(program[0], os.X_OK), program
    installed = json.loads((MODULES / agent.package / "package.json").read_text())["version"]
    assert installed == PINNED[agent.package]


def test_every_pinned_package_is_tested() -> None:
    assert sorted(PINNED) == sorted(agent.package for agent in AGENTS)
