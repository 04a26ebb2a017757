"""MCP over plain HTTP, message by message, so that tests see the exact bytes."""

from __future__ import annotations

import itertools
import json
from typing import Any

import httpx

LEGACY = "legacy"
MODERN = "2026-07-28"
ACCEPT = "application/json, text/event-stream"
NAMED = {"tools/call": "name", "prompts/get": "name", "resources/read": "uri"}


class Wire:
    """One agent's connection in one protocol era. `ask` returns the raw result of a request."""

    def __init__(self, url: str, token: str, era: str, capabilities: dict[str, Any] | None = None) -> None:
        self.url = url
        self.era = era
        self.numbers = itertools.count(1)
        self.capabilities = capabilities or {}
        self.heard: list[dict[str, Any]] = []
        headers = {"Authorization": f"Bearer {token}", "Accept": ACCEPT, "Content-Type": "application/json"}
        self.http = httpx.Client(headers=headers, timeout=60)
        if era == LEGACY:
            self._initialize()
        else:
            self.http.headers["MCP-Protocol-Version"] = era

    def ask(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        return self._result(self.post(self.message(method, params)), method)

    def message(self, method: str, params: dict[str, Any] | None = None) -> dict[str, Any]:
        """Builds a request for this era."""
        params = dict(params or {})
        if self.era != LEGACY:
            params["_meta"] = {
                **params.get("_meta", {}),
                "io.modelcontextprotocol/protocolVersion": self.era,
                "io.modelcontextprotocol/clientInfo": {"name": "wire", "version": "1"},
                "io.modelcontextprotocol/clientCapabilities": self.capabilities,
            }
        return {"jsonrpc": "2.0", "id": next(self.numbers), "method": method, "params": params}

    def post(self, message: dict[str, Any], **headers: str) -> httpx.Response:
        if self.era != LEGACY:
            headers.setdefault("Mcp-Method", message["method"])
            key = NAMED.get(message["method"])
            if key and key in message["params"]:
                headers.setdefault("Mcp-Name", message["params"][key])
        return self.http.post(self.url, content=json.dumps(message).encode(), headers=headers)

    def _initialize(self) -> None:
        hello = {
            "protocolVersion": "2025-11-25",
            "capabilities": self.capabilities,
            "clientInfo": {"name": "wire", "version": "1"},
        }
        answer = self.post(self.message("initialize", hello))
        self.server = self._result(answer, "initialize")
        self.http.headers["MCP-Protocol-Version"] = self.server["protocolVersion"]
        if "mcp-session-id" in answer.headers:
            self.http.headers["Mcp-Session-Id"] = answer.headers["mcp-session-id"]
        self.http.post(self.url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})

    def _result(self, answer: httpx.Response, method: str) -> dict[str, Any]:
        for message in messages(answer):
            if "result" in message or "error" in message:
                return message.get("result", {"error": message.get("error")})
            self.heard.append(message)
        raise AssertionError(f"{method}: no result in {answer.status_code} {answer.text[:500]}")


def messages(answer: httpx.Response) -> list[dict[str, Any]]:
    """Returns the JSON-RPC messages of an answer, which is one JSON object or an event stream."""
    if answer.headers.get("content-type", "").startswith("text/event-stream"):
        data = (line.removeprefix("data:").strip() for line in answer.text.splitlines() if line.startswith("data:"))
        return [json.loads(one) for one in data if one]
    return [answer.json()]
