"""Five published servers behind the gateway: nothing is lost in transit, and every client can use them."""

from __future__ import annotations

import json
import re

import pytest

import peers
from clients import ALL_KINDS, PYTHON_LEGACY, PYTHON_MODERN, Kind, call, play, step
from conftest import Real
from wire import LEGACY, MODERN, Wire

NAMES = ["everything", "filesystem", "memory", "git", "time"]
ERAS = [LEGACY, MODERN]
# Members of list results in the stateless revision. The gateway sets them itself.
NEEDS_USER = "anthropic/requiresUserInteraction"
ENVELOPE = {"resultType", "ttlMs", "cacheScope", "_meta"}


def content(result: dict) -> dict:
    return {key: value for key, value in result.items() if key not in ENVELOPE}


def test_all_are_ready(real: Real) -> None:
    states = {name: (server["state"], server["reason"]) for name, server in real.gateway.servers().items()}
    assert states == {name: ("ready", None) for name in NAMES}


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("name", NAMES)
def test_tools_are_listed_without_loss(real: Real, name: str, era: str) -> None:
    # Some servers write the same list differently in each revision. The gateway uses one of them.
    version = real.gateway.servers()[name]["protocol"]
    (direct,) = peers.ask_directly(real.servers[name], ("tools/list", {}), version=version)
    through = Wire(real.gateway.server_url(name), real.gateway.token, era).ask("tools/list")
    for tool in through["tools"]:
        # The gateway marks destructive tools, so that the client asks its user.
        if tool.get("_meta", {}).pop(NEEDS_USER, None) and not tool["_meta"]:
            del tool["_meta"]
    assert content(through) == content(direct)
    # Compare the order too, because a model reads the properties of a schema in order.
    assert [json.dumps(tool) for tool in through["tools"]] == [json.dumps(tool) for tool in direct["tools"]]


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("method", ["resources/list", "resources/templates/list", "prompts/list"])
def test_resources_and_prompts_are_listed_without_loss(real: Real, method: str, era: str) -> None:
    (direct,) = peers.ask_directly(real.servers["everything"], (method, {}))
    through = Wire(real.gateway.server_url("everything"), real.gateway.token, era).ask(method)
    if method == "resources/templates/list":
        # The gateway's own template comes after those of the server.
        assert through["resourceTemplates"].pop()["uriTemplate"] == "contract://{server}/{tool}"
    assert content(through) == content(direct)


@pytest.mark.parametrize("era", ERAS)
def test_direct_mode_lists_all_servers_under_their_names(real: Real, era: str) -> None:
    own = {
        f"{name}__{tool['name']}"
        for name in NAMES
        for tool in Wire(real.gateway.server_url(name), real.gateway.token, era).ask("tools/list")["tools"]
    }
    wire = Wire(f"{real.gateway.base}/mcp/direct", real.gateway.token, era)
    listed = [tool["name"] for tool in wire.ask("tools/list")["tools"]]
    assert set(listed) == own
    assert len(listed) == len(own)
    done = wire.ask("tools/call", {"name": "everything__echo", "arguments": {"message": "direct"}})
    assert done["content"] == [{"type": "text", "text": "Echo: direct"}]


