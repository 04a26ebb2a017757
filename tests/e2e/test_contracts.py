"""Contracts and policies on published servers, with every client."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import peers
from clients import ALL_KINDS, PYTHON_MODERN, Kind, call, play, play_stdio, step
from conftest import git_repository
from gateway import Gateway, until
from test_agents import create
from test_stdio import command
from wire import LEGACY, MODERN, Wire

ERAS = [LEGACY, MODERN]
# `git_checkout` claims to destroy nothing, and `get-env` to only read. Neither is entirely true.
CONTRACTS = {
    "git.yaml": """
tool: git:git_checkout
description: Switches to another branch.
category: code
riskLevel: medium
operation: destructive
sideEffects: [Files of the working copy change.]
auditEvent: code.checked.out
""",
    "everything.yaml": """
- tool: everything:get-env
  riskLevel: forbidden
- tool: everything:get-tiny-image
  rateLimit: { calls: 2, per: 1h }
- tool: everything:toggle-simulated-logging
  riskLevel: high
  operation: read
- tool: everything:get-structured-content
  outputSchema: { strict: true, properties: { temperature: { maximum: -300 } } }
- tool: everything:get-resource-links
  dryRun: required
""",
    "files.json": json.dumps(
        {
            "tool": "filesystem:read_text_file",
            "inputSchema": {
                "properties": {"path": {"pattern": "[.]txt$", "description": "A file whose name ends in .txt."}}
            },
            "sensitive": ["/path", "/content"],
        }
    ),
    "demo.yaml": """
- tool: demo:emails.bulk_send
  riskLevel: medium
  confirmation: none
  autonomousExecution: true
  stepUpAuth: false
  dryRun: none
- tool: demo:create_download_link
  failureModes: [not_found]
""",
}
POLICIES = """
@id("clock-is-not-yours")
@message("Look at the wall.")
forbid (principal == Agent::"clockless", action in Action::"call", resource in Server::"time");

