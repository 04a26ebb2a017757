"""Shared fixtures: a gateway in front of the demo server, and one in front of the real servers, each started once."""

from __future__ import annotations

import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import peers
from gateway import Gateway
from office import Office
from user import Browser


@pytest.fixture(scope="session")
def demo(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway without settings, which runs the demo server."""
    with Gateway(tmp_path_factory.mktemp("demo")) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway in front of small test servers, for behavior that published servers do not show on demand."""
    folder = tmp_path_factory.mktemp("small")
    servers = {
        "fx": peers.fx(folder / "ledger.jsonl"),
        "echo": peers.misbehaving(),
    }
    with Gateway(folder / "home", {"mcpServers": servers}) as gateway:
        yield gateway


@pytest.fixture(scope="session")
def browser() -> Iterator[Browser]:
    """One Chromium for all users of all tests. Each user has a separate profile."""
    one = Browser()
    yield one
    one.close()


@pytest.fixture(scope="module")
def office(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Office]:
    """A gateway with demo data for the tests of one file."""
    office = Office(tmp_path_factory.mktemp("office"))
    with office.gateway:
        yield office.settle()


@dataclass
class Real:
    """A gateway in front of the five real servers, with their test data."""

    gateway: Gateway
    servers: dict[str, dict[str, Any]]
    folder: Path
    repository: Path
    sent_to_everything: Path


@pytest.fixture(scope="session")
def real(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Real]:
    scratch = tmp_path_factory.mktemp("real")
    folder = scratch / "files"
    folder.mkdir()
    (folder / "hello.txt").write_text("hello from a file\n")
    repository = scratch / "repository"
    git_repository(repository)
    record = scratch / "sent.jsonl"
    servers = {
        "everything": peers.everything(),
        "filesystem": peers.filesystem(folder),
        "memory": peers.memory(scratch / "memory.jsonl"),
        "git": peers.git(repository),
        "time": peers.time(),
    }
    behind = {**servers, "everything": peers.tapped(servers["everything"], record)}
    with Gateway(scratch / "home", {"mcpServers": behind}) as gateway:
        yield Real(gateway.connected(), servers, folder, repository, record)


def git_repository(repository: Path) -> None:
    repository.mkdir()
    identity = ["-c", "user.name=Ada", "-c", "user.email=ada@example.com"]
    (repository / "readme.md").write_text("first\n")
    for args in (["init", "-q", "-b", "main"], ["add", "."], [*identity, "commit", "-q", "-m", "First commit"]):
        subprocess.run(["git", *args], cwd=repository, check=True, capture_output=True)
