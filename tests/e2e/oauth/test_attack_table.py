"""The table of attacks in `tests/README.md` names tests that exist."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


def test_every_attack_has_tests_that_exist() -> None:
    section = (ROOT / "tests/README.md").read_text().partition("### Attacks on OAuth")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| (.+) \| (`.+`) \|$", section, re.MULTILINE)
    assert len(rows) > 20, rows
    python = "".join(file.read_text() for file in (ROOT / "tests/e2e").rglob("test_*.py"))
    rust = "".join(file.read_text() for crate in ("identity", "gateway") for file in (ROOT / f"crates/mcpproxy-{crate}").rglob("*.rs"))
    for attack, names in rows:
        for name in re.findall(r"`(\w+)`", names):
            text, pattern = (python, rf"^def {name}\(") if name.startswith("test_") else (rust, rf"^ *(?:async )?fn {name}\(\)")
            assert re.search(pattern, text, re.MULTILINE), f"{attack}: {name}"
