"""Records tell what happened: dry runs, replayed answers, warnings, refused intents and direct calls."""

from __future__ import annotations

import datetime
import json
import time
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from log import record, record_in
from wire import LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]
CONTRACT = """
tool: hints:only_writes
riskLevel: low
category: billing
auditEvent: bill.written
---
tool: hints:broken
riskLevel: low
auditEvent: bill.broken
"""


def four(gateway: Gateway, variant: str, era: str = MODERN, **arguments: Any) -> dict[str, Any]:
    """Calls a tool through `call_tool_*`."""
    wire = Wire(gateway.mcp, gateway.token, era)
    return wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": arguments})


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder = tmp_path_factory.mktemp("records")
    hints = {"command": peers.PYTHON, "args": [str(peers.HERE / "hints_server.py"), str(folder / "ledger.jsonl")]}
    running = Gateway(folder / "home", {"mcpServers": {"hints": hints, "demo": {"type": "demo"}}})
    running.write("contracts/hints.yaml", CONTRACT)
    with running:
        yield running


@pytest.fixture(scope="module")
def strict(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    """A gateway that requires two keys."""
    folder = tmp_path_factory.mktemp("two_keys")
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "intent_declaration": {"two_key": "required"}}
    with Gateway(folder / "home", settings) as running:
        yield running


def listed(gateway: Gateway, *filters: str) -> str:
    done = gateway.run("activity", "list", *filters)
    assert done.returncode == 0, done.stderr
    return done.stdout


# -- audit events -----------------------------------------------------------------------------------------------


def test_a_dry_run_leaves_no_event(gateway: Gateway) -> None:
    done = gateway.run(
        "call", "tool-destructive", "demo:delete_user", "--args", '{"userId": "u_max"}', "--dry-run", "-o", "json"
    )
    assert done.returncode == 0, done.stderr
    found = record(gateway, json.loads(done.stdout)["_meta"]["mcpproxy/record"])
    assert found["status"] == "success" and found["metadata"]["dry_run"] == "server", found
    assert "audit_event" not in found["metadata"]
    assert gateway.records("--query", "user.deleted") == []
    assert "delete_user (dry run)" in listed(gateway, "--tool", "demo:delete_user")
    ids = [one["id"] for one in gateway.records("--dry-run")]
    assert ids == [one["id"] for one in gateway.admin("/activity?dry_run=true")["activities"]] == [found["id"]]
    assert found["id"] not in {one["id"] for one in gateway.admin("/activity?dry_run=false&limit=500")["activities"]}
    (tool,) = [one for one in gateway.admin("/activity/summary")["by_tool"] if one["name"] == "demo:delete_user"]
    assert (tool["count"], tool["dry_runs"]) == (0, 1), "a dry run deletes nobody"


def test_only_a_success_leaves_an_event(gateway: Gateway) -> None:
    broken = record(gateway, record_in(four(gateway, "read", name="hints:broken")))
    assert broken["status"] == "error" and "audit_event" not in broken["metadata"]
    made = four(gateway, "write", name="hints:only_writes", idempotency_key="bill-1")
    assert record(gateway, record_in(made))["metadata"]["audit_event"] == "bill.written"
    assert [one["id"] for one in gateway.records("--query", "bill.written")] == [record_in(made)]
    again = four(gateway, "write", name="hints:only_writes", idempotency_key="bill-1")
    replayed = record(gateway, record_in(again))
    assert replayed["metadata"]["replayed_from"] == record_in(made) and "audit_event" not in replayed["metadata"]
    assert "only_writes (replayed)" in listed(gateway, "--replayed")
    assert [one["id"] for one in gateway.records("--replayed")] == [replayed["id"]]
    assert [one["id"] for one in gateway.admin("/activity?replayed=true")["activities"]] == [replayed["id"]]


def test_a_warning_shows(gateway: Gateway) -> None:
    four(gateway, "write", name="hints:read_only", intent_data_sensitivity="private", intent_reason="too careful")
    assert "read_only (warning)" in listed(gateway, "--sensitivity", "private")


def test_sensitivity_and_category_are_filters(gateway: Gateway) -> None:
    four(gateway, "write", name="hints:only_writes", intent_data_sensitivity="internal")
    (found,) = gateway.records("--sensitivity", "internal", "--category", "billing")
    assert found["metadata"]["intent"]["data_sensitivity"] == "internal"
    assert found["metadata"]["category"] == "billing"
    page = gateway.admin("/activity?sensitivity=internal&category=billing")["activities"]
    assert [one["id"] for one in page] == [found["id"]]
    assert gateway.records("--category", "bill") == []
    wrong = httpx.get(
        f"{gateway.base}/api/v1/activity?sensitivity=secret", headers={"X-API-Key": gateway.admin_key}, timeout=60
    )
    assert wrong.status_code == 400 and "public, internal, private or unknown" in wrong.text


