"""Tokens are renewed before they expire, once for all who wait, and a lost sign-in asks for a user."""

from __future__ import annotations

import shutil
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

from gateway import Gateway, until
from log import storage_of
from postgres import postgres  # noqa: F401
from sign_ins import USER, Desk, arrive, at_terminal, desk

SHORT = {"access": 6}
# A renewed token counts as new for this long, so one refusal of it ends the sign-in.
NEW_TOKEN_SECONDS = 5


def test_a_token_is_renewed_and_rotated(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": SHORT}) as one:
        one.signed_in()

        def works() -> bool:
            assert one.says("read_note") == "the note"
            return one.refreshes() >= 3

        until(works, 40, "three renewals")
        assert one.server()["state"] == "ready"
        assert not one.records("server_sign_in_rejected")


def test_a_lost_refresh_token_asks_for_a_user(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": SHORT}) as one:
        one.signed_in()
        one.provider.forget_refresh_tokens()
        until(lambda: one.call("read_note").get("isError"), 20, "the token expires")
        one.becomes("needs_sign_in")
        one.refused()
        (record,) = one.records("server_sign_in_rejected")
        assert record["metadata"]["issuer"] == one.provider.issuer
        refreshes = one.refreshes()
        for _ in range(5):
            one.refused()
        assert one.refreshes() == refreshes, "a rejected token is not tried again"
        one.provider.set(ttl={"access": 3600})
        one.signed_in()
        assert one.says("read_note") == "the note"


def test_a_provider_that_is_down_for_a_while(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": SHORT}) as one:
        one.signed_in()
        one.provider.set(down=True)
        until(lambda: one.call("read_note").get("isError"), 20, "the token expires")
        message = one.refused()
        assert "could not renew the sign-in" in message and "503" in message, message
        assert "/ui/servers/notes" in message, "the message has the link"
        waiting = one.becomes("waiting")
        assert "could not renew the sign-in" in waiting["reason"], waiting
        assert one.server("demo")["state"] == "ready", "other servers do not notice"
        one.provider.set(down=False)
        until(lambda: not one.call("read_note").get("isError"), 20, "the provider is back")
        one.becomes("ready")
        assert not one.records("server_sign_in_rejected")


def test_a_token_is_renewed_while_nobody_calls(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": {"access": 12}}) as one:
        one.signed_in()
        until(lambda: one.refreshes() >= 2, 45, "renewals without a call")
        assert one.server()["state"] == "ready"
        one.provider.forget_refresh_tokens()
        one.provider.set(ttl={"access": 3600})
        until(lambda: one.server()["state"] == "needs_sign_in", 45, "the lost sign-in is noticed without a call")
        assert one.records("server_sign_in_rejected")


def test_a_server_over_sse_asks_for_a_user_too(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"ttl": SHORT}, notes={"sse": True}) as one:
        one.signed_in()
        until(lambda: one.says("read_note") and one.refreshes() >= 1, 40, "a renewal")
        one.provider.forget_refresh_tokens()
        until(lambda: one.call("read_note").get("isError"), 20, "the token expires")
        one.becomes("needs_sign_in")
        one.refused()
        one.provider.set(ttl={"access": 3600})
        one.signed_in()
        assert one.says("read_note") == "the note"


def test_a_flood_of_401_starts_one_renewal(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.signed_in()
        began = time.monotonic()
        until(lambda: time.monotonic() - began > 5.5, 6, "the token is no longer new")
        one.notes.set(accept="none")
        began = time.monotonic()
        with ThreadPoolExecutor(64) as pool:
            results = list(pool.map(lambda _: one.call("read_note"), range(200)))
        spans = (time.monotonic() - began) // NEW_TOKEN_SECONDS
        codes = {result["structuredContent"]["error"]["code"] for result in results}
        assert codes <= {"sign_in_required", "upstream_busy"}, codes
        # A token that is refused while it is new is given up. On a busy machine, that refusal may come too late.
        assert one.refreshes() <= 2 + spans, one.refreshes()
        one.becomes("needs_sign_in")
        seen = len(one.notes.requests())
        one.refused()
        assert len(one.notes.requests()) == seen
        one.notes.set(accept="valid")
        one.signed_in()
        assert one.says("read_note") == "the note"


def test_another_sealing_key_counts_as_signed_out(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.signed_in()
        one.gateway.stop()
        key = one.gateway.home / "sealing.key"
        assert key.stat().st_mode & 0o777 == 0o600
        key.write_text("11" * 32)
        one.gateway.start()
        waiting = one.becomes("needs_sign_in")
        assert "sealed with another `sealing.key`" in waiting["reason"]
        assert "sealing.key" not in one.refused(), "the agent does not learn how the gateway is run"
        one.signed_in()
        assert one.says("read_note") == "the note"


@contextmanager
def beside(one: Desk, home: Path) -> Iterator[Desk]:
    """A second gateway with the same settings, database and sealing key."""
    second = Gateway(home)
    for name in ("mcp_config.json", "sealing.key"):
        shutil.copy(one.gateway.home / name, home)
    with second:
        yield Desk(second, one.provider, one.notes)


def test_two_gateways_renew_once(tmp_path: Path, request) -> None:  # noqa: ANN001
    storage = storage_of("postgres", request)
    with desk(tmp_path, provider={"ttl": {"access": 8}}, **storage.settings()) as one:
        with beside(one, tmp_path / "second") as other:
            other.becomes("needs_sign_in")
            one.signed_in(visit=lambda link, _screen: arrive(link))
            other.becomes("ready")
            began = time.monotonic()

            def works() -> bool:
                with ThreadPoolExecutor(8) as pool:
                    calls = [pool.submit(desk.says, "read_note") for desk in (one, other) * 4]
                    assert {call.result() for call in calls} == {"the note"}
                return time.monotonic() - began > 30

            until(works, 60, "calls through both gateways for three lives of a token")
            # A token is renewed once in its life of 8 seconds, not once by each gateway.
            assert one.refreshes() <= 7, one.refreshes()
            assert not one.records("server_sign_in_rejected") and not other.records("server_sign_in_rejected")
            signed_in = {record["metadata"]["user"] for record in one.records("server_signed_in")}
            assert signed_in == {USER}


def test_gateways_follow_a_sign_in_and_a_sign_out_at_another_one(tmp_path: Path, request) -> None:  # noqa: ANN001
    storage = storage_of("postgres", request)
    with desk(tmp_path, notes={"write_scope": "notes:write"}, **storage.settings()) as one:
        with beside(one, tmp_path / "second") as other:
            other.becomes("needs_sign_in")
            one.signed_in()
            other.becomes("ready")
            for each in (one, other):
                assert "more scopes" in each.refused("write_note", "write")
            one.signed_in()
            until(lambda: other.server()["state"] == "ready", 25, "the larger scope arrives")
            assert other.says("write_note", "write") == "written"
            code, screen = at_terminal(one.gateway, ["servers", "logout", "notes"], lambda *_: None)
            assert code == 0, screen
            until(lambda: other.server()["state"] == "needs_sign_in", 25, "the sign-out arrives")
            other.refused()
