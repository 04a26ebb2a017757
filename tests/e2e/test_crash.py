"""A killed gateway cannot stop its servers. The next gateway on the same folder does."""

from __future__ import annotations

from pathlib import Path

import peers
from gateway import Gateway, until


def test_the_next_gateway_ends_what_a_killed_one_left(tmp_path: Path) -> None:
    servers = {"stubborn": peers.misbehaving("--ignore-term", "--grandchild"), "polite": peers.misbehaving()}
    gateway = Gateway(tmp_path / "home", {"mcpServers": servers}).start()
    assert gateway.child is not None
    before = set(gateway.processes()) - {gateway.child.pid}
    gateway.child.kill()
    gateway.child.wait()
    left = set(gateway.processes())
    assert left, "a server that ignores the end of its input outlives a killed gateway"
    with gateway:
        until(lambda: not before & set(gateway.processes()), 10, "what the killed gateway left is gone")
        assert gateway.servers()["stubborn"]["state"] == "ready"
    assert not list((tmp_path / "home" / "logs").glob("*.pid")), "a gateway that ends in order leaves no notes"
