"""`mcpproxy stdio` as the command of a client: bridged to a running gateway, or a gateway of its own."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from mcp import StdioServerParameters

import peers
from clients import LEGACY, MODERN, call, play_stdio, step
from conftest import Real
from gateway import MARK, Gateway, until
from test_journey import FOUR

ERAS = [LEGACY, MODERN]


def command(gateway: Gateway) -> StdioServerParameters:
    env = {**gateway.environment(), "PATH": os.environ["PATH"]}
    return StdioServerParameters(command=peers.MCPPROXY, args=["stdio", "--home", str(gateway.home)], env=env)


@pytest.mark.parametrize("era", ERAS)
def test_bridge_to_a_running_gateway(real: Real, era: str) -> None:
    processes = len(real.gateway.processes())
    heard = play_stdio(
        era,
        command(real.gateway),
        [
            step("tools/list"),
            call("call_tool_read", {"name": "everything:get-sum", "args": {"a": 1, "b": 2}}),
            call(
                "call_tool_read",
                {"name": "everything:trigger-long-running-operation", "args": {"duration": 0.2, "steps": 2}},
            ),
        ],
    )
    listed, total, _ = heard.results
    assert [tool["name"] for tool in listed["tools"]] == FOUR
    assert total["content"][0]["text"] == "The sum of 1 and 2 is 3."
    assert [one["progress"] for one in heard.progress] == [1, 2]
    until(lambda: len(real.gateway.processes()) == processes, 10, "the bridge ended with its client")


@pytest.mark.parametrize("era", ERAS)
def test_in_process_when_no_gateway_runs(tmp_path: Path, era: str) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"everything": peers.everything()}})
    echo = call("call_tool_read", {"name": "everything:echo", "args_json": json.dumps({"message": "alone"})})
    heard = play_stdio(era, command(gateway), [step("tools/list"), echo])
    assert [tool["name"] for tool in heard.results[0]["tools"]] == FOUR
    assert heard.results[1]["content"][0]["text"] == "Echo: alone"
    until(lambda: not gateway.processes(), 10, f"nothing with {MARK} is left")


def test_demo_in_process(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    heard = play_stdio(MODERN, command(gateway), [call("retrieve_tools", {"query": "send an email"})])
    assert heard.results[0]["structuredContent"]["tools"]
    until(lambda: not gateway.processes(), 10, "the gateway ended with its client")
