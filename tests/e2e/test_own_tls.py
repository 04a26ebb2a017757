"""The gateway's own TLS: real certificates, protocols, renewal, commands, clients and a browser."""

from __future__ import annotations

import json
import os
import re
import shutil
import ssl
import subprocess
from datetime import datetime
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

import peers
from gateway import Gateway, until
from test_metrics import free_port
from user import Browser, User, setup_link

NAMES = "subjectAltName=DNS:localhost,IP:127.0.0.1"


def certificate(folder: Path, name: str) -> None:
    """Creates `NAME.pem` and `NAME.key` as docs/tls.md says."""
    key = ["-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"]
    files = ["-keyout", f"{name}.key", "-out", f"{name}.pem", "-days", "2"]
    about = ["-subj", f"/CN={name}", "-addext", NAMES, "-addext", "basicConstraints=critical,CA:FALSE"]
    subprocess.run(["openssl", "req", "-x509", *key, *files, *about], cwd=folder, check=True, capture_output=True)
    (folder / f"{name}.key").chmod(0o600)


def expired(folder: Path, name: str) -> None:
    """Creates a certificate of last year, which the command line of OpenSSL refuses to make."""
    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    builder = x509.CertificateBuilder(subject, subject, key.public_key(), x509.random_serial_number())
    builder = builder.not_valid_before(datetime(2025, 1, 1)).not_valid_after(datetime(2025, 2, 1))
    names = x509.SubjectAlternativeName([x509.DNSName("localhost")])
    made = builder.add_extension(names, critical=False).sign(key, hashes.SHA256())
    (folder / f"{name}.pem").write_bytes(made.public_bytes(serialization.Encoding.PEM))
    pem, pkcs8 = serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8
    (folder / f"{name}.key").write_bytes(key.private_bytes(pem, pkcs8, serialization.NoEncryption()))


class Secure(Gateway):
    """A gateway with a certificate of its own."""

    def __init__(self, home: Path, **settings: Any) -> None:
        home.mkdir(parents=True, exist_ok=True)
        certificate(home, "first")
        certificate(home, "second")
        self.use("first", home)
        tls = {"certificate": "own.pem", "key": "own.key"}
        super().__init__(home, {"mcpServers": {"demo": {"type": "demo"}}, "tls": tls, **settings})

    def use(self, name: str, home: Path | None = None, suffixes: tuple[str, ...] = ("pem", "key")) -> None:
        """Replaces the files of the certificate, as a tool for renewal does."""
        home = home or self.home
        for suffix in suffixes:
            shutil.copyfile(home / f"{name}.{suffix}", home / "fresh")
            (home / "fresh").chmod(0o600)
            (home / "fresh").rename(home / f"own.{suffix}")

    @property
    def base(self) -> str:
        return f"https://{self.address}"

    def trusting(self, name: str = "first") -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self.home / f"{name}.pem")

    def probe(self, path: str) -> int:
        for name in ("first", "second"):
            try:
                return httpx.get(self.base + path, timeout=10, verify=self.trusting(name)).status_code
            except httpx.HTTPError:
                continue
        return 0

    def served(self) -> str:
        """Returns the certificate that a new connection gets."""
        host, _, port = self.address.rpartition(":")
        return ssl.get_server_certificate((host, int(port)), timeout=10)

    def settings_error_at(self, name: str) -> str:
        """Returns the error in the operator's files, over a connection that trusts this certificate."""
        return json.loads(self.curl("/api/v1/status", name=name))["settings"]["error"] or ""

    def curl(self, path: str, *words: str, name: str = "first") -> str:
        key = ["-H", f"X-API-Key: {self.admin_key}"]
        command = ["curl", "-sS", "--cacert", str(self.home / f"{name}.pem"), *key, *words, self.base + path]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
        return done.stdout + done.stderr


@pytest.fixture
def secure(tmp_path: Path) -> Any:
    with Secure(tmp_path / "home") as gateway:
        yield gateway


def test_both_protocols_answer(secure: Secure) -> None:
    version = ["-o", os.devnull, "-w", "%{http_version} %{http_code}"]
    assert secure.curl("/healthz", "--http2", *version) == "2 200"
    assert secure.curl("/healthz", "--http1.1", *version) == "1.1 200"
    tls = json.loads(secure.curl("/api/v1/status", "--http2"))["tls"]
    assert tls["expires"] > "2026" and tls["validity"] == "valid", tls
    assert "certificate" in secure.curl("/healthz", name="second"), "another certificate is not trusted"
    assert secure.curl("/healthz", "--tls-max", "1.1", *version) != "2 200"


