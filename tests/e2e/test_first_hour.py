"""The first hour: one server's mistake is its own, commands return when they are in force, and the gateway says what
happens."""

from __future__ import annotations

import json
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

import peers
from gateway import Gateway, until
from wire import MODERN, Wire

SECONDS = 10
UNSET = {"command": "true", "env": {"T": "${env:FIRST_HOUR_UNSET}"}}


def call(wire: Wire, tool: str) -> dict:
    return wire.ask("tools/call", {"name": "call_tool_read", "arguments": {"name": tool, "args": {}}})


# -- one server's mistake is its own --------------------------------------------------------------------------------


def test_an_unset_variable_concerns_one_server(tmp_path: Path) -> None:
    settings = {
        "mcpServers": {
            "good": peers.misbehaving(),
            "bad": UNSET,
            "off": {"url": "${env:FIRST_HOUR_UNSET}", "headers": {"A": "${file:gone}"}, "enabled": False},
        }
    }
    with Gateway(tmp_path, settings) as gateway:
        servers = gateway.servers()
        assert {name: server["state"] for name, server in servers.items()} == {
            "bad": "misconfigured",
            "good": "ready",
            "off": "disabled",
        }
        reason = servers["bad"]["reason"]
        assert reason.startswith("line ") and "column" in reason and "FIRST_HOUR_UNSET" in reason
        assert servers["off"]["reason"] is None
        assert not call(Wire(gateway.mcp, gateway.token, MODERN), "good:echo").get("isError")

        status = gateway.admin("/status")
        assert status["servers"] == {"ready": 1, "connecting": 0, "failed": 0, "disabled": 1, "misconfigured": 1, "needs_sign_in": 0}
        assert [server["name"] for server in status["unready_servers"]] == ["bad"]
        assert status["settings"]["error"] is None
        assert status["approvals"] == {"waiting": 0, "has_users": False}

        listed = gateway.run("servers", "list")
        assert "misconfigured" in listed.stdout and "FIRST_HOUR_UNSET" in listed.stdout
        assert listed.stderr.startswith("warning: 1 server is not ready (bad). Run `mcpproxy ")
        assert "1 server is not ready (bad)" in gateway.run("tools", "list").stderr
        assert "✗ bad is misconfigured: line " in gateway.words()

        assert gateway.run("servers", "restart", "bad").returncode == 1


def test_a_referenced_file_repairs_the_server(tmp_path: Path) -> None:
    server = peers.misbehaving()
    needy = {**server, "env": {**server.get("env", {}), "T": "${file:token.txt}"}}
    with Gateway(tmp_path, {"mcpServers": {"good": server, "needy": needy}}) as gateway:
        assert gateway.servers()["needy"]["state"] == "misconfigured"
        good = gateway.servers()["good"]["pid"]
        gateway.write("token.txt", "secret-of-the-file")
        until(lambda: gateway.servers()["needy"]["state"] == "ready", SECONDS, "the server works")
        first = gateway.servers()["needy"]["pid"]
        # A rotated secret restarts the server that uses it, and no other.
        gateway.write("token.txt", "another-secret")
        until(lambda: gateway.servers()["needy"]["pid"] not in (None, first), SECONDS, "it was restarted")
        assert gateway.servers()["good"]["pid"] == good
        assert "secret" not in gateway.words()


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"url": "ftp://example.com"}, "ftp:"),
        ({"url": "https://example.com", "headers": {"Host": "x"}}, "header `Host`"),
        ({"command": "true", "env": {"T": "${file:gone}"}}, "could not read file `gone`"),
        ({"command": "true", "comand": "true"}, "`comand`"),
        ({}, "no way to reach this server"),
    ],
)
def test_a_mistake_appears_and_is_repaired(tmp_path: Path, server: dict, says: str) -> None:
    good = peers.misbehaving()
    with Gateway(tmp_path, {"mcpServers": {"good": good}}) as gateway:
        first = gateway.servers()["good"]["pid"]
        gateway.write_settings({"mcpServers": {"good": good, "bad": server}})
        found = until(lambda: gateway.servers().get("bad"), SECONDS, "the server is listed")
        assert (found["state"], found["tools"]) == ("misconfigured", 0)
        assert says in found["reason"]
        gateway.write_settings({"mcpServers": {"good": good, "bad": good}})
        until(lambda: gateway.servers()["bad"]["state"] == "ready", SECONDS, "the repaired server works")
        assert gateway.servers()["good"]["pid"] == first


def test_nothing_starts_if_no_server_can_run(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"bad": UNSET, "off": {"type": "demo", "enabled": False}}})
    done = gateway.run("serve", "--listen", "127.0.0.1:0", timeout=60)
    assert done.returncode == 6
    assert "FIRST_HOUR_UNSET" in done.stderr and "hint: every enabled server has a mistake" in done.stderr


