"""`mcpproxy stdio` as the command of a client: a bridge to a running gateway, or a gateway of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event

import pytest
from mcp import StdioServerParameters
from mcp.client.stdio import stdio_client

import peers
from clients import LEGACY, MODERN, call, play_stdio, step
from conftest import Real
from gateway import MARK, Gateway, until
from user import SETUP_LINK, Browser, User
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


DELETE = {"name": "demo:delete_user", "args": {"userId": "u_max"}}
DEMO = {"type": "demo"}


@pytest.mark.parametrize("era", ERAS)
def test_the_first_user_reads_the_client_s_log(tmp_path: Path, browser: Browser, era: str) -> None:
    """The client's log contains the setup link and the approval request. The agent is told at once that nobody can
    approve yet. After the approval it repeats the call."""
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"demo": DEMO}, "approvals": {"wait": "10m"}})
    log = tmp_path / "client.log"
    answered, approved = Event(), Event()

    def steps() -> Iterator[dict]:
        yield call("call_tool_destructive", DELETE)
        answered.set()
        assert approved.wait(60)
        yield call("call_tool_destructive", DELETE)

    with ThreadPoolExecutor(1) as pool, open(log, "w") as errors, User(browser, gateway) as ada:
        server = stdio_client(command(gateway), errlog=errors)
        played = pool.submit(play_stdio, era, server, steps())
        link = until(lambda: SETUP_LINK.search(log.read_text()), 30, "the link is in the log")
        asked = until(lambda: re.search(r"approval needed: .* (http://\S+)", log.read_text()), 30, "so is the question")
        # The link follows the request in a write of its own.
        until(lambda: log.read_text().count(link.group()) == 2, 10, "the link appears again beside the request")
        assert answered.wait(60), "the call is not held for a user who does not exist"
        ada.set_up(link.group())
        ada.open(asked.group(1))
        ada.approve("totp")
        approved.set()
        heard = played.result(60)
    refused, done = heard.results
    assert refused["structuredContent"]["error"]["details"]["approver_lacks"] == "account"
    assert done["structuredContent"]["deletedUserId"] == "u_max"
    assert "approved by ada" in log.read_text()


def test_an_agent_learns_how_to_create_the_first_user(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"demo": DEMO}, "approvals": {"wait": "0s"}})
    heard = play_stdio(LEGACY, command(gateway), [call("call_tool_destructive", DELETE)])
    refused = heard.results[0]["structuredContent"]["error"]
    assert refused["code"] == "confirmation_required" and refused["details"]["nobody_can_approve"] is True
    assert "No approver account exists yet" in refused["message"] and "mcpproxy stdio" in refused["message"]
    assert "/ui/setup/" not in str(heard), "who has the link is the user, and that is no agent"


def test_standard_output_is_the_client_s(tmp_path: Path) -> None:
    """Without a running gateway, `stdio` prints the setup link on standard error only. A bridge does not print it."""
    gateway = Gateway(tmp_path, {"mcpServers": {}})

    def alone() -> subprocess.CompletedProcess[str]:
        args = [peers.MCPPROXY, "stdio", "--home", str(gateway.home)]
        env = {**gateway.environment(), "PATH": os.environ["PATH"]}
        return subprocess.run(args, input="", capture_output=True, text=True, timeout=60, env=env)

    done = alone()
    assert done.stdout == "" and SETUP_LINK.search(done.stderr), done
    with gateway:
        done = alone()
        assert done.stdout == "" and "/ui/setup/" not in done.stderr, done
