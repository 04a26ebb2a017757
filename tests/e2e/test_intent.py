"""Intent, end to end: the same cases over HTTP in both eras, over standard input and on the command line."""

from __future__ import annotations

import json
import re
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache, cached_property
from pathlib import Path
from typing import Any

import anyio
import httpx
import httpx2
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

import peers
from clients import LEGACY, MODERN, PYTHON_LEGACY, PYTHON_MODERN, call, play, play_stdio, step
from gateway import Gateway, until
from hints_server import HINTS
from intent_cases import ANY, CASES, OPERATIONS, SETTINGS, Case, server_mismatch
from test_stdio import command
from wire import Wire

SURFACES = ["http-2025-11-25", "http-2026-07-28", "stdio-2025-11-25", "stdio-2026-07-28", "cli"]
PROTOCOLS = SURFACES[:-1]
# A malformed request is a JSON-RPC error. A refused call is a result.
MALFORMED = {"unknown_field", "invalid_field"}
# The command line detects these errors itself and sends nothing.
USAGE = {"invalid_tool_name", "INVALID_SENSITIVITY", "invalid_args"}
LOOKING_AT_ONCE = 8
RECORD_SECONDS = 5


# -- fixtures ---------------------------------------------------------------------------------------------------


@dataclass
class Heard:
    """The results of all cases of one setting over one surface, in order."""

    cases: list[Case]
    results: list[dict[str, Any]] = field(default_factory=list)
    exits: list[tuple[int, str]] = field(default_factory=list)
    arrived: list[tuple[str, str]] = field(default_factory=list)
    records: list[dict[str, Any]] = field(default_factory=list)

    def of(self, case: Case) -> dict[str, Any]:
        return self.results[self.cases.index(case)]

    def exit_of(self, case: Case) -> tuple[int, str]:
        return self.exits[self.cases.index(case)]


class House:
    """A gateway with one kind of settings in front of the server `hints`."""

    def __init__(self, folder: Path, rules: dict[str, Any]) -> None:
        self.ledger = folder / "ledger.jsonl"
        server = {"command": peers.PYTHON, "args": [str(peers.HERE / "hints_server.py"), str(self.ledger)]}
        self.servers = {"hints": server, "dead": {"command": str(folder / "nothing")}}
        self.gateway = Gateway(folder / "home", self.settings(rules))

    def settings(self, rules: dict[str, Any]) -> dict[str, Any]:
        # The hints of one tool change back and forth.
        return {"mcpServers": self.servers, "intent_declaration": rules, "trust": {"changes": "accept"}}

    def arrived(self) -> list[tuple[str, str]]:
        """Returns the tool and the raw arguments of every call that reached the server."""
        return [_received(line) for line in self.ledger.read_text().splitlines()]

    def records(self) -> list[dict[str, Any]]:
        """Returns the records of all finished calls and refusals, oldest first."""
        found: list[dict[str, Any]] = []
        cursor: list[str] = []
        while True:
            done = self.gateway.run("activity", "list", "--limit", "500", "-o", "json", *cursor)
            assert done.returncode == 0, done.stderr
            page = json.loads(done.stdout)
            found += page["activities"]
            if not page["next"]:
                break
            cursor = ["--cursor", page["next"]]
        calls = [record for record in reversed(found) if record["type"] in ("call", "refusal")]
        return [record for record in calls if record["status"] != "started"]

    def record(self, **facts: str) -> dict[str, Any]:
        """Waits for the one record with these fields."""

        def found() -> list[dict[str, Any]]:
            return [record for record in self.records() if facts.items() <= record.items()]

        (one,) = until(found, RECORD_SECONDS, f"a record with {facts}")
        return self.show(one)

    def show(self, record: dict[str, Any]) -> dict[str, Any]:
        done = self.gateway.run("activity", "show", record["id"], "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)

    def explain(self, variant: str, parameters: dict[str, Any]) -> dict[str, Any]:
        answer = self.admin.post("/policy/explain", json={"variant": variant, "parameters": parameters})
        assert answer.status_code == 200, answer.text
        return answer.json()

    @cached_property
    def admin(self) -> httpx.Client:
        headers = {"X-API-Key": self.gateway.admin_key}
        return httpx.Client(base_url=f"{self.gateway.base}/api/v1", headers=headers, timeout=60)


def _received(line: str) -> tuple[str, str]:
    name = json.loads(line)["params"]["name"]
    begin = line.index('"arguments":') + len('"arguments":')
    _, end = json.JSONDecoder().raw_decode(line, begin)
    return name, line[begin:end]


@pytest.fixture(scope="module")
def houses(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], House]]:
    """Starts a gateway for each kind of settings when it is first needed."""
    running: list[Gateway] = []

    @cache
    def house(setting: str) -> House:
        one = House(tmp_path_factory.mktemp(setting), SETTINGS[setting])
        running.append(one.gateway.start())
        return one

    try:
        yield house
    finally:
        for gateway in running:
            gateway.stop()


