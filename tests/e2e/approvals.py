"""Fixtures for approval tests: a gateway with tools that need approval, users, agents, and a ledger of calls."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

import peers
from gateway import Gateway, until
from user import Session, Totp, set_up_plainly
from log import Storage
from wire import MODERN, Wire

SECONDS = 15
# Long enough for a user in a test, short enough for a failing test.
WAIT = "30s"
CONTRACTS = """
- tool: fx:update_customer
  riskLevel: high
  description: Changes a customer's data.
  sideEffects: [The customer's data change.]
  auditEvent: customer.changed
- tool: fx:slow_update
  riskLevel: high
- tool: fx:send_external
  riskLevel: critical
  sideEffects: [External communication is sent.]
  sensitive: [/body]
- tool: fx:delete_thing
  riskLevel: critical
  stepUpAuth: false
- tool: fx:bulk_send
  riskLevel: medium
  dryRun: { mode: required, parameter: dryRun }
- tool: fx:create_note
  riskLevel: low
  dryRun: required
  sideEffects: [A note is created.]
- tool: fx:pay
  idempotency: { mode: key, ttl: 24h }
- tool: fx:slow_pay
  idempotency: { mode: key, ttl: 24h }
- tool: fx:note
  idempotency: { mode: natural, keyFrom: [title] }
- tool: fx:plain
  riskLevel: high
  idempotency: { mode: key, ttl: 24h }
"""


class House:
    """A gateway in front of `fx` and its contracts. `fx` records every call that reaches it."""

    def __init__(self, folder: Path, storage: Storage | None = None, **approvals: Any) -> None:
        self.ledger = folder / "ledger.jsonl"
        self.storage = storage or Storage()
        self.approvals = {"wait": WAIT, **approvals}
        self.gateway = Gateway(folder / "home", self.settings())
        self.gateway.write("contracts/fx.yaml", CONTRACTS)
        self.names = (f"agent-{number}" for number in itertools.count(1))
        self.numbers = itertools.count(1)
        self.pool = ThreadPoolExecutor(128)

    def settings(self, *words: str, **approvals: Any) -> dict[str, Any]:
        """Returns the settings. `fx` adds `words` to the descriptions of its tools."""
        servers = {"fx": peers.fx(self.ledger, *words)}
        asks = {**self.approvals, **approvals}
        # Tests change contracts and policies, and change them back.
        contracts = {"weakening": "apply"}
        # And `fx` under a running gateway.
        trust = {"first_sight": "accept"}
        settings = {"mcpServers": servers, "approvals": asks, "contracts": contracts, "trust": trust}
        return {**settings, **self.storage.settings()}

    # -- users and agents ---------------------------------------------------------------------------------------

    def settle(self, name: str = "ada") -> Ada:
        """Creates the first user, with an authenticator app."""
        return Ada(self, name, set_up_plainly(self.gateway, name))

    def agent(self, *options: str, gateway: Gateway | None = None, era: str = MODERN) -> Agent:
        """Creates an agent with every permission. The calls of a `--headless` agent are never held."""
        gateway = gateway or self.gateway
        name = next(self.names)
        done = gateway.run("token", "create", name, "--grant", "*", *options)
        assert done.returncode == 0, done.stderr
        return Agent(self, gateway, name, done.stdout.strip(), era)

    def in_a_hurry(self) -> Agent:
        return self.agent("--headless")

    def heir_of(self, agent: Agent) -> Agent:
        """Revokes the agent's token and creates another agent with the same name."""
        assert self.gateway.run("token", "revoke", agent.name).returncode == 0
        done = self.gateway.run("token", "create", agent.name, "--grant", "*", "--headless")
        assert done.returncode == 0, done.stderr
        return Agent(self, self.gateway, agent.name, done.stdout.strip(), agent.era)

    # -- calls --------------------------------------------------------------------------------------------------

    def arrived(self, tool: str) -> list[dict[str, Any]]:
        """Returns the calls of a tool that reached the server, each with its raw `line`."""
        if not self.ledger.exists():
            return []
        calls = [json.loads(line) for line in self.ledger.read_text().splitlines()]
        return [call for call in calls if call["name"] == tool]

    def executed(self, tool: str) -> list[dict[str, Any]]:
        """Returns the arguments of the calls that changed something."""
        arguments = [call.get("arguments") or {} for call in self.arrived(tool)]
        return [one for one in arguments if one.get("dryRun") is not True]

    def fresh(self) -> dict[str, Any]:
        """Returns unused arguments."""
        return {"id": next(self.numbers)}

    # -- approval requests --------------------------------------------------------------------------------------

    def questions(self, **filters: str) -> list[dict[str, Any]]:
        return self.gateway.admin(f"/approvals?{httpx.QueryParams(filters)}")["approvals"]

    def question(self, agent: Agent, number: int = 1) -> dict[str, Any]:
        """Waits for the pending approval requests of an agent, and checks their number."""
        found = until(
            lambda: self.questions(state="pending", agent=agent.name)[: number + 1], SECONDS, "a question is asked"
        )
        assert len(found) == number, found
        return found[0]

    def state(self, approval: str) -> str:
        return self.gateway.admin(f"/approvals/{approval}")["state"]

    def steps(self, approval: str) -> list[str]:
        """Returns the records of an approval request, oldest first."""
        found = self.gateway.records("--type", "approval", "--limit", "200")
        return [one["code"] for one in reversed(found) if one["metadata"].get("approval_id") == approval]

    def overtake(self, approval: str) -> None:
        """Expires an approval request in the database, because the shortest configurable time is a minute."""
        self.storage.sql(self.gateway.home, f"UPDATE approvals SET expires_ms = 1 WHERE id = '{approval}'")


class Ada(Session):
    """A signed-in user with an authenticator app."""

    def __init__(self, house: House, name: str, totp: Totp) -> None:
        super().__init__(house.gateway, name)
        self.house = house
        self.totp = totp

    def code(self) -> str:
        """Returns a valid code. If all current codes are used, resets the last used time step in the database."""
        if self.totp.is_worn_out():
            self.house.storage.sql(self.gateway.home, "UPDATE users SET totp_step = 0")
            self.totp.shown = 0
        return self.totp.code()

    def say_yes(self, approval: str, *, with_code: bool = False) -> None:
        answer = self.approve(approval, self.code() if with_code else None)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"

    def say_no(self, approval: str, comment: str | None = None) -> None:
        answer = self.deny(approval, comment)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"


class Agent:
    """An agent with a token that calls the tools of `fx`."""

    VARIANTS = {"send_external": "destructive", "delete_thing": "destructive", "bulk_send": "destructive"}

    def __init__(self, house: House, gateway: Gateway, name: str, token: str, era: str) -> None:
        self.house = house
        self.gateway = gateway
        self.name = name
        self.token = token
        self.era = era
        self.wire = self.connect()

    def connect(self, **capabilities: Any) -> Wire:
        return Wire(self.gateway.mcp, self.token, self.era, capabilities)

    def move(self) -> None:
        """Reconnects, because the gateway has a new address."""
        self.wire = self.connect()

    def parameters(
        self, tool: str, args: dict[str, Any] | str, variant: str | None = None, **more: Any
    ) -> dict[str, Any]:
        given = {"args_json": args} if isinstance(args, str) else {"args": args}
        variant = variant or self.VARIANTS.get(tool, "write")
        return {"name": f"call_tool_{variant}", "arguments": {"name": f"fx:{tool}", **given, **more}}

    def call(self, tool: str, args: dict[str, Any] | str, variant: str | None = None, **more: Any) -> dict[str, Any]:
        return self.wire.ask("tools/call", self.parameters(tool, args, variant, **more))

    def later(self, tool: str, args: dict[str, Any] | str, **more: Any) -> Future[dict[str, Any]]:
        """Starts a call on its own connection, in the background."""
        wire = self.connect()
        return self.house.pool.submit(wire.ask, "tools/call", self.parameters(tool, args, **more))

    def at_once(self, times: int, tool: str, args: dict[str, Any], **more: Any) -> list[dict[str, Any]]:
        """Makes the same call many times in parallel."""
        calls = [self.later(tool, args, **more) for _ in range(times)]
        return [one.result(60) for one in calls]

    def asks(self, tool: str, args: dict[str, Any] | str, **more: Any) -> str:
        """Makes a call that needs an approval. Returns the id of the approval request."""
        refused = error(self.call(tool, args, **more))
        assert refused["code"] == "confirmation_required", refused
        return refused["details"]["approval_id"]


def error(result: dict[str, Any]) -> dict[str, Any]:
    assert result.get("isError") is True, result
    return result["structuredContent"]["error"]


def code(result: dict[str, Any]) -> str:
    return error(result)["code"] if result.get("isError") else "ok"


def details(result: dict[str, Any]) -> dict[str, Any]:
    return error(result)["details"]


def said(result: dict[str, Any]) -> Any:
    """Returns the answer of `fx`: the arguments it received."""
    assert not result.get("isError") and "content" in result, result
    return json.loads(result["content"][0]["text"])


def house_with_ada(folder: Path, **approvals: Any) -> Iterator[tuple[House, Ada]]:
    house = House(folder, **approvals)
    with house.gateway:
        yield house, house.settle()
