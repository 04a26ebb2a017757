"""A child of a server that called `setsid` ends with its server, and with the gateway."""

from __future__ import annotations

from pathlib import Path

import peers
from gateway import Gateway, until


def daemons(gateway: Gateway) -> set[int]:
    """Returns the processes of the gateway that lead a session of their own, except the gateway itself."""
    found = set()
    for pid in gateway.processes():
        try:
            fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        except FileNotFoundError:
            continue
        if int(fields[3]) == pid and gateway.child is not None and pid != gateway.child.pid:
            found.add(pid)
    return found


def zombies(gateway: Gateway) -> list[str]:
    assert gateway.child is not None
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except (FileNotFoundError, ProcessLookupError):
            continue
        if fields[0] == "Z" and int(fields[1]) == gateway.child.pid:
            found.append(stat.parent.name)
    return found


def test_a_daemon_ends_with_its_server(tmp_path: Path) -> None:
    servers = {"one": peers.misbehaving("--daemon"), "two": peers.misbehaving("--daemon")}
    with Gateway(tmp_path, {"mcpServers": servers}) as gateway:
        gateway.connected()
        first = until(lambda: (found := daemons(gateway)) and len(found) == 2 and found, 30, "both started a daemon")
        gateway.write_settings({"mcpServers": {"two": servers["two"]}})
        until(lambda: len(daemons(gateway)) == 1, 30, "the daemon of the removed server ended")
        assert daemons(gateway) < first, "the other server was not touched"
        until(lambda: not zombies(gateway), 30, "no zombie is left")
    # `Gateway.stop` checks that every process with its mark is gone.
