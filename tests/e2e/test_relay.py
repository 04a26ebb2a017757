"""Messages between a server and an agent during a call: progress, log messages, requests and cancellation."""

from __future__ import annotations

import itertools
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import anyio
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import peers
from clients import ALL_KINDS, LEGACY, LEGACY_KINDS, MODERN, MODERN_KINDS, Kind, call, play, step
from conftest import Real
from gateway import Gateway, until

ELICITED = {"action": "accept", "content": {"name": "Ada"}}
SAMPLED = {"role": "assistant", "model": "test-model", "content": {"type": "text", "text": "words of a model"}}
LONG = "trigger-long-running-operation"


def four(tool: str, variant: str, arguments: dict, cancel_after: int | None = None) -> dict:
    return call(f"call_tool_{variant}", {"name": f"everything:{tool}", "args": arguments}, cancel_after)


def text(result: dict) -> str:
    assert "content" in result and not result.get("isError"), result
    return "\n".join(block.get("text", "") for block in result["content"])


@pytest.mark.parametrize("way", ["own name", "four tools"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_progress_reaches_the_agent(real: Real, kind: Kind, way: str) -> None:
    arguments = {"duration": 0.4, "steps": 4}
    if way == "own name":
        heard = play(kind, real.gateway.server_url("everything"), real.gateway.token, [call(LONG, arguments)])
    else:
        heard = play(kind, real.gateway.mcp, real.gateway.token, [four(LONG, "read", arguments)])
    assert "completed" in text(heard.results[0])
    assert [(one["progress"], one["total"]) for one in heard.progress] == [(1, 4), (2, 4), (3, 4), (4, 4)]


@pytest.mark.parametrize("kind", LEGACY_KINDS, ids=str)
def test_log_messages_reach_the_agent(real: Real, kind: Kind) -> None:
    toggle = call("toggle-simulated-logging")
    heard = play(
        kind,
        real.gateway.server_url("everything"),
        real.gateway.token,
        [step("logging/setLevel", {"level": "debug"}), toggle, call(LONG, {"duration": 0.2, "steps": 1}), toggle],
    )
    # The server has one switch per connection. The call that switched it on sent a message at once.
    assert [one for one in heard.logs if "message" in str(one["data"])], heard.logs


@pytest.mark.parametrize("way", ["own name", "four tools"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_elicitation_reaches_the_agent_and_its_answer_the_server(real: Real, kind: Kind, way: str) -> None:
    tool = "trigger-elicitation-request"
    url, one = (
        (real.gateway.server_url("everything"), call(tool))
        if way == "own name"
        else (real.gateway.mcp, four(tool, _variant(real, tool), {}))
    )
    heard = play(kind, url, real.gateway.token, [one], {"elicitation": ELICITED})
    assert [asked["kind"] for asked in heard.asked] == ["elicitation"]
    assert "requestedSchema" in heard.asked[0]["params"]
    assert "- Name: Ada" in text(heard.results[0])


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_sampling_reaches_the_agent_and_its_answer_the_server(real: Real, kind: Kind) -> None:
    one = call("trigger-sampling-request", {"prompt": "say something", "maxTokens": 20})
    heard = play(kind, real.gateway.server_url("everything"), real.gateway.token, [one], {"sampling": SAMPLED})
    assert [asked["kind"] for asked in heard.asked] == ["sampling"]
    assert "words of a model" in text(heard.results[0])


@pytest.mark.parametrize("way", ["own name", "four tools"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_server_request_after_progress(small: Gateway, kind: Kind, way: str) -> None:
    url, one = (
        (small.server_url("fx"), call("ask_late"))
        if way == "own name"
        else (small.mcp, call("call_tool_read", {"name": "fx:ask_late", "args": {}}))
    )
    heard = play(kind, url, small.token, [one], {"elicitation": ELICITED})
    assert heard.progress[0]["progress"] == 1
    assert [asked["kind"] for asked in heard.asked] == ["elicitation"]
    assert json.loads(text(heard.results[0])) == ELICITED


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_server_request_to_an_agent_without_support_ends_the_call(real: Real, kind: Kind) -> None:
    heard = play(kind, real.gateway.server_url("everything"), real.gateway.token, [call("trigger-elicitation-request")])
    assert heard.asked == []
    assert "- Name:" not in json.dumps(heard.results[0])


@pytest.mark.parametrize("way", ["own name", "four tools"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_cancellation_reaches_the_server(real: Real, kind: Kind, way: str) -> None:
    before = len(_sent(real.sent_to_everything))
    arguments = {"duration": 20, "steps": 200}
    url, one = (
        (real.gateway.server_url("everything"), call(LONG, arguments, cancel_after=2))
        if way == "own name"
        else (real.gateway.mcp, four(LONG, "read", arguments, cancel_after=2))
    )
    # The next request keeps the client alive until it has sent the cancellation of the first.
    heard = play(kind, url, real.gateway.token, [one, step("tools/list")])
    assert heard.results[0] == {"cancelled": True}

    def cancelled() -> bool:
        sent = _sent(real.sent_to_everything)[before:]
        calls = [message["id"] for message in sent if message.get("method") == "tools/call"]
        given_up = [
            message["params"]["requestId"] for message in sent if message.get("method") == "notifications/cancelled"
        ]
        return len(calls) == 1 and given_up == calls

    until(cancelled, 10, "the server is told that the call is cancelled")


def test_arguments_arrive_as_they_were_written(real: Real) -> None:
    before = len(_sent(real.sent_to_everything))
    odd = '{"message":"é \\u00e9 1.0","z":1.0,"a":1e2,"big":12345678901234567890}'
    one = call("call_tool_read", {"name": "everything:echo", "args_json": odd})
    play(MODERN_KINDS[0], real.gateway.mcp, real.gateway.token, [one])
    lines = real.sent_to_everything.read_text().splitlines()[before:]
    assert any(odd in line for line in lines), lines


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_agents_hear_that_a_list_changed(tmp_path: Path, era: str) -> None:
    """A tool goes and comes back, as it was accepted, until the agent hears of it."""
    offer = tmp_path / "offer.json"
    tools = [{"name": name, "inputSchema": {"type": "object"}} for name in ("stays", "leaves")]

    def write(count: int) -> None:
        fresh = tmp_path / "offer.new"
        fresh.write_text(json.dumps({"version": "1", "tools": tools[:count]}))
        fresh.rename(offer)

    write(2)
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "quarantine" / "changing_server.py"), str(offer)]}
    with Gateway(tmp_path / "home", {"mcpServers": {"changing": server}}) as gateway:
        heard = threading.Event()
        with ThreadPoolExecutor(1) as pool:
            listening = pool.submit(anyio.run, _hears_change, gateway, era)
            listening.add_done_callback(lambda _: heard.set())
            for count in itertools.cycle((1, 2)):
                write(count)
                if heard.wait(0.5):
                    break
            assert listening.result(60)


async def _hears_change(gateway: Gateway, era: str) -> bool:
    heard = anyio.Event()

    async def on_message(message: object) -> None:
        if "list_changed" in str(getattr(message, "method", "")):
            heard.set()

    headers = {"Authorization": f"Bearer {gateway.token}"}
    async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
        transport = streamable_http_client(gateway.server_url("changing"), http_client=http)
        async with Client(transport, mode=era, message_handler=on_message) as client:
            with anyio.fail_after(60):
                if era == LEGACY:
                    await heard.wait()
                else:
                    async with client.listen(tools_list_changed=True) as changes:
                        async for _change in changes:
                            break
    return True


def _variant(real: Real, tool: str) -> str:
    (found,) = [
        one for one in real.gateway.admin("/tools?server=everything")["tools"] if one["name"] == f"everything:{tool}"
    ]
    return found["call_with"].removeprefix("call_tool_")


def _sent(record: Path) -> list[dict]:
    return [json.loads(line) for line in record.read_text().splitlines()]
