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
