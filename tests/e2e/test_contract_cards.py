"""The example card and the risk levels of the contract standard, compared with the demo server."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

import peers
from gateway import Gateway

DATA = peers.ROOT / "crates" / "mcpproxy-core" / "tests" / "data"
CARD: dict[str, Any] = json.loads((DATA / "contract_card.json").read_text())
# The gateway gives these codes by itself, so no server declares them.
OF_GATEWAY = {"permission_denied", "confirmation_required"}


@pytest.fixture
def card(tmp_path: Path) -> str:
    """The card that the gateway writes for the same tool, without escapes."""
    with Gateway(tmp_path / "home", {"mcpServers": {"demo": {"type": "demo"}}}) as gateway:
        gateway.connected()
        done = gateway.run("contract", "docs", "--to", str(tmp_path / "cards"))
        assert done.returncode == 0, done.stderr
    page = (tmp_path / "cards" / "demo.md").read_text().replace("\\", "")
    return page.split(f"\n## {CARD['name']}\n")[1].split("\n## ")[0]


def section(card: str, heading: str) -> list[str]:
    return re.findall(r"^- (.*)$", card.split(f"\n### {heading}\n")[1].split("\n### ")[0], re.M)


def test_the_card_of_the_standard(card: str) -> None:
    assert card.startswith(f"\n**{CARD['level']}**\n\n{CARD['description']}\n"), card
    rows = dict(re.findall(r"^\| (.+?) \| (.+) \|$", card, re.M))
    assert rows["Category"] == CARD["category"]
    assert rows["Autonomous execution"] == CARD["autonomous_execution"]
    assert rows["Confirmation"] == CARD["confirmation"]
    assert rows["Step-up auth"] == "optional, depending on to, attachments"
    assert rows["Audit event"] == CARD["audit_event"]
    names = [line.partition(":")[0] for line in section(card, "Input schema")]
    assert names == [line.partition(":")[0] for line in CARD["input_schema"]], "the same order, the same optional ones"
    assert section(card, "Output schema") == CARD["output_schema"]
    assert section(card, "Permissions") == CARD["permissions"]
    assert set(CARD["failure_modes"]) - OF_GATEWAY <= set(section(card, "Failure modes"))
    assert section(card, "Side effects")[: len(CARD["side_effects"])] == CARD["side_effects"]


def test_the_demo_has_the_levels_of_the_standard(tmp_path: Path) -> None:
    lines = [line for line in (DATA / "risk_levels.txt").read_text().splitlines() if not line.startswith("#")]
    expected = {name: level for level, name in (line.split(" ") for line in lines)}
    with Gateway(tmp_path / "home", {"mcpServers": {"demo": {"type": "demo"}}}) as gateway:
        gateway.connected()
        tools = gateway.admin("/contracts")["tools"]
    found = {tool["name"].removeprefix("demo:"): tool["risk_level"] for tool in tools}
    assert {name: found.get(name) for name in expected} == expected
