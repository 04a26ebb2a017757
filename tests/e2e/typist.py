"""A user who types at a terminal."""

from __future__ import annotations

import os
import pty
import re
import select
import time
from typing import Any

import peers
from gateway import Gateway

TYPING_SECONDS = 60


def typed(gateway: Gateway, words: list[str], answers: list[tuple[str, str]], then: Any = None) -> tuple[int, str]:
    """Runs `mcpproxy --home HOME WORDS` at a terminal and answers each prompt. Returns the exit code and the screen.

    `then` is called before the last answer.
    """
    child, terminal = pty.fork()
    if child == 0:
        environment = {**gateway.environment(), "TERM": "xterm", "COLUMNS": "100", "NO_COLOR": "1"}
        os.execve(peers.MCPPROXY, [peers.MCPPROXY, "--home", str(gateway.home), *words], environment)
    heard, left, seen = "", list(answers), 0
    end = time.monotonic() + TYPING_SECONDS
    while time.monotonic() < end:
        if select.select([terminal], [], [], 0.1)[0]:
            try:
                piece = os.read(terminal, 4096)
            except OSError:
                break
            if not piece:
                break
            heard += piece.decode(errors="replace")
        if left and re.search(left[0][0], heard[seen:]):
            seen = len(heard)
            if then and len(left) == 1:
                then()
            os.write(terminal, left.pop(0)[1].encode() + b"\n")
    else:
        os.kill(child, 9)
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), heard
