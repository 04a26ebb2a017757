"""The official conformance suite, with the gateway as the server it tests and as the client it tests.

As a server, the gateway stands in front of a fixture server with the tools, prompts and resources the suite asks for.
As a client, it stands in front of the suite's own servers, and `drive.py` plays the agent behind it.
"""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "e2e"))

import peers  # noqa: E402
from gateway import Gateway  # noqa: E402

SUITE = peers.MODULES / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
OUTPUT = peers.TARGET / "conformance"
SUITE_SECONDS = 600
# What the suite says if a gateway has not answered after 500 to 1500 ms. A shared machine can stand still for longer than
# that, so a run in which nothing else failed is repeated. A wrong answer has another message, and fails at once.
NO_ANSWER_YET = {
    "Failed to receive progressive stream chunk execution frames from tools/call handler endpoint",
    "Logging target endpoint context dropped or failed to yield frame structures",
    "Failed to open or receive frames from the subscriptions/listen stream endpoint",
    "Failed to open stream line or tracking frames are missing completely",
    "Strict subscription filtering line failed to return communication frames",
}
RUNS = 3
SIGN_INS_AT_ONCE = 2
REVISIONS = ["2025-11-25", "2026-07-28"]
# What a gateway does as a client; exceptions.md says why the suite's other client scenarios are not here.
# Scenarios of OAuth that both revisions have.
SIGN_INS = [
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/scope-from-www-authenticate",
    "auth/scope-from-scopes-supported",
    "auth/scope-omitted-when-undefined",
    "auth/scope-step-up",
    "auth/scope-retry-limit",
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-post",
    "auth/token-endpoint-auth-none",
    "auth/pre-registration",
]
CLIENT_SCENARIOS = {
    "2025-03-26": ["auth/2025-03-26-oauth-metadata-backcompat"],
    "2025-11-25": [
        "initialize",
        "tools_call",
        "elicitation-sep1034-client-defaults",
        "sse-retry",
        "json-schema-2020-12-preservation",
        *SIGN_INS,
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
        *SIGN_INS,
        "auth/resource-mismatch",
        "auth/offline-access-scope",
        "auth/offline-access-not-supported",
        "auth/authorization-server-migration",
        "auth/iss-supported",
        "auth/iss-not-advertised",
        "auth/iss-supported-missing",
        "auth/iss-wrong-issuer",
        "auth/iss-unexpected",
        "auth/iss-normalized",
        "auth/metadata-issuer-mismatch",
        "auth/client-credentials-basic",
    ],
}


def main() -> int:
    shutil.rmtree(OUTPUT, ignore_errors=True)
    OUTPUT.mkdir(parents=True)
    failed = [f"server {revision}" for revision in REVISIONS if not as_server(revision)]
    clients = [(revision, scenario) for revision, scenarios in CLIENT_SCENARIOS.items() for scenario in scenarios]
    # Each scenario has its own server and gateway. Those without a sign-in measure times, so they run one by one.
    for at_once in (1, SIGN_INS_AT_ONCE):
        chosen = [one for one in clients if one[1].startswith("auth/") == (at_once > 1)]
        with ThreadPoolExecutor(at_once) as pool:
            passed = pool.map(lambda one: as_client(*one), chosen)
            failed += [f"client {revision} {name}" for (revision, name), ok in zip(chosen, passed) if not ok]
    for one in failed:
        print(f"FAILED: {one}")
    return 1 if failed else 0


def as_server(revision: str) -> bool:
    with fixture() as url, Gateway(OUTPUT / f"home-{revision}", {"mcpServers": {"fixture": {"url": url}}}) as gateway:
        for run in range(RUNS):
            name = f"server-{revision}-{run}"
            is_ok = suite(
                name,
                ["server", "--url", gateway.server_url("fixture"), "--requirements", revision],
                NODE_OPTIONS=f"--import={HERE / 'authorize.mjs'}",
                MCPPROXY_TOKEN=gateway.token,
            )
            messages = {check.get("errorMessage") for _, check in failures(name)}
            if is_ok or not messages or not messages <= NO_ANSWER_YET:
                return is_ok
            print(f"{name}: no answer in time, and nothing else failed; trying again", flush=True)
    return False


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
    """Runs the suite, keeps what it said in a file, and shows the failed checks."""
    done = subprocess.run(
        [peers.NODE, SUITE, *args, "--output-dir", OUTPUT / name],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=SUITE_SECONDS,
        env={**os.environ, **env},
    )
    said = OUTPUT / f"{name}.txt"
    said.write_text(done.stdout)
    print(f"{'ok' if done.returncode == 0 else 'FAILED'}: {name}", flush=True)
    if done.returncode != 0:
        print(done.stdout[-2000:])
        for scenario, check in failures(name):
            print(f"FAILED: {scenario}: {check['id']}: {check.get('errorMessage')}", flush=True)
        print(f"The whole output is in {said}.", flush=True)
    return done.returncode == 0


def failures(name: str) -> list[tuple[str, dict[str, str]]]:
    """The failed checks of a run, without those of scenarios that the suite ran and did not score."""
    said = (OUTPUT / f"{name}.txt").read_text()
    unscored = set(re.findall(r"^  [✗✓] (\S+) \(", said, re.MULTILINE))
    found = []
    for file in sorted((OUTPUT / name).glob("*/checks.json")):
        scenario = re.sub(r"^server-|-\d{4}-\d\d-\d\dT[\dZ-]+$", "", file.parent.name)
        if scenario not in unscored:
            found += [(scenario, check) for check in json.loads(file.read_text()) if check["status"] == "FAILURE"]
    return found


if __name__ == "__main__":
    sys.exit(main())
