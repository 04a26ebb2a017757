"""An agent in a terminal: a pseudo-terminal, and an emulator that keeps the screen as a person would see it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import termios
import threading
import time
from pathlib import Path
from types import TracebackType

import pyte

COLUMNS, ROWS = 120, 50
# Colors, and sequences that pyte would show as text: keyboard protocols, graphics and names of terminals.
_IGNORED = re.compile(
    rb"\x1b\[[<>=?0-9;:]*m|\x1b\[[<>=?][<>=?0-9;:]*[a-zA-Z]|\x1b\[[0-9;?]*[ $][a-zA-Z]|\x1b[P_^][^\x1b]*\x1b\\"
)
_UNFINISHED = re.compile(rb"\x1b(\[[0-9;:<>=? $]*|[P_^\]][^\x1b\x07]*\x1b?)?$")
# Programs wait for these answers of a terminal: what it is, where the cursor is, and its background color.
_ANSWERS = {
    re.compile(rb"\x1b\[0?c"): b"\x1b[?62;22c",
    re.compile(rb"\x1b\[6n"): b"\x1b[1;1R",
    re.compile(rb"\x1b\]11;\?(\x07|\x1b\\)"): b"\x1b]11;rgb:0000/0000/0000\x1b\\",
}


class Terminal:
    """Runs a command in a pseudo-terminal. Ends its process group with the `with` block."""

    def __init__(self, command: list[str], cwd: Path, env: dict[str, str]) -> None:
        self.screen = pyte.Screen(COLUMNS, ROWS)
        self.stream = pyte.ByteStream(self.screen)
        self.lock = threading.Lock()
        self.rest = b""
        self.pressed_at = 0.0
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", ROWS, COLUMNS, 0, 0))
        self.child = subprocess.Popen(
            command,
            stdin=slave,
            stdout=slave,
            stderr=slave,
            cwd=cwd,
            env=env,
            start_new_session=True,
        )
        os.close(slave)
        self.is_open = True
        self.reader = threading.Thread(target=self._read)
        self.reader.start()

    def __enter__(self) -> Terminal:
        return self

    def __exit__(
        self, _kind: type[BaseException] | None, _value: BaseException | None, _trace: TracebackType | None
    ) -> None:
        self.is_open = False
        if self.is_alive():
            os.killpg(self.child.pid, signal.SIGKILL)
        self.child.wait(10)
        self.reader.join(10)
        os.close(self.master)

    def text(self) -> str:
        """Returns the screen without empty lines."""
        with self.lock:
            return "\n".join(line.rstrip() for line in self.screen.display if line.strip())

    def is_alive(self) -> bool:
        return self.child.poll() is None

    def words(self) -> str:
        """Returns the screen, for a failing test."""
        return f"--- screen of the client\n{self.text()}"

    def shows(self, pattern: str) -> bool:
        assert self.is_alive(), f"the client ended\n{self.words()}"
        return re.search(pattern, self.text()) is not None

    def press(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def has_left(self, pattern: str, keys: str) -> bool:
        """Presses keys once a second while the screen shows a pattern. Returns true when it no longer does.

        Some dialogs ignore every key in their first moments, to protect the user from a key meant for something else.
        """
        if not self.shows(pattern):
            return True
        if time.monotonic() - self.pressed_at > 1:
            self.pressed_at = time.monotonic()
            self.press(keys)
        return False

    def _read(self) -> None:
        while self.is_open:
            ready, _, _ = select.select([self.master], [], [], 0.05)
            if not ready:
                continue
            try:
                data = os.read(self.master, 65536)
            except OSError:
                return
            for question, answer in _ANSWERS.items():
                if question.search(data):
                    os.write(self.master, answer)
            self._show(self.rest + data)

    def _show(self, data: bytes) -> None:
        """Feeds the emulator. Keeps back a sequence whose end has not arrived."""
        unfinished = _UNFINISHED.search(data)
        end = unfinished.start() if unfinished else len(data)
        self.rest = data[end:]
        with self.lock:
            self.stream.feed(_IGNORED.sub(b"", data[:end]))