@pytest.fixture(scope="module")
def heard(houses: Callable[[str], House]) -> Callable[[str, str], Heard]:
    """Plays all cases of a setting over a surface, once, with one connection."""

    @cache
    def run(setting: str, surface: str) -> Heard:
        house = houses(setting)
        cases = [case for case in CASES if case.setting == setting and (surface != "cli" or flags(case) is not None)]
        calls, records = len(house.arrived()), len(house.records())
        one = Heard(cases)
        if surface == "cli":
            with_commands(house, one)
        else:
            steps = [call(case.tool, case.parameters) for case in cases]
            one.results = over(surface, house.gateway, steps)
        one.arrived = house.arrived()[calls:]
        # Records of reads are written in batches. If one never arrives, only the test about records fails.
        expected = len([case for case in cases if surface != "cli" or case.code not in USAGE])
        with suppress(AssertionError):
            until(lambda: len(house.records()) - records >= expected, RECORD_SECONDS, "every call is on the record")
        with ThreadPoolExecutor(LOOKING_AT_ONCE) as many:
            one.records = list(many.map(house.show, house.records()[records:]))
        return one

    return run


def over(surface: str, gateway: Gateway, steps: list[dict[str, Any]]) -> list[dict[str, Any]]:
    match surface:
        case "http-2025-11-25":
            transcript = play(PYTHON_LEGACY, gateway.mcp, gateway.token, steps)
        case "http-2026-07-28":
            transcript = play(PYTHON_MODERN, gateway.mcp, gateway.token, steps)
        case "stdio-2025-11-25":
            transcript = play_stdio(LEGACY, command(gateway), steps)
        case _:
            transcript = play_stdio(MODERN, command(gateway), steps)
    assert transcript.protocol in surface, transcript.protocol
    return transcript.results


# -- the command line as a surface ------------------------------------------------------------------------------


def flags(case: Case) -> list[str] | None:
    """Builds the command for a case, if there is one. The second key always follows from the command."""
    given = dict(case.parameters)
    intent = given.pop("intent", {"operation_type": case.variant})
    name, words = given.pop("name", None), ["call", f"tool-{case.variant}", "-o", "json"]
    if not isinstance(name, str) or not isinstance(intent, dict) or intent.get("operation_type") != case.variant:
        return None
    said = {f"intent_{key}": value for key, value in intent.items()}
    if any(said.get(key, value) != value for key, value in given.items()):
        return None
    given |= {key: value for key, value in said.items() if key != "intent_operation_type"}
    given.pop("intent_operation_type", None)
    spellings = {"intent_reason": "--reason", "intent_data_sensitivity": "--sensitivity", "args_json": "--args"}
    for key, value in given.items():
        if key == "args" and isinstance(value, dict) and "args_json" not in given:
            words += ["--args", json.dumps(value)]
        elif key in spellings and isinstance(value, str) and "args" not in given:
            words += [spellings[key], value]
        else:
            return None
    # A command always sends these two keys, so the rows that lack them have no command.
    is_missing = case.code in ("MISSING_INTENT", "MISSING_OPERATION_TYPE")
    return None if is_missing else [*words, "--", name]


def with_commands(house: House, one: Heard) -> None:
    for case in one.cases:
        words = flags(case)
        assert words is not None
        # `--` must come last, before the name, and `--home` is a flag.
        done = subprocess.run(
            [peers.MCPPROXY, "--home", str(house.gateway.home), *words],
            capture_output=True,
            text=True,
            timeout=60,
            env=house.gateway.environment(),
        )
        one.exits.append((done.returncode, done.stderr.replace(str(house.gateway.home), "HOME")))
        one.results.append(json.loads(done.stdout) if done.stdout else {})


