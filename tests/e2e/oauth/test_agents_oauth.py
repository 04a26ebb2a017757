"""Agents with access tokens of an identity provider, with the OAuth clients of the official SDKs."""

from __future__ import annotations

import hashlib
import hmac
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import httpx
import pytest
from oauth_agents import Memory, Protected, claims_of, python_client, typescript_client, unsigned

from gateway import Gateway, until
from identity_provider import IdentityProvider

DEMO = {"demo": {"type": "demo"}}
READ = {"name": "call_tool_read", "arguments": {"name": "demo:list_projects"}}
WRITE = {
    "name": "call_tool_write",
    "arguments": {"name": "demo:create_note", "args": {"projectId": "p_website", "title": "Test"}},
}
STAFF = {
    "allow": [
        {"claim": "groups", "contains": "mcp-admins", "operations": ["read", "write"], "permissions": ["*"]},
        {"claim": "groups", "contains": "staff", "permissions": ["*"]},
    ]
}


@pytest.fixture(scope="module")
def provider() -> Iterator[IdentityProvider]:
    groups = {"ada": {"groups": ["staff", "mcp-admins"]}, "bob": {"groups": ["staff"]}}
    with IdentityProvider(token_claims=groups) as provider:
        yield provider


@pytest.fixture(scope="module")
def protected(provider: IdentityProvider, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    with Protected(tmp_path_factory.mktemp("oauth") / "home", provider, DEMO, claims=STAFF) as protected:
        yield protected


def text(result: dict[str, Any]) -> str:
    return result["content"][0]["text"]


CLIENTS = [
    ("python", "legacy"),
    ("python", "2026-07-28"),
    ("v1", "legacy"),
    ("v2", "legacy"),
    ("v2", "2026-07-28"),
]


@pytest.mark.parametrize("library,era", CLIENTS, ids=[f"{library}-{era}" for library, era in CLIENTS])
@pytest.mark.parametrize("path", ["/mcp", "/mcp/s/demo"])
def test_a_client_finds_the_provider_and_signs_its_user_in(
    protected: Protected, provider: IdentityProvider, library: str, era: str, path: str
) -> None:
    url = protected.gateway.base + path
    calls = [READ, WRITE] if path == "/mcp" else [{"name": "list_projects", "arguments": {}}]
    registered = len(provider.requests("registration"))
    for user, may_write in [("ada", True), ("bob", False)]:
        provider.set(user=user)
        if library == "python":
            results, token = python_client(url, era, calls)
        else:
            results, token = typescript_client(library, url, era, calls)
        claims = claims_of(token)
        assert (claims["sub"], claims["aud"], claims["scope"]) == (user, protected.audience, "mcp")
        assert "p_website" in json.dumps(results[0])
        if path == "/mcp":
            assert bool(results[1].get("isError")) is not may_write, results[1]
    assert len(provider.requests("registration")) == registered + 2, "each client registered itself"
    newest = protected.gateway.records("--agent", protected.agent("bob"))[0]
    assert newest["agent"] == protected.agent("bob")


def test_a_client_renews_its_token(protected: Protected, provider: IdentityProvider) -> None:
    provider.set(user="ada")
    memory = Memory()
    _, first = python_client(protected.gateway.mcp, "legacy", [READ], memory)
    assert memory.tokens is not None
    # The gateway refuses this one, so the client uses its refresh token.
    memory.tokens = memory.tokens.model_copy(update={"access_token": protected.token(exp=1)})
    results, second = python_client(protected.gateway.mcp, "legacy", [READ], memory)
    assert "p_website" in text(results[0]) and second not in (first, memory)


def test_static_tokens_work_beside_it(protected: Protected) -> None:
    gateway = protected.gateway
    made = gateway.run("token", "create", "ada", "--operations", "read", "--grant", "*")
    assert "p_website" in text(protected.call(made.stdout.strip(), **as_call(READ)))
    assert protected.call(made.stdout.strip(), **as_call(WRITE))["isError"]
    agents = {record["agent"] for record in gateway.records("--limit", "50") if record["agent"]}
    assert {"ada", protected.agent("ada")} <= agents, "records tell the two apart"
    listed = json.loads(gateway.run("token", "list", "-o", "json").stdout)
    assert protected.agent("ada") in {agent["name"] for agent in listed["provider_agents"]}
    assert "provider" in gateway.run("token", "list").stdout
    assert protected.agent("ada") not in {token["name"] for token in listed["tokens"]}


def as_call(step: dict[str, Any]) -> dict[str, Any]:
    return {"tool": step["name"], **step["arguments"]}


def public_key(provider: IdentityProvider) -> bytes:
    keys = httpx.get(httpx.get(f"{provider.issuer}/.well-known/openid-configuration").json()["jwks_uri"]).text
    return keys.encode()


def refused_tokens(protected: Protected) -> dict[str, tuple[str, str]]:
    provider = protected.provider
    claims = {"iss": provider.issuer, "aud": protected.audience, "sub": "ada", "exp": int(time.time()) + 60}
    kid = json.loads(public_key(provider))["keys"][0]["kid"]
    head = {"alg": "HS256", "kid": kid}
    body = unsigned(head, claims).rsplit(".", 1)[0]
    signature = hmac.new(public_key(provider), body.encode(), hashlib.sha256).digest()
    other = IdentityProvider()
    with other:
        foreign = other.sign(claims)
    algorithm = "the token is signed with an algorithm that is not accepted"
    unknown = "the token is signed with a key that the issuer does not publish"
    return {
        "wrong issuer": (protected.token(iss="https://id.example.com"), "the token has another issuer"),
        "wrong audience": (protected.token(aud="https://gw.example.com/mcp"), "the token is for another audience"),
        "several audiences": (protected.token(aud=["a", "b"]), "the token is for another audience"),
        "expired": (protected.token(exp=int(time.time()) - 70), "the token has expired"),
        "not yet": (protected.token(nbf=int(time.time()) + 600), "the token is not valid yet"),
        "alg none": (unsigned({"alg": "none", "kid": kid}, claims), algorithm),
        "HS256 with the public key": (unsigned(head, claims, signature), unknown),
        "unknown kid": (protected.token(header={"kid": "invented"}), unknown),
        "another provider": (foreign, unknown),
        "100 KB": ("a" * 100_000, ""),
        "no JWT": ("hello", "the token is not a valid JWT"),
    }


def test_bad_tokens(protected: Protected) -> None:
    for name, (token, reason) in refused_tokens(protected).items():
        for path in ["/mcp", "/mcp/direct", "/mcp/s/demo"]:
            answer = protected.post(token, path)
            if name == "100 KB" and answer.status_code == 431:
                continue
            assert answer.status_code == 401, f"{name}: {answer.status_code} {answer.text}"
            challenge = answer.headers["www-authenticate"]
            assert 'error="invalid_token"' in challenge and reason in challenge, f"{name}: {challenge}"
            assert f'resource_metadata="{protected.gateway.base}/.well-known/oauth-protected-resource{path}"' in challenge
            assert token not in answer.text and token not in challenge
    answer = protected.post(protected.token(sub="eve", groups=["guests"]))
    assert answer.status_code == 403 and 'error="insufficient_scope"' in answer.headers["www-authenticate"]
    answer = protected.post(None)
    assert answer.status_code == 401 and "error" not in answer.headers["www-authenticate"]


def test_rejected_tokens_are_recorded_without_any_part_of_them(protected: Protected) -> None:
    def rejected() -> list[dict[str, Any]]:
        records = protected.gateway.records("--type", "auth", "--limit", "500")
        return [record for record in records if record["code"] == "unauthorized"]

    token, before, began = protected.token(exp=1), len(rejected()), time.monotonic()
    for _ in range(50):
        assert protected.post(token).status_code == 401
    took = time.monotonic() - began
    # At most one record a second. The records of the other tests do not count.
    records = rejected()
    assert len(records) - before <= took + 1
    assert records
    log = json.dumps(records) + protected.gateway.words()
    assert not any(part in log for part in token.split("."))


def test_a_token_ends_with_its_time_and_so_does_its_stream(protected: Protected) -> None:
    # A token counts a minute longer than it says, for clocks that differ.
    token = protected.token(exp=int(time.time()) - 54, groups=["staff"])
    hello = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    opened = protected.post(token, method="initialize", **hello)
    session = opened.headers["mcp-session-id"]
    headers = {"Authorization": f"Bearer {token}", "Mcp-Session-Id": session, "Accept": "text/event-stream"}
    began = time.monotonic()
    with httpx.stream("GET", protected.gateway.mcp, headers=headers, timeout=60) as stream:
        assert stream.status_code == 200
        for _ in stream.iter_raw():
            pass
    assert time.monotonic() - began < 30
    assert protected.post(token).status_code == 401


class Echo(BaseHTTPRequestHandler):
    """An MCP server whose tool returns every header that it got."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        message = json.loads(self.rfile.read(int(self.headers["content-length"])))
        tool = {"name": "headers", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
        said = {"type": "text", "text": json.dumps(dict(self.headers.items()))}
        results: dict[str, Any] = {
            "initialize": {
                "protocolVersion": "2025-11-25",
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "echo", "version": "1"},
            },
            "tools/list": {"tools": [tool]},
            "tools/call": {"content": [said]},
        }
        answer: dict[str, Any] = {"jsonrpc": "2.0", "id": message.get("id")}
        if message["method"] in results:
            answer["result"] = results[message["method"]]
        else:
            answer["error"] = {"code": -32601, "message": "Method not found"}
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


def test_a_server_never_gets_the_token_of_an_agent(provider: IdentityProvider, tmp_path: Any) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Echo)
    server.daemon_threads = True
    threading.Thread(target=server.serve_forever, daemon=True).start()
    echo = {"echo": {"url": f"http://127.0.0.1:{server.server_port}/mcp", "headers": {"X-Own": "mine"}}}
    with Protected(tmp_path / "home", provider, echo) as protected:
        token = protected.token()
        for result in [
            protected.call(token, "call_tool_read", name="echo:headers"),
            protected.post(token, "/mcp/s/echo", "tools/call", name="headers", arguments={}).json()["result"],
        ]:
            heard = text(result)
            assert '"mine"' in heard.lower() and "authorization" not in heard.lower()
            assert not any(part in heard for part in token.split("."))
    server.shutdown()


def test_a_provider_that_is_away_or_slow(provider: IdentityProvider, tmp_path: Any) -> None:
    """Known keys serve on. Without any, tokens are not judged, and the gateway's own tokens work."""
    with Protected(tmp_path / "home", provider, DEMO) as protected:
        token = protected.token()
        provider.set(down=True)
        try:
            answer = protected.post(token)
            assert answer.status_code == 503 and "www-authenticate" not in answer.headers, answer.text
            own = protected.gateway.token
            assert "p_website" in text(protected.call(own, **as_call(READ)))
            provider.set(down=3000)
            # The next try comes after ten seconds. Meanwhile, nothing waits for the provider.
            with ThreadPoolExecutor(8) as pool:
                waiting = [pool.submit(until, lambda: protected.post(token).status_code == 200, 40, "a slow provider")]
                began = time.monotonic()
                assert "p_website" in text(protected.call(own, **as_call(READ)))
                assert time.monotonic() - began < 3
                waiting[0].result()
            provider.set(down=True)
            assert protected.post(protected.token(sub="bob")).status_code == 200, "known keys serve on"
        finally:
            provider.set(down=False)


def test_a_reload_changes_what_agents_may_do(provider: IdentityProvider, tmp_path: Any) -> None:
    with Protected(tmp_path / "home", provider, DEMO) as protected:
        token = protected.token()
        for step in (READ, WRITE):
            assert protected.call(token, **as_call(step))["isError"], "without a mapping, there are no permissions"
        protected.accept(claims={"allow": [{"permissions": ["*"]}]})
        assert "p_website" in text(protected.call(token, **as_call(READ)))
        assert protected.call(token, **as_call(WRITE))["isError"], "an entry without operations allows to read"
        protected.accept(claims={"operations": "ops", "permissions": "grants"})
        assert protected.call(token, **as_call(READ))["isError"], "the token has no such claim"
        writer = protected.token(ops=["write"], grants=["*"])
        assert not protected.call(writer, **as_call(WRITE)).get("isError")
        protected.accept(blocked=["ada"])
        assert protected.post(token).status_code == 403
        assert protected.post(protected.token(sub="bob")).status_code == 200
        protected.gateway.write_settings({"mcpServers": DEMO})
        protected.reload()
        assert protected.metadata().status_code == 404
        answer = protected.post(token)
        assert (answer.status_code, answer.headers["www-authenticate"]) == (401, "Bearer")


def test_a_gateway_starts_while_its_provider_is_down(tmp_path: Any) -> None:
    oauth = {"issuer": "http://127.0.0.1:9", "audience": "http://localhost/mcp"}
    with Gateway(tmp_path / "home", {"mcpServers": DEMO, "agents": {"oauth": oauth}}) as gateway:
        assert gateway.probe("/readyz") == 200
    gateway = Gateway(tmp_path / "home", {"agents": {"oauth": {**oauth, "issuer": "http://id.example.com"}}})
    checked = gateway.run("config", "check")
    assert checked.returncode != 0 and "`http://` is accepted for localhost only" in checked.stdout + checked.stderr
