"""The client the suite starts: an agent behind a gateway whose only server is the suite's own.

Usage: drive.py URL, with MCP_CONFORMANCE_SCENARIO and MCP_CONFORMANCE_PROTOCOL_VERSION in the environment.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path
from typing import Any

import httpx

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "e2e"))

from clients import PYTHON_LEGACY, PYTHON_MODERN, Kind, call, play, step  # noqa: E402
from gateway import Gateway, until  # noqa: E402
from schemas import filled, sample  # noqa: E402
from user import Session, set_up_plainly  # noqa: E402

SERVER = "suite"
FOCAL_TOOL = "json_schema_2020_12_tool"
ECHO_TOOL = "json_schema_echo"


def main() -> int:
    url = sys.argv[-1]
    scenario = os.environ["MCP_CONFORMANCE_SCENARIO"]
    modern = os.environ.get("MCP_CONFORMANCE_PROTOCOL_VERSION", "2025-11-25") >= "2026-07-28"
    context = json.loads(os.environ.get("MCP_CONFORMANCE_CONTEXT") or "{}")
    with tempfile.TemporaryDirectory() as home:
        server = {"url": url, **oauth_of(scenario, context)}
        with Gateway(Path(home), {"mcpServers": {SERVER: server}}) as gateway:
            agent = Agent(gateway, PYTHON_MODERN if modern else PYTHON_LEGACY)
            if scenario.startswith("auth/"):
                signed_in(gateway, agent)
            else:
                agent.use(scenario, context)
    return 0


# -- OAuth ------------------------------------------------------------------------------------------------------

USER = "anna"
SETTLED = ("ready", "needs_sign_in", "waiting")


def oauth_of(scenario: str, context: dict[str, Any]) -> dict[str, Any]:
    """The settings of a client that the suite has registered."""
    if not scenario.startswith("auth/") or "client_id" not in context:
        return {}
    oauth = {key: context[key] for key in ("client_id", "client_secret") if key in context}
    return {"oauth": {**oauth, **({"grant": "client_credentials"} if "client-credentials" in scenario else {})}}


def signed_in(gateway: Gateway, agent: Agent) -> None:
    """Uses every tool, as a user who signs in whenever the server asks for it. The suite judges each request."""
    set_up_plainly(gateway, USER)
    session = Session(gateway, USER)
    for _ in range(3):
        state = until(lambda: (now := gateway.servers()[SERVER]["state"]) in SETTLED and now, 20, "the server settles")
        if state == "ready":
            (_tools, *results) = agent.run(everything_of(agent.run([])[0]["tools"]))
            # A tool that wants a larger scope needs the user once more.
            if not any(result.get("isError") for result in results):
                return
        begun = session.post(f"/servers/{SERVER}/login", {"page_key": session.page_key})
        print(begun.status_code, begun.text)
        if begun.status_code != 200:
            return
        # The suite's provider asks no one.
        answer = httpx.get(begun.json()["url"], follow_redirects=True, timeout=30)
        print(answer.status_code, str(answer.url).partition("?")[0])
        if answer.status_code != 200:
            return
        until(lambda: gateway.servers()[SERVER]["signed_in"], 20, "the server connects again")


class Agent:
    def __init__(self, gateway: Gateway, kind: Kind) -> None:
        self.gateway = gateway
        self.kind = kind

    def use(self, scenario: str, context: dict[str, Any]) -> None:
        tools = self.run([])[0]["tools"]
        match scenario:
            case "initialize" | "json-schema-ref-no-deref":
                pass
            case "json-schema-2020-12-preservation":
                (schema,) = [tool["inputSchema"] for tool in tools if tool["name"] == FOCAL_TOOL]
                self.run([call(ECHO_TOOL, {"schema": schema})])
            case "http-invalid-tool-headers":
                self.use_through_the_four_tools()
            case "http-standard-headers":
                self.run(everything_of(tools))
                self.use_resources_and_prompts()
            case _:
                self.run(context_calls(context) or everything_of(tools))

    def use_through_the_four_tools(self) -> None:
        """The client library would leave out bad tools itself; behind `/mcp` only the gateway can."""
        tools = self.gateway.admin("/tools")["tools"]
        steps = [call(tool["call_with"], {"name": tool["name"], "args": sample(tool["inputSchema"])}) for tool in tools]
        self.run(steps, self.gateway.mcp)

    def use_resources_and_prompts(self) -> None:
        _, resources, prompts = self.run([step("resources/list"), step("prompts/list")])
        reads = [step("resources/read", {"uri": one["uri"]}) for one in resources["resources"]]
        gets = [step("prompts/get", {"name": one["name"]}) for one in prompts["prompts"]]
        self.run(reads + gets)

    def run(self, steps: list[dict[str, Any]], url: str | None = None) -> list[dict[str, Any]]:
        """Plays the steps in one connection, after the list of tools: what a tool wants in headers stands there."""
        answers = {"elicitation": lambda params: {"action": "accept", "content": filled(params["requestedSchema"])}}
        steps = [step("tools/list"), *steps]
        results = play(self.kind, url or self.gateway.server_url(SERVER), self.gateway.token, steps, answers).results
        for result in results:
            assert "error" not in result, result
        return results


def everything_of(tools: list[dict[str, Any]]) -> list[dict[str, Any]]:
    return [call(tool["name"], sample(tool["inputSchema"])) for tool in tools]


def context_calls(context: dict[str, Any]) -> list[dict[str, Any]]:
    return [call(one["name"], one["arguments"]) for one in context.get("toolCalls", [])]


if __name__ == "__main__":
    sys.exit(main())