@id("secrets-stay-here")
forbid (principal, action, resource == Tool::"everything:echo")
when { context.sensitivity == "private" };
"""
FORBIDDEN, ABSENT = "get-env", "get-enq"
CONVERT = {"source_timezone": "UTC", "time": "12:00", "target_timezone": "UTC"}


@dataclass
class House:
    """A gateway in front of published servers and the demo server, with contracts for them."""

    gateway: Gateway
    repository: Path
    files: Path
    sent: Path

    def play(self, kind: Kind, *steps: dict[str, Any], at: str = "/mcp") -> list[dict[str, Any]]:
        return play(kind, self.gateway.base + at, self.gateway.token, list(steps)).results

    def wire(self, era: str, token: str | None = None, at: str = "/mcp") -> Wire:
        return Wire(self.gateway.base + at, token or self.gateway.token, era)

    def calls_sent(self) -> int:
        """Returns the number of calls that reached the server `everything`."""
        messages = [json.loads(line) for line in self.sent.read_text().splitlines()]
        return sum(message.get("method") == "tools/call" for message in messages)

    def record(self, result: dict[str, Any]) -> dict[str, Any]:
        """Returns the record whose id is in an answer."""
        show = ["activity", "show", result["_meta"]["mcpproxy/record"], "-o", "json"]
        # A read and a refusal are answered before they are on disk.
        until(lambda: self.gateway.run(*show).returncode == 0, 5, "the record")
        return json.loads(self.gateway.run(*show).stdout)

    def branch(self) -> str:
        shown = subprocess.run(
            ["git", "branch", "--show-current"], cwd=self.repository, capture_output=True, text=True, check=True
        )
        return shown.stdout.strip()


@pytest.fixture(scope="module")
def house(tmp_path_factory: pytest.TempPathFactory) -> Iterator[House]:
    scratch = tmp_path_factory.mktemp("contracts")
    repository, files, sent = scratch / "repository", scratch / "files", scratch / "sent.jsonl"
    git_repository(repository)
    subprocess.run(["git", "branch", "other"], cwd=repository, check=True)
    files.mkdir()
    (files / "hello.txt").write_text("hello\n")
    (files / "hello.key").write_text("a key\n")
    servers = {
        "everything": peers.tapped(peers.everything(), sent),
        "filesystem": peers.filesystem(files),
        "git": peers.git(repository),
        "time": peers.time(),
        "demo": {"type": "demo"},
    }
    gateway = Gateway(scratch / "home", {"mcpServers": servers, "approvals": {"wait": "0s"}})
    for name, text in CONTRACTS.items():
        gateway.write(f"contracts/{name}", text)
    gateway.write("policies/house.cedar", POLICIES)
    with gateway:
        yield House(gateway.connected(), repository, files, sent)


def through(variant: str, name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return call(f"call_tool_{variant}", {"name": name, "args": args or {}, **more})


def error(result: dict[str, Any]) -> dict[str, Any]:
    assert result.get("isError") is True, result
    return result["structuredContent"]["error"]


def code(result: dict[str, Any]) -> str:
    return error(result)["code"] if result.get("isError") else "ok"


def ask(wire: Wire, variant: str, name: str, args: dict[str, Any] | None = None, **more: Any) -> dict[str, Any]:
    return wire.ask("tools/call", through(variant, name, args, **more)["params"])


# -- contracts in descriptions of tools -------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_an_understated_hint_is_overridden(house: House, kind: Kind) -> None:
    to = {"repo_path": str(house.repository), "branch_name": "other"}
    back = {**to, "branch_name": "main"}
    refused, stayed, done, undone = (
        house.play(kind, through("write", "git:git_checkout", to))[0],
        house.branch(),
        house.play(kind, through("destructive", "git:git_checkout", to))[0],
        house.play(kind, through("destructive", "git:git_checkout", back))[0],
    )
    assert error(refused)["code"] == "contract_mismatch"
    assert refused["content"][0]["text"] == (
        "The contract of tool 'git:git_checkout' says destructive. Use call_tool_destructive instead of call_tool_write."
    )
    assert stayed == "main", "the refused call reached the server"
    assert (code(done), code(undone)) == ("ok", "ok")


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_search_shows_risk_needs_and_the_whole_contract(house: House, kind: Kind) -> None:
    query = {"query": "git checkout switch branch", "server": "git", "limit": 1}
    brief, full, high = house.play(
        kind,
        call("retrieve_tools", query),
        call("retrieve_tools", {**query, "detail": "full"}),
        call("retrieve_tools", {"query": "toggle simulated logging", "limit": 1}),
    )
    (tool,) = brief["structuredContent"]["tools"]
    assert (tool["call_with"], tool["risk_level"], tool["needs"]) == ("call_tool_destructive", "medium", [])
    assert "contract" not in tool
    (tool,) = full["structuredContent"]["tools"]
    assert tool["contract"]["sideEffects"] == ["Files of the working copy change."]
    assert tool["contract"]["operation"] == "destructive"
    (tool,) = high["structuredContent"]["tools"]
    assert (tool["name"], tool["risk_level"], tool["needs"]) == (
        "everything:toggle-simulated-logging",
        "high",
        ["confirmation"],
    )


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_contract_can_be_read_before_the_call(house: House, kind: Kind) -> None:
    listed, one, of_demo = house.play(
        kind,
        step("resources/list"),
        step("resources/read", {"uri": "contract://git/git_checkout"}),
        step("resources/read", {"uri": "contract://demo/delete_user"}),
    )
    uris = {resource["uri"] for resource in listed["resources"]}
    assert {"contract://git/git_checkout", "contract://demo/delete_user"} <= uris
    assert "contract://time/get_current_time" not in uris, "nobody wrote a contract for it"
    (content,) = one["contents"]
    assert content["mimeType"] == "application/json"
    contract = json.loads(content["text"])
    assert (contract["tool"], contract["auditEvent"]) == ("git:git_checkout", "code.checked.out")
    contract = json.loads(of_demo["contents"][0]["text"])
    assert (contract["riskLevel"], contract["confirmation"]) == ("critical", "required")


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_direct_mode_tells_the_truth_too(house: House, kind: Kind) -> None:
    (listed,) = house.play(kind, step("tools/list"), at="/mcp/s/git")
    tools = {tool["name"]: tool for tool in listed["tools"]}
    hints = tools["git_checkout"]["annotations"]
    assert (hints["readOnlyHint"], hints["destructiveHint"]) == (False, True)
    assert tools["git_checkout"]["_meta"]["mcp-first/contract"]["riskLevel"] == "medium"
    assert "mcp-first/contract" not in tools["git_status"].get("_meta", {})


@pytest.mark.parametrize("era", ERAS)
def test_nothing_is_sent_before_a_user_or_a_dry_run(house: House, era: str) -> None:
    before = house.calls_sent()
    wire = house.wire(era)
    refused = error(ask(wire, "read", "everything:toggle-simulated-logging"))
    assert (refused["code"], refused["details"]["risk_level"]) == ("confirmation_required", "high")
    assert code(ask(wire, "read", "everything:get-resource-links")) == "dry_run_required"
    own = house.wire(era, at="/mcp/s/everything")
    direct = own.ask("tools/call", {"name": "toggle-simulated-logging", "arguments": {}})
    assert code(direct) == "confirmation_required"
    assert house.calls_sent() == before


# -- forbidden tools --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_forbidden_tool_is_in_no_list(house: House, kind: Kind) -> None:
    words = "returns all environment variables get-env debugging"
    heard = [
        *house.play(
            kind,
            step("tools/list"),
            step("resources/list"),
            call("retrieve_tools", {"query": words, "limit": 50, "detail": "full"}),
            through("read", "everything:get-en"),
            through("read", "nowhere:get-env-s"),
        ),
        *house.play(kind, step("tools/list"), at="/mcp/direct"),
        *house.play(kind, step("tools/list"), step("resources/list"), at="/mcp/s/everything"),
    ]
    for one in heard:
        said = json.dumps(one).replace("get-env-s", "")
        assert FORBIDDEN not in said and "environment variable" not in said, said
    called, absent = house.play(
        kind, through("read", f"everything:{FORBIDDEN}"), through("read", f"everything:{ABSENT}")
    )
    assert normal(json.dumps(called)) == normal(json.dumps(absent))
    assert error(called)["code"] == "tool_not_found"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("at", ["/mcp", "/mcp/direct", "/mcp/s/everything"])
def test_a_forbidden_tool_answers_as_an_absent_one(house: House, era: str, at: str) -> None:
    """Compares status, headers and bytes, with tokens of every scope."""
    before = house.calls_sent()
    strong = create(house.gateway, f"strong{at.replace('/', '-')}-{era}", "--grant", "*")
    for token in (house.gateway.token, strong):
        wire = house.wire(era, token, at)
        answers = {name: [] for name in (FORBIDDEN, ABSENT)}
        for name, heard in answers.items():
            for method, params in requests(at, name):
                answer = wire.post({**wire.message(method, params), "id": 7})
                headers = {key: value for key, value in answer.headers.items() if key != "date"}
                heard.append((answer.status_code, headers, normal(answer.text)))
        assert answers[FORBIDDEN] == answers[ABSENT]
    assert house.calls_sent() == before


@pytest.mark.parametrize("era", ERAS)
def test_a_forbidden_tool_answers_as_an_absent_one_on_standard_streams(house: House, era: str) -> None:
    """Compares the output of `mcpproxy stdio` byte by byte, except for the name and the record id."""
    wire = house.wire(era)
    lines = [json.dumps(message) for message in hello(wire)]
    for name in (FORBIDDEN, ABSENT):
        lines += [json.dumps({**wire.message(*one), "id": 7}) for one in requests("/mcp", name)]
    done = subprocess.run(
        [peers.MCPPROXY, "stdio", "--home", str(house.gateway.home)],
        input="\n".join(lines) + "\n",
        capture_output=True,
        text=True,
        timeout=60,
        env=house.gateway.environment(),
    )
    answers = sorted(normal(line) for line in done.stdout.splitlines() if '"id":7' in line)
    assert len(answers) == 2 * len(requests("/mcp", ABSENT)), done
    assert answers[::2] == answers[1::2], "each answer is there twice"


def hello(wire: Wire) -> list[dict[str, Any]]:
    """Returns the first message of an agent in this era."""
    if wire.era != LEGACY:
        return []
    start = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "wire", "version": "1"}}
    return [wire.message("initialize", start), {"jsonrpc": "2.0", "method": "notifications/initialized"}]


def requests(at: str, name: str) -> list[tuple[str, dict[str, Any]]]:
    """Every valid and invalid way to request a tool at an address."""
    uri = ("resources/read", {"uri": f"contract://everything/{name}"})
    if at != "/mcp":
        own = f"everything__{name}" if at == "/mcp/direct" else name
        return [("tools/call", {"name": own, "arguments": args}) for args in ({}, {"x": 1})] + [uri]
    named = {"name": f"everything:{name}"}
    return [
        ("tools/call", {"name": f"call_tool_{variant}", "arguments": {**named, **more}})
        for variant in ("read", "write", "destructive")
        for more in ({}, {"args": {"x": 1}}, {"intent_reason": "just once", "intent_data_sensitivity": "public"})
    ] + [uri]


def normal(text: str) -> str:
    """Removes the requested name and the record id, which differ in each answer."""
    text = re.sub(r'("mcpproxy/record": ?)"[0-9A-Z]{26}"', r'\1"…"', text)
    return text.replace(FORBIDDEN, "NAME").replace(ABSENT, "NAME")


def test_the_operator_sees_what_is_forbidden_and_who_tried(house: House) -> None:
    ask(house.wire(MODERN), "read", f"everything:{FORBIDDEN}")
    attempts = until(lambda: house.gateway.records("--tool", FORBIDDEN, "--server", "everything"), 5, "a record")
    assert {record["code"] for record in attempts} == {"forbidden_attempt"}
    for line in (["tools", "list"], ["contract", "show", f"everything:{FORBIDDEN}"], ["contract", "coverage"]):
        done = house.gateway.run(*line)
        assert done.returncode == 0 and FORBIDDEN in done.stdout and "forbidden" in done.stdout.lower(), done
    shown = house.gateway.run("contract", "show", f"everything:{FORBIDDEN}").stdout
    assert "contracts/everything.yaml:3" in shown


# -- arguments and results --------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_arguments_are_checked_before_anything_is_sent(house: House, kind: Kind) -> None:
    before = house.calls_sent()
    refused, withheld_path = house.play(
        kind,
        through("read", "everything:get-sum", {"a": "one"}),
        through("read", "filesystem:read_text_file", {"path": str(house.files / "hello.key")}),
    )
    assert error(refused)["code"] == "invalid_arguments"
    assert refused["content"][0]["text"] == (
        "Invalid arguments for 'everything:get-sum':\n"
        "/a: expected a number, found the string \"one\" (First number)\n"
        "/b: required property missing, expected a number (Second number)"
    )
    assert [problem["pointer"] for problem in error(refused)["details"]["problems"]] == ["/a", "/b"]
    assert house.calls_sent() == before
    # The operator's schema applies on top of the server's. Errors do not repeat sensitive values.
    assert error(withheld_path)["code"] == "invalid_arguments"
    assert "A file whose name ends in .txt." in withheld_path["content"][0]["text"]
    assert "hello.key" not in json.dumps(withheld_path)


def test_sensitive_places_are_not_in_the_log(house: House) -> None:
    read = ask(house.wire(MODERN), "read", "filesystem:read_text_file", {"path": str(house.files / "hello.txt")})
    assert read["content"][0]["text"] == "hello\n"
    record = house.record(read)
    assert record["arguments"] == {"path": "***"}
    assert record["result"]["structuredContent"] == {"content": "***"}
    assert "hello" not in json.dumps(record)


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_result_that_was_not_promised_is_withheld(house: House, kind: Kind) -> None:
    (withheld,) = house.play(kind, through("read", "everything:get-structured-content", {"location": "Chicago"}))
    assert error(withheld)["code"] == "output_mismatch"
    assert "The call was made, so do not repeat it" in withheld["content"][0]["text"]


# -- permissions, policies and limits ------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_grants_decide_what_a_token_may_do(house: House, era: str) -> None:
    wire = house.wire(era, create(house.gateway, f"files-{era}", "--grant", "files:*"))
    link = {"fileId": "f_report", "expiresAt": "2099-01-01T00:00:00Z"}
    assert code(ask(wire, "write", "demo:create_download_link", link)) == "ok"
    refused = error(ask(wire, "write", "demo:create_note", {"projectId": "p_website", "title": "x", "body": ""}))
    assert (refused["code"], refused["details"]["missing_permissions"]) == ("permission_denied", ["notes:write"])
    nobody = house.wire(era, create(house.gateway, f"nothing-{era}"))
    refused = error(ask(nobody, "write", "demo:create_download_link", link))
    assert refused["details"]["missing_permissions"] == ["files:read", "files:link"]
    # A tool without a contract requires no permission.
    assert code(ask(nobody, "read", "time:get_current_time", {"timezone": "UTC"})) == "ok"


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_a_policy_refuses_in_its_own_words(house: House, kind: Kind) -> None:
    echo = {"message": "hi"}
    private, public = house.play(
        kind,
        through("read", "everything:echo", echo, intent_data_sensitivity="private"),
        through("read", "everything:echo", echo, intent_data_sensitivity="public"),
    )
    refused = error(private)
    assert (refused["code"], refused["details"]["rule"]) == ("policy_violation", "secrets-stay-here")
    assert code(public) == "ok"


@pytest.mark.parametrize("era", ERAS)
def test_a_policy_about_one_agent(house: House, era: str) -> None:
    now = {"timezone": "UTC"}
    name = "clockless"
    house.gateway.run("token", "revoke", name)
    wire = house.wire(era, create(house.gateway, name))
    refused = ask(wire, "read", "time:get_current_time", now)
    assert refused["content"][0]["text"] == (
        "Tool 'time:get_current_time' is refused by policy 'clock-is-not-yours': Look at the wall."
    )
    assert code(ask(house.wire(era), "read", "time:get_current_time", now)) == "ok"
    explained = house.gateway.run(
        "policy", "explain", "time:get_current_time", "--variant", "read", "--agent", name, "--args", json.dumps(now)
    )
    assert explained.returncode == 3
    assert "clock-is-not-yours  forbids the call (policies/house.cedar:2)" in explained.stdout


def test_a_rate_limit_is_for_all_agents_together(house: House) -> None:
    """All eras and addresses share one count."""
    tool = {"name": "get-tiny-image", "arguments": {}}
    results = [
        ask(house.wire(LEGACY), "read", "everything:get-tiny-image"),
        house.wire(MODERN, at="/mcp/s/everything").ask("tools/call", tool),
        ask(house.wire(MODERN, create(house.gateway, "late")), "read", "everything:get-tiny-image"),
    ]
    assert [code(result) for result in results] == ["ok", "ok", "rate_limit_exceeded"]
    assert 0 < error(results[-1])["details"]["retry_after_ms"] <= 3_600_000


# -- failures ---------------------------------------------------------------------------------------------------


def test_declared_failures_keep_their_code(house: House) -> None:
    wire = house.wire(MODERN)
    campaign = {"templateId": "tmpl_beta_invite", "segmentId": "seg_active_customers"}
    late = {"fileId": "f_report", "expiresAt": "2001-01-01T00:00:00Z"}
    sent = ask(wire, "destructive", "demo:emails.bulk_send", campaign)
    again = ask(wire, "destructive", "demo:emails.bulk_send", campaign)
    absent = ask(wire, "write", "demo:update_task_status", {"taskId": "t_none", "status": "done"})
    undeclared = ask(wire, "write", "demo:create_download_link", late)
    assert code(sent) == "ok"
    expected = [
        (again, {"code": "already_sent", "declared": True}),
        (absent, {"code": "not_found", "declared": True}),
        (undeclared, {"code": "undeclared_failure", "declared": False, "original": "invalid_time"}),
    ]
    for result, failure in expected:
        assert result["_meta"]["mcpproxy/failure"] == failure
        assert error(result)["code"] == failure.get("original", failure["code"]), "the server's words are kept"
        record = house.record(result)
        assert (record["status"], record["code"]) == ("error", failure["code"])
        assert record["metadata"]["failure"] == failure
        assert "audit_event" not in record["metadata"], "no call of these did what the event says"


# -- unclassified tools -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS)
def test_what_the_operator_has_not_classified(tmp_path: Path, era: str) -> None:
    """A server's own contract does not count as the operator's classification."""
    servers = {"time": peers.time(), "memory": peers.memory(tmp_path / "memory.jsonl"), "demo": {"type": "demo"}}
    expected = {
        "allow": ("ok", "ok", "ok", "ok"),
        "confirm_destructive": ("ok", "confirmation_required", "ok", "ok"),
        "deny": ("contract_required", "contract_required", "contract_required", "ok"),
    }
    for setting, codes in expected.items():
        settings = {"mcpServers": servers, "contracts": {"unclassified": setting}, "approvals": {"wait": "0s"}}
        gateway = Gateway(tmp_path / f"{setting}-{era}", settings)
        gateway.write("contracts/time.yaml", "tool: time:convert_time\nriskLevel: low\n")
        with gateway:
            wire = Wire(gateway.connected().mcp, gateway.token, era)
            results = [
                ask(wire, "read", "time:get_current_time", {"timezone": "UTC"}),
                ask(wire, "destructive", "memory:delete_entities", {"entityNames": ["nobody"]}),
                ask(wire, "read", "demo:list_projects"),
                ask(wire, "read", "time:convert_time", CONVERT),
            ]
            assert tuple(code(result) for result in results) == codes, setting
            needs = gateway.admin("/contracts/time/get_current_time")["needs"]
            assert needs == (["contract"] if setting == "deny" else []), setting


def test_a_bridge_has_the_same_contracts(house: House) -> None:
    heard = play_stdio(
        PYTHON_MODERN.era,
        command(house.gateway),
        [
            through("write", "git:git_checkout", {"repo_path": str(house.repository), "branch_name": "other"}),
            step("resources/read", {"uri": "contract://git/git_checkout"}),
        ],
    )
    refused, read = heard.results
    assert code(refused) == "contract_mismatch"
    assert json.loads(read["contents"][0]["text"])["tool"] == "git:git_checkout"
