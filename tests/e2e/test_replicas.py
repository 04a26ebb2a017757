"""Three gateways on one PostgreSQL database, behind a load balancer without sticky sessions."""

from __future__ import annotations

import json
import queue
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from clients import LEGACY_KINDS, Kind, call, play
from gateway import Gateway, until
from log import PostgresStorage
from postgres import Postgres, own_postgres, postgres  # noqa: F401
from round_robin import RoundRobin
from wire import LEGACY, MODERN, Wire, messages

CALLS = 30
SECONDS = 20
FORM = {"elicitation": {"form": {}}}
ELICITED = {"action": "accept", "content": {"name": "Ada"}}
OVER = {"code": -32600, "message": "the session has ended; initialize again"}


@dataclass
class Fleet:
    gateways: list[Gateway]
    ledger: Path
    token: str

    def wire(self, capabilities: dict[str, Any] | None = None, token: str = "") -> Wire:
        """Opens a session at the first gateway."""
        return Wire(self.gateways[0].mcp, token or self.token, LEGACY, capabilities)

    def calls(self, name: str) -> int:
        lines = self.ledger.read_text().splitlines() if self.ledger.exists() else []
        return sum(json.loads(line)["name"] == name for line in lines)

    def another_token(self, name: str) -> str:
        done = self.gateways[0].run("token", "create", name, "--grant", "*")
        assert done.returncode == 0, done.stderr
        return done.stdout.strip()


def start(folder: Path, server: Postgres) -> Fleet:
    storage = PostgresStorage(server, server.create())
    ledger = folder / "ledger.jsonl"
    memo = {"command": peers.PYTHON, "args": [str(peers.HERE / "memo_server.py")]}
    # A server can ask only one agent at a time, so there is a second one for a second question.
    servers = {"fx": peers.fx(ledger), "fy": peers.fx(ledger), "memo": memo}
    settings = {"mcpServers": servers, **storage.settings()}
    gateways = [Gateway(folder / name, settings) for name in ("one", "two", "three")]
    for gateway in gateways:
        gateway.start()
    return Fleet(gateways, ledger, gateways[0].token)


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory, postgres: Postgres) -> Iterator[Fleet]:  # noqa: F811
    found = start(tmp_path_factory.mktemp("fleet"), postgres)
    yield found
    for gateway in found.gateways:
        gateway.stop()


def at(wire: Wire, gateway: Gateway, message: dict[str, Any]) -> httpx.Response:
    """Sends a message of this session to another gateway."""
    return wire.http.post(gateway.mcp, content=json.dumps(message).encode())


def read(tool: str, **args: Any) -> dict[str, Any]:
    return {"name": "call_tool_read", "arguments": {"name": tool, "args": args}}


@contextmanager
def stream(wire: Wire, gateway: Gateway) -> Iterator[queue.Queue[dict[str, Any]]]:
    """Opens the session's stream for notifications at this gateway."""
    heard: queue.Queue[dict[str, Any]] = queue.Queue()
    opened = threading.Event()
    with httpx.Client(headers={**wire.http.headers, "accept": "text/event-stream"}, timeout=60) as http:

        def listen() -> None:
            try:
                with http.stream("GET", gateway.mcp) as answer:
                    assert answer.status_code == 200, answer.read()
                    opened.set()
                    for line in answer.iter_lines():
                        if line.startswith("data:"):
                            heard.put(json.loads(line.removeprefix("data:")))
            except httpx.HTTPError:
                pass
            heard.put({"method": "the end"})

        thread = threading.Thread(target=listen, daemon=True)
        thread.start()
        assert opened.wait(60)
        yield heard