# -- refused intents --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_a_refused_call_keeps_its_declared_intent(gateway: Gateway, era: str) -> None:
    reason = f"sneak past the check in {era}"
    intent = {"operation_type": "destructive", "data_sensitivity": "private", "reason": reason}
    refused = four(gateway, "read", era, name="hints:destructive", intent=intent)
    found = record(gateway, record_in(refused))
    assert found["code"] == "INTENT_MISMATCH"
    assert found["metadata"]["intent"] == intent
    assert found["metadata"]["expected"] == {"operation_type": "read"}
    assert found["metadata"]["tool_variant"] == "call_tool_read"
    for filters in (("--query", reason), ("--intent-type", "destructive", "--sensitivity", "private")):
        assert found["id"] in {one["id"] for one in gateway.records(*filters)}, filters
    tools = {one["name"]: one for one in gateway.admin("/activity/summary")["by_tool"]}
    assert tools["hints:destructive"]["refused"] >= 1
    shown = gateway.run("activity", "show", found["id"]).stdout
    assert "Expected     read" in shown and reason in shown, shown


def test_approval_records_have_the_intent(gateway: Gateway) -> None:
    intent = {"operation_type": "destructive", "data_sensitivity": "private", "reason": "the user said so"}
    arguments = {"userId": "u_max"}
    four(gateway, "destructive", name="demo:delete_user", args=arguments, dry_run=True, intent=intent)
    asked = four(gateway, "destructive", name="demo:delete_user", args=arguments, intent=intent)
    assert asked["structuredContent"]["error"]["code"] == "confirmation_required", asked
    (found,) = gateway.records("--type", "approval", "--query", "the user said so")
    assert found["metadata"]["intent"] == intent


# -- idempotency ------------------------------------------------------------------------------------------------


def test_an_expired_link_is_made_again(gateway: Gateway) -> None:
    ends = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=6)
    arguments = {"fileId": "f_abc123", "expiresAt": ends.isoformat(timespec="seconds").replace("+00:00", "Z")}

    def link() -> dict[str, Any]:
        return four(gateway, "write", name="demo:create_download_link", args=arguments)

    first = link()
    again = link()
    assert again["_meta"]["mcpproxy/replayed"] and again["structuredContent"] == first["structuredContent"]
    until(lambda: time.time() > ends.timestamp() + 0.1, 10, "the link has expired")
    third = link()
    assert "mcpproxy/replayed" not in third["_meta"], third
    assert third["structuredContent"]["linkId"] != first["structuredContent"]["linkId"]


def test_an_error_is_not_the_answer_for_a_day(gateway: Gateway) -> None:
    """A natural call that failed runs again. The demo server says so by an answer without a mark."""
    for _ in range(2):
        failed = four(
            gateway,
            "write",
            name="demo:create_download_link",
            args={"fileId": "f_none", "expiresAt": "2099-12-31T23:59:00Z"},
        )
        assert failed["isError"] and "mcpproxy/replayed" not in failed["_meta"], failed


# -- direct mode ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize(("path", "mode", "tool"), [("/mcp/s/demo", "server", ""), ("/mcp/direct", "direct", "demo__")])
def test_direct_calls_need_the_second_key(strict: Gateway, path: str, mode: str, tool: str, era: str) -> None:
    wire = Wire(strict.base + path, strict.token, era)
    call = {"name": f"{tool}list_projects", "arguments": {}}
    refused = wire.ask("tools/call", call)
    error = refused["structuredContent"]["error"]
    assert error["code"] == "MISSING_INTENT" and '_meta["mcpproxy/intent"]' in error["message"], error
    assert "call_tool" not in error["message"]
    add = error["details"]["next"]["add"]
    made = wire.ask("tools/call", {**call, **add})
    assert not made["isError"], made
    for answer, expected in ((refused, {"operation_type": "read"}), (made, None)):
        metadata = record(strict, record_in(answer))["metadata"]
        assert (metadata["endpoint_mode"], metadata["variant_inferred"]) == (mode, True)
        assert metadata["intent"] == {"operation_type": "read"} and metadata.get("expected") == expected
    wrong = {**call, "_meta": {"mcpproxy/intent": {"operation_type": "write", "reason": "by mistake"}}}
    mismatch = wire.ask("tools/call", wrong)
    assert mismatch["structuredContent"]["error"]["code"] == "INTENT_MISMATCH"
    assert record(strict, record_in(mismatch))["metadata"]["intent"]["reason"] == "by mistake"


def test_direct_mode_can_be_closed(tmp_path: Any) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "direct_mode": False}
    with Gateway(tmp_path / "home", settings) as running:

        def status(path: str) -> int:
            body = {"jsonrpc": "2.0", "id": 1, "method": "tools/list"}
            headers = {"Authorization": f"Bearer {running.token}", "Accept": "application/json, text/event-stream"}
            return httpx.post(running.base + path, json=body, headers=headers, timeout=60).status_code

        assert [status(path) for path in ("/mcp", "/mcp/s/demo", "/mcp/direct")] == [200, 404, 404]
        running.write_settings({**settings, "direct_mode": True})
        until(lambda: status("/mcp/direct") == 200, 10, "direct mode is open again")
