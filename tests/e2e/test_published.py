"""Gateways that take settings, contracts and policies from one PostgreSQL database, where users publish them."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from gateway import MARK, Gateway, until
from postgres import Postgres, postgres  # noqa: F401
from team import FORBIDDEN, SECONDS, SIGN_IN, TAKE_OVER, Team, another, code, machine, running
from typist import typed
from user import Session


@pytest.fixture
def team(tmp_path: Path, postgres: Postgres) -> Iterator[Team]:  # noqa: F811
    with running(tmp_path, postgres) as team:
        yield team


def test_a_version_reaches_all_gateways(team: Team, tmp_path: Path) -> None:
    first, second = team.gateways
    for gateway in team.gateways:
        assert gateway.probe("/readyz") == 503 and team.version(gateway) == 0
        assert "config apply --from" in gateway.settings_error()
        assert gateway.servers() == {}
    assert "No version yet" in first.run("config", "versions").stdout

    screen = team.publish(with_code=True)
    assert "+++ mcp_config.json" in screen and "Published version 1" in screen, screen
    team.have(1)
    for gateway in team.gateways:
        until(lambda: gateway.probe("/readyz") == 200, SECONDS, "the servers of the version connect")
        assert gateway.settings_error() == ""
        # The server got the mark of this gateway, so the reference was resolved here.
        commands = [Path(f"/proc/{one}/cmdline").read_bytes() for one in gateway.connected().processes()]
        assert any(b"fx.py" in command for command in commands), commands
        assert code(gateway) == "ok"
    assert MARK in team.sql("SELECT files FROM config_versions")[0][0]

    team.write("contracts/fx.yaml", FORBIDDEN)
    assert "+- tool: fx:note" in team.publish()
    for gateway in team.gateways:
        until(lambda: code(gateway) == "tool_not_found", TAKE_OVER, f"forbidden at {gateway.home.name}")
        until(lambda: team.version(gateway) == 2, TAKE_OVER, "the status says so")
        until(lambda: gateway.admin("/cluster")["drift"] == [], SECONDS, "all gateways are the same")
    found = lambda: [  # noqa: E731
        one for one in first.records("--type", "settings") if one["metadata"].get("version") == 2
    ]
    until(lambda: len(found()) == 3, SECONDS, "one record of the user, and one of each gateway")
    assert sorted(one["metadata"].get("confirmed_by") or one["metadata"]["user"] for one in found()) == ["ada"] * 3
    assert "Nothing to publish" in first.run("config", "apply", "--from", str(team.folder)).stdout

    # A gateway that starts later has the newest version from the beginning.
    third = another(tmp_path, "three", team.storage)
    team.gateways.append(third)
    third.start()
    assert (team.version(third), code(third)) == (2, "tool_not_found")

    # What is weaker applies at once everywhere, because a user confirmed it with a second factor.
    screen = team.publish("--version", "1", with_code=True)
    assert "This allows more than what is in force" in screen and "Published version 3" in screen, screen
    for gateway in team.gateways:
        until(lambda: code(gateway) == "ok", TAKE_OVER, f"allowed at {gateway.home.name}")
    team.publish("--version", "2")
    for gateway in team.gateways:
        until(lambda: code(gateway) == "tool_not_found", TAKE_OVER, f"forbidden again at {gateway.home.name}")
    listed = team.versions()
    assert [(one["number"], one["published_by"], one["in_force"]) for one in listed] == [
        (4, "ada", True),
        (3, "ada", False),
        (2, "ada", False),
        (1, "ada", False),
    ]
    assert [one["changes"] for one in listed] == [
        "back to version 2: contracts/fx.yaml (new)",
        "back to version 1: contracts/fx.yaml (removed)",
        "contracts/fx.yaml (new)",
        "mcp_config.json (new)",
    ]
    assert "in force" in second.run("config", "versions").stdout


def test_only_a_user_publishes(team: Team) -> None:
    team.write("contracts/fx.yaml", FORBIDDEN)
    team.publish(with_code=True)
    team.have(1)
    team.write("contracts/fx.yaml", "- tool: fx:pay\n  riskLevel: high\n")
    names = ("contracts/fx.yaml", "mcp_config.json")
    files = [{"name": name, "text": (team.folder / name).read_text()} for name in names]
    piped = team.first.run("config", "apply", "--from", str(team.folder), stdin="ada\napply\n")
    assert piped.returncode == 3 and "non-interactively" in piped.stderr, piped.stderr
    assert "fx:note: contract removed" in piped.stderr, piped.stderr

    key = {"X-API-Key": team.first.admin_key}
    api = f"{team.first.base}/api/v1/config"
    checked = httpx.post(f"{api}/check", json={"files": files}, headers=key, timeout=60).json()
    assert (checked["newest"], checked["needs_step_up"]) == (1, True), checked
    body = {"after": 1, "digest": checked["digest"], "files": files}
    for headers in ({}, key, {"Authorization": f"Bearer {team.first.token}"}):
        refused = httpx.post(f"{api}/publish", json=body, headers=headers, timeout=60)
        assert refused.status_code in (401, 403), f"{headers} {refused.text}"
    ada = Session(team.first, "ada")
    assert ada.post("/config/publish", body).json()["error"]["code"] == "page_key_required"
    with_key = {**body, "page_key": ada.page_key}
    assert ada.post("/config/publish", with_key).json()["error"]["code"] == "step_up_required"
    # Neither other files than those that were read, nor after a version that was not read.
    for other in ({"digest": "0" * 64}, {"after": 0}, {"version": 1, "files": None}):
        assert ada.post("/config/publish", {**with_key, **other}).json()["error"]["code"] == "version_outdated"
    assert ada.post("/config/publish", {**with_key, "version": 7, "files": None}).status_code == 404
    assert [one["number"] for one in team.versions()] == [1]
    assert [code(gateway) for gateway in team.gateways] == ["tool_not_found"] * 2

    wrong = [*SIGN_IN[:2], ("Type apply", "")]
    exit_code, screen = typed(team.first, ["config", "apply", "--from", str(team.folder)], wrong)
    assert exit_code == 3, screen
    assert [one["number"] for one in team.versions()] == [1]


def test_invalid_folders_are_refused(team: Team) -> None:
    def refused(name: str, text: str, *told: str) -> None:
        before = (team.folder / name).read_text() if (team.folder / name).exists() else None
        team.write(name, text)
        done = team.first.run("config", "apply", "--from", str(team.folder))
        assert done.returncode == 6, f"{done.returncode} {done.stderr}"
        for one in told:
            assert one in done.stderr, done.stderr
        if before is None:
            (team.folder / name).unlink()
        else:
            team.write(name, before)

    folder = team.folder
    refused("contracts/fx.yaml", "- tool: fx:note\n  riskLevel: huge\n", f"{folder}/contracts/fx.yaml:2:14: ")
    refused("policies/a.cedar", "permit (", f"{folder}/policies/a.cedar:1:")
    listen = f"{folder}/mcp_config.json:2:1: `listen` belongs to one machine"
    refused("mcp_config.json", '{\n"listen": "127.0.0.1:1",\n"limits": {}}', listen, ":3:1: `limits`")
    refused("mcp_config.json", '{"mcpServers": {"a": {"comand": "x"}}}', f"{folder}/mcp_config.json:1:", "comand")
    secret = '{"mcpServers": {"a": {"url": "https://h", "headers": {"Authorization": "Bearer abcdefgh12345678"}}}}'
    refused("mcp_config.json", secret, "the database would have the secrets", "headers.Authorization")
    assert "mcp_config.json: the file does not exist" in team.first.run("config", "apply", "--from", "/tmp").stderr
    assert team.versions() == []


def test_files_of_the_data_folder_are_not_edited(team: Team, tmp_path: Path) -> None:
    first = team.first
    team.write("contracts/fx.yaml", FORBIDDEN)
    team.publish(with_code=True)
    team.have(1)
    first.connected()
    before = (first.home / "mcp_config.json").read_text()
    for words in (["servers", "add", "b", "--url", "http://127.0.0.1:1"], ["servers", "disable", "fx"]):
        done = first.run(*words)
        assert done.returncode == 1 and "config apply --from FOLDER" in done.stderr, f"{words} {done.stderr}"
    for words in (["contract", "lint"], ["policy", "check"]):
        done = first.run(*words)
        assert done.returncode == 1 and "come from the database" in done.stderr, f"{words} {done.stderr}"
    assert (first.home / "mcp_config.json").read_text() == before
    # The setting of this machine, and files that have no effect any more.
    first.write("contracts/fx.yaml", "[]\n")
    first.write("mcp_config.json", machine(team.storage, limits={"memory": "512MiB"}))
    until(lambda: first.run("status").returncode == 0 and code(first) == "tool_not_found", SECONDS, "still forbidden")
    shared = machine(team.storage, approvals={"wait": "1s"})
    first.write("mcp_config.json", shared)
    until(lambda: "`approvals` comes from the database" in first.settings_error(), SECONDS, "a misplaced setting")
    assert "`approvals` comes from the database" in first.run("config", "check").stderr
    first.write("mcp_config.json", json.dumps({**team.storage.settings(), "mcpServers": {}}))
    until(lambda: "takes effect after a restart" in first.settings_error(), SECONDS, "another source waits")
    assert code(first) == "tool_not_found"
    first.write("mcp_config.json", machine(team.storage))
    until(lambda: first.settings_error() == "", SECONDS, "as before")

    alone = Gateway(tmp_path / "sqlite", json.dumps({"operator_files": "database"}))
    done = alone.run("serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 6 and "mcp_config.json:1:1: `operator_files` is `database`, but SQLite" in done.stderr


def test_a_version_that_cannot_be_used_changes_nothing(team: Team) -> None:
    team.write("contracts/fx.yaml", FORBIDDEN)
    team.publish(with_code=True)
    team.have(1)
    for gateway in team.gateways:
        until(lambda: code(gateway) == "tool_not_found", SECONDS, "the version is in force")

    def insert(number: int, files: list[list[str]], digest: str | None = None) -> None:
        """Stores a version without telling any gateway. They find it by themselves."""
        parts = [part.encode() for file in files for part in file]
        digest = digest or hashlib.sha256(b"".join(len(part).to_bytes(8, "big") + part for part in parts)).hexdigest()
        team.sql(
            "INSERT INTO config_versions (number, published_ms, published_by, summary, digest, files) "
            f"VALUES ({number}, 1, 'ada', '', '{digest}', '{json.dumps(files)}')"
        )

    insert(2, [["mcp_config.json", '{\n"from_the_future": 1}']])
    for gateway in team.gateways:
        until(lambda: "version 2/mcp_config.json:2:1: unknown key" in gateway.settings_error(), SECONDS, "an error")
        assert (team.version(gateway), code(gateway)) == (1, "tool_not_found")
    assert "version 2/mcp_config.json:2:1" in team.first.run("status").stdout
    # Changed in place, which no user confirmed.
    insert(3, [["mcp_config.json", "{}"]], digest="0" * 64)
    for gateway in team.gateways:
        until(lambda: "version 3" in gateway.settings_error(), SECONDS, "an error")
        assert (team.version(gateway), code(gateway)) == (1, "tool_not_found")
    contracts = FORBIDDEN + "- tool: fx:pay\n  riskLevel: forbidden\n"
    shared = (team.folder / "mcp_config.json").read_text()
    insert(4, [["contracts/fx.yaml", contracts], ["mcp_config.json", shared]])
    for gateway in team.gateways:
        until(lambda: (team.version(gateway), gateway.settings_error()) == (4, ""), SECONDS, "found without news")
