"""`mcpproxy tools scan`: what scripts and CI rely on."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
from changing import HIDDEN, Changing, Gateway, in_front_of, shows, tool

CLEAN = tool("read_news", "Reads the news of a day.")
BAD = tool("read_mail", f"Reads the mail of a day.{HIDDEN}")
FINDING = {"rule", "severity", "where", "reason"}


def scan(folder: Path, content: str, *words: str, suffix: str = "json") -> subprocess.CompletedProcess[str]:
    file = folder / f"tools.{suffix}"
    file.write_text(content)
    home = folder / "home"
    home.mkdir(exist_ok=True)
    command = [peers.MCPPROXY, "tools", "scan", "--file", str(file), "--home", str(home), *words]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, env=Gateway(home).environment())


@pytest.mark.parametrize("wrap", [lambda tools: tools, lambda tools: {"tools": tools}], ids=["list", "result"])
def test_the_json_of_a_file(tmp_path: Path, wrap: Any) -> None:
    """No gateway is needed."""
    done = scan(tmp_path, json.dumps(wrap([CLEAN, BAD])), "-o", "json")
    assert done.returncode == 1, done
    clean, bad = json.loads(done.stdout)
    assert (clean["tool"], clean["findings"]) == ("read_news", [])
    assert bad["tool"] == "read_mail" and bad["findings"]
    for finding in bad["findings"]:
        assert set(finding) == FINDING and all(isinstance(value, str) and value for value in finding.values())
        assert finding["severity"] in ("low", "medium", "high")
    severe = [one for one in bad["findings"] if one["severity"] == "high"]
    assert severe and "description" in severe[0]["where"]


def test_a_clean_file(tmp_path: Path) -> None:
    done = scan(tmp_path, json.dumps([CLEAN]), "-o", "json")
    assert (done.returncode, json.loads(done.stdout)) == (0, [{"tool": "read_news", "findings": []}])


def test_a_person_reads_it(tmp_path: Path) -> None:
    done = scan(tmp_path, json.dumps([CLEAN, {**BAD, "description": BAD["description"] + " \x1b[31m\u202e"}]))
    assert done.returncode == 1 and "read_mail" in done.stdout and "high" in done.stdout, done
    hidden = [letter for letter in done.stdout if letter in "\x1b\u202e" or 0xE0000 <= ord(letter) <= 0xE007F]
    assert hidden == [], "text of servers is shown with escapes"


@pytest.mark.parametrize("content", ["", "{", "7", '{"tool": []}', '[{"title": "x"}]', "[7]"])
def test_a_file_that_has_no_tools(tmp_path: Path, content: str) -> None:
    done = scan(tmp_path, content, "-o", "json")
    assert done.returncode not in (0, 1, 101), done
    assert done.stdout == "" and "tools.json" in done.stderr, done


def test_a_file_that_does_not_exist(tmp_path: Path) -> None:
    command = [peers.MCPPROXY, "tools", "scan", "--file", str(tmp_path / "none.json"), "--home", str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, env=Gateway(tmp_path).environment())
    assert done.returncode not in (0, 1, 101) and "none.json" in done.stderr, done


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("scan")
    servers = [Changing(folder, "clean", CLEAN), Changing(folder, "dirty", BAD)]
    with in_front_of(folder, servers) as one:
        shows(one, "clean", "read_news")
        yield one


def test_servers_are_scanned_with_what_waits(gateway: Gateway) -> None:
    def found(*words: str) -> tuple[int, set[str]]:
        done = gateway.run("tools", "scan", *words, "-o", "json")
        return done.returncode, {one["tool"] for one in json.loads(done.stdout) if one["findings"]}

    code, tools = found()
    assert code == 1 and any("read_mail" in one for one in tools) and not any("read_news" in one for one in tools)
    code, tools = found("dirty")
    assert code == 1 and any("read_mail" in one for one in tools)
    assert found("clean") == (0, set())
    unknown = gateway.run("tools", "scan", "nothing", "-o", "json")
    assert unknown.returncode not in (0, 1, 101) and "nothing" in unknown.stderr, unknown
