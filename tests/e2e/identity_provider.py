"""Starts the identity provider of `node/identity-provider.mjs`, and the MCP server that accepts its tokens.

The members of the settings are described at the top of the two files.
"""

from __future__ import annotations

import json
import subprocess
import urllib.request
from typing import Any, Self

from peers import NODE, NODE_DIR


class _Process:
    """A script of `node/` that prints one line of JSON when it is ready and ends when its standard input ends."""

    script = ""

    def __init__(self, **settings: Any) -> None:
        self.settings = settings
        self.ready: dict[str, Any] = {}

    def __enter__(self) -> Self:
        self.process = subprocess.Popen(
            [NODE, str(NODE_DIR / self.script), json.dumps(self.settings)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        assert line, f"{self.script} did not start"
        self.ready = json.loads(line)
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def stop(self) -> None:
        if self.process.stdin is not None and not self.process.stdin.closed:
            self.process.stdin.close()
        self.process.wait(timeout=10)
        if self.process.stdout is not None:
            self.process.stdout.close()

    def _control(self, base: str, path: str, body: dict[str, Any] | None = None) -> Any:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{base}/test/{path}", data=data, headers={"content-type": "application/json"})
        with urllib.request.urlopen(request, timeout=10) as answer:
            return json.load(answer)


class IdentityProvider(_Process):
    """An identity provider on loopback: `with IdentityProvider(login="click") as provider: provider.issuer`."""

    script = "identity-provider.mjs"

    @property
    def issuer(self) -> str:
        return self.ready["issuer"]

    @property
    def port(self) -> int:
        return int(self.issuer.split("/")[2].rsplit(":", 1)[1])

    @property
    def _origin(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def set(self, **changes: Any) -> None:
        """Changes settings while it runs, for example `login="deny"` or `down=True`."""
        self._control(self._origin, "set", changes)

    def requests(self, route: str = "", **params: str) -> list[dict[str, Any]]:
        """Requests that arrived, for example `requests("token", grant_type="refresh_token")`."""
        every = self._control(self._origin, "requests")
        wanted = [one for one in every if route in ("", one["route"])]
        return [one for one in wanted if all(one["params"].get(key) == value for key, value in params.items())]

    def secrets(self) -> list[str]:
        """Every token that it issued, to look for leaks."""
        return self._control(self._origin, "secrets")

    def forget_refresh_tokens(self) -> None:
        self._control(self._origin, "forget", {})

    def approve_device(self, user_code: str, user: str | None = None) -> None:
        self._control(self._origin, "device", {"user_code": user_code, **({"user": user} if user else {})})

    def sign(self, claims: dict[str, Any], **header: Any) -> str:
        """A JWT with any claims, signed with the provider's key."""
        return self._control(self._origin, "sign", {"claims": claims, "header": header})["jwt"]


class ProtectedServer(_Process):
    """An MCP server that wants tokens: `with ProtectedServer(issuer=provider.issuer) as server: server.url`."""

    script = "oauth-server.mjs"

    @property
    def url(self) -> str:
        return self.ready["url"]

    @property
    def _origin(self) -> str:
        return self.url.rsplit("/", 1)[0]

    def set(self, **changes: Any) -> None:
        """Changes settings while it runs, for example `accept="none"` or `scopes=["admin"]`."""
        self._control(self._origin, "set", changes)

    def requests(self) -> list[dict[str, Any]]:
        """Requests that arrived: `{"method", "status", "subject", "scopes"}`."""
        return self._control(self._origin, "requests")
