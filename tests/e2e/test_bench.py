"""The benchmark: every path and setup gets its calls answered."""

from __future__ import annotations

import json
import subprocess

import peers


def test_measures_every_setup_and_server() -> None:
    done = subprocess.run(
        [
            peers.BUILD / "bench",
            "--setups=plain,rules,postgres",
            "--servers=sessions,stdio",
            "--operations=read,write",
            "--paths=direct,mcp",
            "--seconds=0.1",
            "--rounds=1",
            "--output=json",
        ],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    rows = json.loads(done.stdout)["rows"]
    gateway = [row for row in rows if row["path"].startswith("mcpproxy")]
    assert len(gateway) == 12, rows
    assert all(row["calls_per_s"] > 0 for row in gateway), rows


def test_measures_pages_and_calls_while_they_are_open() -> None:
    command = [peers.BUILD / "bench", "pages", "--records=2000", "--viewers=3", "--seconds=0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    pages = [line.split()[0] for line in done.stdout.splitlines() if line.startswith("/ui/")]
    assert {page.partition("?")[0] for page in pages} == {
        "/ui/",
        "/ui/activity",
        "/ui/approvals",
        "/ui/tools",
        "/ui/servers",
        "/ui/agents",
        "/ui/settings",
    }
    assert done.stdout.count("calls/s") == 4, done.stdout
