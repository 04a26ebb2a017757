"""Defends signing in: wrong passwords for other names never lock out a user who made no mistake."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx

import peers
from gateway import Gateway
from log import PostgresStorage
from postgres import Postgres, postgres  # noqa: F401
from user import PASSWORD, set_up_plainly

# A sign-in may have to wait for all others of its address, one after the other.
TURN_SECONDS = 120


def log_in(gateway: Gateway, name: str, password: str) -> httpx.Response:
    body = {"name": name, "password": password}
    return httpx.post(f"{gateway.base}/api/v1/login", json=body, timeout=TURN_SECONDS)


def test_random_names_lock_nobody_out(tmp_path: Path) -> None:
    """All attempts come from one address, as they do behind a proxy."""
    with Gateway(tmp_path) as gateway:
        set_up_plainly(gateway, "ada")
        with ThreadPoolExecutor(20) as strangers:
            statuses = list(strangers.map(lambda n: log_in(gateway, f"name-{n}", "wrong").status_code, range(300)))
            assert set(statuses) == {401}, "each name has its own limit"
            during = [strangers.submit(log_in, gateway, f"other-{n}", "wrong") for n in range(100)]
            assert log_in(gateway, "ada", PASSWORD).status_code == 200
            assert {one.result().status_code for one in during} == {401}
        assert log_in(gateway, "ada", PASSWORD).status_code == 200
        # 30 of each minute are recorded. The attempts take a few minutes at most.
        assert len(failures(gateway)) < 300, "a flood does not fill the log"


def test_one_name_cannot_be_guessed_at_several_gateways(
    tmp_path: Path,
    postgres: Postgres,  # noqa: F811
) -> None:
    servers = {"mcpServers": {"echo": peers.misbehaving()}}
    settings = {**PostgresStorage(postgres, postgres.create()).settings(), **servers}
    with Gateway(tmp_path / "first", settings) as first, Gateway(tmp_path / "second", settings) as second:
        gateways = [first, second] * 3
        # On a machine so slow that six attempts take more than a minute, more of them are allowed.
        for name in (f"name-{n}" for n in range(5)):
            statuses = [log_in(gateway, name, "wrong").status_code for gateway in gateways]
            if 429 in statuses:
                break
        assert statuses == [401] * 5 + [429]


def failures(gateway: Gateway) -> list[dict[str, object]]:
    return [one for one in gateway.records("--type", "auth", "--limit", "500") if one["code"] == "login_failed"]
