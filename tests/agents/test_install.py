"""Every agent is installed in the pinned version. A missing agent fails here, and is never skipped."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from agents import AGENTS, MODULES, Agent

PINNED = json.loads((MODULES.parent / "package.json").read_text())["dependencies"]


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_the_pinned_version_is_installed(agent: Agent, tmp_path: Path) -> None:
    done = subprocess.run(
        [*agent.command(), "--version"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=60,
        cwd=tmp_path,
        env=agent.environment(tmp_path, tmp_path, ""),
    )
    assert done.returncode == 0, done.stderr
    assert PINNED[agent.package] in done.stdout.split() + done.stderr.split(), done.stdout


def test_every_pinned_package_is_tested() -> None:
    assert sorted(PINNED) == sorted(agent.package for agent in AGENTS)
