"""The lock file: written for review in version control, checked in CI, and the only authority with `serve --locked`."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from changing import (
    Changing,
    Gateway,
    in_front_of,
    is_out_of_reach,
    records,
    settle,
    shows,
    tool,
    until,
    waiting,
    waits,
)

SECONDS = 15


@pytest.fixture
def farm(tmp_path: Path) -> Iterator[tuple[Gateway, Changing, Path]]:
    """A gateway that runs, its server, and a lock file of it."""
    server = Changing(tmp_path, "farm", tool("feed_hens"), tool("milk_cow", destructiveHint=True))
    gateway = in_front_of(tmp_path, [server])
    lock = tmp_path / "mcpproxy.lock"
    with gateway:
        shows(gateway, "farm", "feed_hens", "milk_cow")
        written = gateway.run("lock", "--to", str(lock))
        assert written.returncode == 0, written
        yield gateway, server, lock


def check(gateway: Gateway, lock: Path) -> tuple[int, str]:
    done = gateway.run("lock", "--check", "--to", str(lock))
    return done.returncode, done.stdout + done.stderr


def test_the_file_is_stable_and_readable(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, server, lock = farm
    text = lock.read_text()
    for word in ("farm", "feed_hens", "milk_cow", "Keeps the feed hens of an office."):
        assert word in text, text
    assert max(map(len, text.splitlines())) < 500, "a change is a short line in a diff"
    again = lock.with_name("again.lock")
    server.offer(tool("milk_cow", destructiveHint=True), tool("feed_hens"))
    assert gateway.run("lock", "--to", str(again)).returncode == 0
    assert again.read_text() == text, "the order of tools does not matter"


def test_a_check_in_ci(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, server, lock = farm
    assert check(gateway, lock)[0] == 0
    before = lock.read_text()
    server.offer(tool("feed_hens", "Feeds the hens and the fox."), tool("milk_cow", destructiveHint=True), tool("shear"))
    until(lambda: check(gateway, lock)[0] == 1, SECONDS, "the change is found")
    _, told = check(gateway, lock)
    for word in ("feed_hens", "fox", "shear"):
        assert word in told, told
    differences = json.loads(gateway.run("lock", "--check", "--to", str(lock), "-o", "json").stdout)["differences"]
    assert len(differences) == 2 and "milk_cow" not in str(differences), "only the difference is told"
    assert lock.read_text() == before, "a check writes nothing"
    server.offer(tool("feed_hens"))
    until(lambda: "milk_cow" in check(gateway, lock)[1], SECONDS, "a missing tool is a difference too")
    assert check(gateway, lock)[0] == 1


def test_a_lock_file_that_is_none(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, _, lock = farm
    good = lock.read_text()
    bad = ["", "{", "\x00", '{"version": 999}', "no lock file", good[: len(good) // 2]]
    # The text that a reviewer reads is not the text that the hash covers.
    bad.append(good.replace("Keeps the feed hens of an office.", "Keeps hens.", 1))
    for content in bad:
        lock.write_text(content)
        code, told = check(gateway, lock)
        assert code not in (0, 101) and "mcpproxy.lock" in told, (content, told)
    gateway.stop()
    for content in (*bad, None):
        lock.unlink() if content is None else lock.write_text(content)
        done = gateway.run("serve", "--listen", "127.0.0.1:0", "--locked", str(lock))
        assert done.returncode not in (0, 101) and "mcpproxy.lock" in done.stderr, (content, done)


def test_a_locked_gateway_accepts_the_file_and_nothing_else(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, server, lock = farm
    gateway.stop()
    gateway.start_words = ("--locked", str(lock))
    gateway.start()
    shows(gateway, "farm", "feed_hens", "milk_cow")
    # Also a stricter change waits for a new lock file.
    server.offer(tool("feed_hens", "Feeds the hens and the fox."), tool("milk_cow", destructiveHint=True), tool("shear"))
    shows(gateway, "farm", "milk_cow")
    for name in ("feed_hens", "shear"):
        is_out_of_reach(gateway, server, name)
    entries = waiting(gateway, "farm")
    assert {one["reason"] for one in entries.values()} == {"not_locked"}
    # Not even a user accepts it.
    refused = settle(gateway).ask_to("farm", accept=entries.values())
    assert refused.status_code == 409 and refused.json()["error"]["code"] == "definitions_locked", refused.text
    shows(gateway, "farm", "milk_cow")
    gateway.stop()
    gateway.start_words = ()


def test_a_server_that_the_file_does_not_name(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, server, lock = farm
    gateway.stop()
    other = Changing(server.path.parent, "barn", tool("stack_hay"))
    # The same tools behind another command are another server.
    entries = {"farm": server.settings("--edition", "2"), "barn": other.settings()}
    gateway.write_settings({"mcpServers": entries})
    gateway.start_words = ("--locked", str(lock))
    gateway.start()
    for name in entries:
        until(lambda name=name: gateway.servers()[name]["state"] == "ready", SECONDS, f"{name} is ready")
        shows(gateway, name)
    gateway.stop()
    gateway.start_words = ()


def test_what_users_accepted_does_not_count_beside_the_file(farm: tuple[Gateway, Changing, Path]) -> None:
    gateway, server, lock = farm
    content = json.loads(lock.read_text())
    lock.write_text(json.dumps({**content, "servers": []}))
    gateway.stop()
    gateway.start_words = ("--locked", str(lock))
    gateway.start()
    entries = waits(gateway, "farm", "feed_hens", "milk_cow")
    assert {one["reason"] for one in entries.values()} == {"not_locked"}
    assert gateway.servers()["farm"]["to_review"] == 2
    shown = gateway.run("servers", "review", "farm")
    assert shown.returncode == 0 and "feed_hens" in shown.stdout and "without `--locked`" in shown.stderr, shown
    until(lambda: "not in the lock file" in gateway.words(), SECONDS, "the terminal names the file")
    # The same finding is recorded once, and not with every start and every look.
    (found,) = records(gateway, "farm", "definitions_quarantined")
    assert "lock file" in found["message"], found
    gateway.stop()
    gateway.start()
    waits(gateway, "farm", "feed_hens", "milk_cow")
    time.sleep(3)
    assert len(records(gateway, "farm", "definitions_quarantined")) == 1
    gateway.stop()
    gateway.start_words = ()
    gateway.start()
    shows(gateway, "farm", "feed_hens", "milk_cow")
    waits(gateway, "farm")


def test_the_key_of_an_agent_writes_no_lock(farm: tuple[Gateway, Changing, Path]) -> None:
    """What a lock needs to know is the operator's."""
    gateway, _, _ = farm
    headers = {"Authorization": f"Bearer {gateway.token}"}
    answer = httpx.get(f"{gateway.base}/api/v1/servers/farm/definitions", headers=headers, timeout=60)
    assert answer.status_code in (401, 403), json.dumps(answer.text)
