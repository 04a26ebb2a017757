"""A start without the contracts or policies of the last run, such as with a forgotten mount, opens no tool."""

from __future__ import annotations

from pathlib import Path

import pytest

from gateway import Gateway, until

SECONDS = 30
SETTINGS = {"mcpServers": {"demo": {"type": "demo"}}}
FILES = {
    "contracts": ("contracts/demo.yaml", "tool: demo:list_projects\nriskLevel: forbidden\n"),
    "policies": ("policies/demo.cedar", 'forbid (principal, action, resource == Tool::"demo:list_projects");\n'),
}


def allows(gateway: Gateway) -> bool:
    return gateway.run("call", "tool-read", "demo:list_projects").returncode == 0


@pytest.mark.parametrize("kind", FILES)
def test_a_start_without_the_files_is_refused(tmp_path: Path, kind: str) -> None:
    gateway = Gateway(tmp_path / "home", SETTINGS)
    name, text = FILES[kind]
    gateway.write(name, text)
    with gateway:
        assert not allows(gateway.connected())
    (gateway.home / kind).rename(tmp_path / "unmounted")
    refused = gateway.run("serve", "--listen", "127.0.0.1:0")
    assert refused.returncode == 6, refused.stderr
    assert name in refused.stderr and "serve --accept-removed" in refused.stderr, refused.stderr
    # An empty mount point is no better.
    (gateway.home / kind).mkdir(mode=0o700)
    assert gateway.run("serve", "--listen", "127.0.0.1:0").returncode == 6
    (gateway.home / kind).rmdir()
    (tmp_path / "unmounted").rename(gateway.home / kind)
    with gateway:
        assert not allows(gateway.connected())


def test_a_client_cannot_start_a_gateway_without_the_files(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", SETTINGS)
    name, text = FILES["contracts"]
    gateway.write(name, text)
    with gateway:
        gateway.connected()
    (gateway.home / name).unlink()
    refused = gateway.run("stdio")
    assert refused.returncode == 6 and "serve --accept-removed" in refused.stderr, refused.stderr


def test_a_rename_is_no_loss_and_an_edit_is_told(tmp_path: Path) -> None:
    gateway = Gateway(tmp_path / "home", SETTINGS)
    name, text = FILES["contracts"]
    gateway.write(name, text)
    with gateway:
        gateway.connected()
    (gateway.home / name).rename(gateway.home / "contracts" / "other.yaml")
    with gateway:
        assert not allows(gateway.connected())
    gateway.write("contracts/other.yaml", text.replace("forbidden", "low"))
    with gateway:
        assert allows(gateway.connected())
        assert "! 1 change allows more than in the last run:" in gateway.words()
        assert "demo:list_projects: riskLevel forbidden → low (contracts/other.yaml:2)" in gateway.words()
        found = lambda: [one for one in gateway.records("--type", "settings") if one["code"] == "weaker_at_start"]  # noqa: E731
        until(found, SECONDS, "it is recorded")