def test_a_page_over_http2_gets_events(secure: Secure) -> None:
    """An event stream stays open, and curl ends it after two seconds."""
    events = secure.curl("/api/v1/events", "--http2", "-N", "-i", "--max-time", "2")
    assert events.startswith("HTTP/2 200") and "text/event-stream" in events, events


def test_plain_http_names_https(secure: Secure) -> None:
    answer = httpx.get(f"http://{secure.address}/healthz", timeout=10)
    assert (answer.status_code, "https://" in answer.text) == (400, True), answer.text


def test_everything_says_https(secure: Secure) -> None:
    words = secure.words()
    port = secure.address.rpartition(":")[2]
    assert f"listens on https://{secure.address}" in words
    assert f"https://localhost:{port}/ui/setup/" in words and f'"url":"https://localhost:{port}/mcp"' in words
    assert "http://" not in words
    status = secure.run("status")
    assert f"on https://{secure.address}" in status.stdout and f"https://localhost:{port}/ui/" in status.stdout
    assert secure.run("open", "--print").stdout == f"https://localhost:{port}/ui/\n"
    (secure.home / ".cursor").mkdir()
    shown = secure.run("connect", "cursor", "--dry-run")
    assert f"https://localhost:{port}/mcp" in shown.stdout + shown.stderr, shown


def test_commands_trust_exactly_this_certificate(secure: Secure) -> None:
    assert "demo" in secure.run("servers", "list").stdout
    assert secure.run("call", "tool-read", "demo:list_projects").returncode == 0
    lock = secure.home / "gateway.lock"
    announced = json.loads(lock.read_text())
    # The gateway keeps its lock on the file, so that only the content changes.
    with lock.open("r+") as file:
        file.write(json.dumps({**announced, "certificate": "0" * 64}))
    refused = secure.run("servers", "list")
    assert (refused.returncode, "another certificate" in refused.stderr) == (1, True), refused


def test_a_renewed_certificate_is_served_at_once(secure: Secure) -> None:
    first, second = ((secure.home / f"{name}.pem").read_text().strip() for name in ("first", "second"))
    assert secure.served().strip() == first
    # Only one of two files was replaced yet.
    secure.use("second", suffixes=("pem",))
    until(lambda: "does not fit the certificate" in secure.settings_error_at("first"), 10, "the error is shown")
    assert secure.served().strip() == first, "a wrong pair keeps the old one"
    assert "tls.key" in secure.run("status").stdout
    checked = secure.run("config", "check")
    assert checked.returncode != 0 and "does not fit the certificate" in checked.stderr, checked
    secure.use("second", suffixes=("key",))
    until(lambda: secure.served().strip() == second, 10, "the new certificate is served")
    assert secure.settings_error_at("second") == ""
    assert "demo" in secure.run("servers", "list").stdout, "commands trust the new one"
    (secure.home / "own.pem").write_text("half")
    until(lambda: "holds no certificate" in secure.settings_error_at("second"), 10, "the error is shown")
    assert secure.served().strip() == second


async def _tools(client: Any) -> list[str]:
    async with client as session:
        return sorted(tool.name for tool in (await session.list_tools()).tools)


def test_the_python_sdk_connects(secure: Secure) -> None:
    async def over_https() -> list[str]:
        headers = {"Authorization": f"Bearer {secure.token}"}
        async with httpx2.AsyncClient(verify=secure.trusting(), headers=headers) as http:
            return await _tools(Client(streamable_http_client(secure.mcp, http_client=http)))

    assert "retrieve_tools" in anyio.run(over_https)


def test_a_session_of_mcp_works_over_http2(secure: Secure) -> None:
    def post(message: dict[str, Any], *headers: str) -> str:
        body = ["--http2", "-i", "-X", "POST", "-d", json.dumps({"jsonrpc": "2.0", **message})]
        given = (f"Authorization: Bearer {secure.token}", "Content-Type: application/json", *headers)
        accepted = ["-H", "Accept: application/json, text/event-stream"]
        return secure.curl("/mcp", *body, *accepted, *(word for header in given for word in ("-H", header)))

    about = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "curl", "version": "1"}}
    begun = post({"id": 1, "method": "initialize", "params": about})
    assert begun.startswith("HTTP/2 200"), begun
    found = re.search(r"mcp-session-id: (\S+)", begun)
    assert found, begun
    session = f"Mcp-Session-Id: {found[1]}"
    assert post({"method": "notifications/initialized"}, session).startswith("HTTP/2 202")
    arguments = {"name": "demo:list_projects", "args_json": "{}"}
    called = post({"id": 2, "method": "tools/call", "params": {"name": "call_tool_read", "arguments": arguments}}, session)
    assert called.startswith("HTTP/2 200") and '"isError":true' not in called and "p_audit" in called, called