def test_check_asks_the_running_gateway(tmp_path: Path) -> None:
    """The same file is valid in one environment and not in the other."""
    server = peers.misbehaving()
    needy = {**server, "env": {**server.get("env", {}), "T": "${env:FIRST_HOUR_UNSET}"}}
    gateway = Gateway(tmp_path, {"mcpServers": {"good": server, "needy": needy}})
    gateway.start(FIRST_HOUR_UNSET="here")
    try:
        assert gateway.servers()["needy"]["state"] == "ready"
        checked = gateway.run("config", "check", "-o", "json")
        assert checked.returncode == 0, checked.stderr
        assert "note: needy is misconfigured here, and not in the running gateway" in checked.stderr
        (difference,) = json.loads(checked.stdout)["differences"]
        assert difference["server"] == "needy" and difference["gateway"] is None
    finally:
        gateway.stop()
    gateway.start()
    try:
        checked = gateway.run_with({"FIRST_HOUR_UNSET": "here"}, "config", "check")
        assert checked.returncode == 6, checked.stdout
        assert "needy is misconfigured in the running gateway, and not here" in checked.stderr
        alike = gateway.run("config", "check")
        assert alike.returncode == 6 and "mcp_config.json:" in alike.stderr
    finally:
        gateway.stop()


# -- a command returns when it is in force --------------------------------------------------------------------------

# The commands below do not run at a terminal, so their servers would wait for a review.
TRUSTING = {"mcpServers": {"demo": {"type": "demo"}}, "trust": {"first_sight": "accept"}}


def test_an_added_server_is_ready_and_says_what_runs_unasked(tmp_path: Path) -> None:
    with Gateway(tmp_path, TRUSTING) as gateway:
        command = [peers.MCPPROXY, "demo-server", "--without-contracts"]
        added = gateway.run_with({}, "servers", "add", "office", "--", *command)
        assert added.returncode == 0, added.stderr
        assert gateway.servers()["office"]["state"] == "ready"
        assert "office is ready: 26 tools, " in added.stderr, added.stderr
        assert "nobody is asked before" in added.stderr
        assert f"contract draft office --to {gateway.home}/contracts/office.yaml" in added.stderr
        told = f"classify with `mcpproxy --home {gateway.home} contract draft office`"
        until(lambda: told in gateway.words(), SECONDS, "the terminal of the gateway says it too")
        for command in ("status", "doctor"):
            assert "destructive_unasked" in gateway.run(command).stdout

        # The demo stays until it is removed.
        assert gateway.servers()["demo"]["state"] == "ready"
        written = json.loads((gateway.home / "mcp_config.json").read_text())
        gateway.write_settings(json.dumps({**written, "approvals": {"wait": "0s"}}))
        drafted = gateway.run("contract", "draft", "office", "--to", str(gateway.home / "contracts/office.yaml"))
        assert drafted.returncode == 0, drafted.stderr
        assert "nobody is asked" not in drafted.stderr and "office is ready: " in drafted.stderr
        assert "destructive_unasked" not in gateway.run("status").stdout
        deleted = gateway.run("call", "tool-destructive", "office:delete_user", "--args", '{"userId": "u_ines"}')
        assert deleted.returncode == 4, deleted.stderr

        removed = gateway.run("servers", "remove", "demo")
        assert removed.returncode == 0 and "no longer has a server demo" in removed.stderr
        assert set(gateway.servers()) == {"office"}


def test_tools_without_annotations_are_reads_unless_the_settings_require_a_write(tmp_path: Path) -> None:
    """`servers add` says that the gateway relies on the agent, and how to change that."""
    hint = '"intent_declaration": { "unannotated": "require_write" }'
    with Gateway(tmp_path, TRUSTING) as gateway:
        command = [sys.executable, str(Path(__file__).parent / "hints_server.py"), str(tmp_path / "ledger")]
        added = gateway.run_with({}, "servers", "add", "hints", "--", *command)
        assert added.returncode == 0, added.stderr
        # `none` and `not_destructive`; all others have a hint that decides.
        assert "2 tools have no `readOnlyHint`, so agents can call them as reads." in added.stderr, added.stderr
        assert hint in added.stderr and str(gateway.home / "mcp_config.json") in added.stderr
        assert gateway.servers()["hints"]["unannotated_tools"] == 2
        assert gateway.run("call", "tool-read", "hints:none").returncode == 0

        written = json.loads((gateway.home / "mcp_config.json").read_text())
        strict = {**written, **json.loads("{" + hint + "}")}
        gateway.write_settings(json.dumps(strict))
        again = gateway.run("servers", "enable", "hints")
        assert again.returncode == 0 and "hints is ready: " in again.stderr, again.stderr
        assert "no `readOnlyHint`" not in again.stderr
        assert gateway.servers()["hints"]["unannotated_tools"] == 0
        refused = gateway.run("call", "tool-read", "hints:none")
        assert refused.returncode == 3 and "tool-write" in refused.stderr, refused.stderr
        assert gateway.run("call", "tool-write", "hints:none").returncode == 0


