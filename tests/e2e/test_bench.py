"""The benchmark: every path and setup gets its calls answered."""

from __future__ import annotations

import json
import re
import subprocess

import peers
import pytest

# It starts many gateways, one after the other.
pytestmark = pytest.mark.timeout(400)


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


def test_compares_the_tokens_of_agents() -> None:
    command = [peers.BUILD / "bench", "tokens", "--token-bytes=2000", "--rounds=2", "--seconds=0.2"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    lengths = [int(found) for found in re.findall(r"^(?:the gateway|a provider).*?\s+(\d+)\s+\d+\s", done.stdout, re.M)]
    assert len(lengths) == 3 and lengths[0] == lengths[2] and abs(lengths[1] - 2000) < 20, done.stdout
    assert re.search(r"a call with a token of a provider takes -?\d+\.\d µs more", done.stdout), done.stdout


def test_measures_the_encoder() -> None:
    command = [peers.BUILD / "bench", "encoder", "--tools=60", "--seconds=0.3"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("60 tools encoded in "), done.stdout
    rows = {line[:18].strip(): [float(cell) for cell in line[18:].split()] for line in done.stdout.splitlines()[3:5]}
    assert set(rows) == {"with encoder", "without"} and all(min(row) > 0 for row in rows.values()), done.stdout
    calls = re.findall(r"^(?:while encoding|afterwards) +[\d.]+ +[\d.]+ +(\d+)$", done.stdout, re.M)
    assert len(calls) == 2 and all(int(each) > 0 for each in calls), done.stdout
