"""Contracts and policies that change while the gateway runs: it loads valid files, and no invalid or hostile ones."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import peers
from gateway import BUSY, Gateway, until
from test_contracts import ask, code, error
from wire import LEGACY, MODERN, Wire

SECONDS = 10
# Time limit of a call while a hostile file is read, on a busy machine with a debug build. Read without bounds, the file
# would take minutes.
CALL_SECONDS = 10.0
LATE = {"timezone": "UTC"}


def now(wire: Wire) -> dict[str, Any]:
    return ask(wire, "read", "time:get_current_time", LATE)


def becomes(wire: Wire, expected: str) -> None:
    until(lambda: code(now(wire)) == expected, SECONDS, f"the call answers {expected}")


# -- reloading --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_contract_comes_changes_breaks_and_goes(tmp_path: Path, era: str) -> None:
    settings = {"mcpServers": {"time": peers.time()}, "approvals": {"wait": "0s"}, "contracts": {"weakening": "apply"}}
    with Gateway(tmp_path, settings) as gateway:
        wire = Wire(gateway.mcp, gateway.token, era)
        pid = gateway.servers()["time"]["pid"]
        assert code(now(wire)) == "ok"
        gateway.write("contracts/time.yaml", "tool: time:get_current_time\nriskLevel: high\n")
        becomes(wire, "confirmation_required")
        gateway.write("contracts/time.yaml", "tool: time:*\noperation: write\n")
        becomes(wire, "contract_mismatch")

        gateway.write("contracts/other.yaml", "tool: time:convert_time\nriskLevl: low\n")
        until(gateway.settings_error, SECONDS, "the status shows the mistake")
        assert f"{gateway.home}/contracts/other.yaml:2:1: " in gateway.settings_error()
        assert "did you mean `riskLevel`?" in gateway.settings_error()
        gateway.write("contracts/time.yaml", "tool: time:*\nriskLevel: forbidden\n")
        # The valid file is not loaded together with an invalid one.
        until(lambda: gateway.words().count("Settings not reloaded") == 2, SECONDS, "the gateway looked again")
        assert code(now(wire)) == "contract_mismatch"
        assert gateway.run("contract", "lint").returncode == 1

        gateway.write("contracts/other.yaml", "tool: time:convert_time\nriskLevel: low\n")
        becomes(wire, "tool_not_found")
        assert gateway.settings_error() == ""
        found = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": "time", "limit": 50}})
        assert [tool["name"] for tool in found["structuredContent"]["tools"]] == ["time:convert_time"]
        for name in ("time.yaml", "other.yaml"):
            (gateway.home / "contracts" / name).unlink()
        becomes(wire, "ok")
        assert gateway.servers()["time"]["pid"] == pid, "the server was restarted"


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_policy_comes_breaks_and_goes(tmp_path: Path, era: str) -> None:
    forbid = '@id("closed")\nforbid (principal, action, resource in Server::"time");\n'
    with Gateway(tmp_path, {"mcpServers": {"time": peers.time()}, "contracts": {"weakening": "apply"}}) as gateway:
        wire = Wire(gateway.mcp, gateway.token, era)
        gateway.write("policies/time.cedar", forbid)
        becomes(wire, "policy_violation")
        assert error(now(wire))["details"]["rule"] == "closed"
        gateway.write("policies/time.cedar", forbid.replace("resource in", "resourse in"))
        until(gateway.settings_error, SECONDS, "the status shows the mistake")
        assert f"{gateway.home}/policies/time.cedar:2:" in gateway.settings_error()
        assert gateway.run("policy", "check").returncode == 6
        assert code(now(wire)) == "policy_violation", "the policy before stays in force"
        (gateway.home / "policies" / "time.cedar").unlink()
        becomes(wire, "ok")
        assert gateway.settings_error() == ""




@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_agents_hear_that_a_contract_changed_their_list(tmp_path: Path, era: str) -> None:
    with Gateway(tmp_path, {"mcpServers": {"time": peers.time()}}) as gateway:
        assert anyio.run(_hears_change, gateway, era) == ["get_current_time"]


async def _hears_change(gateway: Gateway, era: str) -> list[str]:
    """Connects to `/mcp/s/NAME`, forbids one tool, and lists the tools again after the notification."""
    heard = anyio.Event()

    async def on_message(message: object) -> None:
        if "tools/list_changed" in str(getattr(message, "method", "")):
            heard.set()

    def forbid() -> None:
        gateway.write("contracts/time.yaml", "tool: time:convert_time\nriskLevel: forbidden\n")

    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(gateway.server_url("time"), http_client=http)
        async with Client(transport, mode=era, message_handler=on_message) as client:
            assert len((await client.list_tools()).tools) == 2
            with anyio.fail_after(BUSY * SECONDS):
                if era == LEGACY:
                    forbid()
                    await heard.wait()
                else:
                    async with client.listen(tools_list_changed=True) as changes:
                        forbid()
                        async for _change in changes:
                            break
            return [tool.name for tool in (await client.list_tools()).tools]


@pytest.mark.parametrize(
    ("name", "text", "refusal"),
    [
        ("contracts/time.yaml", "tool: time:*\nriskLevel: forbidden\n", "tool_not_found"),
        ("policies/time.cedar", 'forbid (principal, action, resource in Server::"time");\n', "policy_violation"),
    ],
)
def test_what_forbids_does_not_end_by_accident(tmp_path: Path, name: str, text: str, refusal: str) -> None:
    """A missing disk or a half-written file must not lift a restriction."""
    gateway = Gateway(tmp_path, {"mcpServers": {"time": peers.time()}})
    gateway.write(name, text)
    file = gateway.home / name
    with gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        assert code(now(wire)) == refusal
        file.parent.rename(gateway.home / "away")
        until(lambda: "is gone. Its previous " in gateway.settings_error(), SECONDS, "the status says so")
        assert code(now(wire)) == refusal
        (gateway.home / "away").rename(file.parent)
        until(lambda: not gateway.settings_error(), SECONDS, "the folder is back")
        gateway.write(name, "")
        until(gateway.settings_error, SECONDS, "the status tells of the empty file")
        assert code(now(wire)) == refusal
        file.unlink()
        until(lambda: gateway.admin("/status")["settings"]["held"], SECONDS, "the change waits for a user")
        assert (code(now(wire)), gateway.settings_error()) == (refusal, "")


# -- hostile files ----------------------------------------------------------------------------------------------


def alias_bomb() -> str:
    lines = ["a0: &a0 [x, x, x, x, x, x, x, x, x, x]"]
    lines += [f"a{n}: &a{n} [{', '.join([f'*a{n - 1}'] * 10)}]" for n in range(1, 12)]
    return "\n".join(lines)


def schema(text: str) -> str:
    return json.dumps({"tool": "time:*", "inputSchema": json.loads(text)})


def doubling(levels: int) -> str:
    """Each definition contains the next one twice: 2^levels paths in two kilobytes."""
    twice = {f"d{n}": {"allOf": [{"$ref": f"#/$defs/d{n + 1}"}] * 2} for n in range(levels)}
    return json.dumps({"$ref": "#/$defs/d0", "$defs": {**twice, f"d{levels}": {"type": "object"}}})


CONTRACT_BOMBS: dict[str, tuple[str, str]] = {
    "aliases": ("bomb.yaml", alias_bomb()),
    "deep yaml": ("bomb.yaml", "tool: time:*\ninputSchema: " + "[" * 50_000),
    "deep json": ("bomb.json", '{"a":' * 50_000),
    "many values": ("bomb.yaml", "tool: time:*\nfailureModes:\n" + "- x\n" * 60_000),
    "many contracts": ("bomb.yaml", "".join(f"- tool: time:t{n}\n" for n in range(12_000))),
    "long": ("bomb.yaml", "tool: time:*\ndescription: " + "x" * 1_000_000),
    "doubling schema": ("bomb.json", schema(doubling(30))),
    "endless schema": ("bomb.json", schema('{"$ref": "#"}')),
    "outside file": ("bomb.json", schema('{"$ref": "file:///etc/passwd"}')),
    "outside address": ("bomb.json", schema('{"$ref": "http://127.0.0.1:1/schema.json"}')),
    "large pattern": ("bomb.json", schema('{"properties": {"a": {"pattern": "((a{1,1000}){1,1000}){1,1000}"}}}')),
}
POLICY_BOMBS: dict[str, str] = {
    "deep": f"forbid (principal, action, resource) when {{ {'(' * 20_000}true{')' * 20_000} }};",
    "nots": f"forbid (principal, action, resource) when {{ {'!' * 50_000}true }};",
    "many": "forbid (principal, action, resource);\n" * 20_000,
    "wide": f"forbid (principal, action, resource) when {{ [{', '.join(map(str, range(30_000)))}].contains(1) }};",
    "records": f"forbid (principal, action, resource) when {{ {'{a:' * 9_000} }};",
    "pattern": f'forbid (principal, action, resource) when {{ resource.name like "{"*a" * 20_000}" }};',
    "attributes": f"forbid (principal, action, resource) when {{ context{'.time' * 20_000} == 1 }};",
}


def survives(gateway: Gateway, write: Callable[[], None], remove: Callable[[], None]) -> None:
    """Checks that the file is refused, and that no call fails or waits because of it."""
    over = threading.Event()
    seen: list[tuple[str, float]] = []

    def work() -> None:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        while not over.is_set():
            began = time.monotonic()
            answer = code(now(wire))
            seen.append((answer, time.monotonic() - began))

    worker = threading.Thread(target=work)
    worker.start()
    try:
        until(lambda: len(seen) > 0, SECONDS, "a call before the file is written")
        write()
        until(gateway.settings_error, SECONDS, "the file is refused")
        said = gateway.settings_error()
        remove()
        until(lambda: not gateway.settings_error(), SECONDS, "the error is gone with the file")
    finally:
        over.set()
        worker.join(60)
    assert len(said) < 50_000, len(said)
    assert {answer for answer, _ in seen} == {"ok"}
    assert max(took for _, took in seen) < CALL_SECONDS


@pytest.fixture(scope="module")
def target(tmp_path_factory: pytest.TempPathFactory) -> Any:
    with Gateway(tmp_path_factory.mktemp("bombs"), {"mcpServers": {"time": peers.time()}}) as gateway:
        yield gateway


@pytest.mark.parametrize("name", CONTRACT_BOMBS)
def test_a_contract_bomb_is_refused(target: Gateway, name: str) -> None:
    file, text = CONTRACT_BOMBS[name]
    path = target.home / "contracts" / file
    survives(target, lambda: target.write(f"contracts/{file}", text), path.unlink)


@pytest.mark.parametrize("name", POLICY_BOMBS)
def test_a_policy_bomb_is_refused(target: Gateway, name: str) -> None:
    path = target.home / "policies" / "bomb.cedar"
    survives(target, lambda: target.write("policies/bomb.cedar", POLICY_BOMBS[name]), path.unlink)


# -- hostile servers --------------------------------------------------------------------------------------------


def test_bombs_of_a_server_hide_their_tools_alone(tmp_path: Path) -> None:
    """A server with hostile schemas and contracts keeps its valid tool, and the gateway keeps running."""
    contract = "mcp-first/contract"
    tools = {
        "fine": {},
        "doubling": {"inputSchema": {"type": "object", **json.loads(doubling(30))}},
        "endless": {"inputSchema": {"type": "object", "allOf": [{"$ref": "#"}]}},
        "outside": {"inputSchema": {"type": "object", "$ref": "file:///etc/passwd"}},
        "deep": {"inputSchema": nested(60)},
        "half_contract": {"_meta": {contract: {"riskLevel": "Extreme"}}},
        "contract_is_text": {"_meta": {contract: "low"}},
        "contract_bomb": {"_meta": {contract: {"inputSchema": json.loads(doubling(30))}}},
        "slow_pattern": {"inputSchema": {"type": "object", "properties": {"a": {"pattern": "^(a+)+$"}}}},
    }
    offered = tmp_path / "tools.json"
    offered.write_text(
        json.dumps([{"name": name, "inputSchema": {"type": "object"}, **more} for name, more in tools.items()])
    )
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(offered)]}
    with Gateway(tmp_path / "home", {"mcpServers": {"odd": server}}) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        listed = Wire(gateway.server_url("odd"), gateway.token, MODERN).ask("tools/list")
        assert [tool["name"] for tool in listed["tools"]] == ["fine", "slow_pattern"]
        reasons = {one["name"]: one["reason"] for one in gateway.servers()["odd"]["hidden_tools"]}
        assert set(reasons) == set(tools) - {"fine", "slow_pattern"}
        assert all(reasons.values()), reasons
        for name in reasons:
            assert code(ask(wire, "read", f"odd:{name}")) == "tool_not_found"
        assert code(ask(wire, "write", "odd:fine")) == "ok"
        began = time.monotonic()
        assert code(ask(wire, "write", "odd:slow_pattern", {"a": "a" * 5_000 + "!"})) == "invalid_arguments"
        assert time.monotonic() - began < CALL_SECONDS


def test_a_tool_with_an_invalid_schema_is_offered_and_not_checked(tmp_path: Path) -> None:
    """Some real servers write `"type": "float"`. Their tools work, and the operator is told."""
    price = {"type": "object", "properties": {"price": {"type": "float"}}, "required": ["price"]}
    tools = [
        {"name": "buy_stock", "description": "Buys a stock at a price.", "inputSchema": price},
        {"name": "sell_stock", "description": "Sells a stock.", "inputSchema": {"type": "object", "required": ["id"]}},
    ]
    offered = tmp_path / "tools.json"
    offered.write_text(json.dumps(tools))
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(offered)]}
    with Gateway(tmp_path / "home", {"mcpServers": {"desk": server}}) as gateway:
        status = gateway.servers()["desk"]
        reason = "`/properties/price/type` must be a JSON type or an array of them"
        reason = f"`inputSchema` is not valid JSON Schema: {reason}"
        assert (status["tools"], status["hidden_tools"]) == (2, [])
        assert status["unchecked_tools"] == [{"name": "buy_stock", "reason": reason}]
        listed = gateway.run("servers", "list").stdout
        assert f"desk: tool buy_stock is offered, but not checked with its schema: {reason}\n" in listed

        wire = Wire(gateway.mcp, gateway.token, MODERN)
        found = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": "buy a stock"}})
        assert found["structuredContent"]["tools"][0]["name"] == "desk:buy_stock"
        direct = Wire(gateway.server_url("desk"), gateway.token, MODERN).ask("tools/list")["tools"]
        assert [tool["inputSchema"] for tool in direct] == [tool["inputSchema"] for tool in tools]
        # The schema of one tool is not used. That of the other still is.
        assert code(ask(wire, "write", "desk:buy_stock", {"price": 1.5})) == "ok"
        assert code(ask(wire, "write", "desk:buy_stock", {})) == "ok"
        assert code(ask(wire, "write", "desk:sell_stock", {})) == "invalid_arguments"

        # A contract checks what the server's schema cannot.
        number = json.dumps({"required": ["price"], "properties": {"price": {"type": "number"}}})
        gateway.write("contracts/desk.yaml", f"tool: desk:buy_stock\ninputSchema: {number}\n")
        bought = lambda arguments: code(ask(wire, "write", "desk:buy_stock", arguments))  # noqa: E731
        until(lambda: bought({"price": "a lot"}) == "invalid_arguments", SECONDS, "the contract is loaded")
        assert bought({"price": 1.5}) == "ok"
        gateway.write("contracts/desk.yaml", "tool: desk:buy_stock\nriskLevel: forbidden\n")
        until(lambda: bought({"price": 1.5}) == "tool_not_found", SECONDS, "the tool is forbidden")


def nested(depth: int) -> dict[str, Any]:
    inner: dict[str, Any] = {"type": "string"}
    for _ in range(depth):
        inner = {"type": "object", "properties": {"a": inner}}
    return inner
