"""Gateways that take settings, contracts and policies from one PostgreSQL database, and the user who publishes them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import peers
from gateway import MARK, Gateway, until
from log import PostgresStorage
from postgres import Postgres
from typist import typed
from user import PASSWORD, Totp, set_up_plainly
from wire import MODERN, Wire

SECONDS = 15
# All gateways have a new version after this time.
TAKE_OVER = 1
FORBIDDEN = "- tool: fx:note\n  riskLevel: forbidden\n"
SIGN_IN = [("Name: ", "ada"), ("Password: ", PASSWORD), ("Type apply", "apply")]


@dataclass
class Team:
    """Gateways, and the folder that a user publishes."""

    storage: PostgresStorage
    home: Path
    folder: Path
    gateways: list[Gateway]
    totp: Totp

    @property
    def first(self) -> Gateway:
        return self.gateways[0]

    def write(self, name: str, text: str) -> None:
        target = self.folder / name
        target.parent.mkdir(exist_ok=True, parents=True)
        target.write_text(text)

    def publish(self, *words: str, with_code: bool = False) -> str:
        """Publishes at a terminal. Returns the screen."""
        words = words or ("--from", str(self.folder))
        code = [("Code from", self.totp.code())] if with_code else []
        exit_code, screen = typed(self.first, ["config", "apply", *words], [*SIGN_IN, *code])
        assert exit_code == 0, screen
        return screen

    def version(self, gateway: Gateway) -> int | None:
        return gateway.admin("/status")["settings"]["version"]

    def have(self, number: int) -> None:
        for gateway in self.gateways:
            until(lambda: self.version(gateway) == number, TAKE_OVER, f"version {number} at {gateway.home.name}")

    def sql(self, script: str) -> list[list[Any]]:
        return self.storage.sql(self.home, script)

    def versions(self) -> list[dict[str, Any]]:
        done = self.first.run("config", "versions", "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["versions"]


def machine(storage: PostgresStorage, **more: Any) -> str:
    return json.dumps({**storage.settings(), "operator_files": "database", **more}, indent=2)


def another(team_folder: Path, name: str, storage: PostgresStorage) -> Gateway:
    gateway = Gateway(team_folder / name)
    gateway.write("mcp_config.json", machine(storage))
    return gateway


def settings(folder: Path, **more: Any) -> str:
    # `trust` is weaker than its default, so the first version needs a code. Every gateway resolves the reference for itself.
    fx = {**peers.fx(folder / "ledger.jsonl"), "env": {MARK: f"${{env:{MARK}}}"}}
    shared = {"mcpServers": {"fx": fx}, "trust": {"first_sight": "accept"}, "ready_timeout": "10m"}
    return json.dumps({**shared, **more}, indent=2)


def code(gateway: Gateway) -> str:
    """Calls `fx:note` as the local agent. Returns the code of the error, or `ok`."""
    wire = Wire(gateway.mcp, gateway.token, MODERN, {})
    call = {"name": "call_tool_write", "arguments": {"name": "fx:note", "args": {"title": "a"}}}
    answer = wire.ask("tools/call", call)
    return answer["structuredContent"]["error"]["code"] if answer.get("isError") else "ok"


@contextmanager
def running(folder: Path, server: Postgres) -> Iterator[Team]:
    """Runs two gateways with a new database, in which nothing is published yet."""
    storage = PostgresStorage(server, server.create())
    gateways = [another(folder, name, storage) for name in ("one", "two")]
    deployment = folder / "deployment"
    deployment.mkdir()
    try:
        for gateway in gateways:
            gateway.start(ready=False)
        team = Team(storage, folder, deployment, gateways, set_up_plainly(gateways[0], "ada"))
        team.write("mcp_config.json", settings(folder))
        yield team
    finally:
        for gateway in gateways:
            print(gateway.words())
            gateway.stop()