def through_four(server: str, tool: str, variant: str, arguments: dict) -> dict:
    return call(f"call_tool_{variant}", {"name": f"{server}:{tool}", "args_json": json.dumps(arguments)})


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_every_client_uses_every_server_through_the_four_tools(real: Real, kind: Kind) -> None:
    note = f"written by {kind}"
    path = str(real.folder / f"{kind}.txt")
    entity = {"name": str(kind), "entityType": "client", "observations": [note]}
    heard = play(
        kind,
        real.gateway.mcp,
        real.gateway.token,
        [
            through_four("everything", "get-sum", "read", {"a": 20, "b": 22}),
            through_four("everything", "get-structured-content", "read", {"location": "Chicago"}),
            through_four("filesystem", "write_file", "destructive", {"path": path, "content": note}),
            through_four("filesystem", "read_text_file", "read", {"path": path}),
            through_four("memory", "create_entities", "write", {"entities": [entity]}),
            through_four("memory", "open_nodes", "read", {"names": [str(kind)]}),
            through_four("git", "git_log", "read", {"repo_path": str(real.repository)}),
            through_four("time", "convert_time", "read", {
                "source_timezone": "Europe/Berlin", "time": "12:30", "target_timezone": "Asia/Tokyo",
            }),
        ],
    )  # fmt: skip
    failed = [result for result in heard.results if "error" in result or result.get("isError")]
    assert not failed, failed
    total, weather, _, file, _, nodes, log, clock = heard.results
    assert total["content"][0]["text"] == "The sum of 20 and 22 is 42."
    assert set(weather["structuredContent"]) == {"temperature", "conditions", "humidity"}
    assert file["content"][0]["text"] == note
    assert nodes["structuredContent"]["entities"] == [entity]
    assert "First commit" in log["content"][0]["text"]
    assert "Asia/Tokyo" in clock["content"][0]["text"]


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_every_client_uses_a_server_under_its_own_names(real: Real, kind: Kind) -> None:
    heard = play(
        kind,
        real.gateway.server_url("everything"),
        real.gateway.token,
        [
            step("tools/list"),
            call("echo", {"message": "own name"}),
            call("get-structured-content", {"location": "Chicago"}),
            call("get-tiny-image"),
            call("get-annotated-message", {"messageType": "error", "includeImage": True}),
            call("get-resource-links", {"count": 2}),
            call("get-resource-reference", {"resourceType": "Blob", "resourceId": 3}),
            step("resources/list"),
            step("resources/read", {"uri": "demo://resource/dynamic/text/7"}),
            step("prompts/list"),
            step("prompts/get", {"name": "args-prompt", "arguments": {"city": "Berlin"}}),
        ],
    )
    failed = [result for result in heard.results if "error" in result or result.get("isError")]
    assert not failed, failed
    tools, echo, weather, image, annotated, links, blob, resources, text, prompts, prompt = heard.results
    assert "echo" in [tool["name"] for tool in tools["tools"]]
    assert echo["content"][0]["text"] == "Echo: own name"
    assert "temperature" in weather["structuredContent"]
    assert [block["type"] for block in image["content"]] == ["text", "image", "text"]
    assert annotated["content"][0]["annotations"] == {"priority": 1.0, "audience": ["user", "assistant"]}
    assert [block["type"] for block in links["content"]] == ["text", "resource_link", "resource_link"]
    assert blob["content"][1]["resource"]["blob"]
    assert "demo://resource/static/document/features.md" in [one["uri"] for one in resources["resources"]]
    assert text["contents"][0]["text"].startswith("Resource 7:")
    assert "args-prompt" in [one["name"] for one in prompts["prompts"]]
    assert prompt["messages"][0]["content"]["text"] == "What's weather in Berlin?"


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_resources_and_prompts_beside_the_four_tools(real: Real, kind: Kind) -> None:
    address = "mcpproxy://everything/demo://resource/static/document/features.md"
    heard = play(
        kind,
        real.gateway.mcp,
        real.gateway.token,
        [
            step("resources/list"),
            step("resources/read", {"uri": address}),
            step("prompts/list"),
            step("prompts/get", {"name": "everything__args-prompt", "arguments": {"city": "Berlin"}}),
        ],
    )
    resources, text, prompts, prompt = heard.results
    addresses = {one["uri"] for one in resources["resources"]}
    assert address in addresses and "mcpproxy://memory/memory://knowledge-graph" in addresses
    assert text["contents"][0]["uri"] == address
    assert text["contents"][0]["text"].startswith("# Everything Server")
    assert "everything__args-prompt" in [one["name"] for one in prompts["prompts"]]
    assert prompt["messages"][0]["content"]["text"] == "What's weather in Berlin?"


