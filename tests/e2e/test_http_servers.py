"""Servers over HTTP: Streamable HTTP in both eras, HTTP+SSE, and a server that restarts."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

import peers
from clients import ALL_KINDS, PYTHON_MODERN, Kind, call, play, step
from gateway import Gateway, until

ELICITED = {"action": "accept", "content": {"name": "Ada"}}
START_SECONDS = 20


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


@contextmanager
def listening(command: list[str], port: int, log: Path, **env: str) -> Iterator[subprocess.Popen[bytes]]:
    """Starts a server process and waits until it accepts connections on the port."""
    with open(log, "wb") as out:
        child = subprocess.Popen(command, stdout=out, stderr=out, env={**os.environ, **env})
    try:
        until(lambda: _accepts(port) or child.poll() is not None, START_SECONDS, f"{command} listens")
        assert child.poll() is None, log.read_text()
        yield child
    finally:
        # Kill it, because these servers wait for open streams, and the gateway keeps one open.
        child.kill()
        child.wait(10)


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def modern(port: int, log: Path):
    return listening([peers.PYTHON, str(peers.HERE / "modern_server.py"), str(port)], port, log)


def everything(mode: str, port: int, log: Path):
    command = peers.everything()
    return listening([command["command"], *command["args"][:-1], mode], port, log, PORT=str(port))


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("urls")
    ports = {name: free_port() for name in ("modern", "streamable", "sse")}
    settings = {
        "modern": {"url": f"http://127.0.0.1:{ports['modern']}/mcp"},
        "streamable": {"type": "http", "url": f"http://127.0.0.1:{ports['streamable']}/mcp"},
        "sse": {"type": "sse", "url": f"http://127.0.0.1:{ports['sse']}/sse"},
    }
    with (
        modern(ports["modern"], folder / "modern.txt"),
        everything("streamableHttp", ports["streamable"], folder / "streamable.txt"),
        everything("sse", ports["sse"], folder / "sse.txt"),
        Gateway(folder / "home", {"mcpServers": settings}) as one,
    ):
        yield one


def test_each_is_ready_over_its_transport(gateway: Gateway) -> None:
    found = {name: (one["transport"], one["state"], one["reason"]) for name, one in gateway.servers().items()}
    assert found == {
        "modern": ("http", "ready", None),
        "streamable": ("http", "ready", None),
        "sse": ("sse", "ready", None),
    }


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_server_of_both_eras(gateway: Gateway, kind: Kind) -> None:
    steps = [step("tools/list"), call("add", {"a": 1, "b": 2}), call("count", {"to": 3}), call("greet")]
    heard = play(kind, gateway.server_url("modern"), gateway.token, steps, {"elicitation": ELICITED})
    listed, added, _, greeted = heard.results
    assert [tool["name"] for tool in listed["tools"]] == ["add", "count", "greet"]
    assert added["structuredContent"] == {"result": 3}
    assert [one["message"] for one in heard.progress[:3]] == ["at 1", "at 2", "at 3"]
    assert [asked["kind"] for asked in heard.asked] == ["elicitation"]
    assert greeted["content"][0]["text"] == "hello Ada"


@pytest.mark.parametrize("server", ["streamable", "sse"])
@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_an_older_server(gateway: Gateway, kind: Kind, server: str) -> None:
    steps = [
        call("echo", {"message": "over HTTP"}),
        call("trigger-long-running-operation", {"duration": 0.3, "steps": 3}),
        call("trigger-elicitation-request"),
        step("resources/read", {"uri": "demo://resource/dynamic/text/1"}),
    ]
    heard = play(kind, gateway.server_url(server), gateway.token, steps, {"elicitation": ELICITED})
    echo, _, elicited, resource = heard.results
    assert echo["content"][0]["text"] == "Echo: over HTTP"
    assert [one["progress"] for one in heard.progress[:3]] == [1, 2, 3]
    assert "- Name: Ada" in str(elicited["content"])
    assert resource["contents"][0]["text"].startswith("Resource 1:")


def test_a_server_that_comes_back_is_used_again(tmp_path: Path) -> None:
    port = free_port()
    settings = {"mcpServers": {"modern": {"url": f"http://127.0.0.1:{port}/mcp"}}}
    add = call("call_tool_read", {"name": "modern:add", "args": {"a": 2, "b": 3}})
    with modern(port, tmp_path / "first.txt") as first, Gateway(tmp_path / "home", settings) as gateway:
        assert _sum(gateway, add) == {"result": 5}
        first.send_signal(signal.SIGKILL)
        first.wait()
        refused = play(PYTHON_MODERN, gateway.mcp, gateway.token, [add]).results[0]
        assert refused["isError"] is True
        with modern(port, tmp_path / "second.txt"):
            until(lambda: gateway.servers()["modern"]["state"] == "ready", 30, "the server is back")
            until(lambda: _sum(gateway, add) == {"result": 5}, 30, "calls work again")


def _sum(gateway: Gateway, add: dict) -> object:
    return play(PYTHON_MODERN, gateway.mcp, gateway.token, [add]).results[0].get("structuredContent")
