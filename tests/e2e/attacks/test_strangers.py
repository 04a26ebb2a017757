"""Defends the port: strangers without credentials cannot keep agents out, however many connections they open."""

from __future__ import annotations

import contextlib
import resource
import socket
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

import peers
from gateway import Gateway, until

HALF = b"POST /api/v1/login HTTP/1.1\r\nHost: %s\r\nContent-Length: 100\r\n\r\n{"
MEMORY_KB = 600 * 1024


@pytest.fixture
def limited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    """A gateway that may open 1,024 files, and not more."""
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    program = tmp_path / "mcpproxy"
    program.write_text(f'#!/bin/sh\nulimit -n 1024\nexec "{peers.MCPPROXY}" "$@"\n')
    program.chmod(0o700)
    monkeypatch.setattr(peers, "MCPPROXY", str(program))
    with Gateway(tmp_path / "home") as gateway:
        yield gateway


def connect(gateway: Gateway) -> socket.socket:
    host, _, port = gateway.address.rpartition(":")
    return socket.create_connection((host, int(port)), timeout=60)


def test_half_requests_keep_nobody_out(limited: Gateway) -> None:
    with contextlib.ExitStack() as stack:
        for _ in range(1100):
            stranger = stack.enter_context(connect(limited))
            with contextlib.suppress(OSError):
                stranger.sendall(HALF % limited.address.encode())
        assert until(lambda: limited.probe("/healthz") == 200, 30, "the gateway answers")
        assert limited.servers(), "and knows who asks"
        answer = httpx.post(f"{limited.base}/api/v1/login", json={"name": "ada", "password": "wrong"}, timeout=60)
        assert answer.status_code == 401
        status = Path(f"/proc/{limited.child.pid}/status").read_text()
        (rss,) = [int(line.split()[1]) for line in status.splitlines() if line.startswith("VmRSS:")]
        assert rss < MEMORY_KB
    assert limited.words().count("could not accept a connection") < 20, "errors are logged at a bounded rate"


def test_a_body_has_a_deadline(demo: Gateway) -> None:
    """A byte now and then does not keep a connection open."""
    stranger = connect(demo)
    stranger.sendall(HALF % demo.address.encode())
    stranger.settimeout(0.5)
    answer, deadline = b"", time.monotonic() + 150
    while time.monotonic() < deadline:
        try:
            received = stranger.recv(65536)
        except TimeoutError:
            with contextlib.suppress(OSError):
                stranger.sendall(b" ")
            continue
        except ConnectionError:
            break
        if not received:
            break
        answer += received
    else:
        pytest.fail("the connection is still open")
    assert answer.startswith(b"HTTP/1.1 408 ") and b"body_too_slow" in answer, answer
    assert b"\r\nconnection: close\r\n" in answer.lower()
