"""Parametrizes a test over the agents. `scripts/test` runs the quick ones, `scripts/test-agents` runs all."""

from __future__ import annotations

import pytest

from agents import AGENTS, CLAUDE_CODE, CODEX, GEMINI

QUICK = (CLAUDE_CODE, CODEX, GEMINI)

every_agent = pytest.mark.parametrize(
    "agent",
    [pytest.param(agent, id=agent.name, marks=[] if agent in QUICK else [pytest.mark.slow]) for agent in AGENTS],
)