@pytest.mark.parametrize("kind", LEGACY_KINDS, ids=str)
def test_thirty_of_thirty_while_a_gateway_is_killed(
    tmp_path: Path,
    postgres: Postgres,  # noqa: F811
    kind: Kind,
) -> None:
    fleet = start(tmp_path, postgres)
    steps = [call("call_tool_read", {"name": "fx:echo", "args": {"number": n}}) for n in range(CALLS)]
    lost = fleet.gateways[1]
    try:
        with RoundRobin(fleet.gateways) as balancer:

            def kill() -> None:
                assert lost.child is not None
                lost.child.kill()
                lost.child.wait()
                lost.child = None

            balancer.before[CALLS // 2] = kill
            heard = play(kind, balancer.url, fleet.token, steps)
        assert [json.loads(one["content"][0]["text"])["number"] for one in heard.results] == list(range(CALLS))
        assert fleet.calls("echo") == CALLS
        assert all(balancer.answered[gateway.address] >= 3 for gateway in fleet.gateways), balancer.answered
    finally:
        for gateway in fleet.gateways:
            gateway.stop()


def test_a_question_is_answered_through_another_gateway(fleet: Fleet) -> None:
    """The official SDK gets the question on one connection and sends its answer on another."""
    with RoundRobin(fleet.gateways) as balancer:
        steps = [call("call_tool_read", {"name": "fx:ask_late"}) for _ in range(6)]
        for kind in LEGACY_KINDS:
            heard = play(kind, balancer.url, fleet.token, steps, {"elicitation": ELICITED})
            assert [one["kind"] for one in heard.asked] == ["elicitation"] * 6, kind
            texts = [json.loads(one["content"][0]["text"]) for one in heard.results]
            assert [(one["action"], one["content"]) for one in texts] == [("accept", {"name": "Ada"})] * 6, kind


def open_question(fleet: Fleet, wire: Wire, asked: queue.Queue[str]) -> httpx.Response:
    """Calls a tool that asks, at the first gateway. Puts the id of the question into the queue."""
    message = wire.message("tools/call", read("fx:ask_late"))
    lines: list[str] = []
    with wire.http.stream("POST", fleet.gateways[0].mcp, content=json.dumps(message).encode()) as answer:
        for line in answer.iter_lines():
            lines.append(line)
            if line.startswith("data:") and "elicitation/create" in line:
                asked.put(json.loads(line.removeprefix("data:"))["id"])
    return httpx.Response(200, headers={"content-type": "text/event-stream"}, text="\n".join(lines))


def test_only_the_agent_that_was_asked_can_answer(fleet: Fleet) -> None:
    wire, stranger = fleet.wire(FORM), fleet.wire(FORM, fleet.another_token("stranger"))
    asked: queue.Queue[str] = queue.Queue()
    with ThreadPoolExecutor() as pool:
        held = pool.submit(open_question, fleet, wire, asked)
        question = asked.get(timeout=60)
        yes = {"jsonrpc": "2.0", "id": question, "result": ELICITED}
        for gateway in fleet.gateways:
            refused = at(stranger, gateway, yes)
            assert refused.status_code == 400, refused.text
            assert refused.json()["error"]["message"] == "no request with this id is open"
        # An answer that does not fit into a notification of PostgreSQL.
        long = {"action": "accept", "content": {"name": "Ada" * 10_000}}
        taken = at(wire, fleet.gateways[2], {"jsonrpc": "2.0", "id": question, "result": long})
        assert taken.status_code == 202, taken.text
        result = messages(held.result(60))[-1]["result"]
        assert json.loads(result["content"][0]["text"]) == long
        again = at(wire, fleet.gateways[2], yes)
        assert again.json()["error"]["message"] == "no request with this id is open"


def test_a_call_is_cancelled_through_another_gateway(fleet: Fleet) -> None:
    wire = fleet.wire()
    parameters = {"name": "call_tool_write", "arguments": {"name": "fx:slow_pay", "args": {}}}
    message = wire.message("tools/call", parameters)
    before = fleet.calls("slow_pay")
    with ThreadPoolExecutor() as pool:
        held = pool.submit(wire.post, message)
        until(lambda: fleet.calls("slow_pay") > before, SECONDS, "the call is at the server")
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": message["id"]}}
        stranger = fleet.wire(token=fleet.another_token("canceller"))
        assert at(stranger, fleet.gateways[1], cancel).status_code == 202
        assert not held.done()
        assert at(wire, fleet.gateways[1], cancel).status_code == 202
        answer = held.result(60)
    assert messages(answer)[-1]["error"]["message"] == "the call was cancelled"


def test_the_end_of_a_session_holds_everywhere(fleet: Fleet) -> None:
    wire = fleet.wire()
    ping = wire.message("ping")
    # All gateways have the session in memory.
    assert [at(wire, gateway, ping).status_code for gateway in fleet.gateways] == [200] * 3
    assert wire.http.delete(fleet.gateways[2].mcp).status_code == 204

    def refused() -> bool:
        answers = [at(wire, gateway, ping) for gateway in fleet.gateways]
        return [one.status_code for one in answers] == [404] * 3 and answers[0].json()["error"] == OVER

    until(refused, SECONDS, "no gateway accepts the session")
    # A gateway that never met the session refuses it too.
    unmet = fleet.wire()
    assert unmet.http.delete(fleet.gateways[0].mcp).status_code == 204
    assert at(unmet, fleet.gateways[1], ping).json()["error"] == OVER


def test_a_session_belongs_to_one_agent_and_endpoint_everywhere(fleet: Fleet) -> None:
    wire = fleet.wire()
    ping = wire.message("ping")
    other = {"Authorization": f"Bearer {fleet.another_token('other')}"}
    for gateway in fleet.gateways:
        answer = wire.http.post(gateway.mcp, json=ping, headers=other)
        assert (answer.status_code, answer.json()["error"]) == (404, OVER)
        answer = wire.http.post(f"{gateway.base}/mcp/direct", json=ping)
        assert (answer.status_code, answer.json()["error"]) == (404, OVER)
        assert at(wire, gateway, ping).status_code == 200


def test_notifications_reach_the_stream_wherever_it_is(fleet: Fleet) -> None:
    wire = fleet.wire()
    one, two, _ = fleet.gateways
    with stream(wire, one) as heard:
        uri = "mcpproxy://memo/memo://one"
        subscribe = wire.message("resources/subscribe", {"uri": uri})
        assert at(wire, two, subscribe).json()["result"] == {}

        # The server of the first gateway hears of the subscription a moment later.
        def updated() -> bool:
            assert at(wire, one, wire.message("tools/call", read("memo:touch"))).status_code == 200
            try:
                told = heard.get(timeout=0.5)
            except queue.Empty:
                return False
            assert (told["method"], told["params"]["uri"]) == ("notifications/resources/updated", uri)
            return True

        until(updated, SECONDS, "the stream tells of the change")
        assert wire.http.delete(two.mcp).status_code == 204
        until(lambda: heard.get(timeout=60)["method"] == "the end", SECONDS, "the stream ends with its session")


def test_a_stateless_call_continues_at_another_gateway(fleet: Fleet) -> None:
    wire = Wire(fleet.gateways[0].mcp, fleet.token, MODERN, FORM)
    asked = wire.ask("tools/call", read("fx:ask_late"))
    assert asked["resultType"] == "input_required", asked
    answers = {"inputResponses": dict.fromkeys(asked["inputRequests"], ELICITED), "requestState": asked["requestState"]}
    there = Wire(fleet.gateways[1].mcp, fleet.token, MODERN, FORM)
    stranger = Wire(fleet.gateways[1].mcp, fleet.another_token("thief"), MODERN, FORM)
    refused = stranger.ask("tools/call", {**read("fx:ask_late"), **answers})
    assert "unknown, used or expired" in refused["error"]["message"]
    done = there.ask("tools/call", {**read("fx:ask_late"), **answers})
    assert json.loads(done["content"][0]["text"]) == ELICITED
    again = there.ask("tools/call", {**read("fx:ask_late"), **answers})
    assert "unknown, used or expired" in again["error"]["message"]


def test_a_lost_gateway_takes_only_its_own_calls(tmp_path: Path, postgres: Postgres) -> None:  # noqa: F811
    fleet = start(tmp_path, postgres)
    one, two, three = fleet.gateways
    try:
        wire = fleet.wire(FORM)
        asked: queue.Queue[str] = queue.Queue()
        modern = Wire(one.mcp, fleet.token, MODERN, FORM)
        parked = modern.ask("tools/call", read("fy:ask_late"))
        with ThreadPoolExecutor() as pool:
            held = pool.submit(open_question, fleet, wire, asked)
            question = asked.get(timeout=60)
            assert one.child is not None
            one.child.kill()
            one.child.wait()
            one.child = None
            with pytest.raises(httpx.HTTPError):
                held.result(60)
        gone = "the gateway that held this call has ended"
        answer = at(wire, two, {"jsonrpc": "2.0", "id": question, "result": ELICITED})
        assert answer.status_code == 400 and gone in answer.json()["error"]["message"], answer.text
        answers = {
            "inputResponses": dict.fromkeys(parked["inputRequests"], ELICITED),
            "requestState": parked["requestState"],
        }
        there = Wire(three.mcp, fleet.token, MODERN, FORM)
        assert gone in there.ask("tools/call", {**read("fy:ask_late"), **answers})["error"]["message"]
        # The session itself goes on.
        for gateway in (two, three):
            done = messages(at(wire, gateway, wire.message("tools/call", read("fx:echo", a=1))))[-1]
            assert json.loads(done["result"]["content"][0]["text"]) == {"a": 1}
    finally:
        for gateway in fleet.gateways:
            gateway.stop()


def test_a_session_ends_although_the_database_was_away(tmp_path: Path, own_postgres: Postgres) -> None:  # noqa: F811
    """A gateway that missed the message about the end of a session looks again when the database is back."""
    fleet = start(tmp_path, own_postgres)
    one, two, _ = fleet.gateways
    try:
        wire = fleet.wire()
        ping = wire.message("ping")
        assert [at(wire, gateway, ping).status_code for gateway in (one, two)] == [200, 200]
        own_postgres.stop("immediate")
        # From memory, without the database.
        assert at(wire, two, ping).status_code == 200
        own_postgres.start()
        until(lambda: one.probe("/readyz") == 200, SECONDS, "the first gateway is ready again")
        until(lambda: wire.http.delete(one.mcp).status_code in (204, 404), SECONDS, "the session is ended")
        until(lambda: at(wire, two, ping).status_code == 404, SECONDS, "the second gateway learns of it")
    finally:
        for gateway in fleet.gateways:
            gateway.stop()


def test_a_session_survives_a_restart(tmp_path: Path) -> None:
    """With SQLite there is one gateway. Its clients keep their sessions when it restarts."""
    gateway = Gateway(tmp_path, {"mcpServers": {"fx": peers.fx(tmp_path / "ledger.jsonl")}})
    with gateway:
        gateway.listen = gateway.address
        kept, ended = (Wire(gateway.mcp, gateway.token, LEGACY) for _ in range(2))
        assert ended.http.delete(gateway.mcp).status_code == 204
    with gateway:
        assert kept.ask("ping") == {}
        assert at(ended, gateway, ended.message("ping")).status_code == 404


def test_probes_come_by_address(fleet: Fleet) -> None:
    gateway = fleet.gateways[0]
    for path, expected in (("/healthz", {"status": "ok"}), ("/readyz", {"ready": True})):
        for host in ("10.0.0.7:8080", "evil.example", "gateway"):
            answer = httpx.get(gateway.base + path, headers={"Host": host}, timeout=60)
            assert (answer.status_code, answer.json()) == (200, expected)
    refused = httpx.get(f"{gateway.base}/ui/", headers={"Host": "10.0.0.7:8080"}, timeout=60)
    assert refused.status_code == 403


def test_a_hanging_server_does_not_keep_the_gateway_from_being_ready(tmp_path: Path) -> None:
    servers = {"mute": peers.misbehaving("--mute")}
    gateway = Gateway(tmp_path, {"mcpServers": servers, "ready_timeout": "2s"}).start(ready=False)
    try:
        until(lambda: gateway.probe("/readyz") == 200, SECONDS, "the gateway is ready")
        assert gateway.servers()["mute"]["state"] == "connecting"
    finally:
        gateway.stop()