def test_a_bridge_goes_on_after_a_renewal(secure: Secure) -> None:
    async def over_stdio() -> None:
        command = StdioServerParameters(
            command=str(peers.MCPPROXY), args=["stdio", "--home", str(secure.home)], env=secure.environment()
        )
        async with Client(stdio_client(command)) as session:
            assert "retrieve_tools" in [tool.name for tool in (await session.list_tools()).tools]
            second = (secure.home / "second.pem").read_text().strip()
            secure.use("second")
            await anyio.to_thread.run_sync(lambda: until(lambda: secure.served().strip() == second, 10, "renewed"))
            assert "retrieve_tools" in [tool.name for tool in (await session.list_tools()).tools]

    anyio.run(over_stdio)


def test_a_browser_opens_the_pages(secure: Secure) -> None:
    """The browser ignores who signed the certificate. Everything else is as for users."""
    browser = Browser()
    try:
        with User(browser, secure, "ann", any_authority=True) as ann:
            ann.set_up(setup_link(secure))
            ann.open("/ui/")
            seen = ann.look()
            assert seen["url"].startswith("https://localhost:") and not seen["complaints"], seen
            # Pages share one connection, on which each waits for events.
            script = "performance.getEntriesByType('navigation')[0].nextHopProtocol"
            assert ann.do("evaluate", script=script) == "h2"
    finally:
        browser.close()


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda home: (home / "own.pem").unlink(), "cannot be read: No such file"),
        (lambda home: (home / "own.pem").write_text("text"), "holds no certificate"),
        (lambda home: shutil.copyfile(home / "second.key", home / "own.key"), "does not fit the certificate"),
    ],
)
def test_wrong_files_stop_the_start(tmp_path: Path, change: Any, words: str) -> None:
    gateway = Secure(tmp_path / "home")
    change(gateway.home)
    for command in (("config", "check"), ("serve", "--listen", "127.0.0.1:0")):
        done = gateway.run(*command)
        assert done.returncode != 0 and words in done.stderr and "mcp_config.json:" in done.stderr, done


def test_an_expired_certificate_is_a_warning(tmp_path: Path) -> None:
    home = tmp_path / "home"
    gateway = Secure(home)
    expired(home, "old")
    gateway.use("old")
    checked = gateway.run("config", "check")
    assert checked.returncode == 0 and "expired at" in checked.stderr, checked
    gateway.use("first")
    with gateway:
        # The gateway serves it all the same, and commands still trust it.
        gateway.use("old")
        until(lambda: "certificate_expired" in gateway.run("status").stdout, 10, "the status shows it")
        assert "expired at" in gateway.words()
        gateway.use("first")
        until(lambda: "certificate_expired" not in gateway.run("status").stdout, 10, "the status is clean")


def test_permissions_of_the_key(tmp_path: Path) -> None:
    gateway = Secure(tmp_path / "home")
    for mode, code, words in ((0o644, 0, "other users can read the key"), (0o666, 6, "can be changed by everyone")):
        (gateway.home / "own.key").chmod(mode)
        checked = gateway.run("config", "check")
        assert (checked.returncode, words in checked.stderr) == (code, True), checked


def test_metrics_beyond_this_machine_are_encrypted(tmp_path: Path) -> None:
    """The token of a scrape must not cross the network in the clear."""
    port, token = free_port(), "a-token-for-metrics"
    with Secure(tmp_path / "home", metrics={"listen": f"0.0.0.0:{port}", "token": token}) as gateway:
        assert isinstance(gateway, Secure)
        given = {"Authorization": f"Bearer {token}"}
        read = httpx.get(f"https://localhost:{port}/metrics", headers=given, verify=gateway.trusting(), timeout=10)
        assert read.status_code == 200 and "\nmcpproxy_certificate_expires_seconds " in read.text, read.text
        assert httpx.get(f"http://localhost:{port}/metrics", headers=given, timeout=10).status_code == 400
        assert f"https://0.0.0.0:{port}/metrics" in gateway.curl("/metrics")


def test_anonymous_clients_need_a_listener_on_loopback(tmp_path: Path) -> None:
    gateway = Secure(tmp_path / "home", allow_anonymous_loopback=True)
    done = gateway.run("serve", "--listen", "0.0.0.0:0")
    assert done.returncode != 0 and "needs a listener on loopback" in done.stderr, done