def test_stopping_says_what_happens_to_a_running_call(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, {"mcpServers": {"fx": peers.misbehaving("--hang")}, "shutdown_grace": "1s"})
    said = "Stopping. 1 call is running. The gateway waits up to 1 s for it."
    with ThreadPoolExecutor(1) as pool:
        with gateway:
            running = pool.submit(call, Wire(gateway.mcp, gateway.token, MODERN), "fx:hang")
            until(lambda: gateway.records("--status", "started"), SECONDS, "the server runs the call")
        answer = running.result(SECONDS)
    assert said in gateway.words(), gateway.words()
    assert answer["isError"] and "The server may have run it" in answer["content"][0]["text"], answer


def test_a_misconfigured_server_cannot_be_restarted_and_says_why(tmp_path: Path) -> None:
    settings = {"mcpServers": {"bad": {"command": "x", "args": 7}, "off": {"command": "x", "enabled": False}, "demo": {}}}
    settings["mcpServers"]["demo"] = {"command": peers.MCPPROXY, "args": ["demo-server"]}
    gateway = Gateway(tmp_path)
    gateway.write_settings(json.dumps(settings))
    with gateway:
        refused = gateway.run("servers", "restart", "bad")
        assert refused.returncode == 1, refused
        assert "bad cannot start, because its settings have a mistake: line " in refused.stderr, refused.stderr
        assert "config check" in refused.stderr
        disabled = gateway.run("servers", "restart", "off")
        assert disabled.returncode == 1 and "servers enable" in disabled.stderr, disabled.stderr
        called = gateway.run("call", "tool-read", "bad:anything")
        assert "config check" in called.stderr, called.stderr
        assert gateway.run("servers", "restart", "demo").returncode == 0


def test_the_demo_can_be_removed_first(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path)
    assert gateway.run("servers", "remove", "demo").returncode == 0
    assert json.loads((tmp_path / "mcp_config.json").read_text()) == {"mcpServers": {}}


def test_a_revoked_token_stops_at_once(tmp_path: Path) -> None:
    with Gateway(tmp_path) as gateway:
        for number in range(5):
            token = gateway.run("token", "create", f"a{number}", "--grant", "*").stdout.strip()
            assert not call(Wire(gateway.mcp, token, MODERN), "demo:list_projects").get("isError")
            assert gateway.run("token", "revoke", f"a{number}").returncode == 0
            headers = {"Authorization": f"Bearer {token}", "Accept": "application/json, text/event-stream"}
            answer = httpx.post(gateway.mcp, json={"jsonrpc": "2.0", "id": 1, "method": "ping"}, headers=headers)
            assert answer.status_code == 401, answer.text


