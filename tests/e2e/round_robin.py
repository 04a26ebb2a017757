"""A load balancer without sticky sessions: each HTTP request goes to the next gateway."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from types import TracebackType

import httpx

from gateway import Gateway

HOP = {"host", "connection", "transfer-encoding", "content-length", "keep-alive", "date", "server"}
# Longer than any stream of a test.
READ_SECONDS = 120


class RoundRobin:
    """Forwards requests in turn. A gateway that cannot be reached is skipped, as nginx does."""

    def __init__(self, gateways: list[Gateway]) -> None:
        self.gateways = gateways
        self.requests = 0
        self.lock = threading.Lock()
        self.answered: Counter[str] = Counter()
        self.calls = 0
        # Runs before the call of this number is forwarded, when no other call is on its way.
        self.before: dict[int, Callable[[], None]] = {}
        # Each request opens a connection, so that one to a gateway that is gone fails before anything is sent.
        limits = httpx.Limits(max_keepalive_connections=0)
        self.http = httpx.Client(timeout=httpx.Timeout(10, read=READ_SECONDS), limits=limits)
        balancer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def forward(self) -> None:
                balancer.forward(self)

            do_GET = do_POST = do_DELETE = forward

            def log_message(self, *_: object) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.server.daemon_threads = True
        self.url = f"http://127.0.0.1:{self.server.server_port}/mcp"

    def __enter__(self) -> RoundRobin:
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        return self

    def __exit__(self, _kind: type | None, _value: BaseException | None, _trace: TracebackType | None) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.http.close()

    def forward(self, handler: BaseHTTPRequestHandler) -> None:
        body = handler.rfile.read(int(handler.headers.get("content-length", "0")))
        headers = {name: value for name, value in handler.headers.items() if name.lower() not in HOP}
        with self.lock:
            if b'"tools/call"' in body:
                self.calls += 1
                self.before.pop(self.calls, lambda: None)()
            first = self.requests % len(self.gateways)
            self.requests += 1
        turns = self.gateways[first:] + self.gateways[:first]
        for gateway in turns:
            request = self.http.build_request(
                handler.command, f"{gateway.base}{handler.path}", headers=headers, content=body
            )
            try:
                answer = self.http.send(request, stream=True)
            except httpx.ConnectError:
                continue
            with self.lock:
                self.answered[gateway.address] += 1
            return self.pass_on(handler, answer)
        handler.send_error(502)

    @staticmethod
    def pass_on(handler: BaseHTTPRequestHandler, answer: httpx.Response) -> None:
        handler.send_response(answer.status_code)
        for name, value in answer.headers.items():
            if name.lower() not in HOP:
                handler.send_header(name, value)
        handler.send_header("Connection", "close")
        handler.end_headers()
        handler.close_connection = True
        try:
            for piece in answer.iter_raw():
                handler.wfile.write(piece)
                handler.wfile.flush()
        except (httpx.HTTPError, OSError):
            # One of the two hung up. The other notices.
            pass
        finally:
            answer.close()
