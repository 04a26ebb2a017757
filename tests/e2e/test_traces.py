"""Traces and logs reach a collector over OTLP, in the form that OpenTelemetry's own messages define."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

import peers
from gateway import Gateway, until
from wire import LEGACY, MODERN, Wire

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
SECONDS = 20
MESSAGES = {"/v1/traces": ExportTraceServiceRequest, "/v1/logs": ExportLogsServiceRequest}


class Collector:
    """Keeps what arrives, after OpenTelemetry's own definition has accepted it."""

    def __init__(self) -> None:
        self.requests: list[tuple[str, dict[str, str], dict[str, Any]]] = []
        self.answers: list[int] = []
        collector = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                status = collector.answers.pop(0) if collector.answers else 200
                if status == 200:
                    # An unknown member, or one of the wrong type, is an error.
                    json_format.Parse(body, MESSAGES[self.path]())
                    headers = {name.lower(): value for name, value in self.headers.items()}
                    collector.requests.append((self.path, headers, json.loads(body)))
                self.send_response(status)
                self.send_header("content-length", "2")
                self.end_headers()
                self.wfile.write(b"{}")

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever, daemon=True)
        self.thread.start()

    def spans(self) -> list[dict[str, Any]]:
        found = [body["resourceSpans"][0] for path, _, body in self.requests if path == "/v1/traces"]
        return [span for one in found for scope in one["scopeSpans"] for span in scope["spans"]]

    def whole(self) -> list[dict[str, Any]]:
        return [span for span in self.spans() if span["kind"] == 2]

    def logs(self) -> list[dict[str, Any]]:
        found = [body["resourceLogs"][0] for path, _, body in self.requests if path == "/v1/logs"]
        return [record for one in found for scope in one["scopeLogs"] for record in scope["logRecords"]]

    def stop(self) -> None:
        self.server.shutdown()
        self.server.server_close()
        self.thread.join()


@pytest.fixture
def collector() -> Iterator[Collector]:
    one = Collector()
    yield one
    one.stop()


def variables(collector: Collector, **more: str) -> dict[str, str]:
    return {"OTEL_EXPORTER_OTLP_ENDPOINT": collector.url, "OTEL_BSP_SCHEDULE_DELAY": "50", **more}


@contextmanager
def running(gateway: Gateway, **env: str) -> Iterator[None]:
    gateway.start(**env)
    try:
        yield
    finally:
        gateway.stop()


def call(gateway: Gateway, era: str, tool: str, **arguments: Any) -> dict[str, Any]:
    meta = {"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "vendor=value"}
    parameters = {"name": tool, "args": arguments}
    return Wire(gateway.mcp, gateway.token, era).ask(
        "tools/call", {"name": "call_tool_read", "arguments": parameters, "_meta": meta}
    )


def attributes(span: dict[str, Any]) -> dict[str, str]:
    return {one["key"]: one["value"]["stringValue"] for one in span["attributes"]}


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_a_call_continues_the_trace_of_its_agent(tmp_path: Path, collector: Collector, era: str) -> None:
    ledger = tmp_path / "ledger.jsonl"
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(ledger)}})
    headers = {"OTEL_EXPORTER_OTLP_HEADERS": "authorization=Bearer%20secret", "OTEL_SERVICE_NAME": "front door"}
    with running(gateway, **variables(collector, **headers)):
        result = call(gateway, era, "fx:echo", n=1)
        assert not result.get("isError"), result
        until(lambda: collector.whole(), SECONDS, "the trace arrived")
    (whole,) = collector.whole()
    assert (whole["traceId"], whole["parentSpanId"]) == (TRACE, PARENT)
    assert whole["name"] == "tools/call echo" and not whole["status"]
    known = attributes(whole)
    assert (known["mcpproxy.server"], known["gen_ai.tool.name"], known["mcpproxy.agent"]) == ("fx", "echo", "local")
    stages = {span["name"]: span for span in collector.spans() if span is not whole}
    assert set(stages) == {"decide", "open", "close", "tools/call echo"}
    for span in stages.values():
        assert (span["traceId"], span["parentSpanId"]) == (TRACE, whole["spanId"])
        times = [int(text) for text in (whole["startTimeUnixNano"], span["startTimeUnixNano"])]
        times += [int(text) for text in (span["endTimeUnixNano"], whole["endTimeUnixNano"])]
        assert times == sorted(times), span
    # The server is a child of the span in which it had the call.
    (seen,) = [json.loads(line) for line in ledger.read_text().splitlines()]
    assert seen["_meta"]["traceparent"] == f"00-{TRACE}-{stages['tools/call echo']['spanId']}-01"
    assert seen["_meta"]["tracestate"] == "vendor=value"
    path, sent, body = next(one for one in collector.requests if one[0] == "/v1/traces")
    assert sent["authorization"] == "Bearer secret"
    assert {"key": "service.name", "value": {"stringValue": "front door"}} in body["resourceSpans"][0]["resource"][
        "attributes"
    ]
    assert known["mcpproxy.record"] in json.dumps(result["_meta"])


