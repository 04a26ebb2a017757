"""What people see while a call takes time: the progress line, and what Ctrl-C does."""

from __future__ import annotations

import fcntl
import os
import pty
import select
import subprocess
import sys
import termios
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

import peers
from gateway import Gateway, until

PATIENCE = 30
CLEAR = "\r\x1b[K"
LINE = "files:copy · "
PROGRESS = "40 % · copying photos"


def own_terminal() -> None:
    """Makes standard input the controlling terminal, so that Ctrl-C is a signal."""
    fcntl.ioctl(0, termios.TIOCSCTTY, 0)


class Screen:
    """A command on a pseudo-terminal."""

    def __init__(self, gateway: Gateway, *args: str) -> None:
        self.terminal, inside = pty.openpty()
        self.child = subprocess.Popen(
            [peers.MCPPROXY, *args, "--home", str(gateway.home)],
            stdin=inside,
            stdout=inside,
            stderr=inside,
            env={**gateway.environment(), "TERM": "xterm", "COLUMNS": "80"},
            start_new_session=True,
            preexec_fn=own_terminal,
        )
        os.close(inside)
        self.seen = ""

    def read(self) -> bool:
        """Reads what is there. Returns whether there may be more."""
        ready, _, _ = select.select([self.terminal], [], [], 0.2)
        if not ready:
            return self.child.poll() is None
        try:
            self.seen += os.read(self.terminal, 65536).decode(errors="replace")
        except OSError:
            return False
        return True

    def sees(self, text: str) -> None:
        until = time.monotonic() + PATIENCE
        while text not in self.seen:
            assert self.read() and time.monotonic() < until, f"{text!r} is not in {self.seen!r}"

    def types(self, text: str) -> None:
        os.write(self.terminal, text.encode())

    def leaves(self) -> int:
        while self.read():
            pass
        return self.child.wait(PATIENCE)

    def close(self) -> None:
        if self.child.poll() is None:
            self.child.kill()
            self.child.wait()
        os.close(self.terminal)


@pytest.fixture
def go(tmp_path: Path) -> Path:
    return tmp_path / "go"


@pytest.fixture
def gateway(tmp_path: Path, go: Path) -> Iterator[Gateway]:
    server = {"command": sys.executable, "args": [str(Path(__file__).parent / "progress_server.py"), str(go)]}
    with Gateway(tmp_path / "home", {"mcpServers": {"files": server}}) as gateway:
        yield gateway
        # Otherwise, the server would wait for the file.
        go.touch()


def test_a_slow_call_shows_its_progress_and_removes_it(gateway: Gateway, go: Path) -> None:
    screen = Screen(gateway, "call", "tool-read", "files:copy")
    try:
        screen.sees(LINE)
        screen.sees(PROGRESS)
        go.touch()
        assert screen.leaves() == 0, screen.seen
        last = screen.seen.rpartition(PROGRESS)[2]
        assert last.startswith(CLEAR) and "all copied" in last, screen.seen
    finally:
        screen.close()


def test_ctrl_c_says_that_the_server_may_go_on(gateway: Gateway, go: Path) -> None:
    screen = Screen(gateway, "call", "tool-read", "files:copy")
    try:
        screen.sees(PROGRESS)
        screen.types("\x03")
        screen.sees("Cancelled. The server may still finish the call.")
        assert screen.leaves() == 130, screen.seen
    finally:
        screen.close()
    go.touch()


def test_without_a_terminal_there_is_no_progress_line(gateway: Gateway, go: Path) -> None:
    slow = subprocess.Popen(
        [peers.MCPPROXY, "call", "tool-read", "files:copy", "--home", str(gateway.home)],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=gateway.environment(),
    )
    until(lambda: "started" in gateway.run("activity", "list", "--type", "call").stdout, PATIENCE, "the call")
    go.touch()
    out, errors = slow.communicate(timeout=PATIENCE)
    assert (slow.returncode, errors) == (0, ""), errors
    assert "all copied" in out
