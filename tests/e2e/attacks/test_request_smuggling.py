"""Defends against request smuggling: a request whose length is ambiguous never runs, and ends its connection."""

from __future__ import annotations

import json
import re
import socket

import pytest

from gateway import Gateway

LENGTH = "Content-Length: {length}\r\n"
CHUNKED = "Transfer-Encoding: chunked\r\n"


def exchange(gateway: Gateway, text: str) -> str:
    """Sends these bytes, and returns everything up to the end of the connection."""
    host, _, port = gateway.address.rpartition(":")
    with socket.create_connection((host, int(port)), timeout=60) as connection:
        connection.sendall(text.encode())
        answer = b""
        try:
            while received := connection.recv(65536):
                answer += received
        except ConnectionResetError:
            pass
        return answer.decode()


@pytest.mark.parametrize("order", [LENGTH + CHUNKED, CHUNKED + LENGTH, (CHUNKED + LENGTH).lower()])
def test_two_lengths_are_refused(demo: Gateway, order: str) -> None:
    call = json.dumps({"jsonrpc": "2.0", "id": 1, "method": "tools/list"})
    chunk = f"{len(call):x}\r\n{call}\r\n0\r\n\r\n"
    head = f"Host: {demo.address}\r\nAuthorization: Bearer {demo.token}\r\nContent-Type: application/json\r\n"
    smuggled = f"GET /healthz HTTP/1.1\r\nHost: {demo.address}\r\nConnection: close\r\n\r\n"
    bad = f"POST /mcp HTTP/1.1\r\n{head}{order.format(length=len(chunk))}\r\n{chunk}"
    answer = exchange(demo, bad + smuggled)
    assert answer.startswith("HTTP/1.1 400 ") and "ambiguous_length" in answer, answer
    assert answer.count("HTTP/1.1 ") == 1, "what follows is not a request"
    assert "\r\nconnection: close\r\n" in answer.lower()


def test_one_length_is_enough(demo: Gateway) -> None:
    """Several requests on one connection, with bodies that look like heads."""
    body = json.dumps({"name": LENGTH + CHUNKED + "\r\n\r\n", "password": "wrong"})
    post = f"POST /api/v1/login HTTP/1.1\r\nHost: {demo.address}\r\n"
    sized = f"{post}Content-Length: {len(body)}\r\n\r\n{body}"
    chunked = f"{post}{CHUNKED}\r\n{len(body):x}\r\n{body}\r\n0\r\n\r\n"
    last = f"GET /healthz HTTP/1.1\r\nHost: {demo.address}\r\nConnection: close\r\n\r\n"
    answer = exchange(demo, sized + chunked + last)
    statuses = re.findall(r"HTTP/1\.1 ([0-9]{3}) ", answer)
    assert statuses == ["401", "401", "200"], answer
