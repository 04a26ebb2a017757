"""Searching for tools: size limits, explained scores, and a reason when nothing is found."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import peers
from gateway import Gateway
from wire import LEGACY, MODERN, Wire

ANSWER_MAX_BYTES = 16 * 1024
WIDTH = 80
PROSE = "Reports are made of records and sent to people. " * 40
# A schema full of optional parts, with arguments that are named like schema keywords.
REPORT = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "make_reportArguments",
    "type": "object",
    "properties": {
        "title": {"title": "Title", "type": "string", "examples": ["Sales"], "description": PROSE},
        "examples": {"anyOf": [{"type": "integer"}, {"type": "null"}], "default": None},
    },
    "required": ["title"],
    "additionalProperties": False,
    "$defs": {"Unused": {"type": "string"}},
}
# Larger than an answer can be.
LARGE = {
    "type": "object",
    "properties": {
        f"field_{number}": {"enum": [f"choice {number} {choice}" for choice in range(40)]} for number in range(40)
    },
    "required": ["field_0"],
}


TOPICS = (
    "sales stock weather traffic travel budget energy water crime health school sports market housing audit "
    "safety staff harvest import export customs tax election survey incident outage network storage latency release"
).split()


def offered() -> list[dict[str, Any]]:
    reports = [
        {"name": f"make_{topic}_report", "description": f"Makes a report on {topic}. {PROSE}", "inputSchema": REPORT}
        for topic in TOPICS
    ]
    return [*reports, {"name": "fill_questionnaire", "description": "Fills a questionnaire.", "inputSchema": LARGE}]


@pytest.fixture(scope="module")
def gateway(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    folder: Path = tmp_path_factory.mktemp("search")
    tools = folder / "tools.json"
    tools.write_text(json.dumps(offered()))
    other = folder / "other.json"
    other.write_text(json.dumps([{"name": "mail_it", "description": "Mails a questionnaire.", "inputSchema": {}}]))
    servers = {
        name: {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(file)]}
        for name, file in (("office", tools), ("post", other))
    }
    # Without the encoder, so that scores do not change while tools are encoded.
    with Gateway(folder / "home", {"mcpServers": servers, "search": {"encoder": "off"}}) as started:
        yield started


def retrieve(wire: Wire, **arguments: Any) -> tuple[dict[str, Any], int]:
    """Returns the tools that were found, and the size of the answer in bytes."""
    result = wire.ask("tools/call", {"name": "retrieve_tools", "arguments": arguments})
    text = result["content"][0]["text"]
    assert json.loads(text) == result["structuredContent"], "text and structure agree"
    return result["structuredContent"], len(text.encode())


@pytest.mark.parametrize("era", [LEGACY, MODERN])
def test_an_answer_is_never_longer_than_it_may_be(gateway: Gateway, era: str) -> None:
    wire = Wire(gateway.mcp, gateway.token, era)
    for limit in (1, 2, 5, 20, 50):
        for detail in ("brief", "full"):
            found, size = retrieve(wire, query="make report", limit=limit, detail=detail)
            assert 1 <= len(found["tools"]) <= limit
            assert size <= ANSWER_MAX_BYTES, (limit, detail, size)
    most, _ = retrieve(wire, query="make report", limit=50)
    shown = len(most["tools"])
    assert shown >= 5 and most["note"].startswith(f"{shown} of "), most["note"]
    assert "the others do not fit 16 KiB" in most["note"]


def test_brief_says_the_same_in_fewer_words(gateway: Gateway) -> None:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    brief, small = retrieve(wire, query="make report", limit=1)
    full, large = retrieve(wire, query="make report", limit=1, detail="full")
    (short,), (whole,) = brief["tools"], full["tools"]
    assert short["name"] == whole["name"] and small < large / 2
    assert whole["inputSchema"] == REPORT and PROSE.strip() in whole["description"]
    sentence = "Reports are made of records and sent to people."
    assert short["inputSchema"] == {
        "type": "object",
        "properties": {
            "title": {"type": "string", "description": f"{sentence} {sentence} {sentence} …"},
            "examples": {"type": ["integer", "null"]},
        },
        "required": ["title"],
        "additionalProperties": False,
    }
    assert short["description"].endswith("people. …\n(Call with call_tool_write.)")


def test_a_tool_that_does_not_fit_is_outlined(gateway: Gateway) -> None:
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    brief, size = retrieve(wire, query="fill questionnaire", limit=1)
    (tool,) = brief["tools"]
    assert tool["name"] == "office:fill_questionnaire" and size <= ANSWER_MAX_BYTES
    assert set(tool["inputSchema"]["properties"]) == set(LARGE["properties"])
    assert 'detail "full" and limit 1' in tool["inputSchema"]["description"]
    full, size = retrieve(wire, query="fill questionnaire", limit=1, detail="full")
    assert full["tools"][0]["inputSchema"] == LARGE and size > ANSWER_MAX_BYTES


def test_nothing_comes_with_a_reason(gateway: Gateway) -> None:
    # A word that is too long has no meaning.
    meaningless = "q" * 120
    found, size = retrieve(Wire(gateway.mcp, gateway.token, MODERN), query=meaningless)
    assert found["tools"] == [] and size < 600
    assert found["note"] and found["usage_instructions"]
    done = gateway.run("tools", "search", meaningless)
    assert done.returncode == 0
    assert "`mcpproxy tools list`" in " ".join(done.stdout.split())
    assert all(len(line) <= WIDTH for line in done.stdout.splitlines())


def test_guesses_are_few_and_marked(gateway: Gateway) -> None:
    found, _ = retrieve(Wire(gateway.mcp, gateway.token, MODERN), query="xqzzk vwwpt")
    assert 1 <= len(found["tools"]) <= 3
    assert all(tool["confidence"] == "low" and tool["score"] < 0.13 for tool in found["tools"])
    assert found["note"].startswith("These are guesses: the best score is 0.")
    sure, _ = retrieve(Wire(gateway.mcp, gateway.token, MODERN), query="fill questionnaire")
    assert "confidence" not in sure["tools"][0] and "note" not in sure
    done = gateway.run("tools", "search", "xqzzk vwwpt")
    table, _, note = done.stdout.partition("\n\n")
    assert done.returncode == 0 and table.startswith("TOOL") and note.startswith("These are guesses: ")
    assert all(len(line) <= WIDTH for line in note.splitlines())


def test_scores_are_explained(gateway: Gateway) -> None:
    done = gateway.run("tools", "search", "fill questionnaire", "--explain", "--limit", "2")
    assert done.returncode == 0, done.stderr
    table, _, reasons = done.stdout.partition("\n\n")
    assert table.splitlines()[0].split()[:2] == ["TOOL", "SCORE"]
    assert reasons.startswith("Score: 0 to 1.")
    assert "\noffice:fill_questionnaire\n  score " in reasons
    assert all(len(line) <= WIDTH for line in reasons.splitlines())

    answer = json.loads(gateway.run("tools", "search", "fill questionnaire", "--explain", "-o", "json").stdout)
    best = answer["tools"][0]
    assert best["name"] == "office:fill_questionnaire"
    assert set(best["why"]) == {"named", "lexical", "semantic", "meaning_by", "features", "words"}
    assert best["why"]["named"] is False
    features = {feature["name"]: feature["value"] for feature in best["why"]["features"]}
    assert set(features) == {"meaning", "sentence", "request", "parameters", "words", "name", "server"}
    assert features["words"] == best["why"]["lexical"]
    for word in best["why"]["words"]:
        assert set(word) == {"word", "weight", "places"} and 0 <= word["weight"] <= 1
        assert all(set(place) == {"field", "instead"} for place in word["places"])
    plain = json.loads(gateway.run("tools", "search", "fill questionnaire", "-o", "json").stdout)
    assert plain["tools"][0]["why"] is None and plain["note"] is None


def test_a_tool_is_found_by_its_name(gateway: Gateway) -> None:
    found, _ = retrieve(Wire(gateway.mcp, gateway.token, MODERN), query="office:fill_questionnaire", limit=1, detail="full")
    assert [(tool["name"], tool["score"]) for tool in found["tools"]] == [("office:fill_questionnaire", 1.0)]
    done = gateway.run("tools", "search", "office:fill_questionnaire", "--explain", "--limit", "1")
    assert "\n  score 1.00, because the query is its name   words " in done.stdout


def test_the_explanation_is_that_of_the_search(gateway: Gateway) -> None:
    """With `--server`, word weights come from that server only: both words are equally rare there, but not overall."""

    def shares(*options: str) -> list[float]:
        words = ["tools", "search", "fill questionnaire", "--explain", "-o", "json", *options]
        best = json.loads(gateway.run(*words).stdout)["tools"][0]
        assert best["name"] == "office:fill_questionnaire"
        return [word["weight"] for word in best["why"]["words"]]

    assert shares("--server", "office") == [0.5, 0.5]
    assert shares() != [0.5, 0.5]
