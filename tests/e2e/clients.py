"""The MCP clients of the tests. Each one plays the same list of requests and returns the answers."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import anyio
import httpx2
from mcp import Client, MCPError, StdioServerParameters
from mcp import types as mcp_types
from mcp.client.streamable_http import streamable_http_client

from peers import NODE, NODE_DIR

LEGACY = "legacy"
MODERN = "2026-07-28"
PLAN_SECONDS = 90


@dataclass(frozen=True)
class Kind:
    """One client library in one protocol era."""

    name: str
    library: str
    era: str

    def __str__(self) -> str:
        return self.name


PYTHON_LEGACY = Kind("python-legacy", "python", LEGACY)
PYTHON_MODERN = Kind("python-2026", "python", MODERN)
TS2_LEGACY = Kind("ts2-legacy", "client-v2.mjs", LEGACY)
TS2_MODERN = Kind("ts2-2026", "client-v2.mjs", MODERN)
TS1_LEGACY = Kind("ts1-legacy", "client-v1.mjs", LEGACY)

LEGACY_KINDS = [PYTHON_LEGACY, TS2_LEGACY, TS1_LEGACY]
MODERN_KINDS = [PYTHON_MODERN, TS2_MODERN]
ALL_KINDS = LEGACY_KINDS + MODERN_KINDS


@dataclass
class Transcript:
    """The answers that a client received: one result for each step, and all messages in between."""

    protocol: str = ""
    results: list[dict[str, Any]] = field(default_factory=list)
    progress: list[dict[str, Any]] = field(default_factory=list)
    logs: list[dict[str, Any]] = field(default_factory=list)
    asked: list[dict[str, Any]] = field(default_factory=list)


def step(method: str, params: dict[str, Any] | None = None, cancel_after: int | None = None) -> dict[str, Any]:
    """Builds one request. With `cancel_after` the client cancels after that many progress notifications."""
    return {"method": method, "params": params or {}, "cancel_after": cancel_after}


def call(name: str, arguments: dict[str, Any] | None = None, cancel_after: int | None = None) -> dict[str, Any]:
    return step("tools/call", {"name": name, "arguments": arguments or {}}, cancel_after)


def play(
    kind: Kind,
    url: str,
    token: str,
    steps: list[dict[str, Any]],
    answers: dict[str, Any] | None = None,
    modes: tuple[str, ...] = ("form",),
) -> Transcript:
    """Plays the steps over Streamable HTTP with one connection of the given client.

    `answers` lists the server requests that the client supports, with its answers. With the Python client an answer may
    be a function. `modes` are the kinds of elicitation that the other clients declare. The Python client always
    declares both.
    """
    if kind.library == "python":
        return anyio.run(_play_python_http, kind, url, token, steps, answers or {})
    plan = {"url": url, "token": token, "era": kind.era, "steps": steps, "answers": answers or {}}
    plan["elicitation"] = {mode: {} for mode in modes}
    done = subprocess.run(
        [NODE, NODE_DIR / kind.library],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=PLAN_SECONDS,
    )
    assert done.returncode == 0, f"{kind}: {done.stderr}"
    return Transcript(**json.loads(done.stdout))


def play_stdio(
    era: str, command: StdioServerParameters, steps: Iterable[dict[str, Any]], answers: dict[str, Any] | None = None
) -> Transcript:
    """Plays the steps with the Python client over the standard input and output of a command."""
    return anyio.run(_play_python, era, command, steps, answers or {})


async def _play_python_http(
    kind: Kind, url: str, token: str, steps: list[dict[str, Any]], answers: dict[str, Any]
) -> Transcript:
    headers = {"Authorization": f"Bearer {token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=PLAN_SECONDS) as http:
        return await _play_python(kind.era, streamable_http_client(url, http_client=http), steps, answers)


async def _play_python(era: str, server: Any, steps: Iterable[dict[str, Any]], answers: dict[str, Any]) -> Transcript:
    heard = Transcript()
    with anyio.fail_after(PLAN_SECONDS):
        async with Client(server, mode=era, **_callbacks(heard, answers)) as client:
            heard.protocol = client.protocol_version
            for one in steps:
                heard.results.append(await _play_step(client, one, heard))
    return heard


def _callbacks(heard: Transcript, answers: dict[str, Any]) -> dict[str, Any]:
    async def on_log(params: Any) -> None:
        heard.logs.append(_plain(params))

    def answer(kind: str, result: type) -> Any:
        async def respond(_context: Any, params: Any = None) -> Any:
            heard.asked.append({"kind": kind, "params": _plain(params) if params else {}})
            given = answers[kind]
            return result.model_validate(given(_plain(params)) if callable(given) else given)

        return respond

    callbacks: dict[str, Any] = {"logging_callback": on_log}
    if "log_level" in answers:
        callbacks["log_level"] = answers["log_level"]
    if "elicitation" in answers:
        callbacks["elicitation_callback"] = answer("elicitation", mcp_types.ElicitResult)
    if "sampling" in answers:
        callbacks["sampling_callback"] = answer("sampling", mcp_types.CreateMessageResult)
    if "roots" in answers:
        callbacks["list_roots_callback"] = answer("roots", mcp_types.ListRootsResult)
    return callbacks


async def _play_step(client: Client, one: dict[str, Any], heard: Transcript) -> dict[str, Any]:
    outcome: dict[str, Any] = {"cancelled": True}
    with anyio.CancelScope() as scope:
        seen = 0

        async def on_progress(progress: float, total: float | None, message: str | None) -> None:
            nonlocal seen
            heard.progress.append({"progress": progress, "total": total, "message": message})
            seen += 1
            if seen == one.get("cancel_after"):
                scope.cancel()

        try:
            outcome = _plain(await _request(client, one["method"], one["params"], on_progress))
        except MCPError as error:
            outcome = {"error": {"code": error.error.code, "message": error.error.message}}
    return outcome


async def _request(client: Client, method: str, params: dict[str, Any], on_progress: Any) -> Any:
    match method:
        case "tools/list":
            return await client.list_tools(**params)
        case "tools/call":
            return await client.call_tool(params["name"], params["arguments"], progress_callback=on_progress)
        case "resources/list":
            return await client.list_resources(**params)
        case "resources/read":
            return await client.read_resource(params["uri"])
        case "prompts/list":
            return await client.list_prompts(**params)
        case "prompts/get":
            return await client.get_prompt(params["name"], params.get("arguments"))
        case "logging/setLevel":
            return await client.set_logging_level(params["level"])
    raise ValueError(f"this driver does not know {method}")


def _plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", by_alias=True, exclude_none=True)