# -- every case on every surface --------------------------------------------------------------------------------


def everywhere() -> list[Any]:
    pairs = [(case, surface) for surface in SURFACES for case in CASES if surface != "cli" or flags(case) is not None]
    return [pytest.param(case, surface, id=f"{surface}-{case}") for case, surface in pairs]


def on_the_command_line(case: Case) -> str:
    """The sentence that a person reads instead of the agent's."""
    name = case.parameters["name"]
    if case.code == "SERVER_MISMATCH":
        right = re.findall(r"use call_tool_(\w+) ", case.says)[0]
        if "is marked destructive by server" in case.says:
            effect = f"`{name}` can destroy data: it is marked destructive by server `{name.split(':')[0]}`."
        elif "is not marked read-only by server" in case.says:
            effect = f"The server does not mark `{name}` as read-only."
        else:
            effect = f"`{name}` changes data."
        return f"error: {effect} Use `mcpproxy --home HOME call tool-{right}`."
    if case.code == "REASON_TOO_LONG":
        return "--reason is longer than 1000 characters."
    if case.code == "tool_not_found":
        meant = " or ".join(f"`{one}`" for one in case.suggestions or [])
        return f"There is no tool `{name}`." + (f" Did you mean {meant}?" if meant else "")
    return case.says


@pytest.mark.parametrize(("case", "surface"), everywhere())
def test_case(heard: Callable[[str, str], Heard], case: Case, surface: str) -> None:
    result = heard(case.setting, surface).of(case)
    if surface == "cli":
        exit_code, stderr = heard(case.setting, surface).exit_of(case)
        assert exit_code == (0 if case.code is None else 2 if case.code in USAGE else 3), stderr
        if case.code in USAGE:
            assert result == {} and stderr
            return
        if case.code is not None:
            assert f"{on_the_command_line(case)} ({case.code})" in stderr
    if case.code is None:
        assert "error" not in result and not result.get("isError"), result
        tool = case.parameters["name"].removeprefix("hints:")
        assert result["content"] == [{"type": "text", "text": f"{tool} was called"}]
        assert [warning["code"] for warning in warnings(result)] == ([case.warns] if case.warns else [])
    elif case.code in MALFORMED:
        assert result["error"] == {"code": -32602, "message": case.says}
    else:
        refusal = result["structuredContent"]["error"]
        assert (refusal["code"], refusal["message"]) == (case.code, case.says)
        assert result["isError"] is True
        assert result["content"] == [{"type": "text", "text": case.says}]
        if case.suggestions is not None:
            assert refusal["details"]["suggestions"] == case.suggestions


def warnings(result: dict[str, Any]) -> list[dict[str, str]]:
    return result.get("_meta", {}).get("mcpproxy/warnings", [])


def batches() -> list[Any]:
    return [pytest.param(setting, surface, id=f"{setting}-{surface}") for setting in SETTINGS for surface in SURFACES]


@pytest.mark.parametrize(("setting", "surface"), batches())
def test_only_what_is_allowed_arrives_and_arrives_as_written(
    heard: Callable[[str, str], Heard], setting: str, surface: str
) -> None:
    one = heard(setting, surface)
    expected = [(str(case), *arrives(case, surface)) for case in one.cases if case.code is None]
    assert [(name, *got) for (name, *_), got in zip(expected, one.arrived, strict=True)] == expected


def arrives(case: Case, surface: str) -> tuple[str, str]:
    """Returns the tool and the exact arguments that the server must receive."""
    given = case.parameters
    if "args" in given:
        separators = None if surface == "cli" else (",", ":")
        return given["name"].removeprefix("hints:"), json.dumps(given["args"], separators=separators)
    return given["name"].removeprefix("hints:"), given.get("args_json", "{}")


@pytest.mark.parametrize(("setting", "surface"), batches())
def test_every_call_and_every_refusal_has_one_record(
    heard: Callable[[str, str], Heard], setting: str, surface: str
) -> None:
    one = heard(setting, surface)
    recorded = [case for case in one.cases if surface != "cli" or case.code not in USAGE]
    assert len(one.records) == len(recorded)
    for case, record in zip(recorded, one.records, strict=True):
        check_record(case, record, surface)


