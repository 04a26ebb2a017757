"""The life of a contract with the real program: conditional confirmation, versions, changes, drafts, coverage and cards."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import peers
from gateway import Gateway, until
from test_contracts import ask, code
from wire import MODERN, Wire

SECONDS = 10
DEMO = {
    "mcpServers": {"demo": {"type": "demo"}},
    "approvals": {"wait": "0s"},
    # Some contracts here are weaker than those of the demo server.
    "contracts": {"weakening": "apply"},
}


def show(gateway: Gateway, tool: str) -> dict[str, Any]:
    return json.loads(gateway.run("contract", "show", tool, "-o", "json").stdout)


def test_a_user_confirms_only_the_calls_that_match(tmp_path: Path) -> None:
    contract = (
        "tool: demo:create_note\nriskLevel: medium\nversion: 7\n"
        "confirmation: { when: { properties: { projectId: { const: p_audit } } } }\n"
    )
    with Gateway(tmp_path / "home", DEMO) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        gateway.write("contracts/demo.yaml", contract)
        until(lambda: show(gateway, "demo:create_note")["needs"] == ["confirmation"], SECONDS, "the contract is in force")
        note = {"projectId": "p_website", "title": "x"}
        assert code(ask(wire, "write", "demo:create_note", note)) == "ok"
        assert code(ask(wire, "write", "demo:create_note", note | {"projectId": "p_audit"})) == "confirmation_required"

        digest = show(gateway, "demo:create_note")["digest"]
        records = [record for record in gateway.records("--tool", "create_note") if record["type"] != "approval"]
        named = [record["metadata"]["contract"] for record in records]
        assert named == [{"digest": digest, "version": "7"}] * 2, "the call and the refusal"


def test_a_reload_says_what_it_changed(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        gateway.write("contracts/demo.yaml", "tool: demo:create_note\nriskLevel: high\npermissions: [a:b]\n")

        def changed() -> list[dict[str, Any]]:
            found = gateway.records("--type", "settings")
            return [change for record in found for change in record["metadata"].get("tools_changed", [])]

        until(changed, SECONDS, "the reload is recorded")
        place = {"file": "contracts/demo.yaml", "line": 2}
        assert changed() == [
            {
                "tool": "demo:create_note",
                "changes": [
                    {"field": "riskLevel", "before": "medium", "after": "high", **place},
                    {"field": "permissions", "before": ["notes:write"], "after": ["a:b"], **place, "line": 3},
                    {"field": "needs", "before": [], "after": ["confirmation"], **place},
                ],
            }
        ]
        [message] = [record["message"] for record in gateway.records("--type", "settings") if "create_note" in record["message"]]
        assert "riskLevel medium → high (contracts/demo.yaml:2)" in message, message


def test_contracts_are_compared_with_those_in_force(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        gateway.write("contracts/demo.yaml", "tool: demo:create_note\nriskLevel: medium\n")
        until(lambda: "contracts/demo.yaml" in json.dumps(show(gateway, "demo:create_note")), SECONDS, "it is in force")
        new = tmp_path / "new"
        new.mkdir()
        (new / "demo.yaml").write_text("tool: demo:create_note\nriskLevel: critical\n")
        told = gateway.run("contract", "diff", "live", str(new))
        assert told.returncode == 0, told.stderr
        assert "demo:create_note (changed)" in told.stdout and "riskLevel medium → critical" in told.stdout
        [tool] = json.loads(gateway.run("contract", "diff", "live", str(new), "-o", "json").stdout)["tools"]
        assert (tool["tool"], tool["change"]) == ("demo:create_note", "changed")
        assert [(field["field"], field["before"], field["after"]) for field in tool["fields"]] == [
            ("riskLevel", "medium", "critical"),
            ("needs", [], ["confirmation", "step_up"]),
        ]
        assert gateway.run("contract", "diff", "live", "live").stdout == "No differences.\n"
        (new / "demo.yaml").write_text("tool: demo:create_note\nrisk: critical\n")
        wrong = gateway.run("contract", "diff", "live", str(new))
        assert wrong.returncode == 6 and "did you mean `riskLevel`?" in wrong.stderr, wrong.stderr


def test_a_draft_is_marked_until_it_is_reviewed(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        path = gateway.home / "contracts" / "demo.yaml"
        drafted = gateway.run("contract", "draft", "demo", "--to", str(path))
        assert drafted.returncode == 0, drafted.stderr
        source = lambda: [field["source"] for field in show(gateway, "demo:delete_user")["fields"] if field["field"] == "riskLevel"]
        until(lambda: source()[0].startswith("draft, not reviewed, contracts/demo.yaml:"), SECONDS, "it is in force")
        assert code(ask(wire, "destructive", "demo:delete_user", {"userId": "u_max"})) == "confirmation_required"
        shown = gateway.admin("/approvals")["approvals"][0]
        assert shown["risk_said_by"] == "draft", shown
        coverage = gateway.run("contract", "coverage")
        assert "draft, not reviewed" in coverage.stdout, coverage.stdout
        assert {(tool["classified_by"], tool["draft"]) for tool in gateway.admin("/contracts")["tools"]} == {("draft", True)}

        path.write_text("".join(line for line in path.read_text().splitlines(True) if not line.startswith("# DRAFT")))
        until(lambda: source()[0].startswith("operator, contracts/demo.yaml:"), SECONDS, "the review counts")


def test_coverage_is_a_gate(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        passed = gateway.run("contract", "coverage", "--min", "100", "-o", "json")
        assert passed.returncode == 0, passed.stdout + passed.stderr
        found = json.loads(passed.stdout)
        assert found["fields_percent"] == 100
        assert {tool["fields"] for tool in found["tools"]} == {13}


def test_a_missed_gate_fails(tmp_path: Path) -> None:
    hints = {"command": peers.PYTHON, "args": [str(peers.HERE / "hints_server.py"), str(tmp_path / "ledger.jsonl")]}
    for name, servers, says in (
        ("few", {"hints": hints}, "see the missing fields with `mcpproxy --home"),
        ("none", {}, "--min needs at least one tool, but there are none"),
    ):
        with Gateway(tmp_path / name, {"mcpServers": servers}) as gateway:
            gateway.connected()
            assert gateway.run("contract", "coverage").returncode == 0
            missed = gateway.run("contract", "coverage", "--min", "90")
            assert missed.returncode == 1 and says in missed.stderr, missed.stderr


def test_the_gate_counts_no_server_that_is_down_as_complete(tmp_path: Path) -> None:
    servers = {"demo": {"type": "demo"}, "gone": {"command": str(tmp_path / "no-such-program")}}
    with Gateway(tmp_path / "home", {"mcpServers": servers}) as gateway:
        missed = gateway.run("contract", "coverage", "--min", "90")
        assert missed.returncode == 1 and "these are not connected: gone" in missed.stderr, missed.stderr
        gateway.write_settings({"mcpServers": {**servers, "gone": {**servers["gone"], "disabled": True}}})
        until(lambda: gateway.servers()["gone"]["state"] == "disabled", SECONDS, "the server is disabled")
        assert gateway.run("contract", "coverage", "--min", "90").returncode == 0


def test_lint_knows_the_definitions_of_the_levels(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        text = "- tool: demo:delete_user\n  riskLevel: low\n- tool: demo:share_file_link\n  riskLevel: low\n"
        gateway.write("contracts/demo.yaml", text)
        found = json.loads(gateway.run("contract", "lint", "-o", "json").stdout)["findings"]
        codes = {(finding["code"], finding["subject"]) for finding in found}
        assert ("C203", "demo:delete_user") in codes and ("C204", "demo:share_file_link") in codes, codes


def test_cards_are_written_and_never_over_other_files(tmp_path: Path) -> None:
    with Gateway(tmp_path / "home", DEMO) as gateway:
        folder = tmp_path / "cards"
        for _ in range(2):
            written = gateway.run("contract", "docs", "--to", str(folder))
            assert written.returncode == 0, written.stderr
        assert sorted(path.name for path in folder.iterdir()) == ["README.md", "demo.md"]
        tables = (folder / "README.md").read_text()
        levels = [line for line in tables.splitlines() if line.startswith("## ")]
        assert levels == ["## Low", "## Medium", "## High", "## Critical", "## Forbidden for AI"]
        card = (folder / "demo.md").read_text().split("## emails.send\\_external")[1].split("\n## ")[0]
        for part in ("**Critical**", "| Confirmation | yes |", "- to: string\\[\\]", "- attachments?", "- emails:send",
                     "- invalid\\_recipient", "- External communication is sent.", "email.external.sent"):
            assert part in card, f"{part}: {card}"
        (folder / "demo.md").write_text("mine\n")
        refused = gateway.run("contract", "docs", "--to", str(folder))
        assert refused.returncode == 1 and (folder / "demo.md").read_text() == "mine\n", refused.stderr
        assert "# Tools by risk level" in gateway.run("contract", "docs").stdout


def test_the_schemas_that_count_are_visible(tmp_path: Path) -> None:
    contract = "tool: demo:create_note\ninputSchema: { properties: { title: { maxLength: 5 } } }\n"
    with Gateway(tmp_path / "home", DEMO) as gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        gateway.write("contracts/demo.yaml", contract)
        until(lambda: "allOf" in (show(gateway, "demo:create_note")["input_schema"] or {}), SECONDS, "it is in force")
        shown = show(gateway, "demo:create_note")
        query = {"query": "demo:create_note", "limit": 1, "detail": "full"}
        [tool] = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": query})["structuredContent"]["tools"]
        read = wire.ask("resources/read", {"uri": "contract://demo/create_note"})
        resource = json.loads(read["contents"][0]["text"])
        for schemas in (tool, resource):
            assert schemas["inputSchema"] == shown["input_schema"]
            assert schemas["outputSchema"] == shown["output_schema"]
        assert shown["input_schema"]["allOf"][1] == {"properties": {"title": {"maxLength": 5}}}
        assert "title" in shown["output_schema"]["properties"]
        assert "Output schema" in gateway.run("contract", "show", "demo:create_note").stdout
