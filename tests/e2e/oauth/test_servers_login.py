"""One command and one click reach a server that asks for OAuth, and one command leaves it."""

from __future__ import annotations

import json
import re
import socket
from pathlib import Path
from urllib.parse import parse_qs, urlsplit

import httpx

from gateway import until
from identity_provider import ProtectedServer
from sign_ins import USER, arrive, at_terminal, desk, redirect_path
from user import Browser, Session, User


def test_one_command_and_one_click(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"login": "click"}) as one:
        waiting = one.becomes("needs_sign_in")
        assert waiting["reason"] == "the server asks for a sign-in"
        assert "mcpproxy servers login notes" in waiting["hint"]
        message = one.refused()
        assert "`mcpproxy servers login notes`" in message and "/ui/servers/notes" in message
        assert one.server("demo")["state"] == "ready", "other servers do not notice"

        screen = one.signed_in(visit=lambda link, _screen: arrive(link, press="ada"))
        assert re.search(r"Requested scopes:\s+notes:read", screen), screen
        assert one.provider.issuer in screen
        assert screen.rstrip().endswith("signed in, 3 tools"), screen
        assert one.says("whoami") == "ada: notes:read"

        (record,) = one.records("server_signed_in")
        metadata = record["metadata"]
        assert (metadata["user"], metadata["issuer"]) == (USER, one.provider.issuer)
        assert metadata["scopes"] == ["notes:read"]
        assert one.server()["signed_in"]