def declared_operation(case: Case) -> str | None:
    """Returns the operation type as the agent wrote it. A string as `intent` stands for one."""
    nested = case.parameters.get("intent")
    if isinstance(nested, dict):
        nested = nested.get("operation_type")
    elif not isinstance(nested, str):
        nested = None
    written = case.parameters.get("intent_operation_type")
    written = nested if written is None else written
    return written if written is None or isinstance(written, str) else json.dumps(written)


def check_record(case: Case, record: dict[str, Any], surface: str) -> None:
    is_allowed = case.code is None
    kind, status = ("call", "success") if is_allowed else ("refusal", "refused")
    written = declared_operation(case)
    operation = written if written in ("read", "write", "destructive") else case.variant
    facts = (record["type"], record["status"], record["intent_type"], record["code"])
    assert facts == (kind, status, operation, case.code)
    metadata = record["metadata"]
    assert metadata["tool_variant"] == case.tool
    assert metadata["intent"]["operation_type"] == (case.variant if written is None else written), case
    if not is_allowed:
        assert metadata["expected"] == {"operation_type": case.variant}
        assert record["message"] == case.says, case
        if surface != "cli":
            assert record["arguments"] == case.parameters, case
        else:
            assert record["arguments"]["name"] == case.parameters["name"], case
        return
    if "exact" not in case.name:
        assert record["arguments"] == json.loads(arrives(case, surface)[1]), case
    assert metadata["intent"] == {"operation_type": case.variant, **declared(case)}, case
    assert metadata["intent_verified"] is case.verified, case
    assert [warning["code"] for warning in metadata.get("warnings", [])] == ([case.warns] if case.warns else []), case


@pytest.mark.parametrize("surface", SURFACES)
def test_a_record_shows_numbers_as_they_were_sent(heard: Callable[[str, str], Heard], surface: str) -> None:
    one = heard("plain", surface)
    cases = [case for case in one.cases if surface != "cli" or case.code not in USAGE]
    exact = [(case, record) for case, record in zip(cases, one.records, strict=True) if "exact" in case.name]
    assert len(exact) == 2
    for case, record in exact:
        assert record["arguments"] == json.loads(arrives(case, surface)[1])


@pytest.mark.parametrize("surface", SURFACES)
def test_a_refusal_keeps_the_whole_intent(heard: Callable[[str, str], Heard], surface: str) -> None:
    one = heard("plain", surface)
    cases = [case for case in one.cases if surface != "cli" or case.code not in USAGE]
    pairs = zip(cases, one.records, strict=True)
    (record,) = [record for case, record in pairs if case.name == "refused with a reason"]
    whole = {"operation_type": "read", "data_sensitivity": "private", "reason": "why"}
    assert (record["code"], record["metadata"]["intent"]) == ("SERVER_MISMATCH", whole)


def declared(case: Case) -> dict[str, str]:
    """Returns sensitivity and reason, wherever they were given."""
    nested = case.parameters.get("intent", {})
    names = ("data_sensitivity", "reason")
    found = {name: nested.get(name, case.parameters.get(f"intent_{name}")) for name in names}
    return {name: value for name, value in found.items() if value is not None}


@pytest.mark.parametrize("surface", SURFACES)
def test_a_warning_says_the_same_in_the_answer_and_on_the_record(
    heard: Callable[[str, str], Heard], surface: str
) -> None:
    one = heard("lenient", surface)
    record = next(record for record in one.records if record["tool"] == "destructive")
    says = server_mismatch("destructive", "read")
    assert record["metadata"]["warnings"] == [{"code": "SERVER_MISMATCH", "message": says}]
    case = next(case for case in one.cases if case.parameters["name"] == "hints:destructive")
    assert warnings(one.of(case)) == record["metadata"]["warnings"]
    if surface == "cli":
        assert f"warning: {says}" in one.exit_of(case)[1]


# -- the decision table and explain -----------------------------------------------------------------------------


