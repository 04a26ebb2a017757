"""A contract or policy file that is half written, deleted or edited by an agent never lifts a restriction by itself."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import httpx
import pytest

from gateway import Gateway, until
from user import Session, set_up_plainly
from wire import MODERN, Wire

SECONDS = 30
CONTRACTS = """\
- tool: demo:delete_user
  riskLevel: critical
  operation: destructive
  permissions: [users:delete]
- tool: demo:list_projects
  riskLevel: forbidden
- tool: demo:create_note
  riskLevel: high
"""
POLICY = '@id("no-drafts")\nforbid (principal, action, resource == Tool::"demo:create_draft");\n'
SETTINGS: dict[str, Any] = {"mcpServers": {"demo": {"type": "demo"}}, "approvals": {"wait": "0s"}}


@pytest.fixture
def gateway(tmp_path: Path) -> Any:
    gateway = Gateway(tmp_path / "home", SETTINGS)
    gateway.write("contracts/demo.yaml", CONTRACTS)
    gateway.write("policies/demo.cedar", POLICY)
    with gateway:
        yield gateway.connected()


def code(gateway: Gateway, variant: str, tool: str, args: dict[str, Any] | None = None) -> str:
    """Calls a tool. Returns the code of the refusal, or `ok`."""
    arguments = {"name": f"demo:{tool}", "args": args or {}}
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    result = wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": arguments})
    return result["structuredContent"]["error"]["code"] if result.get("isError") else "ok"


def held(gateway: Gateway) -> dict[str, Any] | None:
    return gateway.admin("/status")["settings"]["held"]


def reload(gateway: Gateway) -> dict[str, Any] | None:
    """Makes the gateway read its files now. Returns what waits. An invalid file changes nothing."""
    answer = httpx.post(f"{gateway.base}/api/v1/reload", headers={"X-API-Key": gateway.admin_key}, timeout=60)
    return answer.json()["held"] if answer.status_code == 200 else None


def test_a_contract_file_cut_anywhere_opens_no_tool(gateway: Gateway) -> None:
    path = gateway.home / "contracts" / "demo.yaml"
    for end in range(0, len(CONTRACTS), 3):
        # In place and not atomically, as many editors write.
        path.write_text(CONTRACTS[:end])
        reload(gateway)
        assert code(gateway, "destructive", "delete_user", {"userId": "u_max"}) != "ok", CONTRACTS[:end]
        assert code(gateway, "read", "list_projects") == "tool_not_found", CONTRACTS[:end]
    path.write_text(CONTRACTS)
    assert reload(gateway) is None, "the whole file changes nothing, so nothing waits"


def test_a_deleted_file_waits_for_a_user(gateway: Gateway) -> None:
    (gateway.home / "contracts" / "demo.yaml").unlink()
    (gateway.home / "policies" / "demo.cedar").unlink()

    def waits(start: str) -> bool:
        changes = (held(gateway) or {"changes": []})["changes"]
        return any(line.startswith(start) for line in changes)

    until(lambda: waits("demo:list_projects: contract removed"), SECONDS, "the contract waits")
    until(lambda: waits("policy no-drafts removed"), SECONDS, "the policy waits")
    assert (held(gateway) or {})["needs_step_up"] is True
    assert code(gateway, "read", "list_projects") == "tool_not_found"
    draft = {"to": ["kim@example.com"], "subject": "Hi", "body": "x"}
    assert code(gateway, "write", "create_draft", draft) == "policy_violation"
    assert "weakening_held" in gateway.run("status").stdout
    until(lambda: "Not applied, because it weakens contracts, policies or settings" in gateway.words(), SECONDS, "it is told")
    found = lambda: [one for one in gateway.records("--type", "settings") if one["code"] == "weakening_held"]  # noqa: E731
    until(found, SECONDS, "it is recorded")


def test_what_is_stricter_applies_beside_what_waits(gateway: Gateway) -> None:
    text = CONTRACTS.replace("forbidden", "low") + "- tool: demo:get_help_article\n  riskLevel: forbidden\n"
    gateway.write("contracts/demo.yaml", text)
    until(lambda: code(gateway, "read", "get_help_article", {"id": "x"}) == "tool_not_found", SECONDS, "stricter")
    assert code(gateway, "read", "list_projects") == "tool_not_found"
    waiting = held(gateway)
    assert waiting is not None
    assert [line.split(":")[1] for line in waiting["changes"]] == ["list_projects"]


def test_only_a_user_confirms(gateway: Gateway) -> None:
    totp = set_up_plainly(gateway, "ada")
    gateway.write("contracts/demo.yaml", CONTRACTS.replace("forbidden", "low"))
    waiting = until(lambda: held(gateway), SECONDS, "the change waits")
    url, body = f"{gateway.base}/api/v1/config/apply", {"digest": waiting["digest"]}
    for headers in ({}, {"X-API-Key": gateway.admin_key}, {"Authorization": f"Bearer {gateway.token}"}):
        refused = httpx.post(url, json=body, headers=headers, timeout=60)
        assert refused.status_code in (401, 403), f"{headers} {refused.text}"
    piped = gateway.run("config", "apply", stdin="ada\napply\n")
    assert piped.returncode == 3 and "non-interactively" in piped.stderr, piped.stderr
    ada = Session(gateway, "ada")
    assert ada.post("/config/apply", body).json()["error"]["code"] == "page_key_required"
    without_code = ada.post("/config/apply", {**body, "page_key": ada.page_key})
    assert without_code.json()["error"]["code"] == "step_up_required", without_code.text
    # The files change after the user has read the changes.
    gateway.write("contracts/demo.yaml", CONTRACTS.replace("forbidden", "medium"))
    changed = ada.post("/config/apply", {**body, "totp": totp.code()})
    assert changed.json()["error"]["code"] == "held_changed", changed.text
    assert code(gateway, "read", "list_projects") == "tool_not_found"

    newest = held(gateway)
    assert newest is not None and newest["digest"] != waiting["digest"]
    applied = ada.post("/config/apply", {"digest": newest["digest"], "totp": totp.code()})
    assert applied.status_code == 200, applied.text
    assert "riskLevel forbidden → medium" in applied.json()["applied"][0]
    assert held(gateway) is None
    assert code(gateway, "read", "list_projects") == "ok"
    confirmed = lambda: [  # noqa: E731
        one for one in gateway.records("--type", "settings") if one["metadata"].get("confirmed_by") == "ada"
    ]
    until(confirmed, SECONDS, "the confirmation is recorded")


def test_the_check_cannot_be_turned_off_by_an_edit(gateway: Gateway) -> None:
    gateway.write_settings({**SETTINGS, "contracts": {"weakening": "apply"}})
    waiting = until(lambda: held(gateway), SECONDS, "the setting waits")
    assert waiting["changes"] == ["setting contracts.weakening confirm → apply"]
    gateway.write("contracts/demo.yaml", CONTRACTS.replace("forbidden", "low"))
    until(lambda: len((held(gateway) or waiting)["changes"]) == 2, SECONDS, "the contract waits too")
    assert code(gateway, "read", "list_projects") == "tool_not_found"


def test_an_edit_of_the_settings_lifts_no_approval(gateway: Gateway) -> None:
    """A form is answered by the agent's own client, and a lenient gateway takes a destructive call for a read."""
    approvals = {**SETTINGS["approvals"], "channels": {"high": "form"}}
    intent = {"strict_server_validation": False}
    gateway.write_settings({**SETTINGS, "approvals": approvals, "intent_declaration": intent})
    waiting = until(lambda: held(gateway), SECONDS, "the settings wait")
    assert waiting["changes"] == [
        "setting intent_declaration.strict_server_validation true → false",
        "setting approvals.channels.high page → form",
    ]
    gateway.write_settings(SETTINGS)
    until(lambda: held(gateway) is None, SECONDS, "nothing waits")


def test_calls_during_slow_writes_never_run(gateway: Gateway) -> None:
    """The file stays half written for longer than the gateway waits for a writer."""
    path = gateway.home / "contracts" / "demo.yaml"
    cut = CONTRACTS.index("  riskLevel: critical")
    for _ in range(3):
        path.write_text(CONTRACTS[:cut])
        end = time.monotonic() + 1
        while time.monotonic() < end:
            assert code(gateway, "destructive", "delete_user", {"userId": "u_max"}) != "ok"
        path.write_text(CONTRACTS)


def test_with_atomic_deployment_everything_applies_at_once(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", {**SETTINGS, "contracts": {"weakening": "apply"}})
    gateway.write("contracts/demo.yaml", CONTRACTS)
    with gateway:
        gateway.connected()
        gateway.write("contracts/demo.yaml", CONTRACTS.replace("forbidden", "low"))
        until(lambda: code(gateway, "read", "list_projects") == "ok", SECONDS, "the contract is in force")
        assert held(gateway) is None
