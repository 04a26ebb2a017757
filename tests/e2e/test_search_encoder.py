"""Search with the encoder: tools are encoded once, damaged vectors again, and `off` uses the table."""

from __future__ import annotations

import json
import sqlite3
from pathlib import Path
from typing import Any

import peers
from gateway import Gateway, until

SECONDS = 60
QUERY = "how warm will it be tomorrow"
TOOLS = [
    {"name": "get_forecast", "description": "Returns the weather forecast for a location.", "inputSchema": {}},
    {"name": "list_pull_requests", "description": "Lists pull requests of a repository.", "inputSchema": {}},
    {"name": "send_mail", "description": "Sends an email to a person.", "inputSchema": {}},
]


def settings(folder: Path, **search: str) -> dict[str, Any]:
    tools = folder / "tools.json"
    tools.write_text(json.dumps(TOOLS))
    server = {"command": peers.PYTHON, "args": [str(peers.HERE / "offer_server.py"), str(tools)]}
    return {"mcpServers": {"office": server}, "search": search}


def encoder(gateway: Gateway) -> dict[str, int] | None:
    state: dict[str, int] | None = gateway.admin("/status")["encoder"]
    return state


def encoded(gateway: Gateway) -> None:
    everything = {"encoded": len(TOOLS), "tools": len(TOOLS)}
    until(lambda: encoder(gateway) == everything, SECONDS, "all tools are encoded")


def best(gateway: Gateway) -> dict[str, Any]:
    answer = json.loads(gateway.run("tools", "search", QUERY, "--explain", "-o", "json").stdout)
    tool: dict[str, Any] = answer["tools"][0]
    return tool


def vectors(home: Path) -> dict[bytes, tuple[bytes, int]]:
    with sqlite3.connect(home / "mcpproxy.db") as database:
        rows = database.execute("SELECT key, vector, stored_ms FROM tool_vectors").fetchall()
    return {key: (vector, stored) for key, vector, stored in rows}


def test_tools_are_encoded_once(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Gateway(home, settings(tmp_path)) as gateway:
        encoded(gateway)
        tool = best(gateway)
        assert tool["name"] == "office:get_forecast" and tool["why"]["meaning_by"] == "encoder"
        assert "encoded" in {feature["name"] for feature in tool["why"]["features"]}
        assert " by encoder\n" in gateway.run("tools", "search", QUERY, "--explain").stdout
        assert "encoder, 3 tools encoded" in gateway.run("status").stdout
        until(lambda: len(vectors(home)) == len(TOOLS), SECONDS, "all vectors are stored")
    before = vectors(home)
    with Gateway(home, settings(tmp_path)) as gateway:
        encoded(gateway)
    assert vectors(home) == before, "a restart computes and stores nothing"


def test_a_damaged_vector_is_computed_again(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Gateway(home, settings(tmp_path)) as gateway:
        encoded(gateway)
        score = best(gateway)["score"]
        until(lambda: len(vectors(home)) == len(TOOLS), SECONDS, "all vectors are stored")
    before = vectors(home)
    first, second, _ = sorted(before)
    with sqlite3.connect(home / "mcpproxy.db") as database:
        changed = bytes([before[first][0][0] ^ 1]) + before[first][0][1:]
        database.execute("UPDATE tool_vectors SET vector = ? WHERE key = ?", (changed, first))
        database.execute("UPDATE tool_vectors SET vector = ? WHERE key = ?", (b"", second))
    with Gateway(home, settings(tmp_path)) as gateway:
        encoded(gateway)
        assert best(gateway)["score"] == score
        whole = {key: vector for key, (vector, _) in before.items()}
        until(lambda: {key: vector for key, (vector, _) in vectors(home).items()} == whole, SECONDS, "it is repaired")


def test_the_encoder_can_be_off(tmp_path: Path) -> None:
    home = tmp_path / "home"
    with Gateway(home, settings(tmp_path, encoder="off")) as gateway:
        assert encoder(gateway) is None and best(gateway)["why"]["meaning_by"] == "table"
        assert "because `search.encoder` is `off`" in " ".join(gateway.run("status").stdout.split())
        assert vectors(home) == {}
        gateway.write_settings(settings(tmp_path, encoder="auto"))
        encoded(gateway)
        gateway.write_settings(settings(tmp_path, encoder="off"))
        until(lambda: encoder(gateway) is None, SECONDS, "it is off again")
        assert best(gateway)["why"]["meaning_by"] == "table"