@pytest.mark.parametrize("setting", SETTINGS)
def test_the_printed_table_is_what_happens(houses: Callable[[str], House], setting: str) -> None:
    house = houses(setting)
    done = house.gateway.run("policy", "table", "-o", "json")
    rules = {"strict_server_validation": True, "two_key": "optional", "unannotated": "trust", **SETTINGS[setting]}
    combinations = [
        {"variant": variant, "declared": declared, "readOnlyHint": hints[0], "destructiveHint": hints[1], **rules}
        for variant in OPERATIONS
        for declared in (None, *OPERATIONS, "delete")
        for hints in dict.fromkeys(HINTS[name] for name in ANY)
    ]
    assert len(combinations) == len(OPERATIONS) * (len(OPERATIONS) + 2) * len(ANY)
    rows = [look_up(json.loads(done.stdout)["decisions"], combination) for combination in combinations]
    tools = {hints: name for name, hints in reversed(HINTS.items()) if name in ANY}
    steps = []
    for row in rows:
        parameters = {"name": f"hints:{tools[row['readOnlyHint'], row['destructiveHint']]}"}
        if row["declared"] is not None:
            parameters["intent"] = {"operation_type": row["declared"]}
        steps.append(call(f"call_tool_{row['variant']}", parameters))
    before = len(house.arrived())
    results = over("http-2026-07-28", house.gateway, steps)
    for row, result in zip(rows, results, strict=True):
        words = row["outcome"].removesuffix(" unverified")
        assert happened(result) == words, row
    allowed = sum(row["outcome"].startswith("allow") for row in rows)
    assert len(house.arrived()) - before == allowed


def look_up(table: list[dict[str, Any]], combination: dict[str, Any]) -> dict[str, Any]:
    """Returns the combination with its outcome, from the only row that matches it."""

    def matches(cell: Any, value: Any) -> bool:
        return cell == "any" or (value in cell if isinstance(cell, list) else cell == value)

    (row,) = [row for row in table if all(matches(row[name], value) for name, value in combination.items())]
    return {**combination, "outcome": row["outcome"]}


def happened(result: dict[str, Any]) -> str:
    """Formats a result as the table does."""
    if not result.get("isError"):
        return " ".join(["allow", *(f"warn {warning['code']}" for warning in warnings(result))])
    refusal = result["structuredContent"]["error"]
    use = f", use {refusal['details']['call_with']}" if refusal["code"] == "SERVER_MISMATCH" else ""
    return f"deny {refusal['code']}{use}"


@pytest.mark.parametrize("setting", SETTINGS)
def test_explain_agrees_with_what_happens(houses: Callable[[str], House], setting: str) -> None:
    house = houses(setting)
    calls, records = house.arrived(), len(house.records())
    for case in CASES:
        if case.setting != setting:
            continue
        told = house.explain(case.variant, case.parameters)
        assert told["decision"] == ("allow" if case.code is None else "deny"), case
        if case.code is None:
            assert told["error"] is None and told["intent_verified"] is case.verified, case
            warned = [check["verdict"] for check in told["checks"]].count("warned")
            assert warned == (1 if case.warns else 0), case
        else:
            assert (told["error"]["code"], told["error"]["message"]) == (case.code, case.says)
    assert house.arrived() == calls and len(house.records()) == records, "explaining is not calling"


@pytest.mark.parametrize("setting", SETTINGS)
def test_policy_explain_on_the_command_line(houses: Callable[[str], House], setting: str) -> None:
    house = houses(setting)
    cases = [case for case in CASES if case.setting == setting and explainable(case)]
    assert cases

    def explained(case: Case) -> subprocess.CompletedProcess[str]:
        words = ["policy", "explain", case.parameters["name"], "--variant", case.variant, "-o", "json"]
        if "intent" in case.parameters:
            words += ["--declared", case.parameters["intent"]["operation_type"]]
        if "args" in case.parameters:
            words += ["--args", json.dumps(case.parameters["args"])]
        return house.gateway.run(*words)

    with ThreadPoolExecutor(LOOKING_AT_ONCE) as many:
        for case, done in zip(cases, many.map(explained, cases), strict=True):
            assert done.returncode == (0 if case.code is None else 3), (case, done.stderr)
            told = json.loads(done.stdout)
            assert told["decision"] == ("allow" if case.code is None else "deny"), case
            assert (told["error"] or {}).get("code") == case.code, case