def test_a_contract_edited_by_hand_is_in_force_soon(tmp_path: Path) -> None:
    """The bound is loose, because this machine may be busy. An idle machine takes less than 100 ms."""
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "contracts": {"weakening": "apply"}}
    with Gateway(tmp_path, settings) as gateway:
        took = []
        for number in range(6):
            level = "forbidden" if number % 2 == 0 else "low"
            gateway.write("contracts/a.yaml", f"tool: demo:list_projects\nriskLevel: {level}\n")
            began = time.monotonic()
            expected = number % 2 == 0
            wire = Wire(gateway.mcp, gateway.token, MODERN)
            until(
                lambda: bool(call(wire, "demo:list_projects").get("isError")) == expected, SECONDS, f"{level} is in force"
            )
            took.append(time.monotonic() - began)
        assert sorted(took)[len(took) // 2] < 1, took


# -- the gateway shows its state ------------------------------------------------------------------------------------


def test_the_terminal_shows_every_change(tmp_path: Path) -> None:
    broken = {"command": sys.executable, "args": ["-c", "import sys; print('start', file=sys.stderr); import no_such_module_here"]}
    with Gateway(tmp_path) as gateway:
        until(lambda: "✓ demo is ready: 26 tools" in gateway.words(), SECONDS, "the server is up")
        gateway.write_settings({"mcpServers": {"demo": {"type": "demo"}, "broken": broken}})
        until(lambda: "↻ reloaded: added broken" in gateway.words(), SECONDS, "the reload is shown")
        line = "; it wrote: ModuleNotFoundError: No module named 'no_such_module_here')"
        until(lambda: line in gateway.words(), SECONDS, "the line that explains is shown")
        assert line in gateway.servers()["broken"]["reason"]
        assert "1 server is not ready (broken)" in gateway.run("servers", "list").stderr
        gateway.write_settings('{"mcpServers": {}')
        until(lambda: "✗ Settings not reloaded: " in gateway.words(), SECONDS, "the refusal is shown")
        assert "mcp_config.json:1:" in gateway.words()
        (mistake,) = gateway.admin("/status")["settings"]["mistakes"]
        assert mistake["file"].endswith("mcp_config.json") and mistake["line"] == 1
        assert "The newest settings are invalid and not in force. " in gateway.run("tools", "list").stderr


def test_a_contract_without_a_tool_is_told(tmp_path: Path) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}}, "contracts": {"weakening": "apply"}}
    with Gateway(tmp_path, settings) as gateway:
        until(lambda: "✓ demo is ready: 26 tools" in gateway.words(), SECONDS, "the server is up")
        gateway.write("contracts/demo.yaml", "tool: demo:list_project\nriskLevel: low\n")
        line = "! The contract for demo:list_project (contracts/demo.yaml:2) has no effect: "
        until(lambda: line in gateway.words(), SECONDS, "the contract is named")
        assert "did you mean `demo:list_projects`?" in gateway.words()
        warning = gateway.run("contract", "coverage").stderr
        assert warning.startswith("warning: 1 contract has no effect, because it matches no tool. Run `mcpproxy "), warning
        # Lines of one change are sorted, so a repeated line would come before this one.
        gateway.write("contracts/later.yaml", "tool: demo:unknown\nriskLevel: low\n")
        until(lambda: "! The contract for demo:unknown " in gateway.words(), SECONDS, "the other contract is named")
        assert gateway.words().count(line) == 1, gateway.words()
        gateway.write("contracts/demo.yaml", "tool: demo:list_projects\nriskLevel: low\n")
        gateway.write("contracts/later.yaml", "tool: demo:create_note\nriskLevel: low\n")
        until(lambda: gateway.run("contract", "coverage").stderr == "", SECONDS, "the corrections are loaded")


def test_a_failing_server_is_told_once(tmp_path: Path) -> None:
    settings = {"mcpServers": {"demo": {"type": "demo"}, "gone": {"command": "/nonexistent/server"}}}
    with Gateway(tmp_path, settings) as gateway:
        until(lambda: gateway.servers()["gone"]["restarts"] >= 2, SECONDS, "it was tried twice")
        assert gateway.words().count("gone is down") == 1
        assert gateway.servers()["gone"]["hint"].startswith("A program is missing.")


# -- servers find their network -------------------------------------------------------------------------------------

ENVIRONMENT = (
    "import json, os, sys\n"
    "open(sys.argv[1], 'w').write(json.dumps(dict(os.environ)))\n"
)


def test_variables_that_servers_get(tmp_path: Path) -> None:
    def prints(name: str, **more: object) -> dict:
        return {"command": sys.executable, "args": ["-c", ENVIRONMENT, str(tmp_path / name)], **more}

    settings = {
        "env_passthrough": ["FOR_ALL"],
        "mcpServers": {
            "demo": {"type": "demo"},
            "plain": prints("plain.json"),
            "more": prints("more.json", env_passthrough=["FOR_MORE"], env={"HTTPS_PROXY": "http://own.invalid"}),
        },
    }
    gateway = Gateway(tmp_path / "home", settings)
    given = {
        "SSL_CERT_FILE": "/ca.pem",
        "NODE_EXTRA_CA_CERTS": "/ca.pem",
        "HTTPS_PROXY": "http://proxy.invalid",
        "no_proxy": "localhost",
        "LC_TIME": "C.UTF-8",
        "XDG_CACHE_HOME": "/cache",
        "USER": "ann",
        "FOR_ALL": "1",
        "FOR_MORE": "2",
        "GITHUB_TOKEN": "secret",
        "MCPPROXY_LOG": "warn",
    }
    gateway.start(**given)
    try:

        def environment(name: str) -> dict[str, str]:
            written = tmp_path / name
            until(lambda: written.exists() and written.read_text().endswith("}"), SECONDS, name)
            return json.loads(written.read_text())

        plain, more = environment("plain.json"), environment("more.json")
        passed = {name: value for name, value in given.items() if name not in ("FOR_MORE", "GITHUB_TOKEN", "MCPPROXY_LOG")}
        assert {name: plain.get(name) for name in given} == {**dict.fromkeys(given), **passed}
        assert (more["FOR_MORE"], more["FOR_ALL"], more["HTTPS_PROXY"]) == ("2", "1", "http://own.invalid")
        assert "GITHUB_TOKEN" not in more
    finally:
        gateway.stop()
