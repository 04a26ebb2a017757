"""The official conformance suite, with the gateway as the server it tests and as the client it tests.

As a server, the gateway stands in front of a fixture server with the tools, prompts and resources the suite asks for.
As a client, it stands in front of the suite's own servers, and `drive.py` plays the agent behind it.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import peers  # noqa: E402
from gateway import Gateway  # noqa: E402

SUITE = peers.MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
OUTPUT = peers.TARGET / "conformance"
SUITE_SECONDS = 600
REVISIONS = ["2025-11-25", "2026-07-28"]
# What a gateway does as a client; exceptions.md says why the suite's other client scenarios are not here.
CLIENT_SCENARIOS = {
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
    ],
    "2026-07-28": [
        "tools_call",
        "request-metadata",
        "sep-2322-client-request-state",
        "http-standard-headers",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "json-schema-ref-no-deref",
        "json-schema-2020-12-preservation",
    ],
}


def main() -> int:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    failed = [f"server {revision}" for revision in REVISIONS if not as_server(revision)]
    for revision, scenarios in CLIENT_SCENARIOS.items():
        failed += [f"client {revision} {scenario}" for scenario in scenarios if not as_client(revision, scenario)]
    for one in failed:
        print(f"FAILED: {one}")
    return 1 if failed else 0


def as_server(revision: str) -> bool:
    with fixture() as url, Gateway(OUTPUT / f"home-{revision}", {"mcpServers": {"fixture": {"url": url}}}) as gateway:
        return suite(
            f"server-{revision}",
            ["server", "--url", gateway.server_url("fixture"), "--requirements", revision],
            NODE_OPTIONS=f"--import={HERE / 'authorize.mjs'}",
            MCPPROXY_TOKEN=gateway.token,
        )


@contextmanager
def fixture() -> Iterator[str]:
    """The server behind the gateway; the first line it prints says where it listens."""
    child = subprocess.Popen([peers.CONFORMANCE_SERVER], stdout=subprocess.PIPE, text=True)
    try:
        assert child.stdout
        line = child.stdout.readline()
        assert line.startswith("listening "), f"the fixture server said {line!r}"
        yield line.removeprefix("listening ").strip()
    finally:
        child.terminate()
        child.wait(10)


def as_client(revision: str, scenario: str) -> bool:
    driver = f"{sys.executable} {HERE / 'drive.py'}"
    return suite(
        f"client-{revision}-{scenario}",
        ["client", "--command", driver, "--scenario", scenario, "--spec-version", revision],
    )


def suite(name: str, args: list[str], **env: str) -> bool:
    """Runs the suite, keeps what it said in a file, and shows it when something failed."""
    done = subprocess.run(
        [peers.NODE, SUITE, *args, "--output-dir", OUTPUT / name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SUITE_SECONDS,
        env={**os.environ, **env},
    )
    (OUTPUT / f"{name}.txt").write_text(done.stdout)
    print(f"{'ok' if done.returncode == 0 else 'FAILED'}: {name}", flush=True)
    if done.returncode != 0:
        print(done.stdout[-8000:])
    return done.returncode == 0


if __name__ == "__main__":
    sys.exit(main())