def explainable(case: Case) -> bool:
    """Returns true if `policy explain` can express the case. Invalid names and operations are usage errors there."""
    given = case.parameters
    intent = given.get("intent", {"operation_type": case.variant})
    return (
        set(given) <= {"name", "args", "intent"}
        and case.code not in (*USAGE, *MALFORMED)
        and isinstance(intent, dict)
        and set(intent) == {"operation_type"}
        and intent["operation_type"] in OPERATIONS
    )


# -- other checks -----------------------------------------------------------------------------------------------

GONE = (
    "Tool 'call_tool' not found. Use call_tool_read, call_tool_write, or call_tool_destructive "
    "with matching intent.operation_type. See retrieve_tools for annotations and recommendations."
)


@pytest.mark.parametrize("surface", PROTOCOLS)
def test_call_tool_is_gone(houses: Callable[[str], House], surface: str) -> None:
    house = houses("plain")
    before, records = house.arrived(), len(house.records())
    parameters = {"name": "hints:read_only", "args_json": "{}"}
    (result,) = over(surface, house.gateway, [call("call_tool", parameters)])
    assert result == {"error": {"code": -32602, "message": GONE}}
    assert house.arrived() == before
    until(lambda: len(house.records()) == records + 1, RECORD_SECONDS, "one record")
    record = house.show(house.records()[-1])
    facts = (record["type"], record["tool"], record["code"], record["arguments"])
    assert facts == ("refusal", "call_tool", "tool_not_found", parameters)


@pytest.mark.parametrize("era", [LEGACY, MODERN])
@pytest.mark.parametrize("door", ["four", "direct"])
def test_bytes_arrive_as_they_were_written(houses: Callable[[str], House], era: str, door: str) -> None:
    house = houses("plain")
    own = '{ "n" : 1.0,\t"big":18446744073709551617, "é\\u00e9":"\\/", "z":[1e2 ,-0] }'
    wire = Wire(house.gateway.mcp if door == "four" else house.gateway.server_url("hints"), house.gateway.token, era)
    name = "call_tool_read" if door == "four" else "read_only"
    arguments: Any = {"name": "hints:read_only", "args": "OWN"} if door == "four" else "OWN"
    message = json.dumps(wire.message("tools/call", {"name": name, "arguments": arguments}))
    headers = {"Mcp-Method": "tools/call", "Mcp-Name": name} if era == MODERN else {}
    answer = wire.http.post(wire.url, content=message.replace('"OWN"', own).encode(), headers=headers)
    assert answer.status_code == 200 and "read_only was called" in answer.text, answer.text
    assert house.arrived()[-1] == ("read_only", own)


@pytest.mark.parametrize("setting", ["plain", "two-keys"])
@pytest.mark.parametrize("surface", PROTOCOLS)
def test_the_list_says_what_a_call_needs(houses: Callable[[str], House], surface: str, setting: str) -> None:
    (listed,) = over(surface, houses(setting).gateway, [step("tools/list")])
    tools = {tool["name"]: tool for tool in listed["tools"]}
    for variant in OPERATIONS:
        tool = tools[f"call_tool_{variant}"]
        hints = {"readOnlyHint": variant == "read", "destructiveHint": variant == "destructive", "openWorldHint": True}
        assert tool["annotations"] == hints
        schema = tool["inputSchema"]
        assert schema["required"] == (["name"] if setting == "plain" else ["name", "intent"])
        assert set(schema["properties"]) >= {"args", "args_json", "intent_data_sensitivity", "intent_reason", "intent"}
        assert schema["properties"]["intent"]["properties"]["operation_type"]["enum"] == [variant]
        assert variant in tool["description"]


