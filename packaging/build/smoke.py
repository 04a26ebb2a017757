"""Tries an installed `mcpproxy` as a user would: its version, then a gateway with the demo server and one call."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path

from common import Failed, run, workspace_version

START_SECONDS = 60
STOP_SECONDS = 60


def smoke(command: list[object], *, env: dict[str, str] | None = None) -> None:
    """Checks the version, starts a gateway, calls a tool of the demo server through it, and stops it with SIGTERM."""
    words = [str(word) for word in command]
    said = run([*words, "--version"], env=env).strip().splitlines()[-1]
    if said != f"mcpproxy {workspace_version()}":
        raise Failed(f"`{' '.join(words)} --version` prints `{said}`")
    with tempfile.TemporaryDirectory(prefix="mcpproxy-package-") as folder:
        home = Path(folder) / "home"
        serve_and_call(
            words,
            serve=["serve", "--listen", "127.0.0.1:0"],
            home=home,
            log=Path(folder) / "gateway.log",
            env={**(env or {}), "MCPPROXY_HOME": str(home)},
        )


def serve_and_call(
    command: list[object],
    *,
    serve: list[str],
    home: Path,
    log: Path,
    env: dict[str, str] | None = None,
    once_ready: Callable[[], object] = lambda: None,
) -> None:
    """Starts a gateway whose data folder is `home`, calls a tool of the demo server, and stops it with SIGTERM."""
    words = [str(word) for word in command]
    surroundings = {**os.environ, **(env or {})}
    with log.open("wb") as out:
        gateway = subprocess.Popen([*words, *serve], stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=surroundings)
    try:
        wait_ready(home, gateway, log)
        once_ready()
        call(words, surroundings)
        gateway.send_signal(signal.SIGTERM)
        code = gateway.wait(STOP_SECONDS)
        if code != 0:
            raise Failed(f"the gateway ended with {code} after SIGTERM:\n{log.read_text(errors='replace')[-4000:]}")
    finally:
        if gateway.poll() is None:
            gateway.kill()
            gateway.wait()


def call(command: list[object], env: dict[str, str]) -> None:
    """Calls a tool of the demo server with the command line of a running gateway."""
    answer = run([*command, "call", "tool-read", "demo:list_projects", "--args", "{}"], env=env)
    if "p_website" not in answer:
        raise Failed(f"a call of the demo server answered:\n{answer}")


def wait_ready(home: Path, gateway: subprocess.Popen[bytes], log: Path) -> str:
    """Returns the address of a gateway once it is ready."""
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if gateway.poll() is not None:
            break
        try:
            address = json.loads((home / "gateway.lock").read_text())["address"]
            with urllib.request.urlopen(f"http://{address}/readyz", timeout=5) as answer:
                if answer.status == 200:
                    return address
        except (OSError, ValueError, KeyError, urllib.error.URLError):
            pass
        time.sleep(0.1)
    raise Failed(f"the gateway is not ready:\n{log.read_text(errors='replace')[-4000:]}")
