"""A scripted model on loopback: calls the tools of a script one after another, and keeps what it got back.

The agent believes that it talks to a model. The script decides which tools it calls, so a test needs no account,
no network and no luck. Agents differ in how they offer the tools of an MCP server:

- The name has a prefix, such as `mcp__mcpproxy__call_tool_read` or `mcpproxy_call_tool_read`.
- Some hide the tools behind a search of their own (`ToolSearch`, `tool_search`). The model then searches once.
- Qwen Code does not offer a tool that was found, but calls it through `tool_call`.
"""

from __future__ import annotations

import json
import sys
import threading
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType
from typing import Any

from model_apis import Call, Reply, Text, Turn, api_at

SERVER = "mcpproxy"
SEARCHES = {"ToolSearch", "tool_search"}
DONE = "Every step of the script was tried."


@dataclass
class Step:
    """One call of the script. `result` is `None` until the agent returns one."""

    tool: str
    args: dict[str, Any]
    was_offered: bool = True
    result: str | None = None


@dataclass
class Model:
    """Serves every API of `model_apis` until the end of the `with` block. Serves one session of one agent."""

    steps: list[Step]
    is_done: bool = False
    asides: list[str] = field(default_factory=list)
    _position: int = 0
    _waiting: Step | None = None
    _has_searched: bool = False
    _results: set[str] = field(default_factory=set)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def __enter__(self) -> Model:
        self.http = Server(("127.0.0.1", 0), handler_for(self))
        self.url = f"http://127.0.0.1:{self.http.server_address[1]}"
        self.thread = threading.Thread(target=self.http.serve_forever, kwargs={"poll_interval": 0.05})
        self.thread.start()
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.http.shutdown()
        self.http.server_close()
        self.thread.join(10)

    def reply(self, turn: Turn) -> Reply:
        """Keeps the result of the last call, and makes the next one."""
        with self._lock:
            for number, text in turn.results:
                if number not in self._results:
                    self._results.add(number)
                    self._keep(text)
            return self._next(turn.offered)

    def _keep(self, text: str) -> None:
        if self._waiting:
            self._waiting.result = text
            self._waiting = None

    def _next(self, offered: list[str]) -> Reply:
        while self._position < len(self.steps):
            step = self.steps[self._position]
            name = find(step.tool, offered)
            search = next((tool for tool in offered if tool in SEARCHES), None)
            if not name and search and not self._has_searched:
                self._has_searched = True
                wanted = ",".join(f"mcp__{SERVER}__{step.tool}" for step in self.steps)
                return Call(search, {"query": f"select:{wanted}", "max_results": 20})
            self._position += 1
            if name:
                self._waiting = step
                return Call(name, step.args)
            if "tool_call" in offered:
                self._waiting = step
                return Call("tool_call", {"name": f"mcp__{SERVER}__{step.tool}", "arguments": step.args})
            step.was_offered = False
        self.is_done = True
        return Text(DONE)


class Server(ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, request: Any, client_address: Any) -> None:
        """Ignores agents that hang up. Anything else is a mistake in a script or in an API, and is shown."""
        if not isinstance(sys.exception(), ConnectionError):
            super().handle_error(request, client_address)


def find(tool: str, offered: list[str]) -> str | None:
    """Returns the name under which an agent offers a tool of the gateway."""
    found = [name for name in offered if name == tool or (SERVER in name and name.endswith(tool))]
    return min(found, key=len, default=None)


def handler_for(model: Model) -> type[BaseHTTPRequestHandler]:
    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def do_GET(self) -> None:
            models = [{"id": "scripted", "object": "model", "owned_by": "tests"}]
            self.send("application/json", json.dumps({"object": "list", "data": models, "models": []}).encode())

        def do_POST(self) -> None:
            path = self.path.partition("?")[0]
            raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
            api = api_at(path)
            if api is None:
                # Token counts, telemetry and checks for updates. None of them matters to a script.
                model.asides.append(path)
                self.send("application/json", b'{"input_tokens": 1, "totalTokens": 1}')
                return
            body = json.loads(raw)
            turn = api.turn(body)
            answer = api.answer(body, path, model.reply(turn) if turn else Text("A title"))
            self.send(answer.media_type, answer.body)

        def send(self, media_type: str, body: bytes) -> None:
            self.send_response(200)
            self.send_header("Content-Type", media_type)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            pass

    return Handler