@pytest.mark.parametrize("surface", PROTOCOLS)
def test_retrieve_tools(houses: Callable[[str], House], surface: str) -> None:
    gateway = houses("plain").gateway
    (result,) = over(surface, gateway, [call("retrieve_tools", {"query": "does things", "limit": 50})])
    found = result["structuredContent"]
    assert json.loads(result["content"][0]["text"]) == found
    for variant in OPERATIONS:
        assert f"call_tool_{variant}" in found["usage_instructions"]
    tools = {tool["name"].removeprefix("hints:"): tool for tool in found["tools"]}
    assert set(tools) == {*HINTS, "fickle"}
    for name, (read_only, destructive) in HINTS.items():
        tool = tools[name]
        # As the server sent them. `call_with` says how the gateway reads them.
        hints = {"readOnlyHint": read_only, "destructiveHint": destructive}
        assert tool["annotations"] == {hint: value for hint, value in hints.items() if value is not None}
        use = "destructive" if destructive else "read" if read_only else "write"
        assert tool["call_with"] == f"call_tool_{use}", name
        assert f"call_tool_{use}" in tool["description"] and f"Does {name} things." in tool["description"]
        assert 0 <= tool["score"] <= 1 and tool["server"] == "hints" and tool["inputSchema"] == {"type": "object"}
    scores = [tool["score"] for tool in found["tools"]]
    assert scores == sorted(scores, reverse=True)


def test_a_refusal_in_direct_mode_is_recorded_with_its_intent(houses: Callable[[str], House]) -> None:
    house = houses("plain")
    token = house.gateway.run("token", "create", "reader", "--operations", "read").stdout.strip()
    wire = Wire(house.gateway.server_url("hints"), token, MODERN)
    refused = wire.ask("tools/call", {"name": "destructive", "arguments": {"a": 1}})
    assert refused["structuredContent"]["error"]["code"] == "permission_denied"
    record = house.record(agent="reader")
    facts = (record["type"], record["tool"], record["intent_type"], record["code"], record["arguments"])
    assert facts == ("refusal", "destructive", "destructive", "permission_denied", {"a": 1})


# -- changing annotations ---------------------------------------------------------------------------------------


def connected(surface: str, gateway: Gateway, talk: Callable[[Client], Awaitable[None]]) -> None:
    """Opens one connection with the official client."""
    # `auto` sends `server/discover` first, like a client that does not know the revision.
    era = "auto" if MODERN in surface else LEGACY

    async def run() -> None:
        with anyio.fail_after(60):
            if surface.startswith("stdio"):
                async with Client(command(gateway), mode=era) as client:
                    return await talk(client)
            headers = {"Authorization": f"Bearer {gateway.token}"}
            async with httpx2.AsyncClient(headers=headers, timeout=60) as http:
                async with Client(streamable_http_client(gateway.mcp, http_client=http), mode=era) as client:
                    return await talk(client)

    anyio.run(run)


@pytest.mark.parametrize("surface", PROTOCOLS)
def test_annotations_count_as_they_are_at_the_call(houses: Callable[[str], House], surface: str) -> None:
    house = houses("plain")
    mismatch = server_mismatch("fickle", "read")

    async def talk(client: Client) -> None:
        async def use(variant: str, tool: str) -> str:
            result = await client.call_tool(f"call_tool_{variant}", {"name": f"hints:{tool}"})
            return result.content[0].text

        found = await client.call_tool("retrieve_tools", {"query": "fickle", "limit": 1})
        assert found.structured_content["tools"][0]["call_with"] == "call_tool_read"
        assert await use("read", "fickle") == "fickle was called"
        await use("write", "turn")
        await anyio.to_thread.run_sync(marked, house, "destructiveHint")
        assert await use("read", "fickle") == mismatch
        assert await use("destructive", "fickle") == "fickle was called"
        await use("write", "turn")
        await anyio.to_thread.run_sync(marked, house, "readOnlyHint")
        assert await use("read", "fickle") == "fickle was called"

    connected(surface, house.gateway, talk)
    assert [name for name, _ in house.arrived()[-5:]] == ["fickle", "turn", "fickle", "turn", "fickle"]


def marked(house: House, hint: str) -> None:
    def is_marked() -> bool:
        # A tool that changes often is held for a moment each time.
        return house.admin.get("/tools/hints/fickle").json().get("annotations") == {hint: True}

    until(is_marked, 30, f"the catalog knows of the new {hint}")


@pytest.mark.parametrize("surface", PROTOCOLS)
def test_instructions_reach_the_client(houses: Callable[[str], House], surface: str) -> None:
    async def talk(client: Client) -> None:
        assert client.protocol_version in surface
        words = ("retrieve_tools", "call_with", "call_tool_read", "call_tool_write", "call_tool_destructive")
        assert [word for word in words if word not in (client.instructions or "")] == []

    connected(surface, houses("plain").gateway, talk)
