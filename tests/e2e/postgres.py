"""A PostgreSQL server in a temporary folder, which tests can stop, freeze and restart."""

from __future__ import annotations

import itertools
import os
import pwd
import secrets
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from functools import cache
from pathlib import Path

import pytest

from gateway import until

# After a crash, the server first syncs every file of every database, which takes long on a busy disk.
START_SECONDS = 120
STOP_SECONDS = 60
USER = "mcpproxy"
# PostgreSQL refuses to run as root, so root starts it as one of these users.
UNPRIVILEGED = ("postgres", "nobody")
# Signals for each way of stopping: `fast` closes all connections in order, `immediate` is a crash.
STOP_SIGNALS = {"fast": signal.SIGINT, "immediate": signal.SIGQUIT}


class Postgres:
    """One server process and its folder. All durability settings are on."""

    def __init__(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="mcpproxy-postgres-"))
        self.password = secrets.token_hex(12)
        self.port = _free_port()
        self.child: subprocess.Popen[bytes] | None = None
        self.numbers = itertools.count(1)
        self.owner = _unprivileged()
        if self.owner:
            os.chown(self.folder, self.owner.pw_uid, self.owner.pw_gid)
        self._initialise()

    def start(self) -> Postgres:
        with open(self.folder / "log.txt", "ab") as log:
            self.child = subprocess.Popen(
                [_program("postgres"), "-D", str(self.folder / "data"), *self._options()],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                start_new_session=True,
                **self._as_owner(),
            )
        until(self._accepts, START_SECONDS, "PostgreSQL accepts connections")
        return self

    def stop(self, mode: str = "fast") -> None:
        if self.child is None:
            return
        self.child.send_signal(STOP_SIGNALS[mode])
        self.child.wait(STOP_SECONDS)
        self.child = None

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Freezes the server: connections stay open, but nothing answers, as with a hanging disk."""
        assert self.child is not None
        # Stop the parent first. Otherwise it would replace the stopped children.
        stopped = [self.child.pid]
        os.kill(self.child.pid, signal.SIGSTOP)
        try:
            for pid in _children(self.child.pid):
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGSTOP)
                stopped.append(pid)
            yield
        finally:
            for pid in stopped:
                with suppress(ProcessLookupError):
                    os.kill(pid, signal.SIGCONT)

    def remove(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.send_signal(signal.SIGCONT)
        self.stop("immediate")
        shutil.rmtree(self.folder, ignore_errors=True)

    def url(self, database: str) -> str:
        return f"postgres://{USER}:{self.password}@127.0.0.1:{self.port}/{database}"

    def create(self, template: str = "template0") -> str:
        """Creates a database, empty or as a copy of one without open connections."""
        name = f"log_{next(self.numbers)}"
        self.sql("postgres", f"CREATE DATABASE {name} TEMPLATE {template}")
        return name

    def sql(self, database: str, script: str) -> list[list[str | None]]:
        """Runs statements and returns their rows as text."""
        done = self._client("psql", "-d", database, *_PLAIN, stdin=script)
        rows = done.stdout.removesuffix("\n").split(_ROW_END) if done.stdout else []
        return [[None if field == _NULL else field for field in row.split(_FIELD_END)] for row in rows]

    def dump(self, database: str) -> str:
        return self._client("pg_dump", "-d", database).stdout

    # -- details ------------------------------------------------------------------------------------------------

    def _initialise(self) -> None:
        secret = self.folder / "password.txt"
        secret.write_text(self.password)
        secret.chmod(0o644)
        # `--no-sync` affects only the files of the new, empty server.
        options = ["-U", USER, "-A", "scram-sha-256", "--pwfile", str(secret), "-E", "UTF8", "--locale=C", "--no-sync"]
        subprocess.run(
            [_program("initdb"), "-D", str(self.folder / "data"), *options],
            check=True,
            capture_output=True,
            cwd=self.folder,
            **self._as_owner(),
        )
        secret.unlink()

    def _options(self) -> list[str]:
        # No Unix socket, because its default folder may be missing or read-only.
        settings = {"listen_addresses": "127.0.0.1", "port": str(self.port), "unix_socket_directories": ""}
        return [word for name, value in settings.items() for word in ("-c", f"{name}={value}")]

    def _as_owner(self) -> dict[str, object]:
        if self.owner is None:
            return {}
        return {"user": self.owner.pw_uid, "group": self.owner.pw_gid, "extra_groups": []}

    def _accepts(self) -> bool:
        assert self.child is not None
        log = self.folder / "log.txt"
        assert self.child.poll() is None, f"PostgreSQL ended\n{log.read_text(errors='replace')[-4000:]}"
        ask = [_program("pg_isready"), "-q", "-h", "127.0.0.1", "-p", str(self.port)]
        return subprocess.run(ask, timeout=60).returncode == 0

    def _client(self, program: str, *args: str, stdin: str = "") -> subprocess.CompletedProcess[str]:
        where = ["-h", "127.0.0.1", "-p", str(self.port), "-U", USER]
        done = subprocess.run(
            [_program(program), *where, *args],
            input=stdin,
            capture_output=True,
            text=True,
            timeout=60,
            env={**os.environ, "PGPASSWORD": self.password, "PGCLIENTENCODING": "UTF8"},
        )
        assert done.returncode == 0, f"{program}: {done.stderr}"
        return done


# Log texts contain every printable character, so fields end with characters that do not occur in JSON.
_FIELD_END, _ROW_END, _NULL = "\x1f", "\x1e", "\x1dnull"
_PLAIN = [*"-X -q -A -t -v ON_ERROR_STOP=1".split(), "-F", _FIELD_END, "-R", _ROW_END, "-P", f"null={_NULL}"]


@cache
def _program(name: str) -> str:
    """Finds a program of the server. Debian keeps them out of PATH."""
    found = shutil.which(name) or max(map(str, Path("/usr/lib/postgresql").glob(f"*/bin/{name}")), default="")
    assert found, f"`{name}` of PostgreSQL is not installed; scripts/setup installs it"
    return found


def _unprivileged() -> pwd.struct_passwd | None:
    if os.geteuid() != 0:
        return None
    known = {user.pw_name: user for user in pwd.getpwall()}
    return next(known[name] for name in UNPRIVILEGED if name in known)


def _free_port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        return free.getsockname()[1]


def _children(parent: int) -> list[int]:
    found = []
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            if int(stat.read_text().rpartition(")")[2].split()[1]) == parent:
                found.append(int(stat.parent.name))
        except (FileNotFoundError, ProcessLookupError):
            continue
    return found


_running: list[Postgres] = []


@pytest.fixture(scope="session")
def postgres(request: pytest.FixtureRequest) -> Postgres:
    """One server for the whole run, shared by all modules. No test stops it."""
    if not _running:
        server = Postgres()
        request.config.add_cleanup(server.remove)
        _running.append(server.start())
    return _running[0]


@pytest.fixture(scope="module")
def own_postgres() -> Iterator[Postgres]:
    """A server for one module, whose tests stop and restart it."""
    server = Postgres()
    try:
        yield server.start()
    finally:
        server.remove()