def test_refusals_are_errors_and_nothing_secret_is_sent(tmp_path: Path, collector: Collector) -> None:
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}})
    with running(gateway, **variables(collector, MCPPROXY_LOG="info")):
        assert call(gateway, MODERN, "fx:nowhere", text="very secret")["isError"]
        assert not call(gateway, MODERN, "fx:echo", text="very secret").get("isError")
        until(lambda: len(collector.whole()) == 2, SECONDS, "both traces arrived")
    refused = next(span for span in collector.whole() if span["status"])
    assert refused["status"] == {"code": 2}
    assert attributes(refused)["error.type"] == "tool_not_found"
    assert "gen_ai.tool.name" not in attributes(refused), "an agent could make up any number of names"
    assert "very secret" not in json.dumps([body for _, _, body in collector.requests])


def test_traces_survive_a_collector_that_is_away_for_a_moment(tmp_path: Path, collector: Collector) -> None:
    collector.answers = [503]
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}})
    with running(gateway, **variables(collector, OTEL_LOGS_EXPORTER="none")):
        assert not call(gateway, MODERN, "fx:echo", n=1).get("isError")
        until(lambda: collector.whole(), SECONDS, "the trace arrived at the second try")
    assert len(collector.whole()) == 1


def test_a_stopping_gateway_sends_what_it_has(tmp_path: Path, collector: Collector) -> None:
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}})
    with running(gateway, **variables(collector, OTEL_BSP_SCHEDULE_DELAY="600000")):
        assert not call(gateway, MODERN, "fx:echo", n=1).get("isError")
        assert not collector.requests
    assert len(collector.whole()) == 1


def test_an_unsampled_trace_is_passed_on_untouched(tmp_path: Path, collector: Collector) -> None:
    ledger = tmp_path / "ledger.jsonl"
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(ledger)}})
    parent = f"00-{TRACE}-{PARENT}-00"
    with running(gateway, **variables(collector)):
        four = {"name": "call_tool_read", "arguments": {"name": "fx:echo", "args": {}}, "_meta": {"traceparent": parent}}
        assert not Wire(gateway.mcp, gateway.token, MODERN).ask("tools/call", four).get("isError")
    assert json.loads(ledger.read_text())["_meta"]["traceparent"] == parent
    assert not collector.spans()


def test_messages_of_the_program_are_exported(tmp_path: Path, collector: Collector) -> None:
    # Nobody listens on this port, so the export of records warns.
    nowhere = {"export": {"to": "http://127.0.0.1:1/"}}
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}, **nowhere})
    with running(gateway, **variables(collector)):
        until(lambda: collector.logs(), SECONDS, "a warning about the export arrived")
    record = collector.logs()[0]
    assert record["severityText"] in ("WARN", "ERROR") and record["body"]["stringValue"]


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "localhost:4318"),
        ("OTEL_TRACES_SAMPLER", "sometimes"),
    ],
)
def test_a_variable_that_cannot_be_used_stops_the_start(
    tmp_path: Path, collector: Collector, name: str, value: str
) -> None:
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}})
    ended = gateway.run_with(variables(collector, **{name: value}), "serve", "--listen", "127.0.0.1:0")
    assert ended.returncode == 2, ended.stderr
    assert f"`{name}`" in ended.stderr and f"{name}" in ended.stderr.splitlines()[-1], ended.stderr