def test_a_server_without_a_sign_in_is_not_asked_again(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.becomes("needs_sign_in")
        before = len(one.notes.requests())
        for _ in range(5):
            one.refused()
        assert len(one.notes.requests()) == before
        done = one.gateway.run("servers", "list")
        assert "needs sign-in" in done.stdout and "servers login notes" in done.stdout
        done = one.gateway.run("doctor")
        assert "servers login notes" in done.stdout, done.stdout
        done = one.gateway.run("status")
        assert "notes" in done.stdout + done.stderr


def test_a_restart_keeps_the_sign_in_and_logout_removes_it(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.signed_in()
        one.gateway.stop()
        one.gateway.start()
        one.becomes("ready")
        assert one.says("read_note") == "the note"

        code, screen = at_terminal(one.gateway, ["servers", "logout", "notes"], lambda *_: None)
        assert code == 0 and "signed out of notes" in screen, screen
        one.becomes("needs_sign_in")
        one.refused()
        assert len(one.provider.requests("revocation")) == 2, "the refresh token and the access token"
        (record,) = one.records("server_signed_out")
        assert record["metadata"]["user"] == USER
        one.gateway.stop()
        one.gateway.start()
        one.becomes("needs_sign_in")


def test_a_denied_sign_in_says_so(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"login": "deny"}) as one:
        code, screen = one.login()
        assert code != 0 and "Not signed in: access was denied at the provider." in screen, screen
        one.becomes("needs_sign_in")
        assert one.records("server_sign_in_failed")


def test_users_of_an_identity_provider_learn_the_page(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.becomes("needs_sign_in")
        settings = json.loads((one.gateway.home / "mcp_config.json").read_text())
        provider = {"issuer": one.provider.issuer, "client_id": "gate", "client_secret": "x", "allowed": {"groups": ["staff"]}}
        one.gateway.write_settings({**settings, "people": {"password": False, "oidc": provider}})
        login = f"{one.gateway.base}/api/v1/login"
        wrong = {"name": USER, "password": "wrong"}
        until(lambda: httpx.post(login, json=wrong).status_code == 403, 15, "passwords are off")
        for words in (["servers", "login", "notes"], ["servers", "logout", "notes"]):
            code, screen = at_terminal(one.gateway, words, lambda *_: None)
            assert code != 0 and "/ui/servers/notes" in screen, screen


def test_another_device(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        def confirm(_link: str, screen: str) -> None:
            one.provider.approve_device(re.findall(r"code: (\S+)", screen)[-1], "bob")

        screen = one.signed_in("--device", visit=confirm)
        assert "signed in, 3 tools" in screen
        assert one.says("whoami") == "bob: notes:read"


def test_a_registered_client(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    path = redirect_path(f"http://127.0.0.1:{port}")
    client = {
        "client_id": "ours", "client_secret": "a secret of the operator", "grant_types": ["authorization_code", "refresh_token"],
        "redirect_uris": [f"http://localhost{path}"], "application_type": "native", "response_types": ["code"],
    }
    oauth = {"client_id": "ours", "client_secret": "a secret of the operator", "scopes": ["notes:read", "admin"]}
    with desk(tmp_path, provider={"port": port, "clients": [client], "registration": False}, oauth=oauth) as one:
        screen = one.signed_in()
        assert re.search(rf"Redirect URI: http://localhost:\d+{path}\s", screen), screen
        assert "admin" in screen
        assert one.says("whoami") == "ada: notes:read admin"


def test_the_operator_learns_the_redirect_uri(tmp_path: Path) -> None:
    with desk(tmp_path, provider={"registration": False}) as one:
        code, screen = one.login()
        assert code != 0 and "set `oauth.client_id`" in screen, screen
        assert redirect_path(one.provider.issuer) in screen, screen


def test_a_client_metadata_document(tmp_path: Path) -> None:
    """The document is used only if the provider sends `iss`, because every provider reads the same redirect URI."""
    documents = {"client_id_metadata_document_supported": True}
    with desk(tmp_path, provider={"metadata": documents}) as one:
        one.becomes("needs_sign_in")
        session = Session(one.gateway, USER)
        settings = json.loads((one.gateway.home / "mcp_config.json").read_text())
        assert httpx.get(f"{one.gateway.base}/oauth/client.json").status_code == 404, "no https address"
        one.gateway.write_settings({**settings, "approvals": {"public_url": "https://gw.example.com"}})
        url = f"{one.gateway.base}/oauth/client.json"
        document = until(lambda: (page := httpx.get(url)).status_code == 200 and page.json(), 15, "the document")
        assert document["client_id"] == "https://gw.example.com/oauth/client.json"
        assert document["redirect_uris"] == ["https://gw.example.com/oauth/callback"]

        def asked() -> tuple[str, str]:
            query = parse_qs(urlsplit(one.begin(session)["url"]).query)
            return query["client_id"][0], query["redirect_uri"][0]

        assert asked() == (document["client_id"], document["redirect_uris"][0])
        assert one.provider.requests("registration") == []
        one.provider.set(metadata={**documents, "authorization_response_iss_parameter_supported": None})
        client, redirect = asked()
        assert client != document["client_id"] and len(one.provider.requests("registration")) == 1
        assert redirect == "https://gw.example.com" + redirect_path(one.provider.issuer)


def test_a_401_without_a_challenge_names_the_command(tmp_path: Path) -> None:
    with desk(tmp_path, notes={"challenge": False}) as one:
        waiting = one.becomes("waiting")
        assert "mcpproxy servers login notes" in waiting["reason"], waiting
        one.signed_in()
        assert one.says("read_note") == "the note"


def test_client_credentials_need_no_user(tmp_path: Path) -> None:
    client = {
        "client_id": "robot", "client_secret": "a secret of the robot", "grant_types": ["client_credentials"],
        "redirect_uris": [], "response_types": [],
    }
    oauth = {"client_id": "robot", "client_secret": "a secret of the robot", "grant": "client_credentials"}
    with desk(tmp_path, provider={"clients": [client]}, oauth=oauth) as one:
        one.becomes("ready")
        assert one.says("read_note") == "the note"
        code, screen = one.login()
        assert code != 0 and "signs in to this server by itself" in screen, screen


def test_a_larger_scope_is_a_question_to_a_user(tmp_path: Path) -> None:
    with desk(tmp_path, notes={"write_scope": "notes:write"}) as one:
        one.signed_in()
        message = one.refused("write_note", "write")
        assert "more scopes: notes:read notes:write" in message, message
        waiting = one.becomes("needs_sign_in")
        assert "notes:write" in waiting["reason"]
        assert one.says("read_note") == "the note", "calls that the token allows still run"
        assert one.refreshes() == 0 and len(one.provider.requests("authorization")) == 1, "nothing was widened"

        screen = one.signed_in()
        assert re.search(r"Requested scopes:[^/]*notes:write", screen), screen
        one.becomes("ready")
        assert one.says("write_note", "write") == "written"


def test_another_address_under_the_same_name_gets_no_token(tmp_path: Path) -> None:
    with desk(tmp_path) as one, ProtectedServer(issuer=one.provider.issuer) as other:
        one.signed_in()
        one.gateway.write_settings({"mcpServers": {"notes": {"url": other.url}}, "trust": {"first_sight": "accept"}})
        until(lambda: other.requests(), 15, "the other server is asked")
        one.becomes("needs_sign_in")
        assert {request["authorization"] for request in other.requests()} == {"none"}


def test_the_console(tmp_path: Path, browser: Browser) -> None:
    with desk(tmp_path, provider={"login": "click"}) as one, User(browser, one.gateway, USER) as user:
        one.becomes("needs_sign_in")
        user.sign_in()
        user.open("/ui/")
        assert "needs a sign-in" in user.text
        user.open("/ui/servers/notes")
        assert "Needs sign-in" in user.text
        user.do("press", button="^sign in to notes$")
        assert "notes:read" in user.text and one.provider.issuer in user.text
        assert user.do("axe") == []
        user.do("follow", link="continue to the provider")
        user.do("press", button="sign in as ada")
        user.sees("Signed in to notes")
        one.becomes("ready")
        user.open("/ui/servers/notes")
        user.do("press", button="^sign out of notes$")
        one.becomes("needs_sign_in")
        # The page of the provider has no icon.
        assert [one for one in user.look()["complaints"] if "404" not in one] == []


def test_agents_and_the_admin_key_cannot_sign_in(tmp_path: Path) -> None:
    with desk(tmp_path) as one:
        one.becomes("needs_sign_in")
        url = f"{one.gateway.base}/api/v1/servers/notes/login"
        for headers in ({"X-API-Key": one.gateway.admin_key}, {"Authorization": f"Bearer {one.gateway.token}"}, {}):
            answer = httpx.post(url, json={}, headers=headers)
            assert answer.status_code in (401, 403), answer.text
        session = Session(one.gateway, USER)
        assert session.post("/servers/notes/login", {}).status_code == 403, "a cookie alone is not enough"
        done = one.gateway.run("servers", "login", "notes")
        assert done.returncode != 0 and "non-interactively" in done.stderr
        assert one.provider.requests("authorization") == []
