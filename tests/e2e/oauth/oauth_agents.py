"""Agents that sign in at an identity provider: a gateway that accepts its tokens, and clients with their own OAuth."""

from __future__ import annotations

import base64
import json
import subprocess
import time
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlparse

import anyio
import httpx
import httpx2
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken

from gateway import Gateway
from identity_provider import IdentityProvider
from peers import NODE, NODE_DIR

REDIRECT = "http://127.0.0.1:33417/callback"
CLIENT_SECONDS = 60


class Protected:
    """A gateway whose `/mcp` accepts access tokens of a provider."""

    def __init__(self, home: Path, provider: IdentityProvider, servers: dict[str, Any], **oauth: Any) -> None:
        self.provider = provider
        self.servers = servers
        self.oauth = oauth
        self.gateway = Gateway(home, {"mcpServers": servers})

    def __enter__(self) -> Protected:
        self.gateway.__enter__()
        # Only now the port is known, which is a part of the audience.
        self.accept(**self.oauth)
        return self

    def __exit__(self, *error: Any) -> None:
        self.gateway.__exit__(*error)

    @property
    def audience(self) -> str:
        return self.gateway.mcp

    def accept(self, **oauth: Any) -> None:
        """Replaces `agents.oauth`."""
        section = {"issuer": self.provider.issuer, "audience": self.audience, "scopes": ["mcp"], **oauth}
        self.gateway.write_settings({"mcpServers": self.servers, "agents": {"oauth": section}})
        self.reload()

    def reload(self) -> None:
        """Returns when the files are in force."""
        key = {"X-API-Key": self.gateway.admin_key}
        answer = httpx.post(f"{self.gateway.base}/api/v1/reload", headers=key, timeout=60)
        assert answer.status_code == 200, answer.text

    def metadata(self, path: str = "/mcp") -> httpx.Response:
        return httpx.get(f"{self.gateway.base}/.well-known/oauth-protected-resource{path}", timeout=10)

    def token(self, **changes: Any) -> str:
        """An access token of the provider. `None` removes a claim."""
        now = int(time.time())
        claims = {"iss": self.provider.issuer, "aud": self.audience, "sub": "ada", "exp": now + 300, **changes}
        header = claims.pop("header", {})
        return self.provider.sign({name: value for name, value in claims.items() if value is not None}, **header)

    def post(self, token: str | None, path: str = "/mcp", method: str = "ping", **params: Any) -> httpx.Response:
        """Sends one request without a session."""
        headers = {"Accept": "application/json, text/event-stream"}
        if token is not None:
            headers["Authorization"] = f"Bearer {token}"
        message = {"jsonrpc": "2.0", "id": 1, "method": method, "params": params}
        return httpx.post(self.gateway.base + path, headers=headers, json=message, timeout=60)

    def call(self, token: str, tool: str, **arguments: Any) -> dict[str, Any]:
        answer = self.post(token, method="tools/call", name=tool, arguments=arguments)
        assert answer.status_code == 200, f"{answer.status_code} {answer.text}"
        return answer.json()["result"]

    def agent(self, name: str) -> str:
        """The name of the provider's user in records."""
        return f"{name}@{self.provider.issuer.removeprefix('http://')}"


class Memory:
    """Keeps tokens and the registration of a client in memory."""

    def __init__(self) -> None:
        self.tokens: OAuthToken | None = None
        self.client: OAuthClientInformationFull | None = None

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


def python_client(
    url: str, era: str, calls: list[dict[str, Any]], memory: Memory | None = None
) -> tuple[list[dict[str, Any]], str]:
    """Signs in with the OAuth client of the Python SDK. Returns the results of the calls, and the access token."""
    return anyio.run(_python_client, url, era, calls, memory or Memory())


async def _python_client(
    url: str, era: str, calls: list[dict[str, Any]], memory: Memory
) -> tuple[list[dict[str, Any]], str]:
    answers: list[AuthorizationCodeResult] = []

    async def redirect(address: str) -> None:
        answers.append(await _sign_in(address))

    async def callback() -> AuthorizationCodeResult:
        return answers.pop()

    metadata = OAuthClientMetadata.model_validate(
        {"client_name": "python-client", "redirect_uris": [REDIRECT], "token_endpoint_auth_method": "none"}
    )
    auth = OAuthClientProvider(url, metadata, memory, redirect, callback)
    with anyio.fail_after(CLIENT_SECONDS):
        async with httpx2.AsyncClient(auth=auth, timeout=CLIENT_SECONDS) as http:
            async with Client(streamable_http_client(url, http_client=http), mode=era) as client:
                results = [await client.call_tool(one["name"], one["arguments"]) for one in calls]
    assert memory.tokens is not None
    plain = [one.model_dump(mode="json", by_alias=True, exclude_none=True) for one in results]
    return plain, memory.tokens.access_token


async def _sign_in(address: str) -> AuthorizationCodeResult:
    """Follows the redirects of the provider, as a browser would, up to the client's own address."""
    async with httpx.AsyncClient() as browser:
        while not address.startswith(REDIRECT):
            answer = await browser.get(address)
            assert "location" in answer.headers, f"the provider answered {answer.status_code}: {answer.text}"
            address = str(answer.url.join(answer.headers["location"]))
    found = {name: values[0] for name, values in parse_qs(urlparse(address).query).items()}
    return AuthorizationCodeResult(code=found["code"], state=found.get("state"), iss=found.get("iss"))


def typescript_client(
    library: str, url: str, era: str, calls: list[dict[str, Any]]
) -> tuple[list[dict[str, Any]], str]:
    """As `python_client`, with the TypeScript SDK in version `v1` or `v2`."""
    plan = {"library": library, "url": url, "era": era, "calls": calls}
    done = subprocess.run(
        [NODE, NODE_DIR / "oauth-client.mjs"],
        input=json.dumps(plan),
        capture_output=True,
        text=True,
        timeout=CLIENT_SECONDS,
    )
    assert done.returncode == 0, done.stderr
    heard = json.loads(done.stdout)
    return heard["results"], heard["token"]


def claims_of(token: str) -> dict[str, Any]:
    part = token.split(".")[1]
    return json.loads(base64.urlsafe_b64decode(part + "=" * (-len(part) % 4)))


def unsigned(header: dict[str, Any], claims: dict[str, Any], signature: bytes = b"") -> str:
    parts = [json.dumps(header).encode(), json.dumps(claims).encode(), signature]
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts)
