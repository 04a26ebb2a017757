"""Follows the README and the book: every console block runs, every link resolves, every example is valid.

Each page is one test. It gets a fresh home folder with its own gateway and types the commands of the page in order,
back to back. In the expected output, `…` stands for any text, and `…` alone on a line for any lines. Ids, times,
durations, digests, ports and scores may differ. A `python` block whose first line is `# NAME.py` is saved under that name
first.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
from pathlib import Path

import pytest

import peers
from gateway import Gateway

README = peers.ROOT / "README.md"
BOOK = peers.ROOT / "docs"
SUMMARY = BOOK / "SUMMARY.md"
ROOT_PAGES = ["README.md", "ARCHITECTURE.md", "CHANGELOG.md", "CONTRIBUTING.md", "SECURITY.md"]
BOOK_PAGES = sorted(path for path in BOOK.rglob("*.md") if path != SUMMARY)
README_MAX_LINES = 250

HOME = "/home/you"
ADDRESS = re.compile(r"(?:127\.0\.0\.1|localhost):8080\b")
# An id in full, or the part of it that tables show. In commands, it becomes the id of this run.
ID = r"01[0-9A-HJKMNP-TV-Z]{24}|01[0-9A-HJKMNP-TV-Z]{13}\b"
# Whatever differs from one run to the next. Ids come before durations, which are shorter.
CHANGES = re.compile(
    "|".join(
        [
            ID,
            r"(?:127\.0\.0\.1|localhost):\d+",
            r"\b[0-9a-f]{64}\b",
            r"\b[0-9a-f]{20}\b",
            r"\d{4}-\d\d-\d\d[ T]\d\d:\d\d:\d\d(?:\.\d+)?Z?",
            r"\b\d+(?:\.\d+)?(?:µs|ms|s)\b",
            # The score of a tool changes when it is encoded, shortly after the start.
            r"\b0\.\d\d\b",
        ]
    )
)


def name(page: Path) -> str:
    return str(page.relative_to(peers.ROOT))


def blocks(page: Path, language: str) -> list[str]:
    """Returns the code blocks of a page in one language."""
    return re.findall(rf"^```{language}\n(.*?)^```$", page.read_text(), re.M | re.S)


def commands(page: Path) -> list[tuple[str, str]]:
    """Returns the commands of all console blocks with their expected output."""
    found = []
    for block in blocks(page, "console"):
        for command in re.split(r"^\$ ", block, flags=re.M)[1:]:
            line, _, output = command.partition("\n")
            found.append((line, output.strip("\n")))
    return found


def pattern(expected: str) -> re.Pattern[str]:
    """Turns expected output into a pattern, as the head of this file describes."""
    lines = []
    for line in expected.split("\n"):
        if line == "…":
            lines.append(r"(?:.*\n)*?")
            continue
        text, at = "", 0
        for found in re.finditer(f"…|{CHANGES.pattern}", line):
            text += re.escape(line[at : found.start()])
            text += ".*" if found[0] == "…" else f"(?:{CHANGES.pattern})"
            at = found.end()
        text += re.escape(line[at:])
        # Columns are as wide as their content.
        lines.append(re.sub(r"(?:\\ ){2,}", r" {2,}", text) + r"\n")
    return re.compile("".join(lines))


class Reader:
    """Follows one page, with a fresh home folder and its own gateway."""

    def __init__(self, home: Path) -> None:
        self.home = home
        self.gateway = Gateway(home / ".mcpproxy")
        self.gateway.environment = self.environment  # type: ignore[method-assign]
        # Calls that need an approval end after a second instead of 45. The demo server has to be named, because it runs
        # by itself only if there are no settings.
        settings = {"mcpServers": {"demo": {"type": "demo"}}, "approvals": {"wait": "1s"}}
        # The reader sits at a terminal, and this process does not.
        settings["trust"] = {"first_sight": "accept"}
        self.gateway.write("mcp_config.json", json.dumps(settings))
        self.ids: dict[str, str] = {}

    def environment(self) -> dict[str, str]:
        path = f"{Path(peers.MCPPROXY).parent}:{os.environ['PATH']}"
        return {**Gateway.environment(self.gateway), "PATH": path, "HOME": str(self.home)}

    def types(self, command: str, expected: str) -> None:
        """Runs a command in a shell and compares what it prints."""
        for ours, theirs in self.ids.items():
            command = command.replace(ours, theirs)
        done = subprocess.run(
            ["bash", "-c", ADDRESS.sub(self.gateway.address, command)],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=120,
            cwd=self.home,
            env=self.environment(),
        )
        said = done.stdout.strip("\n").replace(str(self.home), HOME)
        if expected or said:
            assert pattern(expected).fullmatch(f"{said}\n"), f"$ {command}\n{said}\n--- the page says\n{expected}"
        self.learn(expected, said)

    def learn(self, expected: str, said: str) -> None:
        """Remembers which id of this run stands for which id of the page. Both appear in the same order."""
        for ours in re.findall(ID, expected):
            if ours in self.ids:
                continue
            # A line with `…` may hide ids, so the line with this one is found by its pattern.
            (line,) = [line for line in expected.split("\n") if ours in line][:1]
            shape = pattern(line)
            theirs = next((found for found in said.split("\n") if shape.fullmatch(f"{found}\n")), "")
            same_length = [one for one in re.findall(ID, theirs) if len(one) == len(ours)]
            if same_length:
                self.ids[ours] = same_length[0]


@pytest.fixture
def reader(tmp_path: Path) -> Reader:
    return Reader(tmp_path)


PAGES_WITH_COMMANDS = [page for page in [README, *BOOK_PAGES] if commands(page)]


@pytest.mark.parametrize("page", PAGES_WITH_COMMANDS, ids=name)
def test_every_command_prints_what_its_page_says(reader: Reader, page: Path) -> None:
    for program in blocks(page, "python"):
        first = program.partition("\n")[0]
        if first.startswith("# ") and first.endswith(".py"):
            (reader.home / first.removeprefix("# ")).write_text(program)
    with reader.gateway:
        for command, expected in commands(page):
            reader.types(command, expected)


# -- examples -------------------------------------------------------------------------------------------------------


def is_contract(text: str) -> bool:
    return text.startswith(("tool:", "- tool:"))


PAGES_WITH_EXAMPLES = [page for page in [README, *BOOK_PAGES] if blocks(page, "(?:yaml|cedar|jsonc)")]


@pytest.mark.parametrize("page", PAGES_WITH_EXAMPLES, ids=name)
def test_every_example_is_valid(reader: Reader, page: Path) -> None:
    """`jsonc` is a settings file, `yaml` a contract or test cases for policies, `cedar` a policy."""
    gateway = reader.gateway
    gateway.environment = lambda: {  # type: ignore[method-assign]
        **reader.environment(),
        **dict.fromkeys(["GITHUB_TOKEN", "DATABASE_PASSWORD", "NOTES_SECRET", "OIDC_CLIENT_SECRET"], "value"),
        "HOOK_URL": "https://hooks.example.com/",
    }
    gateway.write("hook.secret", "0123456789abcdef")
    gateway.write("old.key", "value")
    for suffix in ("pem", "key"):
        pair = peers.ROOT / "crates/mcpproxy-web/tests/data/tls" / f"first.{suffix}"
        gateway.write(f"tls/gateway.{suffix}", pair.read_text())
    for number, settings in enumerate(blocks(page, "jsonc")):
        gateway.write(f"settings-{number}.json", settings)
        done = gateway.run("config", "check", str(gateway.home / f"settings-{number}.json"))
        assert done.returncode == 0, f"{settings}\n{done.stderr}"
    for number, policy in enumerate(blocks(page, "cedar")):
        gateway.write(f"policies/{number}.cedar", policy)
    examples = blocks(page, "yaml")
    for number, contract in enumerate(filter(is_contract, examples)):
        gateway.write(f"contracts/{number}.yaml", contract)
        done = gateway.run("contract", "lint", str(gateway.home / f"contracts/{number}.yaml"))
        assert done.returncode == 0, f"{contract}\n{done.stdout}{done.stderr}"
    for command in (["config", "check"], ["policy", "check"]):
        done = gateway.run(*command)
        assert done.returncode == 0, f"{command}\n{done.stderr}"
    for cases in (example for example in examples if not is_contract(example)):
        gateway.write("cases.yaml", cases)
        done = gateway.run("policy", "test", str(gateway.home / "cases.yaml"))
        assert done.returncode == 0, f"{cases}\n{done.stdout}{done.stderr}"


@pytest.mark.parametrize("page", [README, *BOOK_PAGES], ids=name)
def test_every_json_block_is_json(page: Path) -> None:
    for block in blocks(page, "json"):
        json.loads(block)


# -- links ----------------------------------------------------------------------------------------------------------


def without_code(text: str) -> str:
    """Removes code blocks and code spans, where nothing is a link or a heading."""
    return re.sub(r"`[^`\n]*`", "", re.sub(r"^```.*?^```$", "", text, flags=re.M | re.S))


def anchors(page: Path) -> set[str]:
    """Returns the anchors that GitHub and mdBook make from headings."""
    text = re.sub(r"^```.*?^```$", "", page.read_text(), flags=re.M | re.S)
    headings = re.findall(r"^#+ (.*)$", text, re.M)
    words = [re.sub(r"[^\w\- ]", "", heading.lower()) for heading in headings]
    return {heading.strip().replace(" ", "-") for heading in words}


@pytest.mark.parametrize("page", [*(peers.ROOT / one for one in ROOT_PAGES), SUMMARY, *BOOK_PAGES], ids=name)
def test_every_relative_link_and_anchor_resolves(page: Path) -> None:
    for link in re.findall(r"\]\(([^)\s]+)\)", without_code(page.read_text())):
        if "://" in link or link.startswith("mailto:"):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), f"{name(page)} links to {link}"
        assert not anchor or anchor in anchors(target), f"{name(page)} links to {link}, which has no such heading"
        # The book contains docs/ only, so a page of it cannot link to anything else.
        if BOOK in page.parents:
            assert BOOK in target.parents, f"{name(page)} links to {link}, outside the book"


def test_the_summary_lists_every_page() -> None:
    listed = re.findall(r"\]\(([^)]+)\)", SUMMARY.read_text())
    assert sorted(listed) == sorted(str(page.relative_to(BOOK)) for page in BOOK_PAGES)


def test_the_readme_is_short() -> None:
    assert len(README.read_text().splitlines()) <= README_MAX_LINES
