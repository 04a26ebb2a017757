"""Servers behind TLS: the gateway connects only if the machine trusts their certificate."""

from __future__ import annotations

import json
import ssl
import subprocess
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

from gateway import Gateway

TOOL = {"name": "hello", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
RESULTS: dict[str, Any] = {
    "initialize": {
        "protocolVersion": "2025-11-25",
        "capabilities": {"tools": {}},
        "serverInfo": {"name": "secure", "version": "1"},
    },
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "hello over TLS"}]},
}


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        result = RESULTS.get(message["method"])
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        if result is None:
            answer["error"] = {"code": -32601, "message": "Method not found"}
        else:
            answer["result"] = result
        body = json.dumps(answer).encode() if "id" in message else b""
        self.send_response(200 if body else 202)
        self.send_header("content-type", "application/json")
        self.send_header("content-length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_GET(self) -> None:
        self.send_response(405)
        self.send_header("content-length", "0")
        self.end_headers()

    def log_message(self, *_args: Any) -> None:
        pass


@dataclass
class Secure:
    url: str
    authority: Path


@pytest.fixture(scope="module")
def secure(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secure]:
    folder = tmp_path_factory.mktemp("tls")
    _certificates(folder)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(folder / "server.pem", folder / "server.key")
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    server.socket = context.wrap_socket(server.socket, server_side=True)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    yield Secure(f"https://localhost:{server.server_port}/mcp", folder / "authority.pem")
    server.shutdown()


def _certificates(folder: Path) -> None:
    """Creates a certificate authority, and its certificate for `localhost`."""

    def openssl(*args: str) -> None:
        subprocess.run(["openssl", *args], cwd=folder, check=True, capture_output=True)

    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    openssl("req", "-x509", *key, "-keyout", "ca.key", "-out", "authority.pem", "-days", "2", "-subj", "/CN=Test authority")
    openssl("req", *key, "-keyout", "server.key", "-out", "server.csr", "-subj", "/CN=localhost")
    (folder / "names").write_text("subjectAltName=DNS:localhost\nbasicConstraints=CA:FALSE\n")
    signed = ["-CA", "authority.pem", "-CAkey", "ca.key", "-CAcreateserial", "-days", "2", "-extfile", "names"]
    openssl("x509", "-req", "-in", "server.csr", "-out", "server.pem", *signed)


class Trusting(Gateway):
    """A gateway on a machine that trusts one certificate authority."""

    def __init__(self, home: Path, settings: dict[str, Any], authority: Path) -> None:
        super().__init__(home, settings)
        self.authority = authority

    def environment(self) -> dict[str, str]:
        return {**super().environment(), "SSL_CERT_FILE": str(self.authority)}


def state(gateway: Gateway) -> dict[str, Any]:
    return gateway.servers()["secure"]


def test_a_trusted_server_is_used(secure: Secure, tmp_path: Path) -> None:
    settings = {"mcpServers": {"secure": {"url": secure.url}}}
    with Trusting(tmp_path / "home", settings, secure.authority) as gateway:
        assert (state(gateway)["state"], state(gateway)["reason"]) == ("ready", None)
        for _ in range(3):
            assert gateway.run("call", "tool-read", "secure:hello").stdout == "hello over TLS\n"


@pytest.mark.parametrize("name", ["localhost", "127.0.0.1"])
def test_a_server_with_an_untrusted_certificate_is_not_used(secure: Secure, tmp_path: Path, name: str) -> None:
    """An unknown certificate authority, and a certificate for another name."""
    url = secure.url.replace("localhost", name)
    settings = {"mcpServers": {"secure": {"url": url}}}
    with (
        Gateway(tmp_path / "home", settings)
        if name == "localhost"
        else Trusting(tmp_path / "home", settings, secure.authority)
    ) as gateway:
        found = state(gateway)
        assert found["state"] in ("waiting", "connecting") and "certificate" in found["reason"], found
