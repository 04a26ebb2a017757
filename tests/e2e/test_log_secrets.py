"""Secrets in calls: they reach the server and the agent, but are neither stored nor shown."""

from __future__ import annotations

import base64
import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import httpx

import peers
from gateway import Gateway, until
from log import Ledger, PostgresStorage, Storage, assert_verified, record, record_in, storage  # noqa: F401
from postgres import postgres  # noqa: F401
from wire import MODERN, Wire, messages

MASK = "***"


def _part(value: dict[str, Any]) -> str:
    return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")


# Concatenated here, so that secret scanners do not report this file.
GITHUB = "ghp_" + "16C7e42F292c6912E7710c838347Ae178B4a"
AWS = "AKIA" + "Z7QWERTYUIOPASDF"
JWT = ".".join([_part({"alg": "HS256"}), _part({"sub": "ada"}), "c2lnbmF0dXJlLXRoYXQtaXMtbm90LXJlYWw"])
PASSWORD = "correct-horse-battery-staple"
SECRETS = {"github": GITHUB, "aws": AWS, "jwt": JWT, "password": PASSWORD}

ARGUMENTS = {
    "n": 1,
    "note": f"use {GITHUB} for this",
    "password": PASSWORD,
    "deep": [{"key": AWS, "more": {"bearer": JWT}}],
}


class Listener:
    """Collects everything on the event stream, from its first response."""

    def __init__(self, gateway: Gateway) -> None:
        self.heard = ""
        self.listening = threading.Event()
        self.gateway = gateway
        self.over = False

    def listen(self) -> None:
        headers = {"X-API-Key": self.gateway.admin_key, "Accept": "text/event-stream"}
        # Keep-alive comments and other events keep it open. The test ends it by stopping the gateway.
        with httpx.stream("GET", f"{self.gateway.base}/api/v1/events", headers=headers, timeout=60) as answer:
            assert answer.status_code == 200
            self.listening.set()
            try:
                for piece in answer.iter_text():
                    self.heard += piece
            except httpx.HTTPError:
                return


def test_no_secret_is_kept_or_shown(storage: Storage, tmp_path: Path) -> None:  # noqa: F811
    # The server's ledger contains the secrets, so it is in another folder.
    ledger = Ledger(tmp_path / "ledger.jsonl")
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"echo": ledger.server()}, **storage.settings()})
    said: list[str] = []
    with gateway, ThreadPoolExecutor(1) as pool:
        listener = Listener(gateway)
        listening = pool.submit(listener.listen)
        try:
            assert listener.listening.wait(10), "the stream of events answers"
            names = make_calls(gateway)
            until(lambda: all(name in listener.heard for name in names), 10, "every call is an event")
            said += shown(gateway, names)
        finally:
            gateway.stop()
        listening.result()
        said += [listener.heard, gateway.words()]
    for name, secret in SECRETS.items():
        assert secret in ledger.path.read_text(), f"the server got the {name} as the agent wrote it"
        assert not [text for text in said if secret in text], f"the {name} is shown"
        assert not places_of(secret, gateway.home), f"the {name} is on disk"
        if isinstance(storage, PostgresStorage):
            assert secret not in storage.server.dump(storage.database), f"the {name} is in the database"
    assert_verified(gateway)


def test_secrets_in_the_place_of_names(tmp_path: Path) -> None:
    """Agents make mistakes, so an unknown name may contain a secret."""
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"echo": peers.misbehaving()}})
    with gateway:
        wire = Wire(gateway.mcp, gateway.token, MODERN)
        for tool, name in (("call_tool_read", f"echo:{GITHUB}"), ("call_tool_read", f"{AWS}:echo"), (JWT, "echo:echo")):
            found = record(gateway, record_in(wire.ask("tools/call", {"name": tool, "arguments": {"name": name}})))
            assert found["status"] == "refused", found
        message = wire.message("tools/call", {"name": "call_tool_read", "arguments": {"name": "echo:echo"}})
        message["params"]["_meta"]["io.modelcontextprotocol/clientInfo"] = {"name": AWS, "version": GITHUB}
        (answer,) = messages(wire.post(message))
        assert record(gateway, record_in(answer["result"]))["status"] == "success"
    for name in ("github", "aws", "jwt"):
        assert not places_of(SECRETS[name], gateway.home), f"the {name} is on disk"


def make_calls(gateway: Gateway) -> list[str]:
    """Makes one call for each path that a secret can take. Returns the record ids."""
    wire = Wire(gateway.mcp, gateway.token, MODERN)
    reason = f"because {GITHUB} and {AWS} and {JWT} say so"
    names = []
    for variant in ("read", "write", "destructive"):
        parameters = {"name": "echo:echo", "args": ARGUMENTS, "intent_reason": reason}
        result = wire.ask("tools/call", {"name": f"call_tool_{variant}", "arguments": parameters})
        assert json.loads(result["content"][0]["text"]) == ARGUMENTS, "the agent gets what the server answered"
        names.append(record_in(result))
    # As JSON in a string, refused because two keys differ, to an unknown tool, and malformed.
    parameters = {"name": "echo:echo", "args_json": json.dumps(ARGUMENTS), "intent_reason": reason}
    for more in (
        {},
        {"intent": {"operation_type": "destructive"}},
        {"name": "echo:nothing"},
        {"password": PASSWORD},
    ):
        result = wire.ask("tools/call", {"name": "call_tool_write", "arguments": {**parameters, **more}})
        names.append(record_in(result))
    return names


def shown(gateway: Gateway, names: list[str]) -> list[str]:
    """Returns the output of every way to show these records."""
    said = []
    for name in names:
        whole = record(gateway, name)
        assert MASK in json.dumps(whole["arguments"]), whole
        said.append(json.dumps(whole))
        for output in ("table", "json", "yaml") if name == names[0] else ("table",):
            done = gateway.run("activity", "show", name, "-o", output)
            assert done.returncode == 0 and MASK in done.stdout, done.stderr
            said += [done.stdout, done.stderr]
    whole = record(gateway, names[0])
    assert whole["arguments"]["password"] == MASK and GITHUB not in whole["arguments"]["note"], whole
    assert MASK in json.dumps(whole["result"]), whole
    assert MASK in whole["metadata"]["intent"]["reason"], whole
    said.append(json.dumps(gateway.admin("/activity?limit=100")))
    for command in ("list", "export --payloads", "export --format csv --payloads", "export --signed", "summary"):
        done = gateway.run("activity", *command.split())
        assert done.returncode == 0, done.stderr
        said += [done.stdout, done.stderr]
    return said


def places_of(secret: str, folder: Path) -> list[Path]:
    """Returns every file below a folder that contains the secret."""
    forms = [secret.encode(), json.dumps(secret)[1:-1].encode(), base64.b64encode(secret.encode())]
    return [file for file in folder.rglob("*") if file.is_file() and any(form in file.read_bytes() for form in forms)]
