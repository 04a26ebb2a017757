"""`connect` followed by `connect --undo` leaves every file of the agent byte for byte as it was."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from agents import AGENTS, Agent
from desk import Desk


@pytest.mark.parametrize("agent", AGENTS, ids=str)
def test_undo_restores_every_byte(agent: Agent, tmp_path: Path) -> None:
    desk = Desk(agent, tmp_path)
    with desk.model, desk.gateway:
        desk.settle()
        before = desk.files()
        for options in ((), ("--permissions",)):
            desk.connect(*options)
            assert any(b"Bearer mcp_" in text for text in desk.files().values()), f"connect {options} wrote no token"
            desk.connect("--undo")
            assert desk.files() == before, options

        # Undo also removes the files that `connect` created.
        shutil.rmtree(desk.home)
        desk.home.mkdir()
        desk.connect("--permissions")
        assert desk.files()
        desk.connect("--undo")
        assert desk.files() == {}
