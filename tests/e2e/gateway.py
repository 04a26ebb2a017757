"""Starts and stops the gateway under test, and sends it requests that no client library would."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import threading
import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import httpx

import peers

# A machine that others keep busy is slower by this factor at times.
BUSY = 5
START_SECONDS = 20
READY_SECONDS = 60
STOP_SECONDS = 60
MARK = "MCPPROXY_TEST_MARK"

T = TypeVar("T")


def until(probe: Callable[[], T], seconds: float, what: str) -> T:
    """Polls until `probe` returns a true value, and returns it. Fails after `BUSY` times as many seconds."""
    pause = threading.Event()
    deadline = time.monotonic() + BUSY * seconds
    while True:
        found = probe()
        if found:
            return found
        assert time.monotonic() < deadline, f"not within {BUSY} times {seconds} s: {what}"
        pause.wait(0.02)


class Gateway:
    """One `mcpproxy serve` with its own home folder. Every server process carries a mark, so that tests can find it."""

    def __init__(self, home: Path, settings: dict[str, Any] | str | None = None) -> None:
        self.home = home
        self.mark = uuid.uuid4().hex
        self.home.mkdir(parents=True, exist_ok=True)
        self.child: subprocess.Popen[bytes] | None = None
        self.address = ""
        self.listen = "127.0.0.1:0"
        # More options of `serve`.
        self.start_words: tuple[str, ...] = ()
        if settings is not None:
            self.write_settings(settings)

    # -- lifecycle ----------------------------------------------------------------------------------------------

    def write_settings(self, settings: dict[str, Any] | str) -> None:
        """Replaces the settings file atomically, as editors do."""
        text = settings if isinstance(settings, str) else json.dumps(self._marked(settings), indent=2)
        self.write("mcp_config.json", text)

    def write(self, name: str, text: str) -> None:
        """Replaces any of the operator's files atomically, such as `contracts/mail.yaml`."""
        target = self.home / name
        target.parent.mkdir(mode=0o700, exist_ok=True)
        fresh = target.with_name(f"{target.name}.new")
        fresh.write_text(text)
        fresh.chmod(0o600)
        fresh.rename(target)

    def start(self, *, ready: bool = True, **env: str) -> Gateway:
        """Returns when the gateway listens and, by default, when every server has connected or failed once.

        `env` is for this gateway alone, not for other commands on its folder.
        """
        began = time.monotonic()
        with open(self.home / "stdout.txt", "wb") as out, open(self.home / "stderr.txt", "wb") as err:
            self.child = subprocess.Popen(
                [peers.MCPPROXY, "serve", "--home", str(self.home), "--listen", self.listen, *self.start_words],
                stdin=subprocess.DEVNULL,
                stdout=out,
                stderr=err,
                env={**self.environment(), **env},
                start_new_session=True,
            )
        self.address = until(self._listening_at, START_SECONDS, "the gateway listens")
        self.listening_after = time.monotonic() - began
        if ready:
            until(lambda: self.probe("/readyz") == 200, READY_SECONDS, "the gateway is ready")
        return self

    def stop(self) -> None:
        """Stops the gateway, and checks that all processes it started have ended."""
        if self.child is None:
            return
        self.child.send_signal(signal.SIGTERM)
        try:
            code = self.child.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            self.child.kill()
            self.child.wait()
            raise AssertionError(
                f"the gateway did not end within {STOP_SECONDS} s of SIGTERM\n{self.words()}"
            ) from None
        self.child = None
        assert code == 0, f"the gateway ended with {code}\n{self.words()}"
        until(lambda: not self.processes(), 5, f"every process of the gateway is gone; left: {self.processes()}")

    def crashed(self) -> None:
        """Waits for a gateway that aborts, and for its servers to notice."""
        assert self.child is not None
        code = self.child.wait(STOP_SECONDS)
        assert code == -signal.SIGABRT, f"the gateway ended with {code}\n{self.words()}"
        self.child = None
        # A message that is already in a pipe may still reach a server.
        until(lambda: not self.processes(), 10, "every server noticed that the gateway is gone")

    def __enter__(self) -> Gateway:
        return self.start()

    def __exit__(self, kind: Any, _value: Any, _trace: Any) -> None:
        if kind is not None:
            print(self.words())
        self.stop()

    def environment(self) -> dict[str, str]:
        kept = {name: os.environ[name] for name in ("PATH", "LANG", "TMPDIR") if name in os.environ}
        return {**kept, "HOME": str(self.home), MARK: self.mark, "RUST_BACKTRACE": "1"}

    def processes(self) -> list[int]:
        """Returns every live process that carries the mark of this gateway."""
        needle = f"{MARK}={self.mark}".encode()
        found = []
        for entry in Path("/proc").iterdir():
            if not entry.name.isdigit():
                continue
            try:
                alive = entry.joinpath("stat").read_text().rpartition(")")[2].split()[0] != "Z"
                if alive and needle in entry.joinpath("environ").read_bytes().split(b"\0"):
                    found.append(int(entry.name))
            except (FileNotFoundError, ProcessLookupError, PermissionError):
                continue
        return found

    def words(self) -> str:
        """Returns the output of the gateway, for a failing test."""
        files = [self.home / "stdout.txt", self.home / "stderr.txt"]
        return "\n".join(
            f"--- {file.name}\n{file.read_text(errors='replace')[-6000:]}" for file in files if file.exists()
        )

    # -- requests -----------------------------------------------------------------------------------------------

    @property
    def base(self) -> str:
        return f"http://{self.address}"

    @property
    def mcp(self) -> str:
        return f"{self.base}/mcp"

    def server_url(self, name: str) -> str:
        return f"{self.base}/mcp/s/{name}"

    @property
    def token(self) -> str:
        return (self.home / "agent.token").read_text().strip()

    @property
    def admin_key(self) -> str:
        return (self.home / "admin.key").read_text().strip()

    def probe(self, path: str) -> int:
        try:
            return httpx.get(self.base + path, timeout=10).status_code
        except httpx.HTTPError:
            return 0

    def admin(self, path: str) -> Any:
        answer = httpx.get(f"{self.base}/api/v1{path}", headers={"X-API-Key": self.admin_key}, timeout=60)
        assert answer.status_code == 200, f"{path}: {answer.status_code} {answer.text}"
        return answer.json()

    def servers(self) -> dict[str, dict[str, Any]]:
        return {server["name"]: server for server in self.admin("/servers")["servers"]}

    def connected(self) -> Gateway:
        """Waits until every server works, also one whose first try to connect failed."""
        try:
            until(lambda: all(one["state"] == "ready" for one in self.servers().values()), READY_SECONDS, "every server")
        except AssertionError as error:
            raise AssertionError(f"{error}: {self.servers()}\n{self.words()}") from None
        return self

    def settings_error(self) -> str:
        """Returns the error in the operator's files according to the status. Empty if there is none."""
        return self.admin("/status")["settings"]["error"] or ""

    def records(self, *filters: str) -> list[dict[str, Any]]:
        """Returns the records that match these options of `activity list`, newest first."""
        done = self.run("activity", "list", *filters, "-o", "json")
        assert done.returncode == 0, done.stderr
        return json.loads(done.stdout)["activities"]

    def run(self, *args: str, stdin: str = "", timeout: float = 60) -> subprocess.CompletedProcess[str]:
        """Runs `mcpproxy ARGS --home HOME`."""
        return subprocess.run(
            [peers.MCPPROXY, *args, "--home", str(self.home)],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=timeout,
            env=self.environment(),
        )

    def run_with(self, more: dict[str, str], *args: str) -> subprocess.CompletedProcess[str]:
        """Runs `mcpproxy --home HOME ARGS` with more environment variables. ARGS may contain `--`."""
        return subprocess.run(
            [peers.MCPPROXY, "--home", str(self.home), *args],
            capture_output=True,
            text=True,
            timeout=60,
            env={**self.environment(), **more},
        )

    # -- details ------------------------------------------------------------------------------------------------

    def _marked(self, settings: dict[str, Any]) -> dict[str, Any]:
        servers = {
            name: {**server, "env": {**server.get("env", {}), MARK: self.mark}} if "command" in server else server
            for name, server in settings.get("mcpServers", {}).items()
        }
        # Tests begin when every server has connected or failed, however slow the machine is.
        return {"ready_timeout": "10m", **settings, "mcpServers": servers}

    def _listening_at(self) -> str:
        assert self.child is not None
        assert self.child.poll() is None, f"the gateway ended with {self.child.returncode}\n{self.words()}"
        try:
            lock = json.loads((self.home / "gateway.lock").read_text())
        except (FileNotFoundError, json.JSONDecodeError):
            return ""
        if lock.get("pid") != self.child.pid:
            return ""
        self.address = lock["address"]
        return self.address if self.probe("/healthz") == 200 else ""
