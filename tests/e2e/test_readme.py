"""The README, followed word for word: its commands are run as they stand there, and answer what it says."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

import peers
from gateway import Gateway, until

README = (peers.ROOT / "README.md").read_text()
REFERENCE = (peers.ROOT / "docs" / "contracts.md").read_text()
HOME = "/home/you"
SECONDS = 10
# What differs from one run to the next. Ids come before durations, which are shorter.
CHANGES = [
    r"01[0-9A-HJKMNP-TV-Z]{24}",
    r"01[0-9A-HJKMNP-TV-Z]{13}",
    r"localhost:\d+",
    r"[0-9a-f]{64}",
    r"[0-9a-f]{20}",
    r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
    r"\b\d+(?:\.\d+)?(?:µs|ms|s)\b",
]


def consoles(section: str) -> list[list[tuple[str, str]]]:
    """The console blocks of a section: each a list of commands and what they print."""
    (body,) = re.findall(rf"^#+ {re.escape(section)}\n(.*?)(?=^#+ |\Z)", README, re.M | re.S)
    blocks = re.findall(r"^```console\n(.*?)^```", body, re.M | re.S)
    assert blocks, section
    return [[read(command) for command in re.split(r"^\$ ", block, flags=re.M)[1:]] for block in blocks]


def read(command: str) -> tuple[str, str]:
    line, _, output = command.partition("\n")
    return line, output.strip("\n")


class Reader:
    """Somebody with a fresh home folder who types what the README says."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.gateway = Gateway(home / ".mcpproxy")
        self.gateway.environment = self.environment  # type: ignore[method-assign]
        self.known: dict[str, str] = {}

    def environment(self) -> dict[str, str]:
        path = f"{Path(peers.MCPPROXY).parent}:{os.environ['PATH']}"
        return {**Gateway.environment(self.gateway), "PATH": path, "HOME": str(self.home)}

    def types(self, command: str, expected: str) -> None:
        """Runs a command in a shell; the output must be the one given, but for what differs each time."""
        for ours, theirs in self.known.items():
            command = command.replace(ours, theirs)
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=30,
            cwd=self.home,
            env=self.environment(),
        )
        said = done.stdout.strip("\n").replace(str(self.home), HOME)
        assert pattern(expected).fullmatch(said + "\n"), f"$ {command}\n{said}\n--- the README says\n{expected}"
        # An id that the README goes on with is another one here.
        for ours, theirs in zip(ids(expected), ids(said), strict=False):
            self.known[ours] = theirs


    def is_impatient(self) -> bool:
        """Makes calls wait for a user for a second, not for most of a minute, as an edit of the settings would."""
        file = self.gateway.home / "mcp_config.json"
        settings = json.loads(file.read_text()) if file.exists() else {"mcpServers": {"demo": {"type": "demo"}}}
        self.gateway.write("mcp_config.json", json.dumps({**settings, "approvals": {"wait": "1s"}}))
        return True


def ids(text: str) -> list[str]:
    return re.findall(CHANGES[0], text)


def pattern(expected: str) -> re.Pattern[str]:
    """`…` stands for anything: alone on a line for any lines."""
    lines = []
    for line in expected.split("\n"):
        if line == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        pieces = re.split("|".join(f"(?:{change})" for change in CHANGES) + "|…", line)
        found = re.findall("|".join(f"(?:{change})" for change in CHANGES) + "|…", line)
        text = re.escape(pieces[0])
        for what, after in zip(found, pieces[1:], strict=True):
            text += (".*" if what == "…" else f"(?:{'|'.join(CHANGES)})") + re.escape(after)
        # Columns are as wide as what is in them.
        lines.append(re.sub(r"(?:\\ ){2,}", r" {2,}", text) + r"\n")
    return re.compile("".join(lines))


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


def test_five_commands_from_no_contract_to_a_refusal(reader: Reader) -> None:
    block = consoles("Contracts")[0]
    commands = [command for command, _ in block]
    assert len(commands) == 5 and commands[0] == "mcpproxy serve", commands
    # Somebody who types takes longer than the gateway needs to see a file.
    ready: list[Callable[[], object]] = [
        lambda: True,
        lambda: True,
        lambda: reader.gateway.servers().get("office", {}).get("state") == "ready",
        reader.is_impatient,
        lambda: risk(reader.gateway) == "critical",
    ]
    with reader.gateway:
        for (command, output), is_ready in list(zip(block, ready, strict=True))[1:]:
            until(is_ready, SECONDS, f"the gateway is ready for: {command}")
            reader.types(command, output)
        (refused,) = reader.gateway.records("--status", "refused")
        assert (refused["code"], refused["risk"]) == ("confirmation_required", "critical")
        # Without the file the same call works, so it was the contract that refused.
        (reader.home / ".mcpproxy" / "contracts" / "office.yaml").unlink()
        until(lambda: risk(reader.gateway) is None, SECONDS, "the contract is gone")
        reader.types(commands[-1], '{"deletedUserId":"u_ines",…}')


def risk(gateway: Gateway) -> str | None:
    return gateway.admin("/contracts/office/delete_user")["risk_level"]


def test_the_contract_below_them_is_one(reader: Reader) -> None:
    (example,) = re.findall(r"^```yaml\n(- tool: office.*?)^```", README, re.M | re.S)
    reader.gateway.write("contracts/office.yaml", example)
    reader.gateway.write_settings({"mcpServers": {}})
    done = reader.gateway.run("config", "check")
    assert done.returncode == 0, done


@pytest.mark.parametrize("sections", [["A first call", "An auditor follows one call"], ["The four tools"]], ids=str)
def test_what_the_other_commands_print(reader: Reader, sections: list[str]) -> None:
    reader.is_impatient()
    with reader.gateway:
        for section in sections:
            for block in consoles(section):
                for command, output in block:
                    if "/mnt/elsewhere" not in command:
                        reader.types(command, output)


def test_the_examples_of_the_reference(reader: Reader) -> None:
    contract, cases = re.findall(r"^```yaml\n(.*?)^```", REFERENCE, re.M | re.S)
    (rules,) = re.findall(r"^```cedar\n(.*?)^```", REFERENCE, re.M | re.S)
    gateway = reader.gateway
    gateway.write_settings({"mcpServers": {}})
    gateway.write("contracts/mail.yaml", contract)
    gateway.write("policies/mail.cedar", rules)
    gateway.write("cases.yaml", cases)
    for command in (["config", "check"], ["contract", "lint", "--strict"], ["policy", "check"]):
        done = gateway.run(*command)
        assert done.returncode == 0, done
    done = gateway.run("policy", "test", str(gateway.home / "cases.yaml"))
    assert done.returncode == 0 and "refused by no-mail-at-night" in done.stdout, done
