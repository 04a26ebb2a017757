"""Defends the data folder: nothing starts on one that others can write, and log files follow no links."""

from __future__ import annotations

from pathlib import Path

import pytest

import peers
from gateway import Gateway, until


@pytest.mark.parametrize("mode", [0o777, 0o770, 0o1777])
def test_a_folder_that_others_can_write_is_refused(tmp_path: Path, mode: int) -> None:
    gateway = Gateway(tmp_path / "home")
    gateway.home.chmod(mode)
    done = gateway.run("serve", "--listen", "127.0.0.1:0")
    assert done.returncode == 1, done.stderr
    assert "Other users can write to the data folder" in done.stderr
    assert f"chmod go-w {gateway.home}" in " ".join(done.stderr.split()), "the error names the next step"
    assert not (gateway.home / "mcpproxy.db").exists() and not (gateway.home / "admin.key").exists()
    gateway.home.chmod(0o700)
    with gateway:
        assert gateway.probe("/healthz") == 200


def test_log_files_follow_no_links(tmp_path: Path) -> None:
    precious = tmp_path / "precious"
    precious.write_text("mine\n")
    noisy = {"command": "sh", "args": ["-c", "echo overwritten >&2; exit 1"]}
    gateway = Gateway(tmp_path / "home", {"mcpServers": {"echo": peers.misbehaving(), "noisy": noisy}})
    logs = gateway.home / "logs"
    logs.mkdir(mode=0o700)
    for name in ("echo", "noisy"):
        (logs / f"{name}.log").symlink_to(precious)
    with gateway:
        until(lambda: gateway.servers()["noisy"]["state"] != "connecting", 30, "the server has failed")
    assert precious.read_text() == "mine\n"
