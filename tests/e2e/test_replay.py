"""What-if replay, contract tests and failure statistics, on the log of a real gateway."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import peers
from gateway import Gateway, until
from postgres import Postgres, postgres  # noqa: F401
from wire import LEGACY, Wire

CASES = peers.ROOT / "docs" / "demo-cases.yaml"


@pytest.fixture(params=["sqlite", "postgres"])
def gateway(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Gateway]:
    """A gateway whose log has three calls of three tools, and one refusal."""
    settings: dict[str, Any] = {"mcpServers": {"demo": {"type": "demo"}}, "contracts": {"weakening": "apply"}}
    if request.param == "postgres":
        server: Postgres = request.getfixturevalue("postgres")
        settings["storage"] = {"url": server.url(server.create())}
    with Gateway(tmp_path / "home", settings) as gateway:
        call(gateway, "read", "list_projects", {})
        call(gateway, "write", "create_note", project_note(gateway))
        call(gateway, "write", "create_draft", {"to": ["kim@example.com"], "subject": "Hi", "body": "secret words"})
        assert call(gateway, "read", "create_note", project_note(gateway)) == 3
        yield gateway


def project_note(gateway: Gateway) -> dict[str, str]:
    done = gateway.run("call", "tool-read", "demo:list_projects", "-o", "json")
    found = json.loads(done.stdout)
    return {"projectId": find(found, "id"), "title": "Call Kim"}


def find(value: Any, key: str) -> Any:
    """Returns the first value of a key, at any depth."""
    if isinstance(value, dict):
        if key in value:
            return value[key]
        value = list(value.values())
    for part in value if isinstance(value, list) else []:
        if (found := find(part, key)) is not None:
            return found
    return None


def call(gateway: Gateway, variant: str, tool: str, args: dict[str, Any]) -> int:
    done = gateway.run("call", f"tool-{variant}", f"demo:{tool}", "--args", json.dumps(args))
    return done.returncode


def replay(gateway: Gateway, *options: str, code: int = 0) -> dict[str, Any]:
    done = gateway.run("policy", "replay", "--since", "1h", *options, "-o", "json")
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout)


def groups(report: dict[str, Any]) -> list[tuple[str, str, str, str]]:
    return [(one["change"], one["tool"], one["before"], one["after"]) for one in report["groups"]]


def test_contracts_are_tried_on_the_log(gateway: Gateway, tmp_path: Path) -> None:
    trial = tmp_path / "trial"
    trial.mkdir()
    (trial / "new.yaml").write_text(
        "- tool: demo:create_note\n  riskLevel: high\n  operation: write\n"
        "- tool: demo:list_projects\n  riskLevel: forbidden\n"
        "- tool: demo:create_draft\n  inputSchema: { properties: { subject: { minLength: 5 } } }\n"
    )
    expected = [
        ("newly_refused", "demo:create_draft", "allow", "deny invalid_arguments"),
        ("newly_refused", "demo:list_projects", "allow", "not_found"),
        ("newly_asking", "demo:create_note", "allow", "ask"),
        ("otherwise", "demo:create_note", "deny SERVER_MISMATCH", "deny contract_mismatch"),
    ]
    running = replay(gateway, "--contracts", str(trial))
    assert sorted(groups(running)) == sorted(expected)
    assert running["affected_tools"] == ["demo:create_draft", "demo:create_note", "demo:list_projects"]
    drafts = next(one for one in running["groups"] if one["tool"] == "demo:create_draft")
    assert drafts["masked_at"] == ["/body", "/to/0"], "masked arguments are named"
    shown = gateway.run("activity", "show", drafts["examples"][0], "-o", "json")
    assert json.loads(shown.stdout)["tool"] == "create_draft"
    # The console gets the same from REST, and the file's own mistakes with their line.
    body = {"since": "1h", "contracts": [{"name": "new.yaml", "text": (trial / "new.yaml").read_text()}]}
    answer = post(gateway, body)
    assert answer.status_code == 200
    assert sorted(groups(answer.json())) == sorted(expected)
    bad = post(gateway, {"contracts": [{"name": "new.yaml", "text": "tool: demo:x\nriskLevel: huge\n"}]})
    assert bad.status_code == 400 and "new.yaml" in bad.text and "line 2" in bad.text
    replay(gateway, "--contracts", str(trial), "--fail-on", "newly-refused", code=1)
    replay(gateway, "--contracts", str(trial), "--fail-on", "newly-allowed")
    # Without a gateway, the command reads the same log.
    gateway.stop()
    stopped = replay(gateway, "--contracts", str(trial))
    assert sorted(groups(stopped)) == sorted(expected)
    gateway.start()


def post(gateway: Gateway, body: dict[str, Any]) -> httpx.Response:
    headers = {"X-API-Key": gateway.admin_key}
    return httpx.post(f"{gateway.base}/api/v1/policy/replay", json=body, headers=headers, timeout=60)


def test_policies_and_settings_are_tried(gateway: Gateway, tmp_path: Path) -> None:
    policy = tmp_path / "drafts.cedar"
    policy.write_text('@id("no-drafts") forbid (principal, action, resource == Tool::"demo:create_draft");\n')
    report = replay(gateway, "--policies", str(policy))
    assert groups(report) == [("newly_refused", "demo:create_draft", "allow", "deny policy_violation")]
    settings = tmp_path / "strict.json"
    settings.write_text('{"mcpServers": {"demo": {"type": "demo"}}, "contracts": {"unclassified": "deny"}}')
    report = replay(gateway, "--settings", str(settings))
    assert {one["after"] for one in report["groups"]} == {"deny contract_required"}
    lenient = tmp_path / "lenient.json"
    lenient.write_text('{"mcpServers": {"demo": {"type": "demo"}}, "intent_declaration": {"strict_server_validation": false}}')
    report = replay(gateway, "--settings", str(lenient))
    assert [one["change"] for one in report["groups"]] == ["otherwise"], "the contract still refuses the call"
    assert replay(gateway)["groups"] == [], "the active files decide as recorded"
    broken = tmp_path / "broken.yaml"
    broken.write_text("tool: demo:x\nriskLevel: huge\n")
    done = gateway.run("policy", "replay", "--contracts", str(broken))
    assert done.returncode == 6 and "broken.yaml:2" in done.stderr, done.stderr


def test_a_gate_fails_for_calls_that_would_run(gateway: Gateway, tmp_path: Path) -> None:
    gateway.write("contracts/demo.yaml", "tool: demo:list_projects\nriskLevel: forbidden\n")
    lenient = tmp_path / "lenient.yaml"
    lenient.write_text("tool: demo:nothing\nriskLevel: low\n")
    report = replay(gateway, "--contracts", str(lenient), "--fail-on", "newly-allowed", code=1)
    assert groups(report) == [("newly_allowed", "demo:list_projects", "not_found", "allow")]
    replay(gateway, "--contracts", str(lenient), "--fail-on", "newly-refused")


def test_a_gate_does_not_pass_without_decisions(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", {"mcpServers": {"demo": {"type": "demo"}}}) as gateway:
        call(gateway, "read", "list_projects", {})
        gateway.stop()
        gateway.write_settings({"mcpServers": {"ghost": {"command": str(tmp_path / "no-such-program")}}})
        done = gateway.run("policy", "replay", "-o", "json")
        assert done.returncode == 0, done.stderr
        skipped = json.loads(done.stdout)["not_decided"]
        assert skipped["unknown_tools"] == ["demo:list_projects"] and skipped["unlisted_servers"] == ["ghost"]
        assert "1 call of tools that no server lists now" in done.stderr and "ghost" in done.stderr
        done = gateway.run("policy", "replay", "--fail-on", "newly-refused")
        assert done.returncode == 1 and "none of the recorded calls" in done.stderr, done.stderr


def test_masked_places_are_named_without_a_difference(gateway: Gateway) -> None:
    report = replay(gateway)
    assert report["groups"] == [] and report["complete"] is True
    assert report["masked_at"] == {"demo:create_draft": ["/body", "/to/0"]}
    done = gateway.run("policy", "replay", "--since", "1h")
    assert "1 call with masked arguments (demo:create_draft at /body, /to/0)." in done.stdout


def test_direct_calls_follow_the_settings(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"mcpServers": {"demo": {"type": "demo"}}}
    with Gateway(tmp_path / "home", settings) as gateway:
        gateway.connected()
        wire = Wire(gateway.server_url("demo"), gateway.token, LEGACY)
        wire.ask("tools/call", {"name": "list_projects", "arguments": {}})
        tried = tmp_path / "tried.json"
        tried.write_text(json.dumps({**settings, "direct_mode": False}))
        report = until(lambda: replay(gateway, "--settings", str(tried))["groups"], 5, "the call is in the log")
        assert [(one["tool"], one["after"]) for one in report] == [("demo:list_projects", "not_found")]
        tried.write_text(json.dumps({**settings, "intent_declaration": {"two_key": "required"}}))
        report = replay(gateway, "--settings", str(tried))
        assert groups(report) == [("newly_refused", "demo:list_projects", "allow", "deny MISSING_INTENT")]


def test_a_period_has_a_start_before_its_end(gateway: Gateway) -> None:
    answer = post(gateway, {"since": "1h", "until": "2h"})
    assert answer.status_code == 400 and "later than `until`" in answer.text, answer.text


def test_differences_between_contracts(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home")
    before, after = tmp_path / "before", tmp_path / "after"
    for folder, level in ((before, "low"), (after, "high")):
        folder.mkdir()
        (folder / "mail.yaml").write_text(f"tool: mail:send\nriskLevel: {level}\n")
        # Editors and version control leave hidden files behind, and no gateway reads them.
        (folder / ".mail.yaml").write_text("not: a contract\n")
    words = gateway.run("contract", "diff", str(before), str(after))
    assert words.returncode == 0, words.stderr
    assert "mail:send (changed)" in words.stdout and "riskLevel low → high" in words.stdout
    done = gateway.run("contract", "diff", str(before / "mail.yaml"), str(after / "mail.yaml"), "-o", "json")
    (tool,) = json.loads(done.stdout)["tools"]
    assert (tool["tool"], tool["change"]) == ("mail:send", "changed")
    level = next(field for field in tool["fields"] if field["field"] == "riskLevel")
    assert (level["before"], level["after"]) == ("low", "high")
    done = gateway.run("contract", "diff", str(before), "live")
    assert done.returncode == 7, f"no gateway runs: {done.stderr}"


def test_the_table_names_tools_and_records(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home") as gateway:
        call(gateway, "read", "list_projects", {})
        (tmp_path / "new.yaml").write_text("tool: demo:list_projects\nriskLevel: forbidden\n")
        done = gateway.run("policy", "replay", "--contracts", str(tmp_path / "new.yaml"))
        record = gateway.records("--type", "call")[0]["id"]
        assert "Newly refused: 1" in done.stdout and "demo:list_projects" in done.stdout and record in done.stdout
        done = gateway.run("policy", "replay")
        assert "No call would end differently." in done.stdout


def test_the_suite_of_the_demo(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home")
    done = gateway.run("policy", "test", "--demo")
    assert done.returncode == 0, done.stdout + done.stderr
    assert " 0 failed" in done.stdout
    done = gateway.run("policy", "test", str(CASES), "-o", "json")
    assert done.returncode == 0, done.stdout
    assert {case["found"] for case in json.loads(done.stdout)["cases"]} >= {
        "allow",
        "ask",
        "step_up",
        "dry_run_required",
        "not_found",
    }
    # A contract that changes a decision fails the suite, with both decisions and the line of the contract.
    gateway.write("contracts/demo.yaml", "tool: demo:create_note\nriskLevel: high\noperation: write\n")
    done = gateway.run("policy", "test", str(CASES))
    assert done.returncode == 1
    assert "- expected  allow\n        + found     ask\n" in done.stdout
    assert 'riskLevel: "high" (operator, contracts/demo.yaml:2)' in done.stdout


def test_a_suite_does_not_pass_without_tests(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"demo": {"type": "demo"}}})
    cases = tmp_path / "cases.yaml"
    cases.write_text("[]\n")
    empty = gateway.run("policy", "test", str(cases))
    assert empty.returncode == 1 and "no cases, so nothing was tested" in empty.stderr, empty.stderr
    cases.write_text("- { tool: dmo:list_projects, expect: allow }\n")
    missing = gateway.run("policy", "test", str(cases), "--tools", str(tmp_path / "none"))
    assert missing.returncode == 2 and "there is no such folder" in missing.stderr, missing.stderr
    misspelt = gateway.run("policy", "test", str(cases))
    assert "No list of tools and no contract has dmo:list_projects." in misspelt.stderr, misspelt.stderr
    without_log = gateway.run("policy", "replay", "--fail-on", "newly-refused")
    assert without_log.returncode == 1 and "there is no activity log in" in without_log.stderr, without_log.stderr


def test_failure_statistics(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home") as gateway:
        gateway.write("contracts/demo.yaml", "tool: demo:get_help_article\nfailureModes: [too_old, not_there]\n")
        until(lambda: gateway.settings_error() == "", 5, "the contract is read")
        until(lambda: "too_old" in gateway.run("contract", "show", "demo:get_help_article").stdout, 5, "active")
        schema = gateway.admin("/tools/demo/get_help_article")["inputSchema"]
        args = {name: "nothing-like-this" for name in schema["required"]}
        assert call(gateway, "read", "get_help_article", args) != 0
        done = gateway.run("contract", "failures", "-o", "json")
        tools = {one["tool"]: one for one in json.loads(done.stdout)["tools"]}
        article = tools["demo:get_help_article"]
        assert article["never_seen"] == ["too_old", "not_there"]
        assert [(one["code"], one["calls"]) for one in article["undeclared"]] == [("not_found", 1)]
        assert article["records"] == 1
        table = gateway.run("contract", "failures").stdout
        assert "demo:get_help_article" in table and "too_old, not_there" in table and "not_found (1)" in table


def test_tools_that_change_silently_are_noticed(tmp_path: Path) -> None:
    listed = tmp_path / "tools.json"
    tool = {"name": "look", "inputSchema": {"type": "object"}, "annotations": {"readOnlyHint": True}}
    listed.write_text(json.dumps([tool]))
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(listed)]}
    settings = {"tools_refresh": "1s", "mcpServers": {"quiet": server}, "trust": {"changes": "accept"}}
    with Gateway(tmp_path / "home", settings) as gateway:
        gateway.connected()
        assert gateway.admin("/tools/quiet/look")["call_with"] == "call_tool_read"
        listed.write_text(json.dumps([{**tool, "annotations": {"destructiveHint": True}}, {**tool, "name": "new"}]))
        until(lambda: gateway.admin("/tools/quiet/look")["call_with"] == "call_tool_destructive", 5, "the new list")
        assert gateway.run("call", "tool-read", "quiet:look").returncode == 3
        changed = until(lambda: gateway.records("--server", "quiet", "-q", "tools_changed"), 5, "a record")[0]
        assert changed["type"] == "server" and changed["code"] == "tools_changed"
        assert "added new" in changed["message"]
        assert "look (readOnlyHint true → none, destructiveHint none → true)" in changed["message"]
        gateway.stop()
        # A change while no gateway runs is noticed at the next start.
        listed.write_text(json.dumps([tool]))
        gateway.start()
        gateway.connected()
        newest = until(
            lambda: [one for one in gateway.records("--server", "quiet", "-q", "tools_changed") if "removed new" in one["message"]],
            5,
            "a record of the change",
        )
        assert newest


def test_tools_that_nobody_can_call_need_a_contract(tmp_path: Path) -> None:
    contracts = {"unclassified": "deny", "weakening": "apply"}
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "contracts": contracts}
    with Gateway(tmp_path / "home", settings) as gateway:
        gateway.connected()
        gateway.write("contracts/demo.yaml", "tool: demo:create_note\nriskLevel: low\noperation: write\n")
        until(lambda: gateway.admin("/tools/demo/create_note")["needs"] == [], 5, "the contract is read")
        assert gateway.admin("/tools/demo/list_projects")["needs"] == ["contract"]


def test_two_keys_are_announced(tmp_path: Path) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "intent_declaration": {"two_key": "required"}}
    with Gateway(tmp_path / "home", settings) as gateway:
        gateway.connected()
        wire = Wire(gateway.mcp, gateway.token, LEGACY)
        tools = {tool["name"]: tool for tool in wire.ask("tools/list")["tools"]}
        assert "Intent is required" in tools["retrieve_tools"]["description"]
        schema = tools["call_tool_read"]["inputSchema"]
        assert "intent" in schema["required"]
        assert schema["properties"]["intent"]["required"] == ["operation_type"]
        assert "not read-only" in tools["call_tool_read"]["description"]
        found = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": {"query": "projects"}})
        assert "intent.operation_type, which is required" in found["structuredContent"]["usage_instructions"]
