"""The export delivers every record at least once: over crashes, a dead receiver and restarts."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from test_metrics import scrape, value
from wire import MODERN, Wire

SECONDS = 20
SECRET = "ghp_0123456789abcdefghijABCDEFGHIJ012345"


def settings(folder: Path, to: str, **export: str) -> dict[str, Any]:
    return {"mcpServers": {"fx": peers.fx(folder / "ledger.jsonl")}, "export": {"to": to, **export}}


def call(gateway: Gateway, tool: str, variant: str = "read", **arguments: Any) -> dict[str, Any]:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    parameters = {"name": f"fx:{tool}", "args": arguments}
    return wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": parameters})


def recorded(gateway: Gateway) -> dict[str, dict[str, Any]]:
    """Returns all records that have ended, by id."""
    found: dict[str, dict[str, Any]] = {}
    cursor = ""
    while True:
        page = gateway.admin(f"/activity?limit=500{cursor}")
        found |= {one["id"]: one for one in page["activities"] if one["status"] != "started"}
        if not page["next"]:
            return found
        cursor = f"&cursor={page['next']}"


def in_file(path: Path) -> list[dict[str, Any]]:
    """Returns the events of a file. A crash may leave half a line, which no event is."""
    if not path.exists():
        return []
    events = []
    for line in path.read_text().splitlines():
        try:
            events.append(json.loads(line))
        except json.JSONDecodeError:
            continue
    return events


def uid(event: dict[str, Any]) -> str:
    return str(event["metadata"]["uid"])


def test_a_file_gets_every_record_as_ocsf(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    with Gateway(tmp_path / "home", settings(tmp_path, f"file:{out}")) as gateway:
        call(gateway, "echo", a=1, token=SECRET)
        call(gateway, "delete_thing", "destructive", b=SECRET)
        call(gateway, "missing")
        call(gateway, "delete_thing", "read")
        assert httpx.post(gateway.mcp, headers={"Authorization": "Bearer wrong"}, json={}).status_code == 401
        until(lambda: set(recorded(gateway)) <= {uid(one) for one in in_file(out)}, SECONDS, "all records are exported")
        records, events = recorded(gateway), {uid(one): one for one in in_file(out)}
        assert set(events) == set(records), "nothing else is exported"
        for name, event in events.items():
            record = records[name]
            assert event["type_uid"] == event["class_uid"] * 100 + event["activity_id"]
            assert event["unmapped"]["record_type"] == record["type"]
            assert event["metadata"]["sequence"] == (record["end_seq"] or record["seq"])
            assert event["class_uid"] == (3002 if record["type"] == "auth" else 6003)
            needed = {"user"} if event["class_uid"] == 3002 else {"actor", "api", "src_endpoint"}
            assert needed <= set(event), event
        of = {event["api"]["operation"]: event for event in events.values() if "api" in event}
        assert (of["fx:echo"]["activity_id"], of["fx:echo"]["status"]) == (2, "Success")
        assert (of["fx:missing"]["action"], of["fx:missing"]["status"]) == ("Denied", "Failure")
        assert of["fx:echo"]["unmapped"]["arguments"]["bytes"] > 0
        assert SECRET not in out.read_text()
        assert out.stat().st_mode & 0o777 == 0o600
        state = gateway.admin("/status")["export"]
        assert (state["destination"], state["missed"], state["reason"]) == (f"file:{out}", 0, None), state
        until(lambda: value(scrape(gateway), "mcpproxy_export_lag_records") == 0, SECONDS, "nothing is left")
        assert value(scrape(gateway), "mcpproxy_export_records_total") == len(events)


def test_kill_9_loses_no_record(tmp_path: Path) -> None:
    out = tmp_path / "out.jsonl"
    gateway = Gateway(tmp_path / "home", settings(tmp_path, f"file:{out}"))
    for round_ in range(3):
        gateway.start()
        with ThreadPoolExecutor(8) as pool:
            calls = [pool.submit(call, gateway, "create_note", "write", n=n, round=round_) for n in range(60)]
            # Some records are exported and some are not.
            until(lambda: len(in_file(out)) > round_ * 20 + 10, SECONDS, "the export has begun")
            assert gateway.child is not None
            gateway.child.kill()
            gateway.child.wait()
            gateway.child = None
            for one in calls:
                one.exception()
        until(lambda: not gateway.processes(), 10, "the servers noticed")
    with gateway:
        until(lambda: set(recorded(gateway)) <= {uid(one) for one in in_file(out)}, SECONDS, "all records are exported")
        seen: dict[str, dict[str, Any]] = {}
        for event in in_file(out):
            assert seen.setdefault(uid(event), event) == event, "a duplicate is the same event"
        assert any(one["status"] == "interrupted" for one in recorded(gateway).values()) or len(seen) > 30


class Receiver:
    """An endpoint that takes JSON lines, or refuses them."""

    def __init__(self, port: int = 0) -> None:
        self.events: list[dict[str, Any]] = []
        self.status = 200
        self.authorizations: set[str | None] = set()
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.authorizations.add(self.headers["authorization"])
                assert self.headers["content-type"] == "application/x-ndjson"
                if receiver.status == 200:
                    receiver.events += [json.loads(line) for line in body.splitlines()]
                self.send_response(receiver.status)
                self.send_header("content-length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", port), Handler)
        self.port = self.server.server_port
        threading.Thread(target=self.server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self.server.shutdown()
        self.server.server_close()


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    one = Receiver()
    yield one
    one.close()


def test_an_endpoint_that_refuses_and_comes_back(tmp_path: Path, receiver: Receiver) -> None:
    receiver.status = 503
    to = f"http://127.0.0.1:{receiver.port}/in?key=hidden-key"
    with Gateway(tmp_path / "home", settings(tmp_path, to, token="a-token-for-the-siem")) as gateway:
        for number in range(50):
            assert not call(gateway, "echo", n=number).get("isError"), "a dead receiver stops no call"
        state = until(lambda: found if (found := gateway.admin("/status")["export"])["reason"] else None, SECONDS, "told")
        assert "503" in state["reason"] and state["destination"] == f"http://127.0.0.1:{receiver.port}", state
        assert "hidden-key" not in json.dumps(gateway.admin("/status"))
        assert "hidden-key" not in gateway.words()
        until(lambda: value(scrape(gateway), "mcpproxy_export_lag_records") >= 50, SECONDS, "the lag shows")
        found = scrape(gateway)
        assert value(found, "mcpproxy_export_failures_total") >= 1
        assert value(found, "mcpproxy_export_up") == 0
        receiver.status = 200
        until(lambda: set(recorded(gateway)) <= {uid(one) for one in receiver.events}, SECONDS, "all arrived")
        assert receiver.authorizations == {"Bearer a-token-for-the-siem"}
        until(lambda: gateway.admin("/status")["export"]["reason"] is None, SECONDS, "it works again")


def test_a_restart_continues_at_the_position(tmp_path: Path, receiver: Receiver) -> None:
    gateway = Gateway(tmp_path / "home", settings(tmp_path, f"http://127.0.0.1:{receiver.port}/"))
    with gateway:
        call(gateway, "echo", n=1)
        until(lambda: set(recorded(gateway)) <= {uid(one) for one in receiver.events}, SECONDS, "all arrived")
    before = [uid(one) for one in receiver.events]
    with gateway:
        call(gateway, "echo", n=2)
        until(lambda: set(recorded(gateway)) <= {uid(one) for one in receiver.events}, SECONDS, "all arrived")
    after = [uid(one) for one in receiver.events]
    assert after[: len(before)] == before and len(after) == len(set(after)), "nothing is sent twice without a crash"