@pytest.mark.parametrize("era", ERAS)
@pytest.mark.parametrize("endpoint", ["/mcp", "/mcp/direct", "/mcp/s/everything"])
def test_links_in_results_can_be_read_where_they_were_given(real: Real, endpoint: str, era: str) -> None:
    wire = Wire(real.gateway.base + endpoint, real.gateway.token, era)
    own = {"name": "get-resource-links", "arguments": {"count": 3}}
    step = {
        "/mcp": {"name": "call_tool_read", "arguments": {"name": f"everything:{own['name']}", "args": own["arguments"]}},
        "/mcp/direct": {**own, "name": f"everything__{own['name']}"},
    }.get(endpoint, own)
    links = [one["uri"] for one in wire.ask("tools/call", step)["content"] if one["type"] == "resource_link"]
    assert len(links) == 3
    for link in links:
        (read, *_) = wire.ask("resources/read", {"uri": link})["contents"]
        assert read["uri"] == link and (read.get("text") or read.get("blob"))


@pytest.mark.parametrize("era", ERAS)
def test_results_arrive_without_loss(real: Real, era: str) -> None:
    requests = [
        ("tools/call", {"name": "get-tiny-image", "arguments": {}}),
        ("tools/call", {"name": "get-annotated-message", "arguments": {"messageType": "debug", "includeImage": True}}),
        ("tools/call", {"name": "get-resource-links", "arguments": {"count": 3}}),
        ("prompts/get", {"name": "resource-prompt", "arguments": {"resourceType": "Text", "resourceId": "1"}}),
        ("resources/read", {"uri": "demo://resource/static/document/features.md"}),
    ]
    direct = peers.ask_directly(real.servers["everything"], *requests)
    wire = Wire(real.gateway.server_url("everything"), real.gateway.token, era)
    for (method, params), want in zip(requests, direct, strict=True):
        through = wire.ask(method, params)
        assert _timeless(content(through)) == _timeless(content(want)), (method, params)


def _timeless(value: dict) -> str:
    """Removes the time of day, which the everything server writes into some answers."""
    return re.sub(r"\d{1,2}:\d\d:\d\d [AP]M", "TIME", json.dumps(value))


@pytest.mark.parametrize("kind", [PYTHON_LEGACY, PYTHON_MODERN], ids=str)
def test_understated_call_on_a_real_server_is_refused_and_not_sent(real: Real, kind: Kind) -> None:
    path = real.folder / "must-not-exist.txt"
    arguments = {"path": str(path), "content": "no"}
    heard = play(
        kind, real.gateway.mcp, real.gateway.token, [through_four("filesystem", "write_file", "write", arguments)]
    )
    assert heard.results[0]["isError"] is True
    assert heard.results[0]["content"][0]["text"] == (
        "Tool 'filesystem:write_file' is marked destructive by server, use call_tool_destructive instead of call_tool_write"
    )
    assert not path.exists()


@pytest.mark.parametrize("kind", ALL_KINDS, ids=str)
def test_search_finds_the_right_tool_of_a_real_server(real: Real, kind: Kind) -> None:
    wanted = {"commit history of a repository": "git:git_log", "current time in a timezone": "time:get_current_time"}
    heard = play(
        kind, real.gateway.mcp, real.gateway.token, [call("retrieve_tools", {"query": query}) for query in wanted]
    )
    for result, name in zip(heard.results, wanted.values(), strict=True):
        assert name in [tool["name"] for tool in result["structuredContent"]["tools"]]


def test_one_connection_serves_all_calls(real: Real) -> None:
    before = {name: server["pid"] for name, server in real.gateway.servers().items()}
    for era in ERAS:
        wire = Wire(real.gateway.mcp, real.gateway.token, era)
        arguments = {"name": "time:get_current_time", "args": {"timezone": "UTC"}}
        for _ in range(3):
            wire.ask("tools/call", {"name": "call_tool_read", "arguments": arguments})
    assert {name: server["pid"] for name, server in real.gateway.servers().items()} == before
    assert all(server["restarts"] == 0 for server in real.gateway.servers().values())
